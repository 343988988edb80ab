"""Running jobs that no row can tell apart: what is said of one of them holds for all.

They are of one class, in one region, and may all stop or none; of each group their tasks lie on
hosts of the same GPU models that are open, or where such tasks may arrive, alike.
"""

from __future__ import annotations

from collections import defaultdict

from placewright.formulations.gang.problem import Problem as Gangs
from placewright.formulations.wan.compile import Bools, Ints


def lying_alike(gangs: Gangs, at: Ints, may_stop: Bools) -> list[list[int]]:
    """Return the running jobs that may move, those together that lie alike.

    `at` (jobs,) are the regions where jobs run, `may_stop` (jobs,) says who may make way at all.
    """
    _, _, at_host, shape = gangs.places.T
    code = (gangs.cluster.gpu_model[at_host] + 1) * 4
    code += 2 * gangs.open[at_host] + gangs.shape_hosts[shape, at_host]
    where, stops, codes = at.tolist(), may_stop.tolist(), iter(code.tolist())
    every = bool(gangs.usable.all())
    found: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for j, running in gangs.running.items():
        tasks = [
            (group, next(codes), len(gpus) if every else _usable(gangs, host, gpus))
            for group, _, host, gpus in running.places
        ]
        found[running.job_class, where[j], stops[j], *sorted(tasks)].append(j)
    return list(found.values())


def _usable(gangs: Gangs, host: int, gpus: tuple[int, ...]) -> int:
    """Return how many of some GPUs of a host are not reserved."""
    start = int(gangs.cluster.gpu_start[host])
    return sum(bool(gangs.usable[start + gpu]) for gpu in gpus)

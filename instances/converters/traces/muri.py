"""The traces of Muri: jobs with the stage times of one iteration become an interleaving round.

They accompany Zhao et al., "Multi-Resource Interleaving for Deep Learning Training", SIGCOMM 2022.
All times are in milliseconds. A stage time is what one iteration takes of storage and CPU together
(column `resource_time_0`), of the GPU (1) and of the network (2); the first of these may span two
of four slots, and groups are slower by the factors that the authors' simulator uses.

What is not used: `iterations`, `batch_size`, `interval` and `priority`. The trace records neither
what a job asks of CPU and memory nor which host it was on, so all jobs wait.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from placewright.array_types import Ints
from placewright.instances.converters.support.csv_table import Table, read_table
from placewright.instances.converters.support.trace_rounds import (
    Conversion,
    hosts_of_eight,
    invalid_argument,
    largest_task,
    whole_tasks,
    without_summary,
)
from placewright.instances.derived import ranges
from placewright.instances.derived.arrays import load_of
from placewright.instances.derived.phrases import count
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.base import MAX_AMOUNT, MAX_COUNT
from placewright.instances.documents.cluster import (
    MAX_GPUS_PER_HOST,
    ClusterDocument,
    DomainEntry,
    HostEntry,
)
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.profile import MAX_ITERATION, MAX_STAGE, Profile
from placewright.instances.documents.quantities import MAX_GPU
from placewright.instances.documents.round import Round
from placewright.instances.documents.sharing import Sharing
from placewright.instances.errors import InvalidInputError
from placewright.topology.units import WHOLE_GPU

RESOURCES = ("io+cpu", "gpu", "network")
CONTENTION = (1_310_345, 1_477_833, 1_349_754)
"""1.33, 1.5, 1.37 for groups of 2, 3, 4, each over the 1.015 of a job alone, in millionths."""

GPU_MODEL = "V100"
"""What the profiles were measured on."""

IN_A_GROUP = 4
"""GPUs asked per GPU of the cluster that is made: enough if all jobs share GPUs in fours."""

_CORE, _GIB = 1000, 1024
_MS_PER_S = 1000
_US_PLACES = 3
_LONGEST_STAGE_MS = MAX_STAGE // 10**_US_PLACES
_LONGEST_ITERATION_MS = MAX_ITERATION // 10**_US_PLACES
_MOST_ITERATION = 10
"""Largest ratio of the iteration of a profile to the sum of its stages."""


def read_muri(
    trace_csv: str | Path,
    nodes_csv: str | Path | None = None,
    *,
    at: int | None = None,
    first: int | None = None,
    jobs: int | None = None,
    gpus: int | None = None,
    seed: int = 0,
) -> Conversion:
    """Turn a trace of Muri into a round of policy `interleaving`; by default all its jobs wait.

    A job has one option: its GPUs in tasks as large as hosts allow, of equal size. It is named
    after its model and its id in the trace.

    Parameters
    ----------
    trace_csv
        Columns job_id, num_gpu, model_name, iteration_time, resource_time_0, _1 and _2, and for
        `at` submit_time and duration; times in milliseconds.
    nodes_csv
        Columns num_switch, num_node_p_switch, num_gpu_p_node, num_cpu_p_node (cores) and
        mem_p_node (GiB); a switch is a rack.
    at
        Take the jobs alive at this second, had each started when it was submitted.
    first, jobs
        Take the first jobs of the file, or draw `jobs` of them by `seed`, each at most once, in the
        order of the file.
    gpus
        In place of `nodes_csv`: hosts of 8 GPUs, the last with what is left. With neither, as many
        GPUs as the jobs need in groups of four, a quarter of what they ask.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used (with line and column) or an argument out of its range.
    """
    given = {"at": at, "first": first, "jobs": jobs}
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) > 1:
        raise invalid_argument(
            chosen[1], given[chosen[1]], f"expected {' or '.join(chosen[:2])}, not both"
        )
    if nodes_csv is not None and gpus is not None:
        raise invalid_argument("gpus", gpus, "expected nodes or gpus, not both")
    if gpus is not None and not 1 <= gpus <= MAX_GPU // WHOLE_GPU:
        raise invalid_argument("gpus", gpus, f"expected 1 to {MAX_GPU // WHOLE_GPU}")
    if seed < 0:
        raise invalid_argument("seed", seed, "expected 0 or more")

    table = read_table(trace_csv)
    asked = _gpus(table)
    rows, which = _rows(table, at=at, first=first, jobs=jobs, seed=seed)
    if nodes_csv is not None:
        cluster = _cluster_of(read_table(nodes_csv))
    else:
        quarter = -(-int(asked[rows].sum()) // IN_A_GROUP)
        cluster = hosts_of_eight("muri", quarter if gpus is None else gpus, GPU_MODEL)
    round_ = Round(
        name="muri",
        now=at or 0,
        cluster=cluster,
        jobs=_jobs(table, asked, rows, max(host.gpus or 0 for host in cluster.hosts)),
        policy=Policy(formulation="interleaving"),
        sharing=Sharing(resources=RESOURCES, spanning=True, contention=CONTENTION),
    )
    return Conversion(round_, _summary(round_, which, int(asked[rows].sum())))


convert_muri = without_summary(read_muri)


def _gpus(table: Table) -> Ints:
    """Return the GPUs that each job asks, at least one."""
    table.require("num_gpu")
    asked = table.integers("num_gpu", MAX_GPU // WHOLE_GPU)
    for row in np.flatnonzero(asked == 0).tolist():
        raise table.error(row, "num_gpu", "expected at least one GPU")
    return asked


def _rows(
    table: Table, *, at: int | None, first: int | None, jobs: int | None, seed: int
) -> tuple[list[int], str]:
    """Return the rows of the jobs that are taken, in order, and which ones these are in words."""
    total = len(table.lines)
    if not total:
        raise InvalidInputError("expected at least one job", file=table.file, show_value=False)
    if at is not None:
        if not 0 <= at <= MAX_AMOUNT:
            raise invalid_argument("at", at, f"expected 0 to {MAX_AMOUNT}")
        table.require("submit_time", "duration")
        began = table.integers("submit_time", MAX_AMOUNT)
        ended = began + table.integers("duration", MAX_AMOUNT)
        alive = np.flatnonzero((began <= at * _MS_PER_S) & (at * _MS_PER_S < ended)).tolist()
        if not alive:
            raise invalid_argument("at", at, "expected a second at which some job is alive")
        return alive, f"alive at second {at:,} of {total:,}"
    wanted, name = (jobs, "jobs") if first is None else (first, "first")
    if wanted is None:
        return list(range(total)), "all of the trace"
    if not 1 <= wanted <= total:
        raise invalid_argument(name, wanted, f"expected 1 to {total}, the jobs of {table.file}")
    if first is not None:
        return list(range(first)), f"the first of {total:,}"
    draw = np.random.Generator(np.random.PCG64(seed)).random(total)
    taken = np.sort(np.argsort(draw, kind="stable")[:wanted]).tolist()
    return taken, f"drawn from {total:,} with seed {seed}"


def _jobs(table: Table, asked: Ints, rows: list[int], most: int) -> tuple[Job, ...]:
    """Return the jobs of some rows for hosts of at most `most` GPUs; all rows are checked."""
    stage_columns = [f"resource_time_{i}" for i in range(len(RESOURCES))]
    table.require("job_id", "model_name", "iteration_time", *stage_columns)
    ids, models = table.names("job_id"), table.columns["model_name"]
    stages = np.stack(
        [table.decimals(name, _US_PLACES, _LONGEST_STAGE_MS) for name in stage_columns], axis=1
    )
    iteration = table.decimals("iteration_time", _US_PLACES, _LONGEST_ITERATION_MS)
    total = stages.sum(axis=1)
    for row in np.flatnonzero(total == 0).tolist():
        raise table.error(row, stage_columns[0], "expected a stage that takes time")
    for row in np.flatnonzero((iteration == 0) | (iteration > _MOST_ITERATION * total)).tolist():
        longest = _MOST_ITERATION * int(total[row]) / 1000
        raise table.error(row, "iteration_time", f"expected above 0 and at most {longest:g}")
    made = []
    for row in rows:
        table.check_name(row, "model_name", models[row])
        gpus = int(asked[row])
        per_task = largest_task(gpus, most)
        if gpus // per_task > MAX_COUNT:
            raise table.error(row, "num_gpu", f"expected at most {MAX_COUNT} tasks of a host")
        group = whole_tasks(gpus, most)
        made.append(
            Job(
                name=f"{models[row]}-{ids[row]}",
                options=(Option(groups=(group,)),),
                profile=Profile(stages=tuple(stages[row].tolist()), iteration=int(iteration[row])),
            )
        )
    return tuple(made)


def _cluster_of(table: Table) -> ClusterDocument:
    """Return the racks of a node list."""
    columns = "num_switch", "num_node_p_switch", "num_gpu_p_node", "num_cpu_p_node", "mem_p_node"
    table.require(*columns)
    limits = MAX_COUNT, MAX_COUNT, MAX_GPUS_PER_HOST, MAX_AMOUNT // _CORE, MAX_AMOUNT // _GIB
    values = zip(
        *(table.integers(c, limit).tolist() for c, limit in zip(columns, limits, strict=True)),
        strict=True,
    )
    racks: list[DomainEntry] = []
    hosts: list[HostEntry] = []
    for row, (switches, nodes, gpus, cores, gib) in enumerate(values):
        for column, value in zip(columns[:3], (switches, nodes, gpus), strict=True):
            if value == 0:
                raise table.error(row, column, "expected at least 1")
        if len(racks) + switches > MAX_COUNT:
            raise table.error(row, "num_switch", f"expected at most {MAX_COUNT} switches in all")
        for _ in range(switches):
            rack = f"rack-{len(racks)}"
            racks.append(DomainEntry(name=rack, level="rack"))
            hosts.append(
                HostEntry(
                    name=ranges.of_size(f"{rack}-node-", nodes),
                    parent=rack,
                    gpus=gpus,
                    gpu_model=GPU_MODEL,
                    cpu=cores,
                    memory=f"{gib}Gi",
                )
            )
    if not hosts:
        raise InvalidInputError("expected at least one node", file=table.file, show_value=False)
    return ClusterDocument(name="muri", levels=("rack",), domains=tuple(racks), hosts=tuple(hosts))


def _summary(round_: Round, which: str, asked: int) -> str:
    sizes = [host.gpus or 0 for host in round_.cluster.hosts for _ in expand(host.name)]
    return (
        f"muri: {count(len(round_.jobs), 'job')} ({which}), all waiting, ask "
        f"{count(asked, 'GPU')}; "
        f"{count(len(sizes), 'host')}, {count(sum(sizes), 'GPU')}; load {load_of(round_):.3f}; "
        "the trace records neither CPU, memory nor hosts of jobs"
    )

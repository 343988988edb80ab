"""Online simulation of policy `deadline`: an `Engine` decides a round at every lease boundary.

It knows the jobs that have arrived, and no later ones. `lease_decider.py` says what happens at
boundaries and between them, and `lease_decider.py` which jobs ask for a promise.

References
----------
Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC'21.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.instances.checks.round import hosts_by_name
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.traces.trace import NEVER, SECOND, Trace
from placewright.rounds.engine import Engine
from placewright.rounds.replay.book import HostLedger
from placewright.rounds.replay.lease_decider import LeaseDecider, Watch
from placewright.rounds.replay.loop import Loop, Trigger
from placewright.rounds.replay.records import CLASSES, Record, Served
from placewright.rounds.settings import Isolation
from placewright.topology.units import WHOLE_GPU

__all__ = ["Served", "decide_leases"]


def decide_leases(
    round_: Round,
    *,
    time_limit: float | None = None,
    gap: float | None = None,
    backend: str = "auto",
    isolation: Isolation = "process",
    watch: Watch | None = None,
) -> tuple[Served, ...]:
    """Simulate lease by lease until every job is done or has left.

    Parameters
    ----------
    round_
        A round of policy `deadline` at the first boundary, in which no job runs. Each job has a
        deadline; it arrives when it is `ready`, and no earlier decision knows of it.
    time_limit, gap, backend, isolation
        As for `solve_round`, for the round of each lease.
    watch
        Called with each round and its plan.

    Returns
    -------
    tuple of Served
        What became of each job, in the order of the round.

    Raises
    ------
    ValueError
        If the round has another policy, or a job that runs or has no deadline.
    """
    if "leases" not in round_.policy.spec.sections:
        raise ValueError("expected a round of policy 'deadline'")
    own = sorted({job.priority for job in round_.jobs})
    level = {priority: CLASSES * number for number, priority in enumerate(own)}
    every = [_record(job, round_.now, level[job.priority]) for job in round_.jobs]
    records = sorted(every, key=lambda record: record.came)
    first = round_.model_copy(update={"jobs": ()})
    sizes = [WHOLE_GPU * host.gpus for host in hosts_by_name(round_.cluster).values()]
    with Engine(
        first, time_limit=time_limit, gap=gap, backend=backend, isolation=isolation
    ) as engine:
        loop = Loop(
            _trace(records, round_.now),
            HostLedger(sizes),
            LeaseDecider(round_, records, engine, watch),
            trigger=Trigger(SECOND * round_.leases.length_s, leases=True),
        )
        loop.run()
    served = {
        record.job.name: record.served(
            None if end == NEVER else round_.now - (-end // SECOND), stops, moves
        )
        for record, end, stops, moves in zip(
            records, loop.end.tolist(), loop.stops.tolist(), loop.moves.tolist(), strict=True
        )
    }
    return tuple(served[job.name] for job in round_.jobs)


def _trace(records: list[Record], now: int) -> Trace:
    """Return the jobs in the order of arrival, on a clock that begins at `now`."""
    rows = [
        (SECOND * (one.came - now), one.job.options[0].milli_gpu, SECOND * one.asked.work_s)
        for one in records
    ]
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return replace(Trace.of(*table.T), submit_us=table[:, 0])


def _record(job: Job, now: int, level: int) -> Record:
    asked = job.deadline
    if asked is None or job.running is not None:
        raise ValueError(f"job {job.name}: expected a deadline, and that it does not run yet")
    came = now if asked.ready is None else max(now, asked.ready)
    return Record(job, asked, came, level)

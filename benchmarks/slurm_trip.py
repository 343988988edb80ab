"""The round trip: a dump of a real Slurm, its round, a plan, the commands, and what runs then.

`python -m benchmarks.slurm_trip --seeds 1 2 --loads 0.5 0.8` prints a line for each queue.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from benchmarks.slurm_lab import Lab, LabJob
from benchmarks.slurm_queue import GPUS_PER_HOST, Asked, asked, fragment, submit_held
from placewright import Plan, Round, solve_round
from placewright.instances.converters import read_slurm
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.documents.policy import Backfill
from placewright.instances.exporters.slurm import slurm_script

__all__ = ["Depth", "Trip", "apply", "differences", "queue_of", "read", "trip", "with_order"]

Depth: TypeAlias = int | Literal["all"] | None
"""Jobs of the queue with a reservation; None: no reservations."""


class Trip(NamedTuple):
    """What came of a queue: jobs and GPUs planned to start, and jobs that are not as planned."""

    jobs: int
    asked: int
    free: int
    started: int
    gpus: int
    bound: float | None
    wrong: tuple[str, ...]


def queue_of(lab: Lab, seed: int, load: float) -> list[Asked]:
    """Return the jobs of a queue that asks for so many of the cluster's GPUs."""
    return list(asked(seed, round(load * lab.size.hosts * GPUS_PER_HOST)))


def trip(lab: Lab, seed: int, load: float) -> Trip:
    """Make a state and a queue, plan, apply, and compare what runs with the plan."""
    lab.cancel_all()
    fragment(lab, seed)
    queue = submit_held(lab, queue_of(lab, seed, load))
    round_ = read(lab)
    plan = solve_round(round_)
    after = apply(lab, round_, plan)
    started = [int(d.job) for d in plan.decisions if d.decision is DecisionKind.START]
    held = sum(
        option.groups[task.group].gpu
        for job in round_.jobs
        if job.running is not None
        for option in (job.options[job.running.option],)
        for task in job.running.tasks
    )
    terms = plan.certificate.terms if plan.certificate is not None else ()
    return Trip(
        jobs=len(queue),
        asked=sum(job.total for job in queue.values()),
        free=sum(host.gpus or 0 for host in round_.cluster.hosts) - held // 1000,
        started=len(started),
        gpus=sum(queue[number].total for number in started),
        bound=terms[0].bound if terms else None,
        wrong=tuple(differences(plan, after)),
    )


def read(lab: Lab, *, movable: bool = False) -> Round:
    """Return the round of what runs and waits now."""
    with tempfile.TemporaryDirectory() as folder:
        return read_slurm([lab.dump(Path(folder))], movable=movable).round


def with_order(round_: Round, rank: Mapping[str, int], depth: Depth) -> Round:
    """Return a round with priorities by job, and reservations for so many jobs of the queue."""
    jobs = [job.model_copy(update={"priority": rank.get(job.name, 0)}) for job in round_.jobs]
    backfill = None if depth is None else Backfill(depth=depth)
    policy = round_.policy.model_copy(update={"priority": "strict", "backfill": backfill})
    return round_.model_copy(update={"jobs": tuple(jobs), "policy": policy})


def apply(lab: Lab, round_: Round, plan: Plan) -> dict[int, LabJob]:
    """Run the script of a plan, and return the jobs once those that it starts run."""
    lab.run("sh", text=slurm_script(round_, plan).text)
    moved = (DecisionKind.START, DecisionKind.MIGRATE)
    return lab.settle(jobs=[int(d.job) for d in plan.decisions if d.decision in moved])


def differences(plan: Plan, after: dict[int, LabJob], also: Collection[str] = ()) -> list[str]:
    """Return a line for each job that does not run where planned, or runs and was not to.

    `also` are jobs that run besides the plan.
    """
    lines = []
    for decision in plan.decisions:
        job = after.get(int(decision.job))
        runs = job is not None and job.state == "RUNNING"
        hosts = job.hosts if job is not None and runs else ()
        planned = sorted({task.host for task in decision.tasks})
        if decision.job not in also and sorted(hosts) != planned:
            lines.append(f"job {decision.job}: planned on {planned}, runs on {list(hosts)}")
    return lines


def main() -> int:
    """Print a line for each seed and load; return 1 if a job is not as planned."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slurm_trip", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs=2, metavar=("FIRST", "LAST"), default=(1, 6))
    parser.add_argument("--loads", type=float, nargs="+", default=[0.5, 0.8])
    options = parser.parse_args()
    wrong = queues = started = 0
    with tempfile.TemporaryDirectory() as folder, Lab(Path(folder)) as lab:
        for seed in range(options.seeds[0], options.seeds[1] + 1):
            for load in options.loads:
                made = trip(lab, seed, load)
                queues, started = queues + 1, started + made.started
                wrong += len(made.wrong)
                print(
                    f"seed {seed} load {load}: {made.jobs} jobs ask {made.asked} GPUs, "
                    f"{made.free} free; {made.started} jobs start on {made.gpus} GPUs "
                    f"(bound {made.bound or 0:g} milli-GPU); {len(made.wrong)} not as planned",
                    flush=True,
                )
                for line in made.wrong:
                    print(f"  {line}", flush=True)
    print(f"{queues} queues, {started} jobs started, {wrong} not as planned")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

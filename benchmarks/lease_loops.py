"""Lease by lease over Chronus's traces: placewright beside rules, and a bound that knows all jobs.

Placewright decides as `rounds/replay/lease_decider.py` says and places every job; rules count GPUs
(`lease_loop_rules.py`).

The value of a job is that of the earliest deadline that its finish meets, promised or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.baselines import Answer, InvalidPlanError
from benchmarks.compare import compared
from benchmarks.lease_bound import value_at_most
from benchmarks.lease_loop_rules import LENGTH_S, counted
from benchmarks.lease_rules import RULES, Rule
from benchmarks.measure import measured
from benchmarks.report import OURS, SKIPPED, Row
from placewright import Plan, Round, verify
from placewright.instances.converters.support.trace_rounds import TraceJob
from placewright.instances.converters.traces.chronus import chronus_jobs, convert_chronus
from placewright.instances.documents.job import Job
from placewright.rounds.replay.lease_decider import Served, decide_leases

__all__ = ["Loop", "loop_cases", "outcome"]

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "traces" / "chronus"
SAMPLE, WHOLE = "sample_MIX2_3days_1of8.csv", "trace_job_Philly_MIX2.csv"
BINS = {SAMPLE: 600, WHOLE: 1800}
"""Seconds of a bin of the bound."""

SECONDS = 20.0
HEADROOM = 400
TERMS = ("broken", "admitted", "best_effort", "disruption", "early")


@dataclass(frozen=True, slots=True)
class Loop:
    """A trace of Chronus on hosts of 8 GPUs."""

    trace: str
    gpus: int
    locality: bool = False
    seed: int = 0

    @property
    def name(self) -> str:
        """What rows call it."""
        kind = "sample" if self.trace == SAMPLE else "whole"
        return f"loop-{kind}-{self.gpus}{'-locality' if self.locality else ''}"

    def make(self) -> Round:
        """Return the trace as one round whose jobs are ready when they are submitted."""
        locality = FOLDER / "model_info.json" if self.locality else None
        made = convert_chronus(FOLDER / self.trace, gpus=self.gpus, locality=locality)
        trace = self.jobs()
        jobs = [_coming(job, made.now) for job in made.jobs]
        most = max(-(-(job.due[-1][0] - job.submit_s) // LENGTH_S) for job in trace if job.due)
        policy = made.policy.model_copy(update={"terms": TERMS})
        leases = made.leases.model_copy(update={"headroom": HEADROOM, "horizon": most})
        return made.model_copy(
            update={"now": 0, "jobs": tuple(jobs), "policy": policy, "leases": leases}
        )

    def jobs(self) -> tuple[TraceJob, ...]:
        """Return the jobs of the trace."""
        return chronus_jobs(FOLDER / self.trace)

    def rows(self) -> Iterator[Row]:
        """Yield a row for placewright, and one per rule where places do not matter."""
        if not (FOLDER / self.trace).is_file():
            note = f"{FOLDER / self.trace} not found; expected what jobs are read from"
            yield Row(self.name, OURS, self.seed, SKIPPED, note=note)
            return
        methods = {OURS: partial(measured, self.make, _ours, 1)}
        if not self.locality:
            for name, rule in RULES.items():
                methods[name] = partial(measured, self.jobs, partial(_ruled, rule, self.gpus), 1)
        known = {} if self.locality else {"at most": self._at_most()}
        for row in compared(self.name, self.seed, methods):
            yield replace(row, figures={**row.figures, **known}) if row.method == OURS else row

    def _at_most(self) -> float:
        return value_at_most(self.jobs(), self.gpus, bin_s=BINS[self.trace])


def loop_cases() -> list[Loop]:
    """Return the sample at two sizes, without and with the slowdown across hosts, and the whole."""
    sizes = [Loop(SAMPLE, gpus, locality) for locality in (False, True) for gpus in (120, 72)]
    return [*sizes, Loop(WHOLE, 960)]


def _coming(job: Job, now: int) -> Job:
    """Return the job ready at `now` if it is already, so that a clock may begin before."""
    deadline = job.deadline
    if deadline is None or deadline.ready is not None:
        return job
    return job.model_copy(update={"deadline": deadline.model_copy(update={"ready": now})})


def _ours(round_: Round) -> Answer:
    """Decide lease by lease; every plan is verified once more."""
    leases, broken = 0, 0

    def watch(decided: Round, plan: Plan) -> None:
        nonlocal leases, broken
        verification = verify(decided, plan)
        if not verification.ok:
            raise InvalidPlanError(f"the plan is invalid: {verification.violations[0]}")
        leases += 1
        broken += sum(len(s["broken"]) for s in plan.sections if s["kind"] == "leases")

    served = decide_leases(round_, time_limit=SECONDS, watch=watch)
    figures = {"broken": float(broken + sum(one.broken for one in served)), "leases": float(leases)}
    return outcome(served, figures)


def _ruled(rule: Rule, gpus: int, jobs: Sequence[TraceJob]) -> Answer:
    served = counted(rule, jobs, gpus)
    return outcome(served, {"broken": float(sum(one.broken for one in served))})


def outcome(served: Sequence[Served], figures: dict[str, float]) -> Answer:
    """Answer with the value that was reached, and what else became of the jobs."""
    value, most = sum(one.value for one in served), sum(one.most for one in served)
    asked = [one for one in served if one.most]
    ends = [one.finish - one.came for one in served if not one.most and one.finish is not None]
    figures = {
        **figures,
        "missed value %": 100 * (most - value) / max(1, most),
        "missed jobs %": 100 * sum(not one.value for one in asked) / max(1, len(asked)),
        "best effort min": sum(ends) / max(1, len(ends)) / 60,
        "stops per job": sum(one.stops for one in served) / max(1, len(served)),
        "moves per job": sum(one.moves for one in served) / max(1, len(served)),
    }
    return Answer("feasible", "admitted", value, figures=figures)

"""Pipelines over time: jobs with stages that come, run and end, under a rule or by rounds.

Rules begin whatever fits whenever something ends or comes, in counts: `fifo` in the order in which
pipelines came, `shortest` by the work of their pipeline, `critical_path` by what has to follow,
and `fair` so that no pipeline has more than its part, ceil(all / pipelines), of any resource while
others wait. A pipeline is what waiting for each other connects. By rounds, a round of policy
`stages` is decided at each such event, and what its plan starts begins where it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.stages.heuristics.list_schedules import Parallel, work_shares
from placewright.formulations.stages.problem import Problem, compile_stages
from placewright.instances.derived.waiting import end_of
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.edits.verbs import advance
from placewright.rounds.state.changes import apply_plan

RULES = ("fifo", "fair", "shortest", "critical_path")
Decide: TypeAlias = Callable[[Round], Plan]


class Pipelines:
    """The pending jobs of a round of policy `stages`, to be played as often as one likes."""

    def __init__(self, round_: Round) -> None:
        self._round, self._problem = round_, compile_stages(round_)
        self._names = [round_.jobs[j].name for j in self._problem.jobs]
        of_jobs = pipelines_of(self._problem).tolist()
        self._pipeline: dict[str, int] = dict(zip(self._names, of_jobs, strict=True))

    def play(self, how: str | Decide, submitted: Mapping[str, int] | None = None) -> dict[str, int]:
        """Return when each job that was pending is done.

        Parameters
        ----------
        how
            A rule, or what decides a round.
        submitted
            Seconds on the round's clock at which jobs come; `now` for all others. None comes
            before those that it waits for.
        """
        problem, now, given = self._problem, self._round.now, submitted or {}
        comes = np.array([given.get(name, now) - now for name in self._names], dtype=np.int64)
        for j in problem.order:
            for k in problem.successors[j]:
                comes[k] = max(comes[k], comes[j])
        if not isinstance(how, str):
            return _by_rounds(self._round, how, self._by_name(comes))
        problem = replace(problem, release=np.maximum(problem.release, comes))
        return self._by_name(problem.ends(_Rule(problem, how, comes).schedule()))

    def _by_name(self, seconds: Ints) -> dict[str, int]:
        """Return times on the round's clock from seconds after now (jobs,)."""
        return dict(zip(self._names, (self._round.now + seconds).tolist(), strict=True))

    def arrivals(self, apart_s: int) -> dict[str, int]:
        """Return when each job comes if pipelines do so far apart, in order of the round."""
        number: dict[int, int] = {}
        return {
            name: self._round.now + apart_s * number.setdefault(pipeline, len(number))
            for name, pipeline in self._pipeline.items()
        }

    def measured(self, ends: Mapping[str, int], submitted: Mapping[str, int]) -> dict[str, float]:
        """Return how long pipelines took: mean and 99th percentile, and until all was done."""
        came, done = dict[int, int](), dict[int, int]()
        for name, pipeline in self._pipeline.items():
            came[pipeline] = min(came.get(pipeline, submitted[name]), submitted[name])
            done[pipeline] = max(done.get(pipeline, 0), ends[name])
        took = np.array([done[one] - came[one] for one in came] or [0])
        now = self._round.now
        return {
            "pipelines": len(came),
            "jct_mean_s": float(took.mean()),
            "jct_p99_s": float(np.percentile(took, 99)),
            "makespan_s": max(ends.values(), default=now) - now,
        }


def pipelines_of(problem: Problem) -> Ints:
    """Return the number of the pipeline of each job (jobs,)."""
    pipelines: Ints = problem.pipeline[problem.led.argmax(axis=1)]
    return pipelines


class _Rule(Parallel):
    """The schedule of a rule: a list, and for `fair` a part of all that none may exceed first."""

    def __init__(self, problem: Problem, rule: str, comes: Ints) -> None:
        self._pipelines = pipelines_of(problem)
        work = np.bincount(self._pipelines, weights=work_shares(problem))
        keys: dict[str, Any] = {"fifo": comes, "fair": comes, "shortest": work[self._pipelines]}
        path = problem.seconds[[modes.start for modes in problem.modes]]
        for j in reversed(problem.order):
            path[j] += path[list(problem.successors[j])].max(initial=0)
        keys["critical_path"] = -path
        super().__init__(problem, np.argsort(keys[rule], kind="stable"))
        self._is_fair, self._comes = rule == "fair", comes

    def begin_ready(self, now: int) -> None:
        """Begin what fits; first what is within the part of each pipeline, in whole units."""
        if self._is_fair and self.ready:
            problem, here = self.problem, np.array(self.unfinished) & (self._comes <= now)
            number, capacity = len(np.unique(self._pipelines[here])), problem.free[-1].tolist()
            held = np.zeros((len(problem.last), len(capacity)), dtype=np.int64)
            first = [modes.start for modes in problem.modes]
            np.add.at(
                held, self._pipelines, problem.demand[first] * np.array(self.running)[:, None]
            )
            for entry in list(self.ready):
                j, mine = entry[1], held[self._pipelines[entry[1]]]
                part = [
                    -(-capacity[r] // (d * number)) - int(mine[r]) // d
                    for r, d in self.asks[first[j]]
                ]
                before = self.running[j]
                if self.start(j, now, min(part, default=2**62)):
                    self.ready.remove(entry)
                mine += (self.running[j] - before) * problem.demand[first[j]]
        super().begin_ready(now)


def _by_rounds(round_: Round, decide: Decide, comes: Mapping[str, int]) -> dict[str, int]:
    """Return when each job is done if a round is decided whenever something ends or comes."""
    later = sorted(
        (job for job in round_.jobs if comes.get(job.name, 0) > round_.now),
        key=lambda job: comes[job.name],
    )
    current, ends = round_.without_jobs({job.name for job in later}), dict[str, int]()

    def whose(name: str) -> str:
        return name if name in comes else name.rpartition("@")[0]

    while True:
        if any(job.running is None and not job.stage.after for job in current.jobs if job.stage):
            current = apply_plan(current, decide(current), {})
        done = {job.name: end_of(job, current.now) for job in current.jobs if job.running}
        at = min([*done.values(), *(comes[job.name] for job in later)], default=None)
        if at is None:
            return ends
        ends |= {whose(name): end for name, end in done.items() if end == at and whose(name)}
        current = advance(current, at - current.now)
        while later and comes[later[0].name] == at:
            job, jobs = later.pop(0), current.jobs
            current = current.model_copy(update={"jobs": (*jobs, _in(job, jobs, whose))})


def _in(job: Job, jobs: tuple[Job, ...], whose: Callable[[str], str]) -> Job:
    """Return a job that comes, waiting for what is left of those before it."""
    if job.stage is None:
        return job
    after = tuple(one.name for one in jobs if whose(one.name) in job.stage.after)
    return job.model_copy(update={"stage": job.stage.model_copy(update={"after": after})})

"""Pipelines over time: jobs with stages that come, run and end, under a rule or by rounds.

Rules begin whatever fits whenever something ends or comes, in counts: `fifo` in the order in which
pipelines came, `shortest` by the work of their pipeline, `critical_path` by what has to follow,
and `fair` so that no pipeline has more than its part, ceil(all / pipelines), of any resource while
others wait. A pipeline is what waiting for each other connects. By rounds, a round of policy
`stages` is decided at each such event, and what its plan starts begins where it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from placewright.instances.checks.stage_rows import StageRows
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.plan import Plan, Task
from placewright.instances.documents.round import Round
from placewright.instances.documents.stage import Stage

RULES = ("fifo", "fair", "shortest", "critical_path")
Decide: TypeAlias = Callable[[Round], Plan]


@dataclass
class _Live:
    """A job of the replay: its pipeline, tasks not begun, and waves that run."""

    job: Job
    stage: Stage
    pipeline: int
    submitted: int
    left: int
    waves: list[tuple[int, int, tuple[Task, ...]]] = field(default_factory=list)
    end: int | None = None

    @property
    def tasks(self) -> int:
        """How many tasks begin one by one; 1 of a gang."""
        return 1 if self.stage.gang else self.job.options[0].groups[0].count


def play(
    round_: Round, how: str | Decide, submitted: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return when each job is done.

    Parameters
    ----------
    round_
        Of policy `stages`, with pending jobs of one option each.
    how
        A rule, or what decides a round.
    submitted
        Seconds on the round's clock at which jobs come; `now` for all others.
    """
    state = _Replay(round_, submitted or {})
    while (at := state.next_event()) is not None:
        state.advance(at)
        if isinstance(how, str):
            state.begin_by_rule(how)
        else:
            state.begin_by_plan(how)
    return state.ends()


class _Replay:
    def __init__(self, round_: Round, submitted: Mapping[str, int]) -> None:
        self._round, self._rows, self._now = round_, StageRows(round_), -1
        names = {job.name: j for j, job in enumerate(round_.jobs)}
        pipeline = list(range(len(names)))
        self._live: dict[str, _Live] = {}
        for j, job in enumerate(round_.jobs):
            if job.stage is None or job.running is not None or len(job.options) != 1:
                raise ValueError(f"job {job.name!r}: expected a pending stage of one option")
            for name in job.stage.after:
                old, new = pipeline[names[name]], pipeline[j]
                pipeline = [new if one == old else one for one in pipeline]
        for j, job in enumerate(round_.jobs):
            at = submitted.get(job.name, round_.now)
            if job.stage is not None:
                live = _Live(job, job.stage, pipeline[j], at, 0)
                live.left = live.tasks
                self._live[job.name] = live
        self._free = [row.capacity for row in self._rows.rows]
        self._asked = {name: self._each(live) for name, live in self._live.items()}
        self._path = self._paths()
        work: dict[int, float] = {}
        for name, live in self._live.items():
            share = max(self._shares(name), default=0.0)
            seconds = live.stage.seconds(0) * live.tasks
            work[live.pipeline] = work.get(live.pipeline, 0.0) + share * seconds
        self._work = work

    def _each(self, live: _Live) -> list[int]:
        asked = self._rows.asked(live.job, live.job.options[0])
        return [amount // live.tasks for amount in asked]

    def _shares(self, name: str) -> list[float]:
        rows = zip(self._asked[name], self._rows.rows, strict=True)
        return [amount / row.capacity for amount, row in rows if row.capacity]

    def _paths(self) -> dict[str, int]:
        """Return the seconds from the begin of each job to the end of all that waits for it."""
        behind: dict[str, list[str]] = {name: [] for name in self._live}
        for name, live in self._live.items():
            for before in live.stage.after:
                behind[before].append(name)
        path: dict[str, int] = {}
        waiting = list(self._live)
        while waiting:
            name = waiting[-1]
            missing = [one for one in behind[name] if one not in path]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            longest = max((path[one] for one in behind[name]), default=0)
            path[name] = self._live[name].stage.seconds(0) + longest
        return path

    def next_event(self) -> int | None:
        """Return when something ends or comes next, None if nothing does."""
        ends = [wave[0] for live in self._live.values() for wave in live.waves]
        comes = [one.submitted for one in self._live.values() if one.submitted > self._now]
        return min([*ends, *comes], default=None)

    def advance(self, at: int) -> None:
        """Go to a time: what ends by then gives back what it holds."""
        self._now = at
        for name, live in self._live.items():
            self._take(name, -sum(units for end, units, _ in live.waves if end <= at))
            live.waves = [wave for wave in live.waves if wave[0] > at]
            if not live.left and not live.waves and live.end is None:
                live.end = at

    def begin_by_rule(self, rule: str) -> None:
        """Begin what fits, in the order of a rule."""
        ready = [live for live in self._live.values() if self._is_ready(live)]
        keys: dict[str, Callable[[_Live], float]] = {
            "fifo": lambda live: live.submitted,
            "fair": lambda live: live.submitted,
            "shortest": lambda live: self._work[live.pipeline],
            "critical_path": lambda live: -self._path[live.job.name],
        }
        ready.sort(key=keys[rule])
        if rule == "fair" and ready:
            self._begin_within(ready, len({live.pipeline for live in self._alive()}))
        for live in ready:
            self._begin(live, live.left)

    def _begin_within(self, ready: list[_Live], pipelines: int) -> None:
        """Begin what fits while no pipeline has more than its part, in whole tasks."""
        for live in ready:
            held = [0] * len(self._free)
            for name, other in self._live.items():
                if other.pipeline == live.pipeline:
                    units = sum(count for _, count, _ in other.waves)
                    held = [h + units * a for h, a in zip(held, self._asked[name], strict=True)]
            rows = zip(self._rows.rows, held, self._asked[live.job.name], strict=True)
            part = [-(-r.capacity // (a * pipelines)) - h // a for r, h, a in rows if a]
            self._begin(live, min(part, default=live.left))

    def _alive(self) -> list[_Live]:
        return [o for o in self._live.values() if o.submitted <= self._now and o.end is None]

    def _is_ready(self, live: _Live) -> bool:
        done = all(self._live[name].end is not None for name in live.stage.after)
        return bool(live.left) and live.submitted <= self._now and done

    def _begin(self, live: _Live, units: int, tasks: tuple[Task, ...] = ()) -> None:
        name = live.job.name
        pairs = [(f, a) for f, a in zip(self._free, self._asked[name], strict=True) if a]
        units = min([units, live.left, *(free // amount for free, amount in pairs)])
        if units > 0:
            self._take(name, units)
            live.left -= units
            live.waves.append((self._now + live.stage.seconds(0), units, tasks))

    def _take(self, name: str, units: int) -> None:
        asked = self._asked[name]
        self._free = [f - units * a for f, a in zip(self._free, asked, strict=True)]

    def begin_by_plan(self, decide: Decide) -> None:
        """Begin what the plan of a round starts."""
        if not any(self._is_ready(live) for live in self._live.values()):
            return
        plan = decide(self._situation())
        for decision in plan.decisions:
            live = self._live.get(decision.job)
            if live is not None and decision.tasks and live.left:
                units = 1 if live.stage.gang else len(decision.tasks)
                self._begin(live, units, decision.tasks)

    def _situation(self) -> Round:
        """Return the round of now: what has begun of a job that is no gang is a job of its own."""
        jobs: list[Job] = []
        names: dict[str, list[str]] = {}
        for live in self._alive():
            name, waves = live.job.name, live.waves
            names[name] = [f"{name}@{k}" for k in range(len(waves))]
            for k, (end, _, tasks) in enumerate(waves):
                count = len(tasks)
                begun = self._counted(live, count)
                started = end - live.stage.seconds(0)
                running = Running(option=0, tasks=tasks, started=started, pinned=True)
                # Its last tasks end last: they count in the completion of the job.
                weight = live.job.weight if not live.left and end == max(w[0] for w in waves) else 0
                stage = live.stage.model_copy(update={"after": (), "gang": True})
                update = {"name": names[name][k], "running": running, "stage": stage}
                jobs.append(begun.model_copy(update={**update, "weight": weight}))
            if live.left:
                names[name].append(name)
        for live in self._alive():
            if live.left:
                job = live.job if live.stage.gang else self._counted(live, live.left)
                after = [one for name in live.stage.after for one in names.get(name, ())]
                stage = live.stage.model_copy(update={"after": tuple(after)})
                jobs.append(job.model_copy(update={"stage": stage}))
        return self._round.model_copy(update={"jobs": tuple(jobs), "now": self._now})

    def _counted(self, live: _Live, count: int) -> Job:
        """Return the job with so many tasks, if it is no gang."""
        if live.stage.gang:
            return live.job
        option = live.job.options[0]
        group = option.groups[0].model_copy(update={"count": count})
        option = option.model_copy(update={"groups": (group,)})
        return live.job.model_copy(update={"options": (option,)})

    def ends(self) -> dict[str, int]:
        """Return when each job was done."""
        return {name: live.end for name, live in self._live.items() if live.end is not None}

"""Round scheduling: a solver decides each round of a replay, and every plan is verified.

The jobs alive are the jobs of a round of policy `gang`. What they are worth, and who may preempt
whom, is what the replayed policy says. Searches stop by work and not by the clock, and the engine
begins anew at every `REOPEN`th round, so that a replay decides the same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.instances.converters.support.trace_rounds import whole_tasks
from placewright.instances.documents.cluster import ClusterDocument, HostEntry
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import DecisionKind, Plan, Task
from placewright.instances.documents.policy import Policy, Tenant
from placewright.instances.documents.round import Round
from placewright.instances.traces.trace import SECOND
from placewright.rounds.certificate import headline_gap
from placewright.rounds.engine import Engine
from placewright.rounds.policies.base import Columns, ElasticPolicy, Offer, RoundPolicy, Weights
from placewright.rounds.replay.book import Place, Places
from placewright.rounds.replay.elastic_decider import offer_of
from placewright.rounds.replay.loop import Decider, Loop
from placewright.rounds.settings import InternalError
from placewright.rounds.state.changes import Changes

REOPEN = 500
"""Rounds after which the engine begins anew."""

PROGRESS = 10**6
"""Progress of an option that is worth 1."""

WORTH = 10**9
"""Value of the job that is worth most; others in proportion, 1 at least."""


class RoundDecider(Decider):
    """Decides by an `Engine`, whose solver process lives until `close`.

    `policy`: what jobs are worth. `sizes`: GPUs of each host. `places`: `kept`: running jobs are in
    the round as running ones; they stay, or are moved or preempted, the latter only for a job of a
    smaller rank. `free`: all GPUs are free in each round, as in the simulators of Tiresias and
    Muri, and ranks do not matter. `seconds`, `gap`: limits of a search: work in units of seconds,
    and the gap at which it stops. `tenants`: tenants of the trace; 0 if rounds need not know whose
    jobs are.
    """

    def __init__(
        self,
        policy: RoundPolicy,
        sizes: tuple[int, ...],
        places: Places = "kept",
        seconds: float = 2.0,
        gap: float = 0.0,
        tenants: int = 0,
    ) -> None:
        super().__init__()
        self.policy = policy
        self._memory = None if policy.memory is None else policy.memory(sum(sizes))
        weigh = policy.weigh if self._memory is None else self._memory.weigh
        if weigh is None:
            raise InternalError(f"{policy.name} does not say what jobs are worth")
        self._weigh = weigh
        self._has_tenants = tenants > 0
        self._seconds, self._gap, self._largest = seconds, gap, max(sizes)
        self._is_free = places == "free"
        hosts = tuple(
            HostEntry(name=f"h{n}", gpus=size, gpu_model="gpu") for n, size in enumerate(sizes)
        )
        self._empty = Round(
            cluster=ClusterDocument(name="replay", hosts=hosts),
            policy=Policy(terms=policy.terms, priority="strict" if policy.strict else "preemption"),
            tenants=tuple(Tenant(name=f"t{n}") for n in range(tenants)),
        )
        self._host = {host.name: number for number, host in enumerate(hosts)}
        self._engine: Engine | None = None
        self._written: dict[int, tuple[int, ...]] = {}
        self._tasks: dict[int, tuple[Task, ...]] = {}
        self._gone: list[int] = []
        self._released: set[int] = set()
        self._closed: set[int] = set()

    @property
    def can_be_saved(self) -> bool:
        """Whether the engine begins anew at the next round."""
        return len(self.rounds) % REOPEN == 0

    def state(self) -> Any:
        """Return the rounds so far, and on which GPUs jobs run."""
        tasks = [
            [job, [task.model_dump(mode="json") for task in tasks]]
            for job, tasks in self._tasks.items()
        ]
        return [self.rounds, tasks, None if self._memory is None else self._memory.state()]

    def restore(self, state: Any) -> None:
        """Take a state over."""
        rounds, tasks, memory = state
        if self._memory is not None:
            self._memory.restore(memory)
        self.rounds = [(us, gap) for us, gap in rounds]
        self._tasks = {
            job: tuple(Task.model_validate(task) for task in given) for job, given in tasks
        }

    def arrive(self, loop: Loop, job: int) -> None:  # noqa: ARG002
        """Note a job that a failure has stopped; others are looked up when a round is decided."""
        if self._tasks.pop(job, None) is not None:
            self._released.add(job)

    def leave(self, loop: Loop, job: int) -> None:
        """Note that a job has ended."""
        if self._memory is not None:
            self._memory.end(Columns(loop, np.array([job]), self.policy.sees))
        self._gone.append(job)
        self._tasks.pop(job, None)

    def close(self) -> None:
        """End the engine's solver process."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def decide(self, loop: Loop) -> None:
        """Decide a round of the jobs alive, and carry its plan out."""
        jobs = np.fromiter(loop.alive, dtype=np.int64, count=len(loop.alive))
        if not len(jobs):
            return
        if self.can_be_saved:
            self.close()
            self._written.clear()
        weights = self._weights(loop, jobs)
        plan = self._plan(loop, jobs, weights)
        terms = () if plan.certificate is None else plan.certificate.terms
        self.rounds.append((loop.now, headline_gap(terms) if terms else None))
        self._carry_out(loop, plan)

    def _weights(self, loop: Loop, jobs: Ints) -> Weights:
        return self._weigh(Columns(loop, jobs, self.policy.sees))

    def _plan(self, loop: Loop, jobs: Ints, weights: Weights) -> Plan:
        """Tell the engine who came, ended or is worth something else; return its plan."""
        worth = _whole(weights.value)
        rank = np.unique(weights.rank, return_inverse=True)[1]
        if self._is_free:
            self._released.update(loop.place)
            if not self.policy.strict:
                rank[:] = 0
        now_s = loop.now // SECOND
        known = self._engine is not None
        running = (
            {} if self._engine is None else {j.name: j.running for j in self._engine.state.jobs}
        )
        added: list[Job] = []
        updated: list[Job] = []
        for job, value, number in zip(jobs.tolist(), worth.tolist(), rank.tolist(), strict=True):
            written = self._written_as(job, value, number)
            if self._written.get(job) == written and known and job not in self._released:
                continue
            new = not known or job not in self._written
            self._written[job] = written
            held = None if job in self._released else running.get(str(job))
            (added if new else updated).append(self._document(loop, job, value, -number, held))
        self._released.clear()
        gone, self._gone = self._gone, []
        for job in gone:
            self._written.pop(job, None)
        if self._engine is None:
            self._engine = Engine(
                self._empty, time_limit=self._seconds, gap=self._gap, deterministic=True
            )
            gone = []
            self._closed = set()
        closed = loop.ledger.closed
        health = {f"h{host}": host not in closed for host in sorted(self._closed ^ closed)}
        self._closed = set(closed)
        names = [str(job) for job in gone]
        return self._engine.round(
            Changes(removed=names, updated=updated, added=added, now=now_s, health=health)
        )

    def _written_as(self, job: int, value: int, rank: int) -> tuple[int, ...]:  # noqa: ARG002
        """Return what the document of a job depends on."""
        return value, rank

    def _document(
        self, loop: Loop, job: int, value: int, priority: int, running: Running | None
    ) -> Job:
        if running is None and job in loop.place and not self._is_free:
            running = Running(tasks=self._tasks[job])
        groups = (whole_tasks(loop.gpus[job], self._largest),)
        return Job(
            name=str(job),
            tenant=f"t{loop.trace.tenant[job]}" if self._has_tenants else None,
            priority=priority,
            options=(Option(groups=groups, value=value),),
            running=running,
        )

    def _carry_out(self, loop: Loop, plan: Plan) -> None:
        for decision in plan.decisions:
            if decision.decision is DecisionKind.PREEMPT:
                del self._tasks[int(decision.job)]
            elif decision.decision in (DecisionKind.START, DecisionKind.MIGRATE):
                self._tasks[int(decision.job)] = decision.tasks
        carry_out(loop, plan, int, self._host, {} if self._is_free else dict(loop.place))


class SizedRoundDecider(RoundDecider):
    """Rounds in which jobs have an option for each size, and running ones may resize.

    The objective is the sum of what options are worth, then least disruption; nobody is preempted.
    `policy`: whose name and columns count. `worth`: what each option of each job is worth.
    """

    def __init__(
        self,
        policy: ElasticPolicy,
        worth: Callable[[Columns, Offer], Floats],
        sizes: tuple[int, ...],
        seconds: float,
        gap: float,
    ) -> None:
        terms = ("progress", "disruption")
        rounds = RoundPolicy(policy.name, weigh=_equal, sees=policy.sees, terms=terms)
        super().__init__(rounds, sizes, seconds=seconds, gap=gap)
        self._worth = worth
        self._options: dict[int, tuple[int, ...]] = {}
        self._progress: dict[int, tuple[int, ...]] = {}

    def leave(self, loop: Loop, job: int) -> None:
        """Note that a job has ended."""
        super().leave(loop, job)
        self._options.pop(job, None)
        self._progress.pop(job, None)

    def _weights(self, loop: Loop, jobs: Ints) -> Weights:
        worth = self._worth(Columns(loop, jobs, self.policy.sees), offer_of(loop, jobs))
        scaled = np.rint(worth * PROGRESS)
        for job, row in zip(jobs.tolist(), scaled, strict=True):
            # Which options are useful depends on the speeds of a job alone.
            options = self._options.setdefault(job, tuple(np.flatnonzero(row > 0).tolist()))
            self._progress[job] = tuple(int(row[option]) for option in options)
        return super()._weights(loop, jobs)

    def _written_as(self, job: int, value: int, rank: int) -> tuple[int, ...]:
        return *super()._written_as(job, value, rank), *self._progress[job]

    def _document(
        self, loop: Loop, job: int, value: int, priority: int, running: Running | None
    ) -> Job:
        plain = super()._document(loop, job, value, priority, None)
        gpus = [loop.trace.options[option].gpus for option in self._options[job]]
        options = tuple(
            Option(groups=(whole_tasks(n, self._largest),), value=1, progress=progress)
            for n, progress in zip(gpus, self._progress[job], strict=True)
        )
        if running is None and job in loop.place:
            at = self._options[job].index(int(loop.option[job]))
            running = Running(option=at, tasks=self._tasks[job])
        return plain.model_copy(update={"options": options, "running": running})

    def _carry_out(self, loop: Loop, plan: Plan) -> None:
        runs: dict[int, tuple[int, Place]] = {}
        for decision in plan.decisions:
            if decision.option is not None:
                job = int(decision.job)
                self._tasks[job] = decision.tasks
                runs[job] = (
                    self._options[job][decision.option],
                    place_of(decision.tasks, self._host),
                )
        loop.ledger.clear()
        for _, place in runs.values():
            loop.ledger.take(place)
        loop.assign_all(runs)


def _equal(jobs: Columns) -> Weights:
    return Weights(value=np.ones(len(jobs)), rank=np.zeros(len(jobs)))


def carry_out(
    loop: Loop,
    plan: Plan,
    number: Callable[[str], int],
    hosts: Mapping[str, int],
    places: dict[int, Place],
) -> None:
    """Let a plan's jobs run where it says.

    `number`, `hosts`: numbers of jobs and hosts in the loop, by name. `places`: where jobs are that
    the plan leaves alone; changed.
    """
    for decision in plan.decisions:
        if decision.decision is DecisionKind.PREEMPT:
            del places[number(decision.job)]
        elif decision.decision in (DecisionKind.START, DecisionKind.MIGRATE):
            places[number(decision.job)] = place_of(decision.tasks, hosts)
    loop.ledger.clear()
    for place in places.values():
        loop.ledger.take(place)
    loop.replace_all(places)


def place_of(tasks: Sequence[Task], hosts: Mapping[str, int]) -> Place:
    """Return on which hosts tasks of whole GPUs are, with how many."""
    held: dict[int, int] = {}
    for task in tasks:
        host = hosts[task.host]
        held[host] = held.get(host, 0) + len(task.gpus)
    return tuple(sorted(held.items()))


def _whole(value: Floats) -> Ints:
    """Scale values to whole numbers, the largest to `WORTH`."""
    scaled: Ints = np.maximum(np.rint(value * (WORTH / value.max())), 1).astype(np.int64)
    return scaled

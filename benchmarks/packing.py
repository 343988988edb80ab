"""`packing`: pods arrive and stay; how much of the cluster they hold in the end.

Pods of the openb trace are drawn with replacement and arrive in rounds until they ask 130 % of the
cluster's GPUs, as in Weng et al., "Beware of Fragmentation", USENIX ATC 2023, section 6; nothing
leaves, nothing moves, and what has no room when it arrives is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev
from typing import Any

import numpy as np

from benchmarks.packing_loop import ByRule, Placing, play
from benchmarks.packing_pods import Arrivals, Pods, arrivals, read_pods
from benchmarks.presets import NODES, PODS, TRACE
from benchmarks.report import ERROR, OURS, SKIPPED, Row
from placewright import Changes, Engine, Round, solve_round
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import DecisionKind, Task
from placewright.instances.documents.policy import Policy, TaskKind
from placewright.rounds.benchmark.packing_rules import RULES, Kind, Kinds, Ledger, Place, Rule
from placewright.rounds.certificate import gap_of
from placewright.topology.units import WHOLE_GPU

__all__ = ["Case", "bound_of", "cases", "play_rounds", "play_rules", "run"]

LISTS = ("default", "gpuspec10", "multigpu20")
SEEDS = 10
BATCH = 100
SMALL_BATCHES = {20: 3, 1: 1}
"""Seeds of the rounds of fewer arrivals, which take longer: on the first list only."""

QUICK_PART = 8
"""Of the hosts `--quick` takes one in so many."""

ANY_GAP = 1.0
"""Our rounds end once tasks have been placed: no solver looks for more."""

SECONDS = 20.0
BOUND_SECONDS, BOUND_GAP = 60.0, 1e-3
CPU_ONLY_VALUE = 1
"""Of a pod without GPU in milli-GPU, so that it is worth starting."""


@dataclass(frozen=True, slots=True)
class Case:
    """A pod list, how many pods arrive in a round, and the seeds; one in `part` of the hosts."""

    pods: str
    batch: int
    seeds: int
    part: int = 1

    @property
    def name(self) -> str:
        """What rows call it."""
        return f"{self.pods}-{self.batch}"

    def read(self) -> Pods:
        """Read the files of the trace."""
        return read_pods(TRACE / NODES, TRACE / PODS.format(self.pods), part=self.part)


@dataclass(slots=True)
class _Tally:
    """What one method did on the seeds so far."""

    shares: list[float] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)


def cases(*, quick: bool) -> list[Case]:
    """Return all cases, or the first list on a part of the cluster."""
    if quick:
        return [Case(LISTS[0], BATCH, 1, QUICK_PART)]
    return [
        *(Case(pods, BATCH, SEEDS) for pods in LISTS),
        *(Case(LISTS[0], batch, seeds) for batch, seeds in SMALL_BATCHES.items()),
    ]


def run(chosen: Iterable[Case], *, quick: bool) -> Iterator[Row]:  # noqa: ARG001
    """Yield a row per case and method: means over the seeds; an error if it beats the bound."""
    for case in chosen:
        if not (TRACE / PODS.format(case.pods)).is_file():
            note = "the openb trace was not found (see README.md)"
            yield Row(case.name, OURS, None, SKIPPED, note=note)
            continue
        yield from _rows(case)


def _rows(case: Case) -> Iterator[Row]:
    pods = case.read()
    tallies = {name: _Tally() for name in (OURS, *RULES)}
    bounds: list[int] = []
    for seed in range(case.seeds):
        arriving = arrivals(pods, seed)
        bounds.append(bound_of(arriving))
        for name, tally in tallies.items():
            began = time.process_time()
            if name == OURS:
                ledger = play_rounds(arriving, case.batch)
            else:
                ledger = play_rules(arriving, RULES[name])
            tally.cpu_seconds.append(time.process_time() - began)
            tally.held.append(ledger.held)
            tally.shares.append(100 * ledger.held / pods.total)
            tally.dropped.append(int(len(arriving.kinds) - ledger.pods_held.sum()))
            if ledger.held > bounds[-1]:
                note = f"held {ledger.held} of at most {bounds[-1]} milli-GPU"
                yield Row(case.name, name, seed, ERROR, note=note)
    bound = mean(bounds)
    for name, tally in tallies.items():
        yield Row(
            case.name,
            name,
            None,
            "done",
            term="value",
            value=round(mean(tally.held)),
            bound=bound,
            gap=gap_of(mean(tally.held), bound),
            best_gap=gap_of(mean(tally.held), bound),
            cpu_seconds=mean(tally.cpu_seconds),
            figures={
                "seeds": case.seeds,
                "allocated %": mean(tally.shares),
                "deviation": stdev(tally.shares) if case.seeds > 1 else 0.0,
                "least": min(tally.shares),
                "bound %": 100 * bound / pods.total,
                "dropped": round(mean(tally.dropped)),
                "ms per pod": 1000 * mean(tally.cpu_seconds) / len(arriving.kinds),
            },
        )


class _ByRounds(Placing):
    """Decides rounds with an engine: terms value and stranded, the mix that of the pod list.

    What has arrived is pinned; since it never leaves, all of a host becomes one job.
    """

    def __init__(self, arriving: Arrivals, engine: Engine) -> None:
        super().__init__(arriving)
        self._engine = engine
        self._options = _options(arriving.pods)
        self._names = [entry.name for entry in arriving.pods.cluster.hosts]
        self._at = {name: host for host, name in enumerate(self._names)}
        self._known: set[int] = set()
        self._touched: set[int] = set()
        self._past: list[str] = []

    def places(self, pods: Sequence[int], kinds: Sequence[int]) -> Iterator[Place | None]:
        """Decide a round."""
        jobs = [
            Job(name=f"pod-{pod}", options=self._options[kind])
            for pod, kind in zip(pods, kinds, strict=True)
        ]
        held = {host: _held(self.ledger, host, self._names[host]) for host in sorted(self._touched)}
        changes = Changes(
            added=[*(job for host, job in held.items() if host not in self._known), *jobs],
            updated=[job for host, job in held.items() if host in self._known],
            removed=self._past,
        )
        plan = self._engine.round(changes)
        self._known |= self._touched
        self._touched.clear()
        self._past = [job.name for job in jobs]
        for decision in plan.decisions[-len(jobs) :]:
            if decision.decision is DecisionKind.START:
                task: Task = decision.tasks[0]
                host = self._at[task.host]
                self._touched.add(host)
                yield host, task.gpus
            else:
                yield None


def play_rounds(arriving: Arrivals, batch: int) -> Ledger:
    """Decide a round for each batch of arrivals."""
    pods = arriving.pods
    mix = tuple(
        TaskKind(**_asked(k), weight=int(count))
        for k, count in zip(pods.kinds, pods.counts, strict=True)
    )
    first = Round(cluster=pods.cluster, policy=Policy(terms=("value", "stranded"), mix=mix))
    with Engine(first, gap=ANY_GAP, time_limit=SECONDS, isolation="none") as engine:
        return play(arriving, _ByRounds(arriving, engine), batch)


def play_rules(arriving: Arrivals, make: Callable[[Kinds], Rule]) -> Ledger:
    """Place pod by pod."""
    return play(arriving, ByRule(arriving, make(arriving.pods)))


def bound_of(arriving: Arrivals) -> int:
    """Return a certified bound on the milli-GPU that any method can hold, whatever it knows."""
    pods = arriving.pods
    options = _options(pods)
    jobs = tuple(
        Job(name=f"pod-{i}", options=options[kind])
        for i, kind in enumerate(arriving.kinds.tolist())
        if pods.milli[kind]
    )
    round_ = Round(cluster=pods.cluster, jobs=jobs, policy=Policy(terms=("value",)))
    plan = solve_round(round_, time_limit=BOUND_SECONDS, gap=BOUND_GAP)
    if plan.certificate is None or plan.certificate.terms[0].certified is None:
        return pods.total
    return min(int(plan.certificate.terms[0].certified), pods.total)


def _asked(kind: Kind) -> dict[str, Any]:
    """Return what a pod of a kind asks, as a document has it."""
    return {
        "gpu": f"{kind.gpu}m",
        "cpu": f"{kind.cpu}m",
        "memory": f"{kind.memory}Mi",
        "gpu_models": kind.models,
    }


def _options(pods: Pods) -> list[tuple[Option, ...]]:
    return [
        (
            Option(
                groups=(TaskGroup(**_asked(k)),),
                value=k.gpu or CPU_ONLY_VALUE,
            ),
        )
        for k in pods.kinds
    ]


def _held(ledger: Ledger, host: int, name: str) -> Job:
    """Return all that is held on a host as one pinned job."""
    pods = ledger.pods
    used = WHOLE_GPU - ledger.gpus[host, : pods.gpus[host]]
    cpu, memory = (pods.capacity[host] - ledger.left[host]).tolist()
    groups = [TaskGroup(name="rest", gpu=0, cpu=f"{cpu}m", memory=f"{memory}Mi")]
    tasks = [Task(host=name)]
    for gpu in np.flatnonzero(used).tolist():
        tasks.append(Task(group=len(groups), host=name, gpus=(gpu,)))
        groups.append(TaskGroup(name=f"gpu-{gpu}", gpu=f"{used[gpu]}m"))
    return Job(
        name=name,
        options=(Option(groups=tuple(groups)),),
        running=Running(tasks=tuple(tasks), pinned=True),
    )

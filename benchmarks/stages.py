"""`stages`: pipelines that are all there, and evaluations of models, beside rules.

Pipelines are drawn like queries on Spark (Mao et al., SIGCOMM'19): in-trees of stages whose tasks
begin one by one, of heavy-tailed numbers and lengths. Evaluations are many short GPU parts, each
with a metric on CPUs behind it (Hu et al., NSDI'24), beside holding the GPU to the end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.report import ERROR, OURS, Row
from placewright import Round, solve_round, verify
from placewright.rounds.replay.pipelines import RULES, Pipelines

__all__ = ["Case", "cases", "run"]

SECONDS = 30.0
SEEDS = range(5)
GPUS = 8
HELD = "held to the end"
"""The GPU and its job's metric in one."""


@dataclass(frozen=True, slots=True)
class Case:
    """Pipelines, or evaluations, on some GPUs; by a seed."""

    kind: str
    gpus: int
    jobs: int
    seed: int

    @property
    def stream(self) -> str:
        """What rows call it, beside its seed."""
        return f"{self.kind}-{self.jobs}-{self.gpus}"

    @property
    def name(self) -> str:
        """By which it is chosen."""
        return f"{self.stream}-{self.seed}"

    def rounds(self) -> Mapping[str, Round]:
        """Draw the round, by its name in rows, "" for itself."""
        draw = np.random.Generator(np.random.PCG64(self.seed))
        if self.kind == "pipelines":
            return {"": self._round(list(_pipelines(draw, self.jobs)), "completion")}
        parts = np.rint(draw.lognormal(4, 0.8, self.jobs)).clip(1).astype(int).tolist()
        tails = np.rint(draw.lognormal(4.2, 1.2, self.jobs)).clip(1, 1200).astype(int).tolist()
        apart = [_stage(f"e{i}", seconds, (), gpu=1) for i, seconds in enumerate(parts)]
        apart += [_stage(f"m{i}", t, (f"e{i}",), gpu=0, cpu=1) for i, t in enumerate(tails)]
        held = zip(parts, tails, strict=True)
        together = [_stage(f"e{i}", a + b, (), gpu=1) for i, (a, b) in enumerate(held)]
        return {"": self._round(apart, "makespan"), HELD: self._round(together, "makespan")}

    def _round(self, jobs: Sequence[Any], term: str) -> Round:
        hosts = [
            {"name": f"h[0-{self.gpus // GPUS - 1}]", "gpus": GPUS, "gpu_model": "A100", "cpu": 96}
        ]
        policy = {"formulation": "stages", "terms": [term, "spread"]}
        return Round.of({"hosts": hosts}, jobs, policy=policy, name=self.name)


def _pipelines(draw: np.random.Generator, number: int) -> Iterator[Any]:
    for p in range(number):
        stages = int(draw.integers(2, 11))
        before: list[list[int]] = [[] for _ in range(stages)]
        for s in range(stages - 1):
            before[int(draw.integers(s + 1, stages))].append(s)
        for s in range(stages):
            count = int(np.clip(draw.lognormal(2.5, 1.2), 1, 200))
            seconds = int(np.clip(draw.lognormal(1.8, 0.8), 1, 60))
            after = tuple(f"p{p}s{k}" for k in before[s])
            yield _stage(f"p{p}s{s}", seconds, after, gang=False, gpu=1, count=count)


def _stage(name: str, seconds: int, after: Sequence[str], *, gang: bool = True, **asks: Any) -> Any:
    return {
        "name": name,
        "options": [{"groups": [asks]}],
        "stage": {"task_s": seconds, "after": list(after), "gang": gang},
    }


def cases(*, quick: bool) -> list[Case]:
    """Return all cases; `quick`: small ones of two seeds."""
    sizes = [(24, 10), (48, 20)] if quick else [(24, 10), (48, 20), (96, 50), (48, 100)]
    kinds = [("pipelines", gpus, jobs) for gpus, jobs in sizes]
    kinds += [("evaluations", GPUS, 64)] + [("evaluations", 4 * GPUS, 400)] * (not quick)
    return [Case(*kind, seed) for kind in kinds for seed in SEEDS[: 2 if quick else None]]


def run(chosen: Sequence[Case], *, quick: bool) -> Iterator[Row]:  # noqa: ARG001
    """Yield a row per case and method."""
    for case in chosen:
        for part, round_ in case.rounds().items():
            term = round_.policy.terms[0]
            began, cpu = time.monotonic(), time.process_time()
            plan = solve_round(round_, time_limit=SECONDS, isolation="none")
            spent = time.monotonic() - began, time.process_time() - cpu
            checked, certificate = verify(round_, plan), plan.certificate
            proven = None if certificate is None else certificate.terms[0]
            bound = None if proven is None else proven.bound
            tasks = sum(g.count for job in round_.jobs for g in job.options[0].groups)
            yield Row(
                case.stream,
                f"{OURS} {part}".strip(),
                case.seed,
                "done" if checked.ok else ERROR,
                term=term,
                sense="min",
                value=checked.terms[term],
                bound=bound,
                gap=_gap(checked.terms[term], bound),
                seconds=spent[0],
                cpu_seconds=spent[1],
                figures={"tasks": tasks},
            )
            pipelines = Pipelines(round_)
            for rule in RULES:
                value = _value(round_, pipelines.play(rule))
                gap = _gap(value, bound)
                yield Row(
                    case.stream,
                    f"{rule} {part}".strip(),
                    case.seed,
                    ERROR if bound is not None and value < bound else "done",
                    term=term,
                    sense="min",
                    value=value,
                    best_gap=gap,
                    figures={"tasks": tasks},
                )


def _gap(value: int, bound: float | None) -> float | None:
    return None if bound is None else (value - bound) / max(1, value)


def _value(round_: Round, ends: Mapping[str, int]) -> int:
    """Return the round's first term for the ends of its jobs; all weights are 1."""
    if round_.policy.terms[0] == "makespan":
        return max(ends.values())
    awaited = {name for job in round_.jobs if job.stage for name in job.stage.after}
    return sum(end for name, end in ends.items() if name not in awaited)

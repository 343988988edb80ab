"""Rounds of Synergy's models: ours beside proportional shares and Synergy-TUNE.

docs/benchmarks/results.md has what they showed. The matrices are looked for in `PROFILES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from benchmarks.baselines import GAP, Answer, InvalidPlanError, of_plan
from benchmarks.report import OURS
from benchmarks.tuning import proportional, tuned
from placewright import Plan, Round, solve_round, verify
from placewright.instances.converters import convert_synergy
from placewright.instances.documents.policy import Policy

__all__ = ["PROFILES", "Tuning", "cases"]

Method: TypeAlias = Callable[[Round], Answer]

PROFILES = Path(__file__).parents[2] / "shared" / "data" / "profiles" / "synergy_profiles.json"

DEFAULT, EVEN, THIRSTY = (20, 70, 10), (33, 33, 33), (50, 0, 50)
"""Parts of image, language and speech models; in the last one nobody can do with less."""

SEEDS = range(5)
TIMES = "times proportional"


@dataclass(frozen=True, slots=True)
class Tuning:
    """Servers of 8 GPUs, and as many jobs as ask for all of them, in one of some sizes."""

    servers: int
    split: tuple[int, int, int]
    gpus: tuple[int, ...]
    seed: int

    @property
    def name(self) -> str:
        """What rows call it."""
        sizes = "" if self.gpus == (1,) else f"-gpus-{'.'.join(map(str, self.gpus))}"
        return f"synergy-{self.servers}-{'.'.join(map(str, self.split))}{sizes}"

    @property
    def file(self) -> Path:
        """The matrices."""
        return PROFILES

    def make(self) -> Round:
        """Draw the round; a job counts as often as it has GPUs."""
        drawn = convert_synergy(
            self.file, servers=self.servers, split=self.split, gpus=self.gpus, seed=self.seed
        )
        policy = Policy(formulation="interleaving", terms=("weighted_throughput",))
        return drawn.model_copy(update={"policy": policy})

    def methods(self, seconds: float) -> Mapping[str, Method]:
        """Return the methods by name, ours first."""
        return {
            OURS: partial(_placewright, seconds),
            "synergy-tune": partial(_seated, tuned),
            "proportional": partial(_seated, proportional),
        }


def cases(*, quick: bool) -> list[Tuning]:
    """Return all cases, seeds of one name together; or one of few seconds."""
    if quick:
        return [Tuning(16, DEFAULT, (1,), 0)]
    kinds = [
        *((servers, DEFAULT, (1,)) for servers in (16, 64, 256)),
        *((16, split, (1,)) for split in (EVEN, THIRSTY)),
        *((servers, DEFAULT, (1, 2, 4, 8)) for servers in (16, 64)),
        (64, DEFAULT, (1, 2, 4, 8, 16)),
    ]
    return [Tuning(servers, split, gpus, seed) for servers, split, gpus in kinds for seed in SEEDS]


def _placewright(seconds: float, round_: Round) -> Answer:
    """Decide as `placewright solve` does; the plan is verified once more."""
    plan = solve_round(round_, time_limit=seconds, gap=GAP)
    return replace(of_plan(round_, plan), figures=_figures(round_, plan))


def _seated(method: Callable[[Round], Plan], round_: Round) -> Answer:
    """Answer with the plan of a method that proves nothing."""
    plan = method(round_)
    verification = verify(round_, plan)
    if not verification.ok:
        raise InvalidPlanError(f"the plan is invalid: {verification.violations[0]}")
    term = round_.policy.terms[0]
    return Answer("feasible", term, verification.terms[term], figures=_figures(round_, plan))


def _figures(round_: Round, plan: Plan) -> dict[str, float]:
    """Return speed over that of proportional shares, and the jobs that run."""
    term = round_.policy.terms[0]
    share = sum(job.weight for job in round_.jobs) * 1e6
    return {
        TIMES: verify(round_, plan).terms[term] / share,
        "running": sum(bool(decision.tasks) for decision in plan.decisions),
    }

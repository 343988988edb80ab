"""Jobs that wait in tiny rounds, and replicas that are missing, by seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random
from typing import NamedTuple

from fuzz import drawing
from fuzz.data.homes import layouts
from fuzz.data.world import read_world
from fuzz.play import read
from fuzz.policies import queue
from fuzz.policy import Policy, Raw, TooManyPlansError
from placewright.explain.explain_job import explain_job
from placewright.explain.explanation import Explanation
from placewright.explain.facts.fact import FACTS
from placewright.explain.missing_replica import explain_missing_replica, probing
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.rounds import solve_round

SOLVE_S = 1.0


def _behind_a_gang(rng: Random) -> Raw:
    """Draw a queue whose head asks for nearly all GPUs: others wait for its reservation."""
    round_ = queue.POLICY.draw(rng)
    while not any(job.get("running", {}).get("started") for job in round_["jobs"]):
        round_ = queue.POLICY.draw(rng)
    for job in round_["jobs"]:
        if "running" in job:
            job["running"]["pinned"] = True
    gpus = sum(host["gpus"] for host in round_["cluster"]["hosts"])
    group = {"gpu": 1000, "count": max(1, gpus - rng.choice((0, 0, 1, 2)))}
    head = {"name": "head", "priority": 3, "submitted": drawing.NOW - 9}
    runs = {"expected_runtime_s": rng.choice(queue.TIMES)}
    round_["jobs"].append({**head, **runs, "options": [{"groups": [group]}]})
    round_["policy"]["backfill"] = {"depth": rng.choice((1, 1, 2, "all"))}
    return round_


RESERVED = replace(queue.POLICY, name="reservations", draw=_behind_a_gang)
"""Rounds in which most jobs wait for reservations."""


class Sample(NamedTuple):
    """A job that waits in a round, by a plan if there is one."""

    round: Round
    plan: Plan | None
    job: str

    def explained(self, corrections: int = 0) -> Explanation:
        """Return why it waits."""
        return explain_job(
            self.round, self.plan, self.job, corrections=corrections, isolation="none"
        )


class MissingReplica(NamedTuple):
    """Data that a region has not."""

    round: Round
    dataset: str
    region: str

    def explained(self) -> Explanation:
        """Return why."""
        return explain_missing_replica(self.round, self.dataset, self.region, isolation="none")

    def probe(self) -> Sample:
        """Return the job that stands for it."""
        round_, job = probing(self.round, self.dataset, self.region)
        return Sample(round_, None, job)


def drawn(policy: Policy, seed: int) -> Round | None:
    """Return the round of a seed; None if it has too many plans."""
    try:
        return read(policy.draw(Random(seed)))
    except TooManyPlansError:
        return None


def waiting(policy: Policy, seeds: Iterable[int]) -> Iterator[Sample]:
    """Yield each job that waits in tiny rounds, with a plan of its round."""
    for seed in seeds:
        round_ = drawn(policy, seed)
        if round_ is None:
            continue
        plan = solve_round(round_, time_limit=SOLVE_S, deterministic=True, isolation="none")
        started = FACTS[round_.policy.formulation].started(plan)
        for decision in plan.decisions:
            waits = decision.decision == "wait" and decision.job not in started
            if waits and decision.job not in round_.invalid:
                yield Sample(round_, plan, decision.job)


def missing_replicas(policy: Policy, seeds: Iterable[int]) -> Iterator[MissingReplica]:
    """Yield all data that regions of tiny rounds have not, if all layouts can be enumerated."""
    for seed in seeds:
        try:
            raw = policy.draw(Random(seed))
            world = read_world(raw)
            for _ in layouts(world):
                pass
        except TooManyPlansError:
            continue
        round_ = read(raw)
        for dataset in world.size:
            for region in world.regions:
                if (dataset, region) not in world.held | world.coming.keys():
                    yield MissingReplica(round_, dataset, region)

"""Engines over rounds of regions in which things fail, go and come at random: plans stay valid."""

from __future__ import annotations

import random

import pytest

from examples import examples
from placewright.instances.documents.round import Round
from placewright.instances.generators.geo import PolicyName, generate
from placewright.instances.verify import verify
from placewright.rounds import Changes, Engine

HOUR = 3600


def happening(draw: random.Random, state: Round) -> Changes:
    """Some jobs end, a host fails or comes back, links, storage and data are lost."""
    jobs = [job.name for job in state.jobs]
    hosts = [host.name for host in state.cluster.hosts]
    geo = state.geo
    lost = [data for data in geo.datasets if draw.random() < 0.1]
    return Changes(
        removed=draw.sample(jobs, min(len(jobs), draw.randrange(4))),
        health={draw.choice(hosts): draw.random() < 0.5},
        links=[
            link.model_copy(update={"bandwidth": draw.choice((0, 100, 10_000))})
            for link in geo.links
            if draw.random() < 0.2
        ],
        regions=[
            region.model_copy(update={"storage": draw.choice((0, 5000, None))})
            for region in geo.regions
            if draw.random() < 0.2
        ],
        datasets=[data.model_copy(update={"replicas": data.replicas[1:]}) for data in lost],
        now=state.now + draw.choice((1, HOUR, 12 * HOUR, 30 * HOUR)),
    )


def ordered(policy: PolicyName, seed: int) -> int:
    """How many of an engine's plans order copies; each is checked, and none is searched for."""
    draw = random.Random(seed)
    mix = draw.choice(("spare", "scarce"))
    made = generate(regions=3, datasets=8, jobs=60, gpus=240, mix=mix, seed=seed, policy=policy)
    number = 0
    with Engine(made, time_limit=0.0, isolation="none") as engine:
        for turn in range(5):
            plan = engine.round(happening(draw, engine.state) if turn else None)
            assert verify(engine.round_solved, plan).violations == ()
            number += any(section["kind"] == "flows" for section in plan.sections)
    return number


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("policy", ["geo", "replicas"])
def test_every_plan_of_an_engine_is_valid_whatever_happens(policy: PolicyName) -> None:
    assert sum(ordered(policy, seed) for seed in range(examples(day=5, nightly=8)))

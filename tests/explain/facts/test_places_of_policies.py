"""Nearest places under policies other than `gang`: regions, the current lease, turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from fuzz.play import read
from fuzz.policies import geo, interleaving
from fuzz.policy import Policy, TooManyPlansError
from placewright import load_round
from placewright.cli.views.explanation import places_text
from placewright.explain.explain_job import explain_job
from placewright.explain.explanation import Verdict
from placewright.explain.facts.fact import FACTS, named
from placewright.explain.facts.geo import reasons_against
from placewright.explain.places import GroupPlaces
from placewright.formulations.geo.problem.compile import compile_geo
from placewright.instances.documents.round import Round

LIBRARY = Path(__file__).parents[3] / "instances" / "library"


def waiting(policy: Policy, seeds: range) -> Iterator[tuple[Round, str]]:
    """Yield the base round of each job that waits in tiny rounds."""
    for seed in seeds:
        try:
            round_ = read(policy.draw(Random(seed)))
        except TooManyPlansError:
            continue
        for job in round_.jobs:
            if job.running is None:
                yield FACTS[round_.policy.formulation].base(round_, job.name), job.name


def places(round_: Round, job: str) -> tuple[GroupPlaces, ...]:
    return FACTS[round_.policy.formulation].places(round_, job)


def test_reasons_against_a_region_are_those_of_the_formulation() -> None:
    barred = 0
    for base, name in waiting(geo.POLICY, range(60)):
        problem = compile_geo(base)
        index = next(j for j, job in enumerate(base.jobs) if job.name == name)
        for r, region in enumerate(problem.wan.regions):
            said = [
                text
                for text in reasons_against(base, named(name, base), region)
                if not text.startswith("quota")
            ]
            assert bool(said) == (not problem.eligible[index, r]), (name, region, said)
            barred += bool(said)
    assert barred > 20


@pytest.mark.nightly
def test_a_job_of_one_group_starts_where_a_region_has_room_and_nothing_is_against_it() -> None:
    asked = started = 0
    for base, name in waiting(geo.POLICY, range(40)):
        job = named(name, base)
        if len(job.options) > 1 or len(job.options[0].groups) > 1:
            continue
        (group,) = places(base, name)
        has_room = any(p.now >= group.tasks and not p.why_not for p in group.places)
        found = explain_job(base, None, name, isolation="none")
        if any(fact.kind in ("quota", "cap") for fact in found.conflict):
            continue
        asked += 1
        started += has_room
        assert (found.verdict is Verdict.COULD_START) == has_room
    assert 5 < started < asked


def test_a_region_says_why_not_there() -> None:
    base = FACTS["geo"].base(load_round(LIBRARY / "mast-regions.yaml"), "nightly")
    (group,) = places(base, "nightly")
    assert {one.name: one.why_not for one in group.places} == {
        "east": ("no replica of news",),
        "west": ("no replica of news yet",),
    }
    assert "    west  1 now, 1 if empty; not there: no replica of news yet" in places_text(
        group, named("nightly", base).options[0].groups
    )


def test_places_under_deadline_are_of_the_current_lease() -> None:
    base = FACTS["deadline"].base(load_round(LIBRARY / "chronus.yaml"), "rush")
    (group,) = places(base, "rush")
    assert group.when == "the current lease"
    assert [(one.now, one.empty) for one in group.places] == [(1, 2)]
    first = next(line for line in places_text(group, named("rush", base).options[0].groups) if line)
    assert first == "  Where, in the current lease: how many of its 2 tasks fit, by kind of host"


def test_jobs_that_take_turns_hold_their_gpus_once() -> None:
    base = FACTS["interleaving"].base(load_round(LIBRARY / "muri-running.yaml"), "a2c")
    (group,) = places(base, "a2c")
    assert [(one.now, one.empty) for one in group.places] == [(0, 2)]
    assert [(who.jobs, who.milli_gpu) for who in group.places[0].occupants] == [(2, 2000)]
    assert group.partners == ("dqn + gpt2", "resnet18 + shufflenet")
    *_, last = places_text(group, named("a2c", base).options[0].groups)
    assert last == (
        "    or in turns with dqn + gpt2 or resnet18 + shufflenet, "
        "where stages, load and memory suit"
    )


@pytest.mark.parametrize("seed", range(20))
def test_rounds_with_turns_have_places(seed: int) -> None:
    for base, name in waiting(interleaving.POLICY, range(seed, seed + 1)):
        for group in places(base, name):
            assert all(0 <= one.now <= one.empty for one in group.places)

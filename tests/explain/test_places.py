"""The nearest places of a waiting job: counts, who is in the way, what is short."""

from __future__ import annotations

from random import Random
from typing import Any

from examples import examples
from fuzz.play import read
from fuzz.policies.gang import POLICY
from fuzz.policy import TooManyPlansError
from placewright.explain.places import GroupPlaces, NearestPlaces, Occupants
from placewright.formulations.gang.placement.feasibility import fits
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.jobs import NO_LEVEL
from placewright.formulations.gang.problem.subproblem import residual
from placewright.instances.documents.round import Round


def runs(name: str, host: str, gpus: int, **fields: Any) -> dict[str, Any]:
    pinned = fields.pop("pinned", False)
    running = {"tasks": [{"host": host, "gpus": list(range(gpus))}], "pinned": pinned}
    options = [{"groups": [{"gpu": gpus}]}]
    return {"name": name, "options": options, "running": running, **fields}


def places(group: dict[str, Any], *running: dict[str, Any]) -> GroupPlaces:
    """The places of one group, priority 1, in racks a (two hosts), b (two, one away) and c."""
    host = {"gpus": 8, "gpu_model": "H100", "cpu": 64}
    round_ = Round.model_validate(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {
                "apiVersion": "placewright/v1alpha2",
                "kind": "Cluster",
                "levels": ["rack"],
                "domains": [{"name": name, "level": "rack"} for name in "abc"],
                "hosts": [
                    {"name": "a1", "parent": "a", **host},
                    {"name": "a2", "parent": "a", **host},
                    {"name": "b1", "parent": "b", **host},
                    {"name": "b2", "parent": "b", "healthy": False, **host},
                    {"name": "c1", "parent": "c", "gpus": 2, "gpu_model": "L40S", "cpu": 8},
                ],
            },
            "jobs": [*running, {"name": "waits", "priority": 1, "options": [{"groups": [group]}]}],
        }
    )
    (found,) = NearestPlaces(compile_round(round_)).of(len(running))
    return found


def test_a_rack_says_what_it_holds_now_and_empty_and_who_is_in_the_way() -> None:
    found = places(
        {"count": 2, "gpu": 8, "required": "rack"},
        runs("low", "a1", 2),
        runs("same", "a2", 3, priority=1),
        runs("high", "b1", 4, priority=2),
    )
    assert (found.level, found.total, found.whole) == ("rack", 3, 2)
    b, a = found.places  # of equal racks the one with less in the way
    assert (b.name, b.hosts, b.away, b.now, b.empty) == ("b", 2, 1, 0, 2)
    assert b.occupants == (Occupants("higher", 1, 4000),)
    assert (a.name, a.now, a.empty, a.away) == ("a", 0, 2, 0)
    assert a.occupants == (Occupants("equal", 1, 3000), Occupants("lower", 1, 2000))
    assert a.lack == {"resource": "gpu", "asked": 16000, "free": 11000}


def test_kinds_of_hosts_say_what_they_lack() -> None:
    found = places({"count": 3, "gpu": 2, "cpu": 16}, runs("pinned", "a1", 8, pinned=True))
    (kind,) = found.places
    assert (kind.name, kind.hosts, kind.away, kind.now, kind.empty) == ("8 x H100", 4, 1, 6, 12)
    assert kind.occupants == (Occupants("pinned", 1, 8000),)
    ((name, hosts, lack),) = found.unfit
    assert (name, hosts) == ("2 x L40S", 1)
    assert lack == {"host": "c1", "resource": "cpu", "asked": 16000, "free": 8000}


def test_a_resource_that_no_host_has_is_what_they_lack() -> None:
    found = places({"gpu": 2, "count": 2, "resources": {"power_w": 5}})
    lacks = {str(lack) for _, _, lack in found.unfit}
    expected = {"tasks": 2, "places": 0, "resource": "power_w", "asked": 10, "free": 0}
    assert (found.places, lacks) == ((), {str(expected)})


def test_a_kind_of_another_model_says_so() -> None:
    found = places({"gpu": 1, "gpu_models": ["L40S"]})
    assert [place.name for place in found.places] == ["2 x L40S"]
    assert found.unfit == (("8 x H100", 4, {"resource": "gpu_model"}),)


def test_a_place_holds_all_tasks_exactly_where_a_group_alone_fits() -> None:
    seen = set[tuple[bool, bool]]()
    for seed in range(examples(day=60, nightly=150)):
        try:
            round_ = read(POLICY.draw(Random(seed))).valid_part()
        except TooManyPlansError:
            continue
        problem = compile_round(round_)
        now = Placement(residual(problem, {}))
        nearest = NearestPlaces(problem)
        for job_class in problem.classes:
            for choice in () if job_class.running else job_class.choices:
                if len(choice.groups) > 1:
                    continue
                group = choice.groups[0]
                level = choice.joint_level if group.required == NO_LEVEL else group.required
                if level == NO_LEVEL and group.is_arranged:
                    continue  # the kinds of hosts in one domain count each for itself
                (found,) = nearest.of(job_class.jobs[0], choice.index, most=100)
                places_now = [place.now for place in found.places]
                if found.level is None:
                    places_now = [sum(places_now)]
                held = max(places_now, default=0) >= found.tasks
                assert held == fits(now, choice, 10**6)
                seen.add((found.level is None, held))
    assert len(seen) == 4

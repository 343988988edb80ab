"""Oobleck's templates cover what they promise, and failed pipelines are put together again."""

from __future__ import annotations

import pytest

from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models.oobleck import (
    compositions,
    iteration_s,
    largest_uncovered,
    pipelines,
    reconfigured,
    template_sizes,
)
from placewright.instances.verify import verify
from placewright.rounds import solve_round


@pytest.mark.parametrize("least", range(2, 8))
def test_the_largest_uncovered_number_is_that_of_enumeration(least: int) -> None:
    for count in range(2, least + 3):
        sizes = range(least, least + count)
        covered = [any(True for _ in compositions(n, sizes)) for n in range(1, 60)]
        assert largest_uncovered(sizes) == max(n for n, c in enumerate(covered, 1) if not c)
        if count >= least:
            assert largest_uncovered(sizes) == least - 1


def test_one_size_alone_has_no_largest_uncovered_number() -> None:
    with pytest.raises(InvalidInputError):
        largest_uncovered(range(3, 4))
    assert largest_uncovered(range(1, 2)) == -1


@pytest.mark.parametrize("failures", range(4))
@pytest.mark.parametrize("least", range(1, 5))
def test_enough_pipelines_of_the_templates_use_every_number_of_hosts(
    failures: int, least: int
) -> None:
    for hosts in range((failures + 1) * least, 16):
        sizes = template_sizes(hosts, failures, least)
        if len(sizes) <= least - 1:
            continue
        for left in range((failures + 1) * least, hosts + 1):
            assert any(len(c) >= failures + 1 for c in compositions(left, sizes))


def test_the_worked_case_of_thirteen_hosts() -> None:
    assert template_sizes(13, 2, 2) == range(2, 10)
    for left in range(6, 14):
        assert any(len(c) >= 3 for c in compositions(left, range(2, 10)))
        assert any(len(c) >= 3 for c in compositions(left, range(2, 4)))
    assert not any(len(c) >= 3 for c in compositions(5, range(2, 10)))
    with pytest.raises(InvalidInputError, match="at least 6 hosts for 3 pipelines"):
        template_sizes(5, 2, 2)


def test_the_artifacts_instantiation_of_thirteen_hosts() -> None:
    every = list(compositions(13, range(2, 8)))
    assert len(every) == len(set(every)) == 17
    assert all(sum(c) == 13 for c in every)
    assert sum(len(c) >= 3 for c in every) == 16


@pytest.mark.parametrize(
    ("survivors", "expected"),
    [
        ((2, 2, 4, 5), (2, 2, 4, 5)),
        ((1, 3, 4, 5), (2, 3, 4, 4)),
        ((1, 1, 4, 5), (2, 2, 3, 4)),
        ((2, 1, 1, 5), (2, 2, 2, 3)),
        ((1, 0, 0, 2), (3,)),
        ((1, 1, 1, 1), (2, 2)),
        ((1, 1, 1, 2), (2, 3)),
    ],
)
def test_the_artifacts_reconfigurations(
    survivors: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert reconfigured(survivors, range(2, 6)) == expected


def test_too_few_survivors_have_no_configuration() -> None:
    with pytest.raises(InvalidInputError, match="expected hosts that pipelines can use"):
        reconfigured((1, 0), range(2, 6))


@pytest.mark.parametrize(("cut", "seconds"), [(1, 57), (2, 43), (3, 46)])
def test_the_iteration_time_of_two_stages(cut: int, seconds: int) -> None:
    assert iteration_s([1, 2, 3, 2], [cut], 8) == seconds


@pytest.mark.parametrize("left", range(5, 14))
def test_a_round_of_pipelines_uses_every_host_that_is_left(left: int) -> None:
    """Thirteen hosts, two failures to survive, two hosts for a model."""
    entries = [
        {"name": f"h[00-{left - 1:02}]", "gpus": 4, "gpu_model": "A40"},
        {"name": f"h[{left:02}-13]", "gpus": 4, "gpu_model": "A40", "healthy": False},
    ]
    round_ = Round(
        cluster=ClusterDocument.model_validate({"hosts": entries}),
        jobs=pipelines(3, template_sizes(13, 2, 2), TaskGroup(gpu=4)),
        policy=Policy(terms=("progress", "value")),
    )
    plan = solve_round(round_, gap=0.0, isolation="none")
    assert verify(round_, plan).ok
    started = [d for d in plan.decisions if d.decision is DecisionKind.START]
    assert len(started) == (3 if left >= 6 else 2)
    assert sum(len(d.tasks) for d in started) == left

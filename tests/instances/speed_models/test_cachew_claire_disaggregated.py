"""Menus of Cachew, CLAIRE and disaggregated serving: their figures, and their bundled rounds."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from placewright import Round, load_round, solve_round, verify
from placewright.instances import verify as verification
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Decision, DecisionKind
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models import cachew, claire, disaggregated

LIBRARY = Path(verification.__file__).parents[1] / "library"


def menus(name: str) -> dict[str, tuple[Option, ...]]:
    """Return the options of the jobs of a bundled round."""
    return {job.name: job.options for job in load_round(LIBRARY / f"{name}.yaml").jobs}


def started(round_: Round) -> dict[str, tuple[Option, Decision]]:
    """Return the option and the decision of each job that starts."""
    plan = solve_round(round_, time_limit=10)
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert plan.certificate.terms[0].gap == 0
    jobs = {job.name: job for job in round_.jobs}
    return {
        d.job: (jobs[d.job].options[d.option or 0], d)
        for d in plan.decisions
        if d.decision is DecisionKind.START
    }


@pytest.mark.parametrize("input_s", [20, 50, 200])
def test_the_scaler_of_cachew_stops_at_14_workers(input_s: int) -> None:
    assert cachew.workers_needed(input_s, 1) == input_s
    assert cachew.workers_of_scaler(input_s, 1) == 14


def test_the_scaler_stops_where_training_waits_for_nothing() -> None:
    assert cachew.workers_of_scaler(5, 2) == cachew.workers_needed(5, 2) == 3


@pytest.mark.parametrize(("cores", "workers"), [(64, 50), (30, 29), (8, 7)])
def test_training_has_as_many_workers_as_it_needs_or_cores_allow(cores: int, workers: int) -> None:
    options = cachew.options(50, 1, trainer=TaskGroup(gpu=1, cpu=1))
    job = {"name": "train", "options": [o.model_dump(mode="json") for o in options]}
    host = {"name": "h0", "gpus": 1, "gpu_model": "x", "cpu": cores}
    round_ = Round.model_validate({"cluster": {"hosts": [host]}, "jobs": [job]})
    option, _ = started(round_)["train"]
    assert option.name == f"w{workers}"
    assert option.value == 20 * workers


def test_the_round_of_cachew_is_its_menu() -> None:
    trainer = TaskGroup(name="trainer", gpu=1, cpu=2)
    made = {n: cachew.options(t, 1, trainer=trainer) for n, t in (("images", 6), ("text", 4))}
    assert menus("cachew") == made


def test_claire_needs_the_larger_switch() -> None:
    assert [claire.memory_mib(2048, 100, p) for p in (64, 128, 256)] == [51_200, 25_600, 12_800]
    worker = TaskGroup(gpu=4)
    made = claire.options(2048, 100, (64, 128, 256), switch="switch", worker=worker)
    assert menus("claire") == {"registration": made}
    option, decision = started(load_round(LIBRARY / "claire.yaml"))["registration"]
    assert option.value == 256
    assert {task.host[0] for task in decision.tasks} == {"a"}


def test_pairs_of_instances_are_those_that_no_other_beats() -> None:
    prefill, decode = (TaskGroup(gpu=gpu) for gpu in (2, 1))
    options = disaggregated.options(3, 2, 5, prefill=prefill, decode=decode, level="rack")
    assert menus("disaggregated") == {"chat": options, "code": options}
    rate = {(p, d): min(3 * p, 2 * d) for p, d in product(range(1, 5), repeat=2) if p + d <= 5}
    for option in options:
        p, d = (group.count for group in option.groups)
        assert option.value == rate[p, d]
        fewer = [pair for pair in rate if pair != (p, d) and pair[0] <= p and pair[1] <= d]
        assert all(rate[pair] < rate[p, d] for pair in fewer)
    assert max(option.value or 0 for option in options) == max(rate.values())


def test_prefill_and_decode_share_a_rack() -> None:
    found = started(load_round(LIBRARY / "disaggregated.yaml"))
    for _, decision in found.values():
        assert len({task.host[0] for task in decision.tasks}) == 1


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="needs 65 workers; expected at most 64"):
        cachew.options(65, 1)
    with pytest.raises(InvalidInputError, match="gpus: 6: expected a multiple of 4 up to 8"):
        claire.options(8, 1, (6,), switch="switch", worker=TaskGroup(gpu=4))
    one = TaskGroup(gpu=1)
    with pytest.raises(InvalidInputError, match=r"decode_rate: 0\.4: expected 1 or more; count"):
        disaggregated.options(2, 0.4, 5, prefill=one, decode=one, level="rack")
    with pytest.raises(InvalidInputError, match="most: 1: expected 2 or more"):
        disaggregated.options(1, 1, 1, prefill=one, decode=one, level="rack")

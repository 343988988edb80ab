"""The bundled rounds of interleaving have the answers that their comments state, by brute force."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from placewright.instances import verify as verification
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.io.files import load_round
from tests.formulations.interleaving import oracle

LIBRARY = Path(verification.__file__).parents[1] / "library"
NAMES = (
    "interleaving-four-stages",
    "kube-knots",
    "muri-running",
    "strict-sharing",
    "synergy",
    "muri",
)


def load(name: str) -> Round:
    return load_round(LIBRARY / f"{name}.yaml")


def stated(name: str) -> int:
    """The value of the first term that a comment states."""
    text = (LIBRARY / f"{name}.yaml").read_text(encoding="utf-8")
    return int(re.findall(r"^# Answer: \w+ (\d+)", text, flags=re.MULTILINE)[0])


def groups_of(plan: Plan) -> list[dict[str, Any]]:
    (section,) = [section for section in plan.sections if section["kind"] == "groups"]
    groups: list[dict[str, Any]] = section["groups"]
    return groups


def members(group: dict[str, Any]) -> dict[str, int]:
    return {member["job"]: member["offset"] for member in group["members"]}


@pytest.mark.nightly(after=3)
@pytest.mark.parametrize("name", NAMES)
def test_no_plan_is_worth_more_than_the_stated_answer(name: str) -> None:
    best = oracle.best(load(name))
    assert best.value == stated(name)
    assert verification.verify(load(name), best.plan).ok


def test_two_alternating_jobs_lie_two_slots_apart() -> None:
    (group,) = groups_of(oracle.best(load("interleaving-four-stages")).plan)
    offsets = members(group)
    assert (offsets["other"] - offsets["alternate"]) % 4 == 2
    assert group["period"] == 80_000


@pytest.mark.nightly
def test_the_best_group_of_all_is_not_in_the_best_plan_of_muris_models() -> None:
    round_ = load("muri")
    best, other = groups_of(oracle.best(round_).plan)
    assert set(members(best)) == {"a2c", "dqn", "gpt2", "vgg16"}
    assert set(members(other)) == {"bert", "resnet18", "shufflenet", "vgg19"}
    one_gpu = round_.model_dump()
    one_gpu["cluster"]["hosts"][0]["gpus"] = 1
    (single,) = groups_of(oracle.best(Round.model_validate(one_gpu)).plan)
    assert set(members(single)) == {"a2c", "bert", "dqn", "gpt2"}


def test_a_job_joins_a_group_that_stays_where_it_runs() -> None:
    plan = oracle.best(load("muri-running")).plan
    assert [d.decision.value for d in plan.decisions] == [*["keep"] * 4, "start"]
    assert set(members(groups_of(plan)[0])) == {"dqn", "gpt2", "a2c"}


@pytest.mark.parametrize(
    ("rule", "value"), [({"correlation": None}, 9_076_920), ({"percentile": 100}, 6_000_000)]
)
def test_each_rule_of_kube_knots_decides_something(rule: dict[str, Any], value: int) -> None:
    """Without correlations two services share well; by their peaks none can share at all."""
    round_ = load("kube-knots")
    other = round_.model_copy(update={"sharing": round_.sharing.model_copy(update=rule)})
    assert oracle.best(other).value == value

"""Jobs that wait since their tasks keep apart say so, and the verifier refutes another level."""

from __future__ import annotations

from typing import Any

import pytest

from placewright import solve_round, verify
from placewright.instances.derived.reason_text import reason_text
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round

EMPTY = "even when all is empty"


def waits(group: dict[str, Any]) -> tuple[Round, Plan, str]:
    """One job in two racks of two hosts of 8 GPUs."""
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": f"r{r}", "level": "rack"} for r in range(2)],
                "hosts": [
                    {"name": f"r{r}h[0-1]", "parent": f"r{r}", "gpus": 8, "gpu_model": "X"}
                    for r in range(2)
                ],
            },
            "jobs": [{"name": "j", "options": [{"groups": [group]}]}],
        }
    )
    plan = solve_round(round_, time_limit=2.0, isolation="none")
    assert verify(round_, plan).ok
    (decision,) = plan.decisions
    assert decision.reason is not None
    return round_, plan, reason_text(decision.reason, decision.detail)


@pytest.mark.parametrize(
    ("group", "why"),
    [
        (
            {"count": 3, "gpu": 4, "apart": {"level": "rack"}},
            f"at most 2 of 3 tasks fit {EMPTY}, since they keep apart by rack",
        ),
        (
            {"count": 3, "gpu": 4, "apart": {"level": "host"}, "required": "rack"},
            f"at most 2 of 3 tasks fit one rack {EMPTY}, since they keep apart by host (rack r0)",
        ),
        (
            {"count": 5, "gpu": 8, "apart": {"level": "rack"}},
            f"at most 2 of 5 tasks fit {EMPTY} (32 GPUs free, the 5 ask 40 GPUs)",
        ),
    ],
)
def test_a_gang_that_keeps_apart_says_so_where_that_is_why(group: dict[str, Any], why: str) -> None:
    assert waits(group)[2] == why


@pytest.mark.parametrize("apart", [None, {"level": "host"}])
def test_another_level_is_refuted(apart: dict[str, Any] | None) -> None:
    round_, plan, _ = waits({"count": 3, "gpu": 4, "apart": {"level": "rack"}})
    (job,) = round_.jobs
    other = TaskGroup.model_validate({"count": 3, "gpu": 12, "apart": apart})
    option = job.options[0].model_copy(update={"groups": (other,)})
    changed = round_.model_copy(update={"jobs": (job.model_copy(update={"options": (option,)}),)})
    bare = plan.model_copy(update={"round": None, "certificate": None})
    (found,) = verify(changed, bare).violations
    assert "apart by 'rack'; expected the level of the group's field apart" in found.message

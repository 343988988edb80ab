"""Jobs that wait since their tasks keep apart or need some hosts say so; others are refuted."""

from __future__ import annotations

from typing import Any

import pytest

from placewright import solve_round, verify
from placewright.instances.derived.reason_text import reason_text
from placewright.instances.documents.arrangement import HostCount
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round

EMPTY = "even when all is empty"


def waits(*groups: dict[str, Any], **option: Any) -> tuple[Round, Plan, str]:
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
            "jobs": [{"name": "j", "options": [{"groups": groups, **option}]}],
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


TWO = {"min": 2, "max": 2}


@pytest.mark.parametrize(
    ("groups", "hosts", "why"),
    [
        (
            [{"count": 20, "gpu": 1}],
            TWO,
            f"needs exactly 2 hosts, and at most 16 of 20 tasks fit so many {EMPTY}",
        ),
        (
            [{"count": 3, "gpu": 1, "required": "rack"}],
            {"min": 3},
            f"needs at least 3 hosts, and fewer of one rack have room {EMPTY} (rack r0)",
        ),
        (
            [{"count": 9, "gpu": 1}] * 2,
            {"max": 2},
            f"needs at most 2 hosts, and fits {EMPTY} on other numbers of hosts alone",
        ),
        (
            [{"count": 9, "gpu": 1, "num_hosts": {"max": 1}}, {"gpu": 1}],
            None,
            "needs exactly 1 host for the tasks of group 0, and at most 8 of 9 tasks fit so many "
            + EMPTY,
        ),
        (
            [{"count": 40, "gpu": 1}],
            {"min": 2, "max": 4},
            f"at most 32 of 40 tasks fit {EMPTY} (32 GPUs free, the 40 ask 40 GPUs)",
        ),
    ],
)
def test_a_gang_that_needs_a_number_of_hosts_says_so(
    groups: list[dict[str, Any]], hosts: dict[str, int] | None, why: str
) -> None:
    assert waits(*groups, hosts=hosts)[2] == why


def test_another_number_of_hosts_is_refuted() -> None:
    round_, plan, _ = waits({"count": 20, "gpu": 1}, hosts=TWO)
    (job,) = round_.jobs
    option = job.options[0].model_copy(update={"hosts": HostCount(max=2)})
    changed = round_.model_copy(update={"jobs": (job.model_copy(update={"options": (option,)}),)})
    bare = plan.model_copy(update={"round": None, "certificate": None})
    (found,) = verify(changed, bare).violations
    assert "needs exactly 2 hosts; expected at most 2 hosts, what is asked" in found.message

"""What groups may be formed, and bounds, where jobs run elsewhere than they may arrive."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.rounds import solve_round

Raw = dict[str, Any]


def solved(hosts: list[Raw], jobs: list[Raw], term: str) -> Plan:
    """A round with two resources, solved; nothing went wrong on the way."""
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": [{"gpu_model": "A", **host} for host in hosts]},
            "jobs": jobs,
            "sharing": {"resources": ["a", "b"]},
            "policy": {"formulation": "interleaving", "terms": [term]},
        }
    )
    check_round(round_)
    plan = solve_round(round_, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    return plan


def job(name: str, *groups: Raw, stages: tuple[int, int] = (2, 2), **more: Any) -> Raw:
    return {
        "name": name,
        "options": [{"groups": list(groups)}],
        "profile": {"stages": list(stages)},
        **more,
    }


@pytest.mark.parametrize("term", ["throughput", "weighted_throughput", "efficiency"])
def test_a_job_that_runs_outside_its_hosts_takes_nothing_of_them(term):
    # It stays on h0; the other one has h1 for itself, and both would lose by taking turns.
    runs = {"running": {"tasks": [{"host": "h0", "gpus": [0]}]}}
    group = {"gpu": 1, "hosts": ["h1"]}
    plan = solved(
        [{"name": "h0", "gpus": 1}, {"name": "h1", "gpus": 1}],
        [job("new", group, stages=(2, 1)), job("old", group, stages=(8, 8), **runs)],
        term,
    )
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"
    assert [decision.decision.value for decision in plan.decisions] == ["start", "keep"]


@pytest.mark.parametrize("term", ["throughput", "weighted_throughput", "efficiency"])
def test_nobody_joins_a_job_that_runs_outside_its_hosts(term):
    # h1 is taken; on h0 only who runs there may stay.
    group = {"gpu": 1, "hosts": ["h1"]}
    plan = solved(
        [{"name": "h0", "gpus": 1}, {"name": "h1", "gpus": 1}],
        [
            job("new", group, stages=(8, 1)),
            job("old", group, stages=(1, 8), running={"tasks": [{"host": "h0", "gpus": [0]}]}),
            {
                "name": "alone",
                "options": [{"groups": [{"gpu": 1}]}],
                "running": {"tasks": [{"host": "h1", "gpus": [0]}]},
            },
        ],
        term,
    )
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"


def test_members_of_a_group_ask_each_task_for_its_own_memory():
    # Both tasks of the first kind fit h0 together; those of the second kind ask no memory of h1.
    groups = {"gpu": 1, "gpu_memory": "12Mi", "hosts": ["h0"]}, {"gpu": 1, "hosts": ["h1"]}
    plan = solved(
        [
            {"name": "h0", "gpus": 1, "gpu_memory": "24Mi"},
            {"name": "h1", "gpus": 1, "gpu_memory": "8Mi"},
        ],
        [job("one", *groups), job("other", *groups)],
        "throughput",
    )
    assert plan.certificate is not None
    assert [term.value for term in plan.certificate.terms] == [2_000_000]
    assert plan.certificate.status == "optimal"


def test_a_group_that_runs_where_memory_is_unknown_stays():
    small, plain = {"gpu": 1, "gpu_memory": "12Mi"}, {"gpu": 1}
    runs = {
        "running": {"tasks": [{"host": "h0", "gpus": [0]}, {"host": "h1", "gpus": [0], "group": 1}]}
    }
    plan = solved(
        [{"name": "h0", "gpus": 1, "gpu_memory": "16Mi"}, {"name": "h1", "gpus": 1}],
        [job("one", plain, plain, **runs), job("other", small, plain, **runs)],
        "efficiency",
    )
    assert [decision.decision.value for decision in plan.decisions] == ["keep", "keep"]


@pytest.mark.parametrize(
    ("hosts", "of_group", "of_option"),
    [
        ("h0 h1", {"required": "host"}, {}),
        ("h0 h1", {}, {"required": "host"}),
        ("h0 h1", {"slices": {"size": 2, "required": "host"}}, {}),
        ("h0 h0", {"apart": {"level": "host", "most": 1}}, {}),
    ],
    ids=["group", "option", "slices", "apart"],
)
def test_nobody_joins_a_job_whose_tasks_lie_as_none_may_arrive(hosts, of_group, of_option):
    # The one that runs stays as it is; all GPUs that the other one could have are taken.
    group = {"gpu": 1, "count": 2, **of_group}
    free = [(host, gpu) for host in ("h0", "h1") for gpu in (0, 1)]
    tasks = []
    for index, host in enumerate(hosts.split()):
        at = free.pop(next(n for n, (name, _) in enumerate(free) if name == host))
        tasks.append({"host": host, "gpus": [at[1]], "index": index})
    rest = [{"host": host, "gpus": [gpu], "index": n} for n, (host, gpu) in enumerate(free)]
    plan = solved(
        [{"name": "h0", "gpus": 2}, {"name": "h1", "gpus": 2}],
        [
            {**job("new", group, stages=(8, 1)), "options": [{"groups": [group], **of_option}]},
            {
                **job("old", group, stages=(1, 8), running={"tasks": tasks}),
                "options": [{"groups": [group], **of_option}],
            },
            {
                "name": "alone",
                "options": [{"groups": [{"gpu": 1, "count": 2}]}],
                "running": {"tasks": rest, "pinned": True},
            },
        ],
        "throughput",
    )
    assert [decision.decision.value for decision in plan.decisions] == ["wait", "keep", "keep"]


def test_a_pinned_job_counts_with_the_option_that_it_runs():
    speeds = {"cores": [0, 1], "memory": [0, "2Mi"], "speeds": [[500_000] * 2, [1_200_000] * 2]}
    pinned = job("pinned", {"gpu": 1}, running={"tasks": [{"host": "h0", "gpus": [0]}]})
    pinned["options"].append({"groups": [{"gpu": 1, "cpu": 1}]})
    pinned["profile"]["sensitivity"] = speeds
    pinned["running"] |= {"option": 1, "pinned": True}
    plan = solved(
        [{"name": "h0", "gpus": 2, "cpu": 4, "memory": "8Mi"}],
        [pinned, job("one", {"gpu": 1}), job("other", {"gpu": 1})],
        "throughput",
    )
    assert plan.certificate is not None
    (term,) = plan.certificate.terms
    assert (term.value, term.bound) == (3_200_000, 3_200_000)

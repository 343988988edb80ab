"""Volcano's HyperNodes: tiers become levels, and a pod group may ask for one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.instances.kubernetes.dumps import convert, node, pod


def hyper_node(name: str, tier: int, *selectors: Any, of: str = "Node") -> Any:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": [{"type": of, "selector": one} for one in selectors]},
    }


def exact(name: str) -> Any:
    return {"exactMatch": {"name": name}}


NODES = [node(f"n{i}", labels={"rack": str(i // 2)}) for i in range(4)]
TREE = [
    hyper_node("s0", 1, exact("n0"), exact("n1")),
    hyper_node("s1", 1, {"labelMatch": {"matchLabels": {"rack": "1"}}}),
    hyper_node("s2", 2, exact("s0"), exact("s1"), exact("gone"), of="HyperNode"),
]


def test_tiers_are_levels_with_the_highest_outermost(tmp_path):
    cluster = convert(tmp_path, *NODES, *TREE).round.cluster
    assert cluster.levels == ("hypernode-tier-2", "hypernode-tier-1")
    assert [host.parent for host in cluster.hosts] == ["s2/s0", "s2/s0", "s2/s1", "s2/s1"]


@pytest.mark.parametrize("mode", ["hard", "soft"])
def test_a_group_may_ask_for_a_tier(tmp_path, mode):
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ns"},
        "spec": {"minMember": 1, "networkTopology": {"mode": mode, "highestTierAllowed": 1}},
    }
    member = pod("p", meta={"annotations": {"scheduling.k8s.io/group-name": "g"}})
    (job,) = convert(tmp_path, *NODES, *TREE, group, member).round.jobs
    required, preferred = job.options[0].required, job.options[0].groups[0].preferred
    expected = ("hypernode-tier-1", None) if mode == "hard" else (None, ("hypernode-tier-1",))
    assert (required, preferred) == expected


def test_a_circle_ends_and_a_regular_expression_is_not_run(tmp_path):
    circle = [hyper_node("a", 1, exact("b"), of="HyperNode")]
    circle.append(hyper_node("b", 2, exact("a"), exact("b"), of="HyperNode"))
    evil = hyper_node("c", 1, {"regexMatch": {"pattern": "(a+)+$"}})
    made = convert(tmp_path, node("a" * 40 + "b"), *circle, evil)
    assert made.book.unsaid["members of a HyperNode by regular expression"] == ["c"]

"""Hostile dumps of Kubernetes: one clear line, or a round in which every object is counted."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from placewright.instances.converters import read_kubernetes
from placewright.instances.errors import InvalidInputError
from tests.instances.kubernetes import test_kueue as kueue
from tests.instances.kubernetes.dumps import CAPTURED, SAMPLES, convert, node, pod
from tests.instances.kubernetes.test_gangs import group, member
from tests.instances.kubernetes.test_hyper_nodes import NODES, TREE

MUTATIONS = 500
NASTY: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 1.5, 1e308, float("nan")),
    *("", "x", "-1", "1e9", "9" * 5000, "8Zi", "1Ei", "999999999999999999Ei", "\x1b[31m", "a/../b"),
    *(
        "<script>",
        "name\nwith\nlines",
        "a" * 300,
        "2026-11-20T09:00:00Z",
        "9999-99-99",
        "0001-01-01T00:00:00Z",
    ),
    *(
        [],
        {},
        [None],
        [[]],
        {"": ""},
        {"items": []},
        ["x"] * 3,
        {"requests": {"nvidia.com/gpu": "1"}},
    ),
)
KINDS = {("", "Node"): "nodes", ("", "Pod"): "pods", ("kueue.x-k8s.io", "Workload"): "workloads"}


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container of a document with each of its keys."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one))
        for key in keys:
            yield one, key
            if isinstance(one[key], dict | list):
                waiting.append(one[key])


def mutated(document: Any, dice: random.Random) -> Any:
    """Change one to four places: another value, a value from elsewhere, gone, or twice."""
    made = copy.deepcopy(document)
    for _ in range(dice.randint(1, 4)):
        found = list(places(made))
        holder, key = dice.choice(found)
        how = dice.randrange(5)
        if how == 0:
            holder[key] = copy.deepcopy(dice.choice(NASTY))
        elif how == 1:
            other, at = dice.choice(found)
            holder[key] = copy.deepcopy(other[at])
        elif how == 2:
            del holder[key]
        elif how == 3 and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        elif isinstance(holder, dict):
            holder[dice.choice(("name", "x", "nvidia.com/gpu", "\x1b]0;"))] = holder.pop(key)
    return made


def group_of(item: Any) -> str:
    """The API group of an object."""
    return item["apiVersion"].rpartition("/")[0]


def handmade() -> Any:
    """A dump of what the captured ones do not have: KAI, Volcano, cohorts, HyperNodes."""
    groups = [group(sign) for sign in ("kai", "volcano", "coscheduling")]
    groups[0]["spec"]["queue"] = "a"
    groups[1]["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    signs = ("kai", "kai", "volcano", "volcano", "lws", "Job")
    kai = {"resources": {"gpu": {"quota": 8, "limit": -1}}, "parentQueue": "all"}
    queue = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "a"},
        "spec": kai,
    }
    cohort = kueue.of("Cohort", "c", spec={"parentName": "d"})
    own = kueue.queue("cq", "16", cohort="c", limit="4", fairSharing={"weight": "2"})
    assigned = kueue.workload(status=kueue.admitted("n0", "n1"))
    pods = [member(f"p{i}", sign) for i, sign in enumerate(signs)]
    items = [*NODES, *TREE, *groups, *pods, queue, cohort, own, kueue.LOCAL, assigned]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def documents() -> list[Any]:
    """The samples as one List, and one of each form of captured states, cut short."""
    files = [[SAMPLES / "nodes-pods.json", SAMPLES / "queues.json"]]
    names = ("kueue-tas-seed5", "kube-scheduler-gang-seed3-ours")
    files += [sorted((CAPTURED / n).glob("*.json")) for n in names if (CAPTURED / n).is_dir()]
    made = [handmade()]
    for part in files:
        kinds: dict[str, list[Any]] = {}
        for file in part:
            for item in json.loads(file.read_text())["items"]:
                kinds.setdefault(item["kind"], []).append(item)
        items = [one for of_kind in kinds.values() for one in of_kind[:6]]
        made.append({"apiVersion": "v1", "kind": "List", "items": items})
    return made


def test_changed_dumps_give_one_clear_line_or_count_every_object(tmp_path):
    dice, file = random.Random(39), tmp_path / "dump.json"
    originals = documents()
    converted = 0
    for number in range(MUTATIONS):
        document = mutated(originals[number % len(originals)], dice)
        file.write_text(json.dumps(document))
        try:
            made = read_kubernetes([file], movable=bool(number % 2))
        except InvalidInputError as error:
            assert str(error).startswith(str(file)), (number, error)
            assert "expected" in str(error), (number, error)
            assert str(error).isprintable() or "\n" in str(error), number
            continue
        converted += 1
        for kind, name in KINDS.items():
            there = sum(kind == (group_of(one), one.get("kind")) for one in document["items"])
            assert made.book.total(name) == there, (number, kind)
    assert converted > MUTATIONS // 10


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("metadata", "name", "x\x1b[31m"), "items[1].metadata.name: 'x\\x1b[31m': expected only"),
        (("metadata", "name", 7), "items[1].metadata.name: 7: expected a name"),
        (("spec", "containers", {}), "items[1].spec.containers: {}: expected a list"),
        (("spec", "priority", "high"), "items[1].spec.priority: 'high': expected a whole number"),
        (("metadata", "creationTimestamp", "soon"), "creationTimestamp: 'soon': expected a time"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(tmp_path, change, line):
    section, field, value = change
    wrong = pod("p")
    wrong[section][field] = value
    with pytest.raises(InvalidInputError) as caught:
        convert(tmp_path, node("a"), wrong)
    assert line in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"apiVersion": "v1", "kind": "List", "items": [{"apiV', "expected valid JSON"),
        ("[]", "an object"),
        ("{}", "kind: missing"),
        ('{"kind": "List", "apiVersion": "v1", "items": 3}', "items: 3: expected a list"),
        ('{"kind": "List", "apiVersion": "v1", "items": []}', "has no nodes"),
    ],
)
def test_a_file_that_is_no_dump_is_refused_in_one_line(tmp_path, text, line):
    file = tmp_path / "dump.json"
    file.write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        read_kubernetes([file])
    assert line in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_label_that_no_node_has_is_refused_with_the_most_similar(tmp_path):
    nodes = [node("a", labels={"example.com/rack": "r0"})]
    with pytest.raises(InvalidInputError, match=r"example.com/rak.*did you mean example.com/rack"):
        convert(tmp_path, *nodes, levels=["example.com/rak"])

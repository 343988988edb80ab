"""Who holds each GPU: whole ones, shares, groups that take turns, before and after."""

from __future__ import annotations

from typing import Any

from placewright.instances.documents.plan import Plan
from placewright.instances.io.files import parse_plan, parse_round
from placewright.report.facts.jobs import FIRST_SHARED, FREE
from placewright.report.map_data import SAME, map_data
from placewright.report.panels.subject import Subject

HEAD = {"apiVersion": "placewright/v1alpha2"}


def subject(jobs: list[dict[str, Any]], decisions: list[dict[str, Any]]) -> Subject:
    cluster = {
        "levels": ["rack"],
        "domains": [{"name": "r", "level": "rack"}],
        "hosts": [
            {"name": "h[0-1]", "parent": "r", "gpus": 4, "gpu_model": "A100"},
            {"name": "bad", "parent": "r", "gpus": 2, "gpu_model": "A100", "healthy": False},
        ],
    }
    round_ = parse_round({**HEAD, "kind": "Round", "cluster": cluster, "jobs": jobs})
    plan: Plan = parse_plan({**HEAD, "kind": "Plan", "decisions": decisions})
    return Subject(round_, [plan])


def job(name: str, gpu: str, running: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "options": [{"groups": [{"gpu": gpu}]}]}
    return made if running is None else {**made, "running": {"tasks": running}}


def test_gpus_are_held_by_one_job_or_by_parts_of_several():
    at = [{"host": "h0", "gpus": [0]}]
    whole = [{"host": "h1", "gpus": [0, 1]}]
    found = subject(
        [job("a", "0.5", at), job("b", "0.25"), job("c", "2", whole)],
        [
            {"job": "a", "decision": "keep", "option": 0, "tasks": at},
            {"job": "b", "decision": "start", "option": 0, "tasks": at},
            {"job": "c", "decision": "keep", "option": 0, "tasks": whole},
        ],
    )
    before, after = (state.tolist() for state in found.holders.states)
    assert before == [FIRST_SHARED, FREE, FREE, FREE, 2, 2, FREE, FREE, FREE, FREE]
    assert after == [FIRST_SHARED - 1, *before[1:]]
    assert found.holders.shared == (((0, 500),), ((0, 500), (1, 250)))


def test_a_map_says_only_what_is_different_afterwards():
    found = map_data(
        subject(
            [job("a", "1")],
            [
                {
                    "job": "a",
                    "decision": "start",
                    "option": 0,
                    "tasks": [{"host": "h1", "gpus": [3]}],
                }
            ],
        )
    )
    assert found["states"] == [[FREE, 10], [SAME, 7, 0, 1, SAME, 2]]
    assert found["hosts"] == ["h0", "h1", "bad"]
    assert found["gpus"] == [4, 2, 2, 1]
    assert found["domains"] == [["r"]]
    assert found["condition"] == [0, 2, 4, 1]
    assert found["gpuCondition"] == [0, 8, 4, 2]

"""A job that a plan of the integrated model stops for nothing goes on, with the current lease."""

from __future__ import annotations

from typing import Any

from placewright import solve_round
from placewright.instances.documents.round import Round

DOMAINS: list[dict[str, Any]] = [
    {"name": "b0", "level": "block"},
    {"name": "b1", "level": "block"},
    {"name": "r0", "level": "rack", "parent": "b0"},
    {"name": "r1", "level": "rack", "parent": "b1"},
]


def round_of_two_jobs() -> Round:
    """Return a round in which a job runs over two hosts, and could not get a promise that way."""
    parts = {"groups": [{"gpu": "500m"}, {"gpu": 1}]}
    wide = {
        "name": "wide",
        "options": [{"groups": [{"gpu": "900m"}]}, parts],
        "deadline": {
            "work_s": 10,
            "due": [{"at": 140, "value": 3}],
            "paces": [{}, {"overhead_s": 10}],
        },
        "running": {
            "option": 1,
            "tasks": [{"host": "h0", "gpus": [0]}, {"host": "h1", "gpus": [0], "group": 1}],
        },
    }
    promised = {
        "name": "promised",
        "options": [{"groups": [{"gpu": 1}]}],
        "deadline": {"work_s": 15, "promise": {"at": 134, "value": 19}},
        "running": {"tasks": [{"host": "h0", "gpus": [1]}]},
    }
    hosts = [{"name": f"h{i}", "gpus": 2, "gpu_model": "A", "parent": f"r{i}"} for i in range(2)]
    return Round.model_validate(
        {
            "cluster": {"levels": ["block", "rack"], "domains": DOMAINS, "hosts": hosts},
            "jobs": [wide, promised],
            "leases": {"length_s": 10},
            "policy": {"formulation": "deadline"},
        }
    )


def test_no_plan_is_dropped() -> None:
    plan = solve_round(round_of_two_jobs(), isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()

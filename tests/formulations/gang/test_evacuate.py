"""Evacuation: hosts are emptied by moves that are lawful for the whole job."""

from __future__ import annotations

from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round
from placewright.rounds import solve_round


def test_a_job_that_runs_apart_does_not_move_in_part():
    # Group 0 lies in two blocks against its required level: lawful as long as nothing of it moves.
    gang = {"gpu": 1, "count": 2, "required": "block"}
    tasks = [
        {"host": "h0", "gpus": [1]},
        {"host": "h2", "gpus": [1], "index": 1},
        {"host": "h1", "gpus": [0], "group": 1},
    ]
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["block"],
                "domains": [{"name": f"b{i}", "level": "block"} for i in range(2)],
                "hosts": [
                    {"name": f"h{i}", "gpus": 2, "gpu_model": "A", "parent": f"b{i // 2}"}
                    for i in range(3)
                ],
            },
            "jobs": [
                {
                    "name": "apart",
                    "options": [{"groups": [gang, {"gpu": 0.7}]}],
                    "running": {"tasks": tasks},
                }
            ],
            "policy": {"vacate": ["h1"], "terms": ["remaining"]},
        }
    )
    check_round(round_)
    plan = solve_round(round_, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    assert [(term.value, term.bound) for term in plan.certificate.terms] == [(0, 0)]

"""What the command line says of MIG slices and of shares with memory."""

from __future__ import annotations

from placewright.instances.documents.round import Round
from placewright.report.facts.jobs import moves_of
from placewright.rounds import solve_round


def test_a_slice_that_moves_on_its_gpu_is_shown_with_its_slots():
    asks = {"groups": [{"mig": "1g.10gb"}]}
    wants = {"groups": [{"mig": "4g.40gb"}]}
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "a", "gpus": 1, "gpu_model": "A100-SXM4-80GB"}]},
            "jobs": [
                {
                    "name": "small",
                    "options": [asks],
                    "running": {"tasks": [{"host": "a", "gpus": [0], "slot": 3}]},
                },
                {"name": "large", "options": [wants]},
            ],
            "policy": {"terms": ["value", "disruption"]},
        }
    )
    plan = solve_round(round_, gap=0.0, isolation="none")
    (move,) = moves_of({job.name: job for job in round_.jobs}, plan)
    slot = plan.decisions[0].tasks[0].slot
    assert (move.source, move.target, move.milli_gpu) == ("a:0@3", f"a:0@{slot}", 142)
    assert slot in (4, 5, 6)

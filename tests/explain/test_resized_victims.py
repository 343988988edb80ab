"""What would start a waiting job: that a running one of several sizes shrinks."""

from __future__ import annotations

from placewright.explain.corrections.find import cheapest_victims
from placewright.instances.io.files import parse_round
from placewright.instances.presets.presets import defragment, minimal_victims

ROUND = {
    "cluster": {"hosts": [{"name": "h0", "gpus": 4, "gpu_model": "A100"}]},
    "jobs": [
        {
            "name": "elastic",
            "options": [{"value": n, "groups": [{"count": n, "gpu": 1}]} for n in (4, 2)],
            "running": {
                "tasks": [{"index": i, "host": "h0", "gpus": [i]} for i in range(4)],
            },
        },
        {"name": "waits", "options": [{"value": 1, "groups": [{"gpu": 2}]}]},
    ],
    "policy": {"terms": ["value", "disruption"]},
}


def test_a_job_shrinks_where_that_is_cheapest() -> None:
    found = cheapest_victims(parse_round(ROUND), "waits", time_limit=20, isolation="none")
    assert found is not None
    assert (found.resized, found.preempted, found.migrated) == ((("elastic", 1),), (), ())
    assert found.disruption == 0


def test_presets_that_move_jobs_keep_their_sizes() -> None:
    round_ = parse_round(ROUND)
    assert minimal_victims(round_, "waits").resizes
    assert not defragment(round_, "host", 10).resizes

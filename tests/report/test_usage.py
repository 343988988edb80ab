"""GPUs in use by model: those on which jobs run on count, also on hosts that are away."""

from __future__ import annotations

from placewright import solve_round
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.io.files import parse_round
from placewright.report.facts.usage import gpu_usage


def test_no_more_than_all_gpus_are_in_use_when_a_job_runs_on_a_host_that_is_away():
    tasks = [{"host": "h0", "gpus": [0, 1]}]
    round_ = parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {
                "hosts": [
                    {"name": "h0", "gpus": 4, "gpu_model": "X", "healthy": False},
                    {"name": "h1", "gpus": 4, "gpu_model": "X"},
                ]
            },
            "jobs": [
                {
                    "name": "stays",
                    "options": [{"groups": [{"gpu": 2}]}],
                    "running": {"tasks": tasks, "pinned": True},
                },
                {"name": "starts", "options": [{"groups": [{"gpu": 4}]}]},
            ],
        }
    )
    plan = solve_round(round_, time_limit=2.0, isolation="none")
    (used,) = gpu_usage(round_, plan, build_cluster(round_.cluster))
    assert (used.gpus, used.before, used.after) == (6, 2000, 6000)

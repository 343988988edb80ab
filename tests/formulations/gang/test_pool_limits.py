"""Hosts without a limit of a resource that others list: sums of the count models stay small."""

from __future__ import annotations

import numpy as np

from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances.documents.round import Round
from placewright.topology.units import UNLIMITED


def test_a_host_without_a_limit_has_no_more_than_all_jobs_ask() -> None:
    hosts = [
        {"name": "h0", "gpus": 8, "gpu_model": "x", "resources": {"w": 30}},
        {"name": "h1", "gpus": 8, "gpu_model": "x"},
    ]
    options = [{"groups": [{"count": n, "gpu": 1, "resources": {"w": 7}}]} for n in (1, 2)]
    jobs = [{"name": f"j{i}", "options": options} for i in range(3)]
    pools = [{"resource": "w", "capacity": 50}]
    round_ = Round.model_validate({"cluster": {"hosts": hosts, "pools": pools}, "jobs": jobs})
    problem = compile_round(round_)
    w = problem.cluster.resources.index("w")
    assert problem.cleared.free[:, w].tolist() == [30, UNLIMITED]
    within = problem.within_asked(problem.cleared.free)
    assert within[:, w].tolist() == [30, 3 * 2 * 7]
    others = np.arange(within.shape[1]) != w
    assert (within[:, others] == problem.cleared.free[:, others]).all()

"""Both models of a round, and a round on which each has something to do."""

from __future__ import annotations

import pytest
from gang_parameters import set_parameters

from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round


@pytest.fixture(params=["exact", "counts"])
def model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "counts":
        set_parameters(monkeypatch, "run", max_exact_variables=-1)
    return str(request.param)


@pytest.fixture(scope="session")
def full_cluster() -> Round:
    """Two hosts of 4 GPUs for 13 asked; at best 3 GPUs start on one and 2 and 2 on the other."""
    asked = [3000] * 2 + [2000] * 3
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "h[0-1]", "gpus": 4, "gpu_model": "A"}]},
            "jobs": [
                {"name": f"job-{i}", "options": [{"groups": [{"gpu": f"{gpu}m"}]}]}
                for i, gpu in enumerate(asked)
            ],
            "policy": {"terms": ["value", "opened"]},
        }
    )
    check_round(round_)
    return round_

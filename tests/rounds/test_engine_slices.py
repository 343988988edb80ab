"""An engine carries MIG slices from one round to the next, each where its plan has put it."""

from __future__ import annotations

from typing import Any

from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import Changes, Engine


def job(name: str, **group: Any) -> dict[str, Any]:
    return {"name": name, "options": [{"groups": [group]}]}


ROUND = Round.model_validate(
    {
        "cluster": {"hosts": [{"name": "a", "gpus": 2, "gpu_model": "H100-SXM5-80GB"}]},
        "jobs": [job("one", mig="1g.10gb"), job("half", gpu=0.5, gpu_memory="60Gi")],
        "policy": {"terms": ["value", "disruption"]},
    }
)


def test_slices_and_memory_stay_taken_in_the_rounds_that_follow():
    engine = Engine(ROUND, isolation="none")
    first = engine.round()
    assert verify(ROUND, first).ok
    slot = first.decisions[0].tasks[0].slot
    assert slot is not None
    more = [
        job("four", mig="4g.40gb"),
        job("two", mig="2g.20gb"),
        job("large", gpu=0.4, gpu_memory="30Gi"),
    ]
    second = engine.round(Changes(added=[Job.model_validate(one) for one in more]))
    found = {decision.job: decision for decision in second.decisions}
    assert found["one"].decision is DecisionKind.KEEP
    assert found["one"].tasks[0].slot == slot
    assert found["four"].tasks[0].gpus == found["two"].tasks[0].gpus == found["one"].tasks[0].gpus
    assert found["large"].decision is DecisionKind.WAIT
    third = engine.round(Changes(removed=["half"]))
    found = {decision.job: decision for decision in third.decisions}
    assert found["large"].decision is DecisionKind.START
    assert {name: found[name].decision for name in ("one", "two", "four")} == dict.fromkeys(
        ("one", "two", "four"), DecisionKind.KEEP
    )

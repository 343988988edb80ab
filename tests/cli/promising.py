"""Rounds and plans with promises, made without a solver: times in minutes from now."""

from __future__ import annotations

from typing import Any

from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify

NOW, LEASE = 86_400, 1200


def job(name: str, gpus: int, leases: float, *due: tuple[int, int], **more: Any) -> dict[str, Any]:
    """Return a job of some leases of work, with times in minutes from now and values."""
    deadline = {
        "work_s": round(leases * LEASE),
        "due": [{"at": NOW + 60 * at, "value": value} for at, value in due],
        **more.pop("deadline", {}),
    }
    return {
        "name": name,
        "options": [{"groups": [{"gpu": gpus}]}],
        "deadline": deadline,
        **more,
    }


def promised(name: str, at: int, value: int, finish: int, *leases: list[int]) -> dict[str, Any]:
    """Return a promise as the section of a plan has it, with times in minutes from now."""
    return {
        "job": name,
        "option": 0,
        "promise": {"at": NOW + 60 * at, "value": value},
        "finish": NOW + 60 * finish,
        "leases": list(leases),
    }


def before(at: int, value: int) -> dict[str, Any]:
    return {"promise": {"at": NOW + 60 * at, "value": value}}


def document(jobs: list[dict[str, Any]], **more: Any) -> Round:
    """Return a round of two hosts of 8 GPUs."""
    return Round.model_validate(
        {
            "name": "promises",
            "now": NOW,
            "cluster": {"hosts": [{"name": "a[0-1]", "gpus": 8, "gpu_model": "H100"}]},
            "jobs": jobs,
            "policy": {"formulation": "deadline"},
            "leases": {"horizon": 50},
            **more,
        }
    )


def planned(round_: Round, places: dict[str, tuple[str, int, int]], **section: Any) -> Plan:
    """Return the plan that places these jobs on a host, from one GPU to before another."""
    given = {entry["job"] for entry in section.get("jobs", ())}
    decisions = [
        {
            "job": j.name,
            "decision": "start",
            "option": 0,
            "tasks": [{"host": places[j.name][0], "gpus": list(range(*places[j.name][1:]))}],
        }
        if j.name in places
        else {
            "job": j.name,
            "decision": "wait",
            "reason": "promised_later" if j.name in given else "refused",
        }
        for j in round_.jobs
    ]
    listed = {"jobs": [], "broken": [], "refused": [], **section}
    return Plan.model_validate(
        {
            "decisions": decisions,
            "sections": [{"kind": "leases", "length": round_.leases.length_s, **listed}],
        }
    )


def offered(name: str, finish: int, *leases: list[int]) -> dict[str, Any]:
    """Return a refused job with its offer."""
    return {"job": name, "offer": {"option": 0, "at": NOW + 60 * finish, "leases": list(leases)}}


def lost() -> tuple[Round, Plan]:
    """Return a round that loses a host for three leases, and a plan that breaks one promise."""
    round_ = document(
        [
            job("old", 4, 3, (60, 70), deadline=before(60, 70)),
            job("lost", 8, 4, (80, 50), deadline=before(80, 50)),
            job("resnet", 8, 3, (160, 100)),
            job("bert", 8, 2, (40, 80), (160, 40)),
            job("much", 8, 5, (100, 30)),
            job("past", 8, 5, (-100, 20)),
            job("batch", 4, 9),
        ],
        leases={
            "horizon": 50,
            "outages": [{"host": "a1", "start": NOW + 1200, "end": NOW + 4800}],
        },
    )
    plan = planned(
        round_,
        {"old": ("a0", 0, 4), "batch": ("a0", 4, 8), "bert": ("a1", 0, 8)},
        jobs=[
            promised("old", 60, 70, 60, [0, 3]),
            promised("resnet", 160, 100, 140, [4, 7]),
            promised("bert", 160, 40, 100, [0, 1], [4, 5]),
        ],
        broken=[{"job": "lost", **before(80, 50)}],
        refused=[
            offered("lost", 160, [3, 4], [5, 8]),
            offered("much", 180, [3, 4], [5, 9]),
            offered("past", 180, [3, 4], [5, 9]),
        ],
    )
    assert verify(round_, plan).violations == ()
    return round_, plan


OUTAGE = {"host": "a1", "start": NOW + 2 * LEASE, "end": NOW + 4 * LEASE}


def small() -> tuple[Round, Plan]:
    """Return a valid plan with a job of each kind."""
    round_ = document(
        [
            job("soon", 8, 3, (60, 9)),
            job("soft", 8, 2, (40, 9), (120, 5)),
            job("refused", 16, 2, (80, 4)),
            job("batch", 4, 99),
        ],
        leases={"horizon": 50, "outages": [OUTAGE]},
    )
    plan = planned(
        round_,
        {"soon": ("a0", 0, 8), "batch": ("a1", 0, 4)},
        jobs=[promised("soon", 60, 9, 60, [0, 3]), promised("soft", 120, 5, 80, [1, 2], [3, 4])],
        refused=[offered("refused", 120, [4, 6])],
    )
    assert verify(round_, plan).violations == ()
    return round_, plan


def many(jobs: int) -> tuple[Round, Plan]:
    """Return a valid plan of jobs on one GPU and of one lease each, 16 in a lease but the first."""
    due = [20 * (2 + i // 16) for i in range(jobs)]
    round_ = document(
        [job(f"j{i}", 1, 1, (due[i], 1 + i % 7)) for i in range(jobs)], leases={"horizon": 500}
    )
    plan = planned(
        round_,
        {},
        jobs=[
            promised(f"j{i}", due[i], 1 + i % 7, due[i], [1 + i // 16, 2 + i // 16])
            for i in range(jobs)
        ],
    )
    assert verify(round_, plan).violations == ()
    return round_, plan

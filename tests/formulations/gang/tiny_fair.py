"""Hypothesis strategies of tiny rounds whose tenants have guarantees and weights."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fuzz.small_units import as_document
from placewright.instances.checks.round import check_round
from placewright.instances.documents.policy import Policy, Tenant
from placewright.instances.documents.round import Round
from tests.formulations.gang.tiny import chance, running_rounds

NAMES = ("red", "blue", "green")


@st.composite
def tenants(draw: st.DrawFn) -> list[Tenant]:
    """Two or three tenants, most of them with a guarantee of GPUs, some with a cap above it."""
    found = []
    for name in NAMES[: draw(st.sampled_from([2, 2, 3]))]:
        guarantee: dict[str, int] = {}
        if not draw(chance(4)):
            guarantee["gpu"] = draw(st.integers(0, 4)) * 1000
        if draw(chance(4)):
            guarantee["cpu"] = draw(st.integers(0, 5))
        quota = {}
        if draw(chance(5)):
            quota["gpu"] = guarantee.get("gpu", 1000) + draw(st.integers(0, 3)) * 1000
        weight = draw(st.sampled_from([1, 1, 2, 3]))
        found.append(Tenant(name=name, guarantee=guarantee, quota=quota, weight=weight))
    return found


@st.composite
def fair_rounds(draw: st.DrawFn, *, whole: bool = False, **kinds: Any) -> Round:
    """A tiny round in which some jobs run, as `running_rounds`, with `entitled` or `share` early.

    One of these terms is the first or the second; the other may follow anywhere.
    """
    round_ = draw(running_rounds(preset=None, whole=whole, **kinds))
    owners = draw(tenants())
    names = [None, *(owner.name for owner in owners)] + [owner.name for owner in owners]
    jobs = tuple(
        job.model_copy(
            update={"tenant": draw(st.sampled_from(names)), "opportunistic": draw(chance(7))}
        )
        for job in round_.jobs
    )
    first, second = draw(st.permutations(["entitled", "share"]))
    terms = list(round_.policy.terms)
    terms.insert(draw(st.sampled_from([0, 0, 1])), first)
    if draw(st.booleans()):
        terms.insert(draw(st.integers(0, len(terms))), second)
    policy = Policy.model_validate({**round_.policy.model_dump(), "terms": terms})
    fair = round_.model_copy(update={"tenants": tuple(owners), "jobs": jobs, "policy": policy})
    check_round(fair)
    return fair


@st.composite
def full_rounds(draw: st.DrawFn) -> Round:
    """Two full hosts; what waits may claim some of them back, whatever its priority."""
    sizes = st.sampled_from([1000, 2000, 1000, 3000, 500])
    hosts = [{"name": f"h{i}", "gpus": 3, "gpu_model": "A"} for i in range(2)]
    jobs: list[dict[str, Any]] = []

    def job(tenant: str, gpu: int, count: int = 1, **fields: Any) -> None:
        group = {"gpu": gpu, "count": count}
        jobs.append(
            {
                "name": f"{tenant}-{len(jobs)}",
                "tenant": tenant,
                "priority": draw(st.sampled_from([0, 1, 2] if "running" in fields else [0, 0, 1])),
                "options": [{"groups": [group]}],
                **fields,
            }
        )

    for host in hosts:
        free = [0, 1, 2]
        while free:
            gpu = min(draw(sizes), 1000 * len(free))
            mine, free = free[: max(1, gpu // 1000)], free[max(1, gpu // 1000) :]
            tasks = [{"host": host["name"], "gpus": mine}]
            pinned = draw(chance(6))
            job(draw(st.sampled_from(NAMES[1:])), gpu, running={"tasks": tasks, "pinned": pinned})
    for _ in range(draw(st.integers(1, 3))):
        count = draw(st.sampled_from([1, 1, 2]))
        job(draw(st.sampled_from(["red", "red", "blue"])), draw(sizes), count)
    owners = [
        {"name": name, "guarantee": {"gpu": draw(st.integers(0, 4)) * 1000}} for name in NAMES
    ]
    terms = draw(st.permutations(["entitled", "share", "value", "disruption"]))
    round_ = Round.model_validate(
        as_document(
            {
                "cluster": {"hosts": hosts},
                "tenants": owners,
                "jobs": jobs,
                "policy": {
                    "terms": terms[: draw(st.integers(2, 4))],
                    "priority": "preemption",
                },
            }
        )
    )
    check_round(round_)
    return round_

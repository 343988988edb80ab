"""Tenants with guarantees and weights: who is entitled, who is preempted, how shares come out."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from gang_parameters import set_parameters

from placewright import load_round, solve_round, verify
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.limits import borrowing_options
from placewright.instances import verify as verification
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import parse_round
from placewright.instances.verify.rules.gang.waiting import Entitlement
from placewright.rounds import Changes, Engine

LIBRARY = Path(verification.__file__).parents[1] / "library"
BACKENDS = ("highs", "cp-sat", "cbc", "scip")
KUEUE = "kueue-reclaim"
Raw = dict[str, Any]

# Capacity, what a task of a and of b asks (CPU, memory), weights, and the tasks of each that run.
DRF: dict[str, tuple[tuple[int, int], list[tuple[int, int]], list[int], tuple[int, int]]] = {
    "drf-nsdi11": ((9, 18), [(1, 4), (3, 1)], [1, 1], (3, 2)),
    "drf-100-cpus": ((100, 10_000), [(2, 300), (6, 100)], [1, 1], (20, 10)),
    "drf-weighted": ((100, 10_000), [(2, 300), (6, 100)], [1, 2], (14, 12)),
}


def started(plan: Plan) -> Counter[str]:
    """How many jobs of each tenant start, by the first letter of their names."""
    return Counter(d.job[0] for d in plan.decisions if d.decision is DecisionKind.START)


def terms_of(plan: Plan) -> dict[str, int]:
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    return {term.name: term.value for term in plan.certificate.terms}


@pytest.mark.parametrize("name", DRF)
def test_no_division_is_fairer_than_the_stated_one(name: str) -> None:
    capacity, asks, weights, answer = DRF[name]

    def shares(tasks: tuple[int, ...]) -> list[int]:
        """The dominant shares, smallest first."""
        return sorted(
            max(100_000 * n * a // (c * w) for a, c in zip(ask, capacity, strict=True))
            for n, ask, w in zip(tasks, asks, weights, strict=True)
        )

    fits = [
        tasks
        for tasks in product(range(60), repeat=2)
        if all(
            sum(n * ask[r] for n, ask in zip(tasks, asks, strict=True)) <= capacity[r]
            for r in range(2)
        )
    ]
    fairest = max(map(shares, fits))
    assert [tasks for tasks in fits if shares(tasks) == fairest] == [answer]
    stated = f"# Answer: share {fairest[0]}, share_2 {sum(fairest)}"
    assert stated in (LIBRARY / f"{name}.yaml").read_text().splitlines()


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", DRF)
def test_each_worked_example_runs_the_published_numbers_of_tasks(
    name: str, backend: str, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is taken for a round too large for the exact model."""
    if large:
        set_parameters(monkeypatch, "run", max_exact_variables=-1)
    round_ = load_round(LIBRARY / f"{name}.yaml")
    plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
    assert verify(round_, plan).ok
    assert tuple(started(plan).values()) == DRF[name][-1]
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"


def test_kueue_reclaims_the_last_borrowed_job_whatever_its_priority() -> None:
    plan = solve_round(load_round(LIBRARY / f"{KUEUE}.yaml"), isolation="none")
    found = {d.job: d for d in plan.decisions}
    assert {name: (d.decision.value, d.displaced_by) for name, d in found.items()} == {
        "a-1": ("keep", ()),
        "a-2": ("keep", ()),
        "a-3": ("preempt", ("b-2",)),
        "a-4": ("wait", ()),
        "b-1": ("keep", ()),
        "b-2": ("start", ()),
        "b-3": ("wait", ()),
    }
    assert found["a-4"].reason is Reason.QUOTA


def job(name: str, *gpus: int, on: int | None = None, **fields: Any) -> Raw:
    """A job of the tenant that its name begins with; `on` is its first GPU on the only host."""
    raw: Raw = {"name": name, "options": [{"groups": [{"gpu": n}]} for n in gpus], **fields}
    if name[0] in "ab":
        raw["tenant"] = name[0]
    if on is not None:
        raw["running"] = {"tasks": [{"host": "h", "gpus": list(range(on, on + gpus[0]))}]}
    return raw


def round_of(*jobs: Raw, gpus: int = 8, **fields: Any) -> Round:
    """One host; a may always claim 4 GPUs, and b as well."""
    return parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {"hosts": [{"name": "h", "gpus": gpus, "gpu_model": "A"}]},
            "tenants": [{"name": name, "guarantee": {"gpu": 4}} for name in "ab"],
            "jobs": list(jobs),
            "policy": {"terms": ["entitled", "value", "disruption"]},
            **fields,
        }
    )


STANDINGS: dict[str, tuple[list[Raw], set[tuple[str, int]]]] = {
    "by priority, running first, as in the round": (
        [job("a1", 2), job("a2", 2, on=0), job("a3", 2, priority=1), job("a4", 2, priority=1)],
        {("a1", 0)},
    ),
    "nobody takes the entitlement of one that runs": (
        [job("a1", 4, on=0), job("a2", 4, priority=9), job("a3", 4)],
        {("a3", 0)},
    ),
    "a running job that is too large is passed over, but counts for those that wait": (
        [job("a1", 6, on=0, priority=1), job("a2", 2, on=6), job("a3", 1)],
        {("a1", 0), ("a3", 0)},
    ),
    "what asks too much claims nothing": (
        [job("a1", 5, priority=1), job("a2", 4), job("a3", 1)],
        {("a1", 0), ("a3", 0)},
    ),
    "option by option, and the largest within is claimed": (
        [job("a1", 1, 3, 5, priority=1), job("a2", 1, 2)],
        {("a1", 2), ("a2", 1)},
    ),
    "the opportunistic are never entitled, and take nothing": (
        [job("a1", 4, on=0, opportunistic=True), job("a2", 4), job("c", 1, opportunistic=True)],
        {("a1", 0), ("c", 0)},
    ),
    "of no tenant, or of one without a guarantee, all are": ([job("c", 8), job("d", 8)], set()),
}


@pytest.mark.parametrize("name", STANDINGS)
def test_entitlement_goes(name: str) -> None:
    jobs, borrowed = STANDINGS[name]
    round_ = round_of(*jobs)
    found = borrowing_options(round_)
    offered = [(j, o) for j, one in enumerate(round_.jobs) for o in range(len(one.options))]
    assert {(round_.jobs[j].name, o) for j, o in offered if o in found.get(j, ())} == borrowed
    entitlement = Entitlement(round_)
    assert {
        (round_.jobs[j].name, o)
        for j, o in offered
        if not entitlement.of(round_.jobs[j], o).entitled
    } == borrowed


def test_a_resource_that_the_guarantee_does_not_name_is_not_limited() -> None:
    free = {"gpu": 0, "cpu": 64}
    raw = {"name": "a2", "tenant": "a", "options": [{"groups": [free]}]}
    assert borrowing_options(round_of(job("a1", 6, on=0, priority=1), raw)) == {0: (0,)}


def test_rounds_without_guarantees_have_the_ranks_of_their_priorities() -> None:
    jobs = [job("a1", 2, on=0, priority=3), job("b1", 2, on=2), job("a2", 2, priority=2)]
    tenants = [{"name": name} for name in "ab"]
    problem = compile_round(round_of(*jobs, tenants=tenants))
    assert [problem.running[j].level for j in (0, 1)] == [1, 0]
    assert problem.shape_rank.max() == 1
    assert all(choice.entitled for c in problem.classes for choice in c.choices)


def test_an_engine_lends_what_is_free_takes_it_back_and_then_rests() -> None:
    jobs = [job(f"a{i}", 2, priority=5) for i in range(4)]
    with Engine(round_of(*jobs), isolation="none") as engine:
        assert started(engine.round()) == {"a": 4}
        plan = engine.round(Changes(added=round_of(job("b1", 2), job("b2", 1)).jobs))
        assert started(plan) == {"b": 2}
        assert [d.job for d in plan.decisions if d.decision is DecisionKind.PREEMPT] == ["a2", "a3"]
        for _ in range(3):
            plan = engine.round()
            assert verify(engine.round_solved, plan).ok
            assert {d.decision for d in plan.decisions} == {DecisionKind.KEEP, DecisionKind.WAIT}
        engine.round(Changes(removed=["b1", "b2"]))
        assert {j.name for j in engine.state.jobs if j.running} == {"a0", "a1", "a2", "a3"}


def test_new_quotas_leave_guarantees_and_weights_as_they_are() -> None:
    tenants = [{"name": "a", "guarantee": {"gpu": 1}, "weight": 3}]
    with Engine(round_of(tenants=tenants), isolation="none") as engine:
        engine.round(Changes(quotas={"a": {"gpu": 2}}))
        (tenant,) = engine.state.tenants
    assert (tenant.guarantee, tenant.weight, tenant.quota) == ({"gpu": 1000}, 3, {"gpu": 2000})


def test_a_borrowed_job_waits_for_entitled_ones_of_lower_priority() -> None:
    round_ = round_of(job("a1", 4), job("b1", 4), job("a2", 8, priority=9))
    plan = solve_round(round_, isolation="none")
    found = {d.job: d for d in plan.decisions}
    assert started(plan) == {"a": 1, "b": 1}
    assert found["a2"].reason is Reason.DISPLACED_BY_PRIORITY


def displacing(first: Raw, second: Raw) -> tuple[str, ...]:
    """The rules that are broken when the second job takes the GPUs of the first."""
    round_ = round_of(first, second, gpus=6)
    plan = Plan.model_validate(
        {
            "decisions": [
                {"job": first["name"], "decision": "preempt", "displaced_by": second["name"]},
                {
                    "job": second["name"],
                    "decision": "start",
                    "option": 0,
                    "tasks": [{"host": "h", "gpus": [0, 1, 2, 3]}],
                },
            ],
            "sections": [{"kind": "moves", "steps": [first["name"]], "needs_spare": []}],
        }
    )
    return tuple(violation.rule for violation in verify(round_, plan).violations)


BROKEN = ("displaced_by", "preemption")


@pytest.mark.parametrize(
    ("first", "second", "broken"),
    [
        (job("a1", 5, on=0, priority=9), job("b1", 4), ()),
        (job("a1", 4, on=0), job("b1", 4, priority=1), ()),
        (job("a1", 4, on=0, priority=1), job("b1", 4, priority=1), BROKEN),
        (job("a1", 4, on=0), job("b1", 4, priority=9, opportunistic=True), BROKEN),
        (job("a1", 5, on=0), job("b1", 4, priority=1, opportunistic=True), ()),
        (job("a1", 5, on=0), job("b1", 4, opportunistic=True), BROKEN),
        (job("a1", 4, on=0, opportunistic=True, priority=9), job("c1", 4), ()),
    ],
)
def test_verify_compares_entitlement_before_priority(
    first: Raw, second: Raw, broken: tuple[str, ...]
) -> None:
    assert displacing(first, second) == broken


def with_shares(plan: Plan, *entries: Raw) -> Plan:
    return plan.model_copy(update={"sections": ({"kind": "shares", "tenants": list(entries)},)})


def test_verify_recomputes_shares_and_requires_all_of_them() -> None:
    round_ = round_of(job("a1", 2), job("b1", 1), policy={"terms": ["share"]})
    plan = solve_round(round_, isolation="none")
    assert terms_of(plan) == {"share": 12_500, "share_2": 37_500}
    a = {"tenant": "a", "share": 25_000, "resource": "gpu"}
    b = {"tenant": "b", "share": 12_500, "resource": "gpu"}
    assert plan.sections == ({"kind": "shares", "tenants": [a, b]},)
    assert verify(round_, with_shares(plan, a, b)).ok
    for wrong in ([a], [b, a], [a, {**b, "share": 12_501}], [a, {**b, "resource": "cpu"}], [a, {}]):
        assert {v.rule for v in verify(round_, with_shares(plan, *wrong)).violations} == {"section"}
    bare = verify(round_, plan.model_copy(update={"sections": ()}))
    assert {violation.rule for violation in bare.violations} == {"shares"}
    waits = Decision(job="b1", decision=DecisionKind.WAIT)
    worse = plan.model_copy(update={"decisions": (plan.decisions[0], waits), "certificate": None})
    assert verify(round_, worse).terms == {"share": 0, "share_2": 25_000}


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        (
            {"tenants": [{"name": "a", "guarantee": {"tpu": 1}}]},
            "tenants[0].guarantee.tpu",
            "unknown resource",
        ),
        (
            {"tenants": [{"name": "a", "guarantee": {"gpu": 3}, "quota": {"gpu": 2}}]},
            "tenants[0].guarantee.gpu",
            "at most the tenant's quota, 2000",
        ),
        ({"tenants": [], "policy": {"terms": ["share"]}}, "tenants", "expected the tenants"),
        ({"tenants": [{"name": "a", "weight": 0}]}, "tenants[0].weight", "expected"),
    ],
)
def test_a_guarantee_or_share_that_makes_no_sense_is_refused(
    fields: Raw, path: str, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message) as refused:
        round_of(**fields)
    assert path in str(refused.value)


@pytest.mark.nightly
@pytest.mark.parametrize("large", [False, True])
def test_more_than_eight_tenants_end_with_the_sum_of_all(
    large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        set_parameters(monkeypatch, "run", max_exact_variables=-1)
    names = [f"t{i}" for i in range(10)]
    jobs = [
        {**job(f"{name}-{k}", 1), "tenant": name, "priority": i}
        for i, name in enumerate(names)
        for k in range(2)
    ]
    round_ = round_of(
        *jobs, gpus=16, tenants=[{"name": name} for name in names], policy={"terms": ["share"]}
    )
    plan = solve_round(round_, gap=0.0, isolation="none")
    shares = [6250] * 4 + [12_500] * 6
    expected = {f"share_{k}": sum(shares[:k]) for k in range(2, 8)}
    assert terms_of(plan) == {"share": 6250, **expected, "share_all": 100_000}
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tenant_of_many_shapes_has_one_dominant_resource(backend: str) -> None:
    """Half of the CPUs and half of the memory, in tasks of one or the other, are one half."""
    hosts = [{"name": "h", "gpus": 0, "cpu": 0.012, "memory": "12Mi"}]

    def task(name: str, tenant: str, cpu: int, memory: int) -> Raw:
        group = {"gpu": 0, "cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        return {"name": name, "tenant": tenant, "options": [{"groups": [group]}]}

    jobs = [task(f"b{i}", "b", 3, 2) for i in range(3)]
    jobs += [task(f"a{i}", "a", *((4, 0) if i % 2 else (0, 4))) for i in range(6)]
    round_ = round_of(*jobs, cluster={"hosts": hosts}, policy={"terms": ["share"]})
    plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
    fairest = max(
        sorted((3 * b * 100_000 // 12, 4 * max(x, y) * 100_000 // 12))
        for b, x, y in product(range(4), range(4), range(4))
        if 3 * b + 4 * x <= 12 and 2 * b + 4 * y <= 12
    )
    assert terms_of(plan) == {"share": fairest[0], "share_2": sum(fairest)}
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"


def test_free_capacity_is_filled_fairly_where_shares_come_first() -> None:
    jobs = [job(f"a{i}", 1, weight=9) for i in range(8)] + [job(f"b{i}", 2) for i in range(4)]
    fair = {"terms": ["share", "value"]}
    plan = solve_round(round_of(*jobs, policy=fair), time_limit=0.0, isolation="none")
    assert started(plan) == {"a": 4, "b": 2}
    plan = solve_round(round_of(*jobs), time_limit=0.0, isolation="none")
    assert started(plan) == {"a": 4, "b": 2}  # entitled first
    plan = solve_round(round_of(*jobs, policy={"terms": ["value"]}), isolation="none")
    assert started(plan) == {"a": 4, "b": 2}  # those that stand on a guarantee are a class above
    dearest = {"terms": ["value"], "priority": "preemption"}
    plan = solve_round(round_of(*jobs, policy=dearest), isolation="none")
    assert started(plan) == {"a": 8}

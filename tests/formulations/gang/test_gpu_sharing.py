"""Rounds that share GPUs by slices and memory: the exact model is exact on every backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gang_parameters import set_parameters
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from examples import tried
from fuzz.small_units import as_document
from placewright.formulations.gang.models.host.model import build_host_model
from placewright.formulations.gang.models.host.rows import add_gpus
from placewright.formulations.gang.models.host.terms import add_terms
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances import verify as verification
from placewright.instances.checks.round import InvalidInputError, check_round
from placewright.instances.documents.plan import Certificate, Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.io.files import load_round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from placewright.solver import InProcess, Limits
from tests.formulations.gang import oracle_sharing as sharing

Raw = dict[str, Any]
STABLE = {
    "suppress_health_check": [
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.filter_too_much,
    ],
}
KINDS: tuple[Raw, ...] = (
    {"gpu_model": "A100-SXM4-80GB"},
    {"gpu_model": "A100-PCIE-40GB"},
    {"gpu_model": "T4", "gpu_memory": "16Gi"},
    {"gpu_model": "A100-SXM4-80GB", "mig": False},
    {"gpu_model": "L40S"},
)
PROFILES = ("1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", "1g.20gb", "1g.10gb+me",
            "3g.20gb")  # fmt: skip
TERMS = ("value", "disruption", "opened", "leftover")


def milli_of(group: Raw) -> int:
    return 1000 * int(group["mig"][0]) // 7 if "mig" in group else group["gpu"]


@st.composite
def asks(draw: st.DrawFn) -> Raw:
    """What one task asks: a slice, mostly, or milli-GPU and memory."""
    if draw(st.integers(0, 2)):
        group: Raw = {"mig": draw(st.sampled_from(PROFILES))}
    else:
        group = {
            "gpu": draw(st.sampled_from([300, 500, 200, 1000])),
            "gpu_memory": draw(st.sampled_from([0, "6Gi", "10Gi", "30Gi", "50Gi"])),
        }
    if not draw(st.integers(0, 3)):
        group["cpu"] = 3
    return group


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    """1 or 2 hosts of 1 or 2 GPUs, up to 2 running jobs and 2 to 5 pending ones."""
    hosts = [
        {
            "name": f"h{i}",
            "gpus": draw(st.sampled_from([1, 2, 1])),
            "cpu": draw(st.sampled_from([9, 4])),
            **draw(st.sampled_from([KINDS[0], *KINDS])),
        }
        for i in range(draw(st.sampled_from([1, 2, 1])))
    ]
    jobs: list[Raw] = []
    for i in range(draw(st.sampled_from([0, 1, 2]))):
        group = draw(asks())
        host = draw(st.sampled_from(hosts))
        task = {"host": host["name"], "gpus": [draw(st.integers(0, host["gpus"] - 1))]}
        if "mig" in group:
            task["slot"] = draw(st.sampled_from([0, 2, 4, 3, 6, 1, 5]))
        jobs.append(
            {
                "name": f"running-{i}",
                "options": [{"groups": [group]}],
                "running": {"tasks": [task], "pinned": draw(st.booleans())},
            }
        )
    for i in range(draw(st.integers(2, 5))):
        options = []
        for _ in range(draw(st.sampled_from([1, 1, 2]))):
            group = draw(asks())
            count = draw(st.sampled_from([1, 1, 1, 2]))
            # Sometimes worth more than what it takes.
            value = milli_of(group) * count * draw(st.sampled_from([1, 1, 2]))
            options.append({"groups": [{**group, "count": count}], "value": value})
        jobs.append({"name": f"job-{i}", "options": options})
    order = draw(st.permutations(TERMS))[: draw(st.integers(1, 3))]
    round_ = Round.model_validate(
        as_document(
            {
                "cluster": {"hosts": hosts},
                "jobs": jobs,
                "policy": {"terms": ["value", *(t for t in order if t != "value")]},
            }
        )
    )
    try:
        check_round(round_)
    except InvalidInputError:
        assume(False)
    return round_


def bundled(name: str) -> Round:
    return load_round(Path(verification.__file__).parents[1] / "library" / f"{name}.yaml")


def certificate_of(plan: Plan) -> Certificate:
    assert plan.certificate is not None
    return plan.certificate


@pytest.mark.parametrize(
    ("backend", "examples"), [("highs", 60), ("cp-sat", 25), ("cbc", 15), ("scip", 15)]
)
def test_the_exact_model_proves_the_optimum_of_all_plans(backend: str, examples: int) -> None:
    @settings(max_examples=tried(examples), **STABLE)
    @given(rounds())
    def check(round_: Round) -> None:
        plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
        assert verify(round_, plan).ok
        assert certificate_of(plan).degraded == ()
        assert tuple(t.value for t in certificate_of(plan).terms) == sharing.optimum(round_)
        assert certificate_of(plan).status == "optimal"

    check()


def test_the_count_model_bounds_all_plans_and_its_plans_are_valid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=0)

    @settings(max_examples=tried(60), **STABLE)
    @given(rounds())
    def check(round_: Round) -> None:
        plan = solve_round(round_, gap=0.0, isolation="none")
        assert verify(round_, plan).ok
        certificate = certificate_of(plan)
        assert certificate.degraded == ()
        best = sharing.optimum(round_)[0]
        first = certificate.terms[0]
        assert first.value <= best
        assert first.certified is not None
        assert first.certified >= best
        assert first.bound is not None
        assert first.bound >= best

    check()


def job(name: str, count: int = 1, priority: int = 0, **group: Any) -> Raw:
    return {
        "name": name,
        "priority": priority,
        "options": [{"groups": [{"count": count, **group}]}],
    }


def solved(hosts: list[Raw], jobs: list[Raw], terms: tuple[str, ...] = ("value",)) -> Plan:
    round_ = Round.model_validate(
        as_document({"cluster": {"hosts": hosts}, "jobs": jobs, "policy": {"terms": terms}})
    )
    check_round(round_)
    plan = solve_round(round_, gap=0.0, isolation="none")
    assert certificate_of(plan).degraded == ()
    assert certificate_of(plan).status == "optimal"
    return plan


def started(plan: Plan) -> set[str]:
    return {d.job for d in plan.decisions if d.decision.value == "start"}


A100 = {"name": "a", "gpus": 1, "gpu_model": "A100-SXM4-80GB", "cpu": 0}


@pytest.mark.parametrize(
    ("profiles", "most"),
    [
        (["1g.10gb"] * 8, 7 * 142),
        (["4g.40gb", "3g.40gb"], 571 + 428),
        (["3g.40gb", "3g.40gb", "1g.10gb"], 2 * 428),
        (["2g.20gb"] * 4 + ["1g.10gb"], 3 * 285 + 142),
        (["1g.20gb"] * 4 + ["1g.10gb"], 4 * 142),
        (["1g.10gb+me"] * 2, 142),
        (["7g.80gb", "4g.40gb", "3g.40gb"], 1000),
    ],
)
def test_what_one_gpu_holds(profiles: list[str], most: int) -> None:
    plan = solved([A100], [job(f"j{i}", mig=name) for i, name in enumerate(profiles)])
    assert certificate_of(plan).terms[0].value == most


def test_a_slice_at_3_that_may_move_does_so_for_a_larger_one() -> None:
    running = job("running", mig="1g.10gb")
    running["running"] = {"tasks": [{"host": "a", "gpus": [0], "slot": 3}], "pinned": True}
    wants = job("wants", mig="4g.40gb")
    plan = solved([A100], [running, wants])
    assert started(plan) == set()
    assert plan.decisions[1].reason is Reason.CAPACITY
    running["running"]["pinned"] = False
    plan = solved([A100], [running, wants])
    assert started(plan) == {"wants"}
    assert plan.decisions[0].tasks[0].slot in (4, 5, 6)


def test_who_waits_beside_a_slice_that_moved_is_not_displaced_by_priority() -> None:
    running = job("running", mig="1g.10gb")
    running["running"] = {"tasks": [{"host": "a", "gpus": [0], "slot": 3}]}
    plan = solved([A100], [running, job("large", mig="4g.40gb"), job("half", mig="3g.40gb")])
    assert started(plan) == {"large"}
    assert plan.decisions[2].reason is Reason.NOT_CHOSEN


def test_a_slice_of_higher_priority_preempts_what_it_overlaps() -> None:
    low = job("low", mig="3g.40gb")
    low["running"] = {"tasks": [{"host": "a", "gpus": [0], "slot": 0}]}
    pinned = job("pinned", mig="3g.40gb")
    pinned["running"] = {"tasks": [{"host": "a", "gpus": [0], "slot": 4}], "pinned": True}
    high = job("high", priority=1, mig="4g.40gb")
    plan = solved([A100], [low, pinned, high])
    assert started(plan) == {"high"}
    assert plan.decisions[0].displaced_by == ("high",)


def test_milli_gpu_alone_would_overfill_the_memory() -> None:
    shares = [job(f"s{i}", gpu=250, gpu_memory="30Gi") for i in range(4)]
    plan = solved([{**A100, "gpus": 2}], shares)
    assert len(started(plan)) == 4
    assert {d.tasks[0].gpus for d in plan.decisions} == {(0,), (1,)}
    assert len(started(solved([A100], shares))) == 2


def test_whole_gpus_need_as_much_memory_as_is_asked() -> None:
    hosts = [A100, {"name": "u", "gpus": 8, "gpu_model": "L40S"}]
    plan = solved(hosts, [job("fits", gpu=1000, gpu_memory="80Gi"),
                          job("never", gpu=1000, gpu_memory="81Gi")])  # fmt: skip
    assert started(plan) == {"fits"}
    assert plan.decisions[1].reason is Reason.NEVER_FITS


@pytest.mark.parametrize("profile", ["1g.5gb", "7g.94gb"])
def test_a_profile_that_no_gpu_of_the_cluster_has_never_fits(profile: str) -> None:
    plan = solved([A100], [job("j", mig=profile)])
    assert plan.decisions[0].reason is Reason.NEVER_FITS


def test_a_gpu_with_slices_fits_no_shares() -> None:
    plan = solved([A100], [job("slice", mig="1g.10gb"), job("share", gpu=100)])
    assert started(plan) == {"slice"}


@pytest.mark.parametrize(
    ("runs", "slot", "comes"),
    [({"mig": "1g.10gb"}, 2, {"gpu": 250}), ({"gpu": 250}, None, {"mig": "1g.10gb"})],
)
def test_a_stopped_job_fits_in_place_beside_its_own_kind_alone(
    runs: Raw, slot: int | None, comes: Raw
) -> None:
    task = {"host": "a", "gpus": [0], **({} if slot is None else {"slot": slot})}
    jobs = [{**job("runs", **runs), "running": {"tasks": [task]}},
            job("alike", priority=1, **runs), job("comes", priority=1, **comes)]  # fmt: skip
    problem = compile_round(
        Round.model_validate(as_document({"cluster": {"hosts": [A100]}, "jobs": jobs}))
    )
    for name, fits in (("alike", True), ("comes", False)):
        placement = Placement(problem, cleared=True)
        shape = next(
            c.choices[0].groups[0].shape
            for c in problem.classes
            if problem.round.jobs[c.jobs[0]].name == name
        )
        placement.put(shape, 0)
        assert placement.fits_in_place(0) is fits


def test_a_gang_of_slices_is_on_as_many_gpus_as_it_needs() -> None:
    plan = solved([{**A100, "gpus": 2}], [job("gang", count=4, mig="3g.40gb")])
    tasks = plan.decisions[0].tasks
    assert sorted((t.gpus[0], t.slot) for t in tasks) == [(0, 0), (0, 4), (1, 0), (1, 4)]


@pytest.mark.parametrize(("name", "best"), [("nvidia-mig", 2709), ("hami-gpumem", 2000)])
def test_the_bundled_rounds_have_the_answers_that_they_state(name: str, best: int) -> None:
    assert sharing.optimum(bundled(name)) == (best,)


def test_the_slices_of_the_bundled_round_are_where_they_all_fit() -> None:
    plan = solve_round(bundled("nvidia-mig"), gap=0.0, isolation="none")
    found = {d.job: [(t.gpus, t.slot) for t in d.tasks] for d in plan.decisions}
    assert (found["one"], found["two"], found["four"]) == ([((0,), 6)], [((0,), 4)], [((0,), 0)])
    assert found["serve"] == [((0,), 3)]
    assert sorted(found["halves"]) == [((0,), 4), ((1,), 0), ((1,), 4)]
    assert sorted([found["pair-1"], found["pair-2"]]) == [[], [((0,), 0)]]
    assert found["single"] == [((0,), 2)]


def test_the_shares_of_the_bundled_round_are_two_quarters_and_a_half_on_each_gpu() -> None:
    plan = solve_round(bundled("hami-gpumem"), gap=0.0, isolation="none")
    on = {d.job: d.tasks[0].gpus[0] for d in plan.decisions if d.tasks}
    assert sorted(on[f"quarter-{i}"] for i in range(1, 5)) == [0, 0, 1, 1]
    assert {on["half-1"], on["half-2"]} == {0, 1}
    assert {d.job: d.reason for d in plan.decisions if not d.tasks} == {"large": Reason.NEVER_FITS}


@pytest.mark.parametrize("cells", [0, 6_000])
def test_slices_leave_a_host_that_is_to_be_vacated(
    monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=cells)
    jobs = []
    for name, profile, host, slot in (
        ("half", "3g.40gb", "a", 0),
        ("pair", "2g.20gb", "a", 4),
        ("blocks", "1g.10gb", "b", 3),
    ):
        running = {"tasks": [{"host": host, "gpus": [0], "slot": slot}]}
        jobs.append({**job(name, mig=profile), "running": running})
    round_ = Round.model_validate(
        as_document(
            {
                "cluster": {"hosts": [A100, {**A100, "name": "b"}]},
                "jobs": jobs,
                "policy": {"terms": ["remaining", "disruption"], "vacate": ["a"]},
            }
        )
    )
    check_round(round_)
    plan = solve_round(round_, gap=0.0, isolation="none")
    assert certificate_of(plan).degraded == ()
    found = {d.job: [(t.host, t.slot) for t in d.tasks] for d in plan.decisions}
    assert found == {"half": [("b", 4)], "pair": [("b", 0)], "blocks": [("b", 3)]}
    assert certificate_of(plan).terms[0].value == 0


def exact_answer(round_: Round, without: tuple[str, ...] = ()) -> int:
    """The best value of the exact model without some blocks of rows."""
    problem = compile_round(round_)
    hosts = np.arange(problem.cluster.num_hosts)
    exact = build_host_model(
        problem, Placement(problem, cleared=True), hosts, problem.num_pending, list(problem.running)
    )
    add_gpus(exact)
    add_terms(exact)
    arrays = exact.model.arrays("value", without=without)
    outcome = InProcess().solve("highs", arrays, Limits(seconds=60.0, gap=0.0))
    assert outcome.objective is not None
    return round(outcome.objective)


@pytest.mark.parametrize(
    ("block", "jobs"),
    [
        ("memory", [job("a", gpu=300, gpu_memory="50Gi"), job("b", gpu=300, gpu_memory="40Gi")]),
        ("slice", [job("a", count=4, mig="1g.20gb"), job("b", mig="1g.10gb")]),
        ("slice", [job("a", mig="1g.10gb"), job("b", gpu=300)]),
        ("media", [job("a", mig="1g.10gb+me"),
                   job("b", mig="1g.10gb+me", gpu_models=["A100-SXM4-80GB"])]),
    ],
)  # fmt: skip
def test_the_exact_model_needs_each_block_of_parts(block: str, jobs: list[Raw]) -> None:
    round_ = Round.model_validate(
        as_document({"cluster": {"hosts": [A100]}, "jobs": jobs, "policy": {"terms": ["value"]}})
    )
    (best,) = sharing.optimum(round_)
    assert exact_answer(round_) == best
    assert exact_answer(round_, (block,)) > best

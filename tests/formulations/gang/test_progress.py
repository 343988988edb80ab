"""The term `progress`: growth after base demand, its optimum and bounds against all plans."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from gang_parameters import set_parameters
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from examples import tried
from placewright.formulations.gang.heuristics.search import scalarise_progress
from placewright.formulations.gang.placement.greedy import fill_greedily, upgrade_options
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances.checks.round import check_round
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Certificate
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from tests.formulations.gang import oracle, tiny
from tests.formulations.gang import oracle_running as moves

STEP = 1000
"""More than the progress of all jobs of a tiny round together, twice."""

STABLE: dict[str, Any] = {
    "suppress_health_check": list(HealthCheck),
}
Raw = dict[str, Any]


@st.composite
def with_progress(draw: st.DrawFn, rounds: st.SearchStrategy[Round]) -> Round:
    """A tiny round whose options have progress; of half the jobs all options are worth the same."""
    round_ = draw(rounds)
    known: dict[str, tuple[Option, ...]] = {}
    for job in round_.jobs:
        if str(job.options) not in known:
            value = draw(st.sampled_from([None, 700]))
            known[str(job.options)] = tuple(
                option.model_copy(
                    update={
                        "progress": draw(st.integers(0, 6)),
                        "value": option.value if value is None else value,
                    }
                )
                for option in job.options
            )
    jobs = tuple(job.model_copy(update={"options": known[str(job.options)]}) for job in round_.jobs)
    terms = list(round_.policy.terms)
    terms.insert(draw(st.integers(0, min(2, len(terms)))), "progress")
    policy = round_.policy.model_copy(update={"terms": tuple(terms)})
    grown = round_.model_copy(update={"jobs": jobs, "policy": policy})
    check_round(grown)
    return grown


def combined(round_: Round) -> Round:
    """The round with one term for value and progress: the former counts `STEP` times."""

    def both(job: Job, number: int, option: Option) -> Option:
        return option.model_copy(update={"value": job.value_of(number) * STEP + option.progress})

    jobs = tuple(
        job.model_copy(
            update={"options": tuple(both(job, o, option) for o, option in enumerate(job.options))}
        )
        for job in round_.jobs
    )
    terms = ("value", *(t for t in round_.policy.terms if t not in ("value", "progress")))
    policy = round_.policy.model_copy(update={"terms": terms})
    return round_.model_copy(update={"jobs": jobs, "policy": policy})


def all_plans(enumerate_: Any, round_: Round) -> set[tuple[int, ...]]:
    """The terms of every plan, in the policy's order, from those of the combined round."""
    joint = combined(round_)
    try:
        vectors = enumerate_(joint)
    except oracle.TooManyPlansError:
        assume(False)
    plans = set()
    for vector in vectors:
        values = dict(zip(joint.policy.terms, vector, strict=True))
        progress = (values["value"] + STEP // 2) % STEP - STEP // 2
        values |= {"progress": progress, "value": (values["value"] - progress) // STEP}
        plans.add(tuple(values[term] for term in round_.policy.terms))
    return plans


def solved(round_: Round, backend: str) -> Certificate:
    plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
    checked = verify(round_, plan)
    assert checked.ok, checked.violations
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    return plan.certificate


def check_optimum(plans: set[tuple[int, ...]], round_: Round, back: str) -> None:
    certificate = solved(round_, back)
    assert tuple(t.value for t in certificate.terms) == oracle.optimum(round_, plans)
    assert certificate.status == "optimal"


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("backend", "examples"), [("highs", 50), ("cp-sat", 20), ("cbc", 10), ("scip", 10)]
)
def test_the_optimum_of_value_and_progress_is_that_of_all_plans(
    backend: str, examples: int
) -> None:
    @settings(max_examples=tried(examples), **STABLE)
    @given(with_progress(tiny.rounds(jobs=4)))
    def check(round_: Round) -> None:
        plans = all_plans(oracle.attainable, round_)
        check_optimum(plans, round_, backend)

    check()


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("backend", "examples"), [("highs", 20), ("cp-sat", 8), ("cbc", 5), ("scip", 5)]
)
def test_progress_of_preempted_jobs_is_lost(backend: str, examples: int) -> None:
    @settings(max_examples=tried(examples), **STABLE)
    @given(with_progress(tiny.running_rounds()))
    def check(round_: Round) -> None:
        plans = all_plans(moves.attainable_with_moves, round_)
        check_optimum(plans, round_, backend)

    check()


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize("running", [False, True], ids=["pending", "running"])
@pytest.mark.parametrize(
    ("backend", "examples", "table"), [("highs", 25, 60_000), ("highs", 15, 0), ("cbc", 5, 60_000)]
)
def test_no_plan_beats_a_bound_of_the_count_model_on_progress(
    monkeypatch: pytest.MonkeyPatch, backend: str, examples: int, table: int, running: bool
) -> None:
    """Without a table hosts are counted by sums."""
    set_parameters(monkeypatch, "models", max_shape_class_pairs=8000 * (table > 0))
    set_parameters(monkeypatch, "models", max_host_table_entries=table)
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    set_parameters(monkeypatch, "neighbourhood", max_failures=2)
    rounds = tiny.running_rounds() if running else tiny.rounds(jobs=4)
    enumerate_ = moves.attainable_with_moves if running else oracle.attainable

    @settings(max_examples=tried(examples), **STABLE)
    @given(with_progress(rounds))
    def check(round_: Round) -> None:
        plans = all_plans(enumerate_, round_)
        certificate = solved(round_, backend)
        oracle.check_bounds(plans, certificate)

    check()


def elastic(*speeds: int, **more: Any) -> list[Raw]:
    """Options of 1, 2 ... GPUs, all worth the same, with the progress given."""
    return [
        {"groups": [{"gpu": 1, "count": n}], "value": 1, "progress": speed, **more}
        for n, speed in enumerate(speeds, 1)
    ]


def growing_round(gpus: int, *menus: list[Raw], **policy: Any) -> Round:
    jobs = [{"name": f"job-{i}", "options": options} for i, options in enumerate(menus)]
    hosts = [{"name": "h", "gpus": gpus, "gpu_model": "A"}]
    policy = {"terms": ["value", "progress"]} | policy
    return Round.model_validate({"cluster": {"hosts": hosts}, "jobs": jobs, "policy": policy})


def grown(round_: Round) -> dict[int, int]:
    """How many jobs of each option the greedy rule ends with."""
    placement = Placement(compile_round(round_))
    fill_greedily(placement)
    upgrade_options(placement)
    chosen = [start.choice for _, start in placement.started()]
    return {o: chosen.count(o) for o in sorted(set(chosen))}


def test_growth_waits_until_every_job_has_its_base_demand() -> None:
    round_ = growing_round(4, elastic(0, 90, 170), elastic(0, 90, 170), elastic(0, 10))
    assert {t.name: t.value for t in solved(round_, "highs").terms} == {"value": 3, "progress": 90}
    assert grown(round_) == {0: 2, 1: 1}


def test_growth_goes_where_a_gpu_gains_most() -> None:
    round_ = growing_round(5, elastic(0, 50, 60), elastic(0, 40, 80, 90))
    assert solved(round_, "highs").terms[1].value == 50 + 80
    assert grown(round_) == {1: 1, 2: 1}  # 50, then 40 and 40; a third GPU gains 10


def test_growth_stays_within_a_quota() -> None:
    round_ = growing_round(6, elastic(0, 50, 99))
    job = round_.jobs[0].model_copy(update={"tenant": "t"})
    raw = round_.model_copy(update={"jobs": (job,)}).model_dump(mode="json")
    raw["tenants"] = [{"name": "t", "quota": {"gpu": 2}}]
    limited = Round.model_validate(raw)
    assert grown(limited) == {1: 1}
    assert solved(limited, "highs").terms[1].value == 50


def test_growth_that_loses_value_is_none_unless_progress_comes_first() -> None:
    options = elastic(1, 50)
    options[0]["value"] = 2
    assert solved(growing_round(2, options), "highs").terms[1].value == 1
    first = growing_round(2, options, terms=["progress", "value"])
    assert [term.value for term in solved(first, "highs").terms] == [50, 1]


def full_host(progress: int, value: int, **policy: Any) -> Round:
    """A running job of two GPUs, of progress 10 and value 5, and a pending one that wants them."""
    running = {
        "name": "runs",
        "options": [{"groups": [{"gpu": 2}], "value": 5, "progress": 10}],
        "running": {"tasks": [{"host": "h", "gpus": [0, 1]}]},
    }
    pending = {
        "name": "waits",
        "priority": 1,
        "options": [{"groups": [{"gpu": 2}], "value": value, "progress": progress}],
    }
    return Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "h", "gpus": 2, "gpu_model": "A"}]},
            "jobs": [running, pending],
            "policy": {"priority": "preemption", **policy},
        }
    )


@pytest.mark.parametrize(
    ("terms", "progress", "value", "expected"),
    [
        (["progress"], 11, 0, [1]),
        (["progress", "value"], 10, 6, [0, 1]),
        (["progress", "value"], 9, 99, [0, 0]),
        (["value", "progress"], 11, 5, [0, 1]),
        (["value", "progress"], 99, 4, [0, 0]),
    ],
)
def test_on_large_rounds_jobs_displace_by_progress_as_by_value(
    monkeypatch: pytest.MonkeyPatch,
    terms: list[str],
    progress: int,
    value: int,
    expected: list[int],
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    certificate = solved(full_host(progress, value, terms=terms), "highs")
    assert [term.value for term in certificate.terms] == expected


def test_running_jobs_move_so_that_others_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = [{"name": f"h{i}", "gpus": 8, "gpu_model": "A"} for i in range(16)]
    running = [
        {
            "name": f"runs-{i}",
            "options": [{"groups": [{"gpu": 1 + i % 2}], "value": 1, "progress": 10}],
            "running": {"tasks": [{"host": f"h{i}", "gpus": list(range(1 + i % 2))}]},
        }
        for i in range(16)
    ]
    menu = [
        {"groups": [{"gpu": min(n, 8), "count": max(1, n // 8)}], "value": 1, "progress": p}
        for n, p in ((1, 10), (4, 30), (16, 100))
    ]
    pending = [{"name": f"waits-{i}", "options": menu} for i in range(5)]
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": hosts},
            "jobs": [*running, *pending],
            "policy": {"terms": ["value", "progress", "disruption"]},
        }
    )
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    value, progress, _ = solved(round_, "highs").terms
    assert (value.value, progress.value) == (5, 500)


@pytest.mark.parametrize("terms", [["value", "progress"], ["progress", "value"], ["progress"]])
def test_joined_worths_rank_plans_as_the_terms_do(terms: list[str]) -> None:
    round_ = growing_round(9, elastic(0, 7, 9), elastic(3, 4), elastic(0, 1, 8, 9), terms=terms)
    problem = compile_round(round_)
    joint = scalarise_progress(problem)
    assert joint is not None
    assert joint.terms == ("value",)
    plans = []
    for pick in product(*[[None, *range(len(c.choices))] for c in problem.classes]):
        chosen = [(c, o) for c, o in enumerate(pick) if o is not None]
        sums = {
            "value": sum(problem.classes[c].choices[o].value for c, o in chosen),
            "progress": sum(problem.classes[c].choices[o].progress for c, o in chosen),
        }
        one = sum(joint.classes[c].choices[o].value for c, o in chosen)
        plans.append((tuple(sums[term] for term in terms), one))
    assert [one for _, one in sorted(plans)] == sorted(one for _, one in plans)


def test_worths_are_joined_only_where_progress_leads_and_numbers_stay_exact() -> None:
    options = elastic(0, 5)
    for terms in (["value"], ["spread", "value", "progress"], ["value", "spread", "progress"]):
        assert scalarise_progress(compile_round(growing_round(2, options, terms=terms))) is None
    options[1]["value"] = options[1]["progress"] = 10**9
    assert scalarise_progress(compile_round(growing_round(2, options))) is None

"""Which jobs conflict, and what they take of GPU memory: known answers, and one with the verifier.

The series of the examples are made after Kube-Knots: services whose load peaks at the same time,
and one that peaks while they rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from fuzz.small_units import as_document
from placewright import solve_round
from placewright.formulations.interleaving.problem.sharing import conflicting_pairs, size_in_group
from placewright.formulations.interleaving.run import _within_quotas, compile_with_running_fixed
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.documents.sharing import Sharing
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import parse_round
from placewright.instances.verify import verify
from placewright.instances.verify.shared_gpus import size_of

DAY = (100, 200, 700, 900, 800, 300)
ALSO_DAY = (150, 250, 650, 950, 700, 350)
NIGHT = (900, 800, 300, 100, 200, 700)


def job(name: str, *, gpu_memory: int = 0, **profile: Any) -> dict[str, Any]:
    return {
        "name": name,
        "options": [{"groups": [{"gpu": 1, "gpu_memory": f"{gpu_memory}Mi"}]}],
        "profile": as_document({"stages": [5, 5], **profile}),
    }


def read(*raw: dict[str, Any]) -> list[Job]:
    return [Job.model_validate(one) for one in raw]


def round_of(jobs: list[dict[str, Any]], **sharing: Any) -> Round:
    return parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {
                "hosts": [{"name": "h", "gpus": 1, "gpu_model": "A", "gpu_memory": "16Mi"}]
            },
            "jobs": jobs,
            "sharing": {"resources": ["cpu", "gpu"], **sharing},
            "policy": {"formulation": "interleaving", "terms": ["disruption"]},
        }
    )


def colocated(names: tuple[str, ...], kind: str = "start") -> Plan:
    """Put these jobs on the one GPU."""
    return Plan.model_validate(
        {
            "decisions": [
                {"job": n, "decision": kind, "option": 0, "tasks": [{"host": "h", "gpus": [0]}]}
                for n in names
            ],
            "sections": [
                {
                    "kind": "groups",
                    "groups": [
                        {
                            "members": [{"job": n, "offset": i} for i, n in enumerate(names)],
                            "period": 10,
                        }
                    ],
                }
            ],
        }
    )


def refused(round_: Round, plan: Plan) -> bool:
    return "conflicts" in {violation.rule for violation in verify(round_, plan).violations}


def test_loads_that_peak_together_conflict_and_those_that_alternate_do_not() -> None:
    jobs = read(job("one", load=DAY), job("two", load=ALSO_DAY), job("three", load=NIGHT))
    sharing = Sharing(resources=("cpu", "gpu"), correlation=500)
    assert conflicting_pairs(jobs, sharing).tolist() == [[0, 1]]


def test_listed_pairs_conflict_once_whatever_their_loads() -> None:
    jobs = read(job("one", load=DAY), job("two", load=ALSO_DAY), job("three", load=NIGHT))
    listed = (("three", "one"), ("one", "two"), ("two", "one"))
    sharing = Sharing(resources=("cpu", "gpu"), correlation=500, conflicts=listed)
    assert conflicting_pairs(jobs, sharing).tolist() == [[0, 1], [0, 2]]
    assert conflicting_pairs(jobs, Sharing(resources=("cpu", "gpu"))).tolist() == []


@pytest.mark.parametrize(
    ("one", "other", "thousandths"),
    [
        ((0, 1), (0, 1000), 1000),  # on one line
        ((0, 1, 2), (1, 3, 2), 500),
        ((0, 0, 1, 1), (0, 1, 0, 1), 0),
        ((1, 2, 3, 4, 5), (2, 1, 4, 3, 5), 800),
        ((0, 3, 4), (0, 4, 3), 884),  # 69 / 78
    ],
)
def test_a_correlation_of_just_so_much_is_a_conflict(
    one: tuple[int, ...], other: tuple[int, ...], thousandths: int
) -> None:
    raw = [job("one", load=one), job("other", load=other)]
    for threshold, found in ((thousandths, True), (thousandths + 1, False)):
        if threshold <= 1000:
            sharing = Sharing(resources=("cpu", "gpu"), correlation=threshold)
            assert bool(len(conflicting_pairs(read(*raw), sharing))) is found
            round_ = round_of(raw, correlation=threshold)
            assert refused(round_, colocated(("one", "other"))) is found


@pytest.mark.parametrize(
    ("one", "other"),
    [((1,), (1,)), ((5, 5, 5), (1, 2, 3)), ((5, 5), (5, 5)), ((1, 2), (1, 2, 3)), ((), (1, 2))],
)
def test_series_without_a_correlation_never_conflict(
    one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    raw = [job("one", load=one), job("other", load=other)]
    sharing = Sharing(resources=("cpu", "gpu"), correlation=0)
    assert conflicting_pairs(read(*raw), sharing).tolist() == []
    assert not refused(round_of(raw, correlation=0), colocated(("one", "other")))


def exactly(one: list[int], other: list[int], threshold: int) -> bool:
    """The textbook's definition in fractions; the sign decides before anything is squared."""
    n = len(one)
    mean, their_mean = Fraction(sum(one), n), Fraction(sum(other), n)
    up = sum((x - mean) * (y - their_mean) for x, y in zip(one, other, strict=True))
    square = sum((x - mean) ** 2 for x in one) * sum((y - their_mean) ** 2 for y in other)
    return bool(square) and up >= 0 and up * up >= Fraction(threshold, 1000) ** 2 * square


@settings(max_examples=examples(day=37, nightly=150))
@given(st.data())
def test_formulation_and_verifier_agree_with_the_definition(data: st.DataObject) -> None:
    samples = data.draw(st.integers(2, 6))
    value = st.integers(0, data.draw(st.sampled_from([1, 3, 1000])))
    series = data.draw(
        st.lists(st.lists(value, min_size=samples, max_size=samples), min_size=2, max_size=5)
    )
    threshold = data.draw(st.sampled_from([0, 1, 500, 707, 866, 999, 1000]) | st.integers(0, 1000))
    raw = [job(f"j{i}", load=load) for i, load in enumerate(series)]
    pairs = conflicting_pairs(read(*raw), Sharing(resources=("cpu", "gpu"), correlation=threshold))
    found = {(int(a), int(b)) for a, b in pairs}
    for a in range(len(series)):
        for b in range(a + 1, len(series)):
            expected = exactly(series[a], series[b], threshold)
            assert ((a, b) in found) is expected
            two = round_of([raw[a], raw[b]], correlation=threshold)
            assert refused(two, colocated((f"j{a}", f"j{b}"))) is expected


def test_long_series_on_one_line_are_told_from_those_a_hair_off_it() -> None:
    rising = [i // 10 for i in range(10_000)]
    bent = [*rising[:-1], rising[-1] - 1]
    jobs = read(job("one", load=rising), job("same", load=rising), job("bent", load=bent))
    sharing = Sharing(resources=("cpu", "gpu"), correlation=1000)
    assert conflicting_pairs(jobs, sharing).tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("percent", "mib"), [(1, 1), (20, 1), (21, 2), (50, 3), (60, 3), (90, 9), (100, 9)]
)
def test_sizes_are_percentiles_by_nearest_rank(percent: int, mib: int) -> None:
    (one,) = read(job("one", gpu_memory=12, memory=(9, 1, 3, 2, 5)))
    sharing = Sharing(resources=("cpu", "gpu"), percentile=percent)
    assert size_in_group(one, one.options[0].groups[0], sharing) == mib
    assert size_of(one, sharing) == mib


def test_without_a_series_a_job_has_the_size_that_it_asks() -> None:
    plain = read(job("one", gpu_memory=12), {"name": "x", "options": [{"groups": [{"gpu": 1}]}]})
    sharing = Sharing(percentile=50)
    assert [size_in_group(one, one.options[0].groups[0], sharing) for one in plain] == [12, 0]
    assert [size_of(one, sharing) for one in plain] == [12, 0]


@settings(max_examples=examples(day=15, nightly=60))
@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=12), st.integers(1, 100))
def test_sizes_of_formulation_and_verifier_agree(series: list[int], percent: int) -> None:
    (one,) = read(job("one", memory=series))
    sharing = Sharing(percentile=percent)
    at = size_in_group(one, one.options[0].groups[0], sharing)
    assert at == size_of(one, sharing) == int(np.percentile(series, percent, method="inverted_cdf"))


def test_jobs_that_run_together_may_stay_in_spite_of_a_conflict_but_nobody_joins_them() -> None:
    running = {"tasks": [{"host": "h", "gpus": [0]}]}
    old = [{**job(name, load=DAY), "running": running} for name in ("one", "two")]
    new = job("new", load=NIGHT)
    kept = colocated(("one", "two"), "keep")
    waits = {"job": "new", "decision": "wait", "reason": "not_chosen"}
    joined = colocated(("one", "two", "new"), "keep").model_dump(mode="json")
    joined["decisions"][2]["decision"] = "start"
    for sharing in ({"correlation": 500}, {"conflicts": [["one", "two"]]}):
        round_ = round_of([*old, new], **sharing)
        plan = Plan.model_validate(
            {**kept.model_dump(), "decisions": [*kept.model_dump()["decisions"], waits]}
        )
        assert not refused(round_, plan)
        assert refused(round_, Plan.model_validate(joined))


@pytest.mark.parametrize(
    ("jobs", "samples", "sharing", "path"),
    [
        (2_001, 2, {"correlation": 500}, "jobs[2000].profile.load"),
        (201, 10_000, {}, "jobs[200].profile.load"),
    ],
)
def test_series_too_many_to_compare_are_refused(
    jobs: int, samples: int, sharing: dict[str, int], path: str
) -> None:
    load = [i % 7 for i in range(samples)]
    with pytest.raises(InvalidInputError, match="expected") as error:
        round_of([job(f"j{i}", load=load) for i in range(jobs)], **sharing)
    assert path in str(error.value)


def test_hundreds_of_jobs_whose_loads_are_the_same_are_compared_with_each_other() -> None:
    jobs = read(*(job(f"j{i}", load=DAY) for i in range(300)))
    pairs = conflicting_pairs(jobs, Sharing(resources=("cpu", "gpu"), correlation=1000))
    assert len(pairs) == 300 * 299 // 2


def crossing(cap: Mapping[str, int | str]) -> Round:
    """Return a round in which one of two jobs has options that take less of this, more of that."""
    menu = [
        {"groups": [{"gpu": 1, "cpu": 2, "memory": "3Mi"}]},
        {"groups": [{"gpu": 1, "cpu": 3, "memory": "2Mi"}]},
    ]
    profile = {"stages": [1, 1, 1, 1]}
    host = {"name": "h", "gpus": 2, "gpu_model": "B", "cpu": 8, "memory": "8Mi"}
    return Round.model_validate(
        {
            "cluster": {"hosts": [host]},
            "jobs": [
                {"name": "a", "caps": ["c"], "options": menu, "profile": profile},
                {"name": "b", "options": [{"groups": [{"gpu": 1}]}], "profile": profile},
            ],
            "caps": {"c": {"resources": cap}},
            "policy": {"formulation": "interleaving"},
        }
    )


def test_a_job_whose_options_take_more_of_one_cap_and_less_of_another_is_packed_with_its_first():
    """None of its options is the least in all."""
    fixed = compile_with_running_fixed(crossing({"cpu": 4, "memory": "4Mi"}))
    assert list(_within_quotas(fixed)) == [0, 1]
    assert list(_within_quotas(replace(fixed, round=crossing({"cpu": 4, "memory": "2Mi"})))) == [1]


@pytest.mark.parametrize("cap", [{"cpu": 4, "memory": "2Mi"}, {"cpu": 2, "memory": "4Mi"}])
def test_a_job_has_the_option_that_the_packing_chose_within_its_caps(cap: dict[str, int | str]):
    plan = solve_round(crossing(cap), time_limit=10, isolation="none")
    assert [decision.decision for decision in plan.decisions] == ["start", "start"]
    assert plan.decisions[0].option == (1 if cap["cpu"] == 4 else 0)
    assert plan.certificate is not None
    assert not plan.certificate.degraded

"""From rounds to alternatives and capacity, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.formulations.deadline.problem.compile import Admission, compile_admission
from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round

HOUR = 3600


def admission(**fields: Any) -> Admission:
    raw: dict[str, Any] = {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Round",
        "now": 1000,
        "cluster": {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Cluster",
            "hosts": [{"name": "h[0-1]", "gpus": 4, "gpu_model": "A100"}],
        },
        "policy": {"formulation": "deadline"},
        "leases": {"length_s": HOUR, "horizon": 6},
    }
    round_ = Round.model_validate({**raw, **fields})
    check_round(round_)
    return compile_admission(round_)


def job(name: str = "j", gpus: int = 2, **deadline: Any) -> dict[str, Any]:
    asked = {"work_s": 2 * HOUR, "due": [{"at": 1000 + 4 * HOUR, "value": 7}], **deadline}
    return {
        "name": name,
        "options": [{"groups": [{"gpu": gpus}]}],
        "deadline": asked,
    }


def test_work_is_cut_into_leases_and_the_last_one_need_not_be_over() -> None:
    # Two and a half hours of work: the third lease is over at half past, so half an hour will do.
    made = admission(
        jobs=[
            job(work_s=2 * HOUR + HOUR // 2, due=[{"at": 1000 + 4 * HOUR + HOUR // 2, "value": 7}])
        ]
    )
    problem = made.problem
    assert (problem.need.tolist(), problem.first.tolist(), problem.end.tolist()) == ([3], [0], [5])
    assert problem.demand.tolist() == [[2000]]
    assert problem.capacity.tolist() == [[8000] * 6]


def test_every_lease_pays_the_overhead() -> None:
    due = [{"at": 1000 + 3 * HOUR, "value": 7}]
    made = admission(jobs=[job(paces=[{"overhead_s": 60}], due=due)])
    # 7,200 s of work at 3,540 s a lease are three leases; the last takes 60 s and 120 s more.
    assert made.problem.need.tolist() == [3]
    assert made.finish(0, [0, 1, 2], None) == 1000 + 2 * HOUR + 180
    assert made.problem.end.tolist() == [3]


def test_a_faster_option_needs_fewer_leases() -> None:
    asked = job(paces=[{"speed": 1000}, {"speed": 2500}])
    asked["options"].append({"groups": [{"gpu": 4}]})
    made = admission(jobs=[asked])
    assert made.option.tolist() == [0, 1]
    assert made.problem.need.tolist() == [2, 1]
    assert made.problem.demand.tolist() == [[2000], [4000]]


def test_deadlines_that_cannot_be_met_are_no_alternatives() -> None:
    due = [
        {"at": 10, "value": 9},
        {"at": 1000 + HOUR, "value": 8},
        {"at": 1000 + 2 * HOUR, "value": 3},
    ]
    made = admission(jobs=[job(due=due)])
    assert [alternative.value for alternative in made.due] == [3]


def test_deadlines_beyond_the_horizon_end_with_it_and_the_best_of_them_counts() -> None:
    due = [{"at": 1000 + 50 * HOUR, "value": 9}, {"at": 1000 + 60 * HOUR, "value": 8}]
    made = admission(jobs=[job(due=due)])
    assert made.problem.end.tolist() == [6]
    assert [alternative.value for alternative in made.due] == [9]


def test_a_promise_is_a_time_of_its_own() -> None:
    promise = {"at": 1000 + 5 * HOUR, "value": 6}
    made = admission(jobs=[job(promise=promise)])
    assert [alternative.value for alternative in made.due] == [7, 6]
    assert made.problem.loss.tolist() == [6]
    assert made.problem.lost.tolist() == [0, 0]


def test_a_job_that_is_ready_later_begins_with_a_whole_lease() -> None:
    made = admission(jobs=[job(ready=1000 + HOUR + 1)])
    assert made.problem.first.tolist() == [2]


def test_a_job_that_runs_goes_on_with_its_option() -> None:
    asked = job(paces=[{"speed": 1000}, {"speed": 2500}])
    asked["options"].append({"groups": [{"gpu": 4}]})
    asked["running"] = {"tasks": [{"host": "h0", "gpus": [0, 1]}]}
    made = admission(jobs=[asked])
    assert made.option.tolist() == [0, 1]
    assert made.problem.first.tolist() == [0, 1]
    # With another option only if somebody takes its place now.
    assert made.steady.tolist() == [True, False]
    assert made.steady_only().option.tolist() == [0]


def test_a_pinned_job_keeps_its_option() -> None:
    asked = job(paces=[{"speed": 1000}, {"speed": 2500}])
    asked["options"].append({"groups": [{"gpu": 4}]})
    asked["running"] = {"tasks": [{"host": "h0", "gpus": [0, 1]}], "pinned": True}
    assert admission(jobs=[asked]).option.tolist() == [0]


def test_who_must_leave_a_host_may_change_its_option_for_nobody() -> None:
    asked = job(paces=[{"speed": 1000}, {"speed": 2500}])
    asked["options"].append({"groups": [{"gpu": 4}]})
    asked["running"] = {"tasks": [{"host": "h0", "gpus": [0, 1]}]}
    outages = [{"host": "h0", "end": 2000}]
    made = admission(jobs=[asked], leases={"length_s": HOUR, "horizon": 6, "outages": outages})
    assert made.steady.tolist() == [True, True]


def test_hosts_that_make_a_job_faster_count_in_the_current_lease_only() -> None:
    asked = job(gpus=1, paces=[{"spanning": [[2, 1500], [3, 500]]}], work_s=3 * HOUR + HOUR // 2)
    asked["options"][0]["groups"][0]["count"] = 2
    made = admission(jobs=[asked])
    # Half an hour is left after an hour and a half now and two hours later.
    assert made.problem.need.tolist() == [4, 3]
    assert made.problem.end.tolist() == [4, 4]
    assert made.fast.tolist() == [False, True]
    assert made.steady_only().problem.need.tolist() == [4]


def test_best_effort_jobs_are_not_asked() -> None:
    made = admission(jobs=[job(due=[]), job("k")])
    assert made.jobs == (1,)
    assert made.problem.jobs == 1


@pytest.mark.parametrize(
    ("outage", "expected"),
    [
        ({"host": "h0"}, [4, 4, 4, 4, 4, 4]),
        ({"host": "h0", "start": 1000 + HOUR, "end": 1000 + 2 * HOUR}, [8, 4, 8, 8, 8, 8]),
        ({"host": "h0", "start": 999 + HOUR, "end": 1001 + 2 * HOUR}, [4, 4, 4, 8, 8, 8]),
        ({"host": "h[0-1]", "start": 1000 + 3 * HOUR}, [8, 8, 8, 0, 0, 0]),
        ({"host": "h1", "end": 1000}, [8, 8, 8, 8, 8, 8]),
    ],
)
def test_hosts_that_are_away_have_nothing(outage: dict[str, Any], expected: list[int]) -> None:
    made = admission(jobs=[job()], leases={"length_s": HOUR, "horizon": 6, "outages": [outage]})
    assert made.problem.capacity.tolist() == [[1000 * gpus for gpus in expected]]


def test_gpu_models_have_rows_of_their_own_and_of_those_that_overlap() -> None:
    hosts = [
        {"name": "a", "gpus": 4, "gpu_model": "A100"},
        {"name": "b", "gpus": 2, "gpu_model": "H100"},
        {"name": "c", "gpus": 1, "gpu_model": "V100"},
    ]
    cluster = {"apiVersion": "placewright/v1alpha2", "kind": "Cluster", "hosts": hosts}
    asked = [job("one"), job("two"), job("three")]
    asked[0]["options"][0]["groups"][0]["gpu_models"] = ["A100", "H100"]
    asked[1]["options"][0]["groups"][0]["gpu_models"] = ["H100", "V100"]
    asked[2]["options"][0]["groups"][0]["gpu_models"] = ["A100"]
    problem = admission(cluster=cluster, jobs=asked).problem
    rows = sorted(zip(problem.capacity[:, 0].tolist(), problem.demand.T.tolist(), strict=True))
    assert rows == [
        (3000, [0, 2000, 0]),
        (4000, [0, 0, 2000]),
        (6000, [2000, 0, 2000]),
        (7000, [2000, 2000, 2000]),
    ]


def test_a_quota_is_a_row_and_what_is_held_beyond_it_is_held_now_only() -> None:
    asked = [job("one"), job("two")]
    for one in asked:
        one["tenant"] = "t"
    asked[0]["running"] = {"tasks": [{"host": "h0", "gpus": [0, 1]}]}
    made = admission(jobs=asked, tenants=[{"name": "t", "quota": {"gpu": 1}}])
    assert made.problem.capacity[1].tolist() == [2000] + [1000] * 5


def test_a_pinned_job_without_a_deadline_keeps_its_gpus_as_long_as_it_needs() -> None:
    asked = job("pinned", due=[], work_s=2 * HOUR)
    asked["running"] = {"tasks": [{"host": "h0", "gpus": [0, 1]}], "pinned": True}
    made = admission(jobs=[asked, job()])
    assert made.problem.capacity.tolist() == [[6000, 6000, 8000, 8000, 8000, 8000]]


def test_unhealthy_hosts_have_what_runs_there_now() -> None:
    hosts = [
        {"name": "h0", "gpus": 4, "gpu_model": "A100", "healthy": False},
        {"name": "h1", "gpus": 4, "gpu_model": "A100"},
    ]
    cluster = {"apiVersion": "placewright/v1alpha2", "kind": "Cluster", "hosts": hosts}
    asked = job()
    asked["running"] = {"tasks": [{"host": "h0", "gpus": [0, 1]}]}
    made = admission(cluster=cluster, jobs=[asked])
    assert made.problem.capacity.tolist() == [[6000, 4000, 4000, 4000, 4000, 4000]]


def test_reserved_gpus_are_missing_now_unless_a_job_runs_on_them() -> None:
    asked = job()
    asked["running"] = {"tasks": [{"host": "h0", "gpus": [0, 1]}]}
    made = admission(jobs=[asked], reservations=[{"host": "h0", "gpus": [1, 2]}])
    assert made.problem.capacity.tolist() == [[7000, 8000, 8000, 8000, 8000, 8000]]


def test_a_pinned_job_with_a_deadline_asks_nothing_of_rows_without_what_it_holds() -> None:
    asked = job("pinned", work_s=2 * HOUR)
    asked["running"] = {"tasks": [{"host": "h0", "gpus": [0, 1]}], "pinned": True}
    problem = admission(jobs=[asked, job()]).problem
    assert problem.capacity.tolist() == [[6000, 6000, 8000, 8000, 8000, 8000]]
    assert (problem.first[0], problem.need[0], problem.end[0]) == (0, 2, 2)
    assert problem.demand.tolist() == [[0], [2000]]

"""Reservations and backfilling: known answers of loops of rounds, and rules that verify checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from placewright import Changes, Engine, load_round, solve_round, verify
from placewright.instances import verify as verification
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Reason
from placewright.instances.documents.round import Round
from placewright.rounds import prove_bounds
from placewright.rounds.deciders import residual


def bundled(name: str) -> Round:
    return load_round(Path(verification.__file__).parents[1] / "library" / f"{name}.yaml")


def round_of(hosts: int, gpus: int, policy: Mapping[str, Any], *jobs: Mapping[str, Any]) -> Round:
    entries = [{"name": f"h{i}", "gpus": gpus, "gpu_model": "A100"} for i in range(hosts)]
    return Round.model_validate(
        {"cluster": {"hosts": entries}, "jobs": jobs, "policy": {"terms": ["value"], **policy}}
    )


def job(name: str, gpu: int, seconds: int | None, *, count: int = 1, **more: Any) -> dict[str, Any]:
    groups = [{"count": count, "gpu": gpu}]
    return {"name": name, "expected_runtime_s": seconds, "options": [{"groups": groups}], **more}


def run(round_: Round, arrivals: Mapping[int, list[dict[str, Any]]], until: int) -> dict[str, int]:
    """Run rounds whenever a job arrives or ends, and return when each ended; all are verified."""
    ends: dict[str, int] = {}
    finished: dict[str, int] = {}
    with Engine(round_, isolation="none", time_limit=2.0) as engine:
        for now in range(until):
            over = [name for name, end in ends.items() if end == now]
            if not over and now not in arrivals:
                continue
            finished |= {name: ends.pop(name) for name in over}
            added = [Job.model_validate({"submitted": now, **one}) for one in arrivals.get(now, ())]
            plan = engine.round(Changes(removed=over, added=added, now=now))
            checked = verify(engine.round_solved, plan)
            assert checked.ok, checked.violations
            jobs = {one.name: one for one in engine.round_solved.jobs}
            for decision in plan.decisions:
                if decision.decision is DecisionKind.START:
                    ends[decision.job] = now + (jobs[decision.job].expected_runtime_s or 0)
    return finished


ONE_HOST = {
    0: [job("A", 2, 10)],
    1: [job("B", 4, 5)],
    2: [job("C", 2, 6)],
    3: [job("D", 2, 9)],
}


def test_easy_ends_four_jobs_as_lifka_describes_it() -> None:
    ends = run(round_of(1, 4, {"backfill": {"depth": 1}}), ONE_HOST, 40)
    assert ends == {"A": 10, "B": 15, "C": 8, "D": 24}


def test_without_reservation_small_jobs_pass_the_large_one() -> None:
    assert run(round_of(1, 4, {}), ONE_HOST, 40) == {"A": 10, "B": 22, "C": 8, "D": 17}


def test_conservative_backfilling_ends_the_four_jobs_as_easy_does() -> None:
    ends = run(round_of(1, 4, {"backfill": {"depth": "all"}}), ONE_HOST, 40)
    assert ends == {"A": 10, "B": 15, "C": 8, "D": 24}


STREAM = {
    0: [job("first", 8, 12)],
    2: [job("gang", 8, 20, count=2, weight=0)],
    **{t: [job(f"small{t}", 8, 12)] for t in range(6, 60, 6)},
}


@pytest.mark.parametrize("policy", [{}, {"backfill": {"depth": 1}}])
def test_a_stream_of_small_jobs_does_not_starve_a_gang(policy: dict[str, Any]) -> None:
    ends = run(round_of(2, 8, policy), STREAM, 70)
    # As soon as the jobs that ran when it came have ended.
    assert ends.get("gang") == (32 if policy else None)


def decided(round_: Round) -> tuple[Plan, dict[str, Decision]]:
    plan = solve_round(round_, isolation="none", time_limit=5.0)
    checked = verify(round_, plan)
    assert checked.ok, checked.violations
    return plan, {decision.job: decision for decision in plan.decisions}


def at_100(*jobs: Mapping[str, Any], hosts: int = 2, **policy: Any) -> Round:
    running = {"started": 50, "tasks": [{"host": "h0", "gpus": list(range(8))}]}
    first = job("runs", 8, 100, running=running)
    made = round_of(hosts, 8, {"backfill": {"depth": 1}, **policy})
    return Round.model_validate({**made.model_dump(), "now": 100, "jobs": [first, *jobs]})


def test_the_bundled_round_starts_the_job_that_ends_in_time_not_the_one_of_more_value() -> None:
    _, found = decided(bundled("backfill-easy"))
    assert {name for name, one in found.items() if one.decision is DecisionKind.START} == {"C"}
    reasons = {name: one.reason for name, one in found.items() if one.reason}
    assert reasons == {"B": Reason.RESERVED, "D": Reason.HELD_FOR_RESERVATION}


GANG = job("gang", 8, 1000, count=2, submitted=10)


def test_a_job_that_ends_by_the_reservation_may_start_and_a_longer_one_may_not() -> None:
    round_ = at_100(GANG, job("short", 4, 50), job("long", 4, 51))
    plan, found = decided(round_)
    (section,) = (entry for entry in plan.sections if entry["kind"] == "reservations")
    assert [(entry["job"], entry["at"]) for entry in section["jobs"]] == [("gang", 150)]
    assert found["short"].decision is DecisionKind.START
    gang, long = found["gang"], found["long"]
    assert (gang.reason, gang.detail and gang.detail.at) == (Reason.RESERVED, 150)
    assert long.reason is Reason.HELD_FOR_RESERVATION
    assert long.detail is not None
    assert (long.detail.job, long.detail.at) == ("gang", 150)


@pytest.mark.parametrize(("most", "delayed", "at"), [(500, "second", 1150), (0, "head", 150)])
def test_of_two_reservations_that_is_named_which_a_job_would_delay(
    monkeypatch: pytest.MonkeyPatch, most: int, delayed: str, at: int
) -> None:
    """In large rounds it is the first that begins before the job has ended."""
    monkeypatch.setattr(residual, "MOST_JOBS", most)

    def on(hosts: list[str], name: str, seconds: int, submitted: int) -> Mapping[str, Any]:
        groups = [{"count": len(hosts), "gpu": 8, "hosts": hosts}]
        options = {"options": [{"groups": groups}]}
        return {**job(name, 8, seconds, submitted=submitted), **options}

    head, second = on(["h0"], "head", 1000, 1), on(["h0", "h1"], "second", 10, 2)
    round_ = at_100(head, second, on(["h1"], "long", 5000, 3), backfill={"depth": 2})
    long = decided(round_)[1]["long"]
    assert long.reason is Reason.HELD_FOR_RESERVATION
    assert long.detail is not None
    assert (long.detail.job, long.detail.at) == (delayed, at)


def test_a_longer_job_may_start_on_other_gpus() -> None:
    two = {"options": [{"groups": [{"count": 2, "gpu": 8, "hosts": ["h0", "h1"]}]}]}
    _, found = decided(at_100({**GANG, **two}, job("long", 4, 10_000), hosts=3))
    assert found["gang"].reason is Reason.RESERVED
    assert [task.host for task in found["long"].tasks] == ["h2"]


def started(found: Mapping[str, Decision]) -> set[str]:
    return {name for name, one in found.items() if one.decision is DecisionKind.START}


def test_of_jobs_behind_a_reservation_the_first_in_the_queue_starts_not_the_most_valuable() -> None:
    later = job("later", 8, 50, submitted=30, weight=9)
    round_ = at_100(GANG, later, job("first", 4, 50, submitted=20))
    plan, found = decided(round_)
    assert started(found) == {"first"}
    (section,) = (entry for entry in plan.sections if entry["kind"] == "reservations")
    assert section["starts"] == ("first",) or section["starts"] == ["first"]
    assert found["later"].reason is Reason.NOT_CHOSEN


def test_jobs_that_end_before_the_reservation_come_before_longer_ones() -> None:
    two = {"options": [{"groups": [{"count": 2, "gpu": 8, "hosts": ["h0", "h1"]}]}]}
    one = {"options": [{"groups": [{"gpu": 8, "hosts": ["h2"]}]}]}
    long = {**job("long", 8, 51, submitted=20), **one}
    short = {**job("short", 8, 50, submitted=30), **one}
    _, found = decided(at_100({**GANG, **two}, long, short, hosts=3))
    assert started(found) == {"short"}


def test_behind_a_job_of_higher_priority_the_search_decides_who_starts() -> None:
    running = {"started": 90, "tasks": [{"host": "h1", "gpus": [0]}]}
    stays = job("stays", 1, 9, running={**running, "pinned": True})
    moves = job("moves", 1, 9, running=running)
    high = job("high", 8, 1000, count=2, submitted=10, priority=1)
    jobs = high, job("later", 4, 9, submitted=30, weight=9), job("first", 4, 9, submitted=20)
    for runs, expected in ((stays, {"first"}), (moves, {"later"})):
        busy = job("busy", 3, 9, running={**running, "tasks": [{"host": "h1", "gpus": [5, 6, 7]}]})
        round_ = at_100(runs, *jobs)
        pinned = [
            {**one, "running": {**one["running"], "pinned": True}} if one["name"] == "runs" else one
            for one in (entry.model_dump(exclude_unset=True) for entry in round_.jobs)
        ]
        pinned.append({**busy, "running": {**busy["running"], "pinned": True}})
        made = Round.model_validate({**round_.model_dump(exclude_unset=True), "jobs": pinned})
        assert started(decided(made)[1]) == expected, runs["name"]


def test_a_reservation_takes_hosts_that_are_busy_now_and_leaves_free_ones_to_longer_jobs() -> None:
    # At 150 any two hosts would do.
    free_then = job("gang", 8, 1000, count=2, submitted=10)
    plan, found = decided(at_100(free_then, job("long", 8, 10_000, submitted=20), hosts=3))
    assert found["gang"].decision is DecisionKind.START  # two are free now
    three = {**free_then, "options": [{"groups": [{"count": 2, "gpu": 8}]}]}
    runs = {"started": 50, "tasks": [{"host": "h1", "gpus": list(range(8))}]}
    busy = job("busy", 8, 100, running={**runs, "pinned": True})
    plan, found = decided(at_100(busy, three, job("long", 8, 10_000, submitted=20), hosts=3))
    assert {task["host"] for task in reserved(plan)["gang"]["tasks"]} == {"h0", "h1"}
    assert [task.host for task in found["long"].tasks] == ["h2"]


def test_verify_refuses_a_plan_that_passes_over_a_job_behind_a_reservation() -> None:
    second = job("second", 8, 50, submitted=30)
    plan, _ = decided(at_100(GANG, second))
    longer = at_100(GANG, second, job("first", 8, 50, submitted=20))
    decisions = (*plan.decisions, Decision(job="first", decision="wait", reason="not_chosen"))
    changed = {"round": None, "certificate": None, "decisions": decisions}
    checked = verify(longer, plan.model_copy(update=changed))
    assert ["expected a start" in violation.message for violation in checked.violations] == [True]


def test_a_job_that_could_only_borrow_comes_after_those_that_a_guarantee_covers() -> None:
    old = {**GANG, "name": "old", "opportunistic": True, "submitted": 0}
    plan, _ = decided(at_100(old, GANG))
    assert list(reserved(plan)) == ["gang"]


def test_bounds_of_a_plan_speak_of_its_own_starts_and_reservations() -> None:
    half = {"started": 90, "tasks": [{"host": "h0", "gpus": [0, 1, 2, 3]}], "pinned": True}
    there = {"options": [{"groups": [{"gpu": 4, "hosts": ["h0"]}]}]}
    later = {**job("later", 4, 9, submitted=20), **there}
    jobs = job("busy", 4, 99, running=half), job("first", 4, 9, submitted=10), later
    round_ = round_of(2, 8, {"backfill": {"depth": 1}}, *jobs)
    round_ = Round.model_validate({**round_.model_dump(exclude_unset=True), "now": 100})
    assert started(decided(round_)[1]) == {"first"}  # best fit: on h0, which leaves it full
    decisions = [{"job": "busy", "decision": "keep", "option": 0, "tasks": half["tasks"]}]
    for name, host, gpus in (("first", "h1", range(4)), ("later", "h0", range(4, 8))):
        tasks = [{"host": host, "gpus": list(gpus)}]
        decisions.append({"job": name, "decision": "start", "option": 0, "tasks": tasks})
    section = {"kind": "reservations", "starts": ["first", "later"]}
    plan = Plan.model_validate({"decisions": decisions, "sections": [section]})
    (value,) = prove_bounds(round_, plan, isolation="none")
    assert (value.value, value.bound, value.status) == (8000, 8000, "optimal")


@pytest.mark.parametrize("backend", ["highs", "cp-sat", "cbc", "scip"])
def test_every_backend_keeps_reservations_where_running_jobs_move(backend: str) -> None:
    moves = {"started": 90, "tasks": [{"host": "h1", "gpus": [0, 1]}]}
    jobs = job("moves", 2, 500, running=moves), GANG, job("short", 8, 50), job("long", 7, 51)
    round_ = at_100(*jobs, hosts=3, terms=["value", "disruption"])
    plan = solve_round(round_, isolation="none", time_limit=5.0, backend=backend)
    checked = verify(round_, plan)
    assert checked.ok, checked.violations
    found = {decision.job: decision for decision in plan.decisions}
    # From 150 the gang has h0 and h2, so that "moves" may not go there to make room for "long".
    assert started(found) == {"short"}
    assert reserved(plan)["gang"]["at"] == 150
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"


def test_verify_refuses_a_start_that_delays_a_reservation() -> None:
    round_ = at_100(GANG, job("short", 8, 50))
    plan, _ = decided(round_)
    longer = Round.model_validate(
        at_100(GANG, job("short", 8, 51)).model_dump() | {"name": "longer"}
    )
    checked = verify(longer, plan.model_copy(update={"round": None, "certificate": None}))
    assert "reservations" in {violation.rule for violation in checked.violations}


def test_a_job_that_fits_now_starts_before_later_ones() -> None:
    _, found = decided(at_100(job("one", 8, None), job("two", 8, None, weight=9)))
    assert found["one"].decision is DecisionKind.START


def test_a_job_without_a_known_time_is_skipped() -> None:
    jobs = job("gang", 8, 10, count=2, submitted=1), job("next", 8, 10)
    round_ = at_100(*jobs)
    forever = [one.model_copy(update={"expected_runtime_s": None}) for one in round_.jobs[:1]]
    _, found = decided(round_.model_copy(update={"jobs": (*forever, *round_.jobs[1:])}))
    assert found["gang"].reason is Reason.CAPACITY
    assert found["next"].decision is DecisionKind.START


def test_reserved_quota_is_kept_from_longer_jobs_of_the_tenant() -> None:
    tenant = {"tenant": "a"}
    two = {"options": [{"groups": [{"count": 2, "gpu": 8, "hosts": ["h0", "h1"]}]}]}
    others = job("long", 2, 999, **tenant), job("other", 2, 999)
    round_ = at_100({**GANG, **two, **tenant}, *others, hosts=3)
    quota = [{"name": "a", "quota": {"gpu": 17}}]
    _, found = decided(Round.model_validate(round_.model_dump() | {"tenants": quota}))
    assert found["long"].reason is Reason.HELD_FOR_RESERVATION
    assert found["other"].decision is DecisionKind.START


def test_held_jobs_and_those_not_yet_eligible_wait() -> None:
    jobs = job("held", 1, 5, held=True), job("later", 1, 5, not_before=101), job("now", 1, 5)
    _, found = decided(at_100(*jobs, backfill=None))
    assert found["held"].reason is Reason.HELD
    assert found["later"].reason is Reason.NOT_BEFORE
    assert found["now"].decision is DecisionKind.START


def test_aging_raises_the_value_of_jobs_that_wait() -> None:
    jobs = job("old", 8, 5, submitted=0), job("new", 8, 5, weight=2, submitted=100)
    plan, found = decided(at_100(*jobs, backfill=None, aging={"doubles_after_s": 50, "limit": 10}))
    assert found["old"].decision is DecisionKind.START
    assert plan.certificate is not None
    assert plan.certificate.terms[0].value == 24_000


def test_a_job_that_is_not_chosen_is_told_that_it_fits() -> None:
    round_ = at_100(
        job("worthless", 1, None, weight=0),
        backfill=None,
        aging={"doubles_after_s": 10},
        terms=["value", "opened"],
    )
    worthless = decided(round_)[1]["worthless"]
    assert worthless.reason is Reason.NOT_CHOSEN
    assert worthless.detail is not None
    assert worthless.detail.startable


def test_of_equal_jobs_the_first_submitted_starts() -> None:
    jobs = job("second", 8, 5, submitted=9), job("first", 8, 5, submitted=3)
    _, found = decided(at_100(*jobs, backfill=None))
    assert found["first"].decision is DecisionKind.START


def reserved(plan: Plan) -> dict[str, dict[str, Any]]:
    (section,) = (entry for entry in plan.sections if entry["kind"] == "reservations")
    return {entry["job"]: entry for entry in section["jobs"]}


def test_a_reservation_moves_later_when_a_job_overruns_and_the_plan_says_so() -> None:
    with Engine(at_100(GANG), isolation="none", time_limit=2.0) as engine:
        assert reserved(engine.round())["gang"]["at"] == 150
        on_time = reserved(engine.round(Changes(now=140)))["gang"]
        assert (on_time["at"], on_time["was"], "cause" in on_time) == (150, 150, False)
        late = reserved(engine.round(Changes(now=160)))["gang"]
        assert late["at"] == 170  # ten seconds late, so ten more are expected
        later = reserved(engine.round(Changes(now=165)))["gang"]
        assert (later["at"], later["was"], later["cause"]) == (180, 170, "overrun")


def test_a_reservation_gives_way_to_a_job_of_higher_priority_that_arrives() -> None:
    first = job("urgent", 8, 30, count=2, priority=1, submitted=120)
    with Engine(at_100(GANG, priority="preemption"), isolation="none", time_limit=2.0) as engine:
        engine.round()
        pinned = engine.state.jobs[0]
        assert pinned.running is not None
        stays = pinned.running.model_copy(update={"pinned": True})
        changes = Changes(
            added=[Job.model_validate(first)],
            updated=[pinned.model_copy(update={"running": stays})],
            now=120,
        )
        found = reserved(engine.round(changes))
        assert list(found) == ["urgent"]
        assert found["urgent"]["at"] == 150


def test_a_reservation_moves_later_when_a_host_is_lost() -> None:
    with Engine(at_100(GANG, hosts=2), isolation="none", time_limit=2.0) as engine:
        engine.round()
        found = reserved(engine.round(Changes(now=110, health={"h1": False})))
        assert "gang" not in found

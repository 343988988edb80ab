"""An engine's rounds: verified plans, legal states, bounds that hold, and what changes survive."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import pickle
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from gang_parameters import set_parameters

from examples import examples
from placewright.formulations.gang import incremental, parameters
from placewright.formulations.gang.problem.compile import Compiler, compile_round
from placewright.formulations.plan_messages import Candidate
from placewright.instances.checks.round import check_round
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Certificate, DecisionKind, Plan
from placewright.instances.documents.round import Reservation, Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.generators.gang import generate_round
from placewright.instances.io.digest import Digester, round_digest
from placewright.instances.verify import verify
from placewright.rounds import Changes, Engine, solve_round
from placewright.solver import process

Churn = Callable[[Round, int], Changes]

FRESH = [
    job
    for seed in range(1, 4)
    for job in generate_round(64, 40, mix="tight", seed=seed).jobs
    if job.running is None
]


def certificate_of(plan: Plan) -> Certificate:
    assert plan.certificate is not None
    return plan.certificate


def churn(state: Round, number: int, share: int = 20) -> Changes:
    """One in `share` of the jobs leave, running or pending, and as many arrive."""
    rng = random.Random(number)
    names = [job.name for job in state.jobs]
    count = max(1, len(names) // share)
    return Changes(
        removed=rng.sample(names, count),
        added=[
            rng.choice(FRESH).model_copy(update={"name": f"new-{number}-{i}"}) for i in range(count)
        ],
        now=state.now + 60,
    )


def holds(engine: Engine, plan: Plan) -> None:
    """The plan verifies for the round solved, is of it, and leads to a legal state."""
    solved = engine.round_solved
    assert solved is not None
    verification = verify(solved, plan)
    assert verification.ok, verification.violations[:3]
    assert plan.round == round_digest(solved)
    check_round(solved)
    check_round(engine.state)
    for term in certificate_of(plan).terms:
        assert term.value == verification.terms[term.name]


def everything(state: Round, number: int) -> Changes:
    """Besides churn, hosts fail and come back, quotas and reservations change."""
    changes = churn(state, number)
    hosts = ["b0-r0-h0", "b0-r0-h[1-2]"]
    return Changes(
        removed=changes.removed,
        added=changes.added,
        health={hosts[number % 2]: False, hosts[1 - number % 2]: True},
        quotas={"some": {"gpu": number}},
        reservations=[Reservation(host="b0-r0-h3")] if number % 2 else [],
    )


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("change", [churn, everything])
def test_tiny_rounds_agree_with_solve_round(change: Churn) -> None:
    engine = Engine(generate_round(32, 10, mix="tight"), isolation="none")
    holds(engine, engine.round())
    for number in range(examples(day=2, nightly=4)):
        plan = engine.round(change(engine.state, number))
        holds(engine, plan)
        alone = solve_round(engine.round_solved, isolation="none")
        first = certificate_of(plan).terms[0]
        assert first.value == certificate_of(alone).terms[0].value


@pytest.mark.nightly
@pytest.mark.parametrize(("mix", "change"), [("easy", churn), ("tight", everything)])
def test_rounds_too_large_for_one_model_are_within_their_bounds(
    mix: str, change: Churn, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    engine = Engine(
        generate_round(512, 200, mix=mix, seed=1),  # type: ignore[arg-type]
        isolation="none",
        time_limit=1.5,
        gap=0.01,
    )
    holds(engine, engine.round())
    for number in range(2):
        plan = engine.round(change(engine.state, number))
        holds(engine, plan)
        alone = solve_round(engine.round_solved, isolation="none", time_limit=1.0, gap=0.01)
        ours, theirs = certificate_of(plan).terms[0], certificate_of(alone).terms[0]
        # Neither plan may beat the other's bound.
        assert ours.bound is not None
        assert theirs.bound is not None
        assert ours.value <= theirs.bound
        assert theirs.value <= ours.bound


def test_an_engine_without_host_patterns_decides_as_solve_round_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    set_parameters(monkeypatch, "models", max_host_table_entries=0)
    engine = Engine(generate_round(64, 40, mix="tight"), isolation="none", time_limit=0.5)
    holds(engine, engine.round())
    holds(engine, engine.round(churn(engine.state, 0)))


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("fault", ["raises", "breaks a rule"])
def test_a_fault_in_what_an_engine_does_alone_costs_no_plan(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    engine = Engine(
        generate_round(examples(day=256, nightly=512), 100, mix="tight"),
        isolation="none",
        time_limit=examples(day=0.5, nightly=1.0),
        gap=0.05,
    )
    holds(engine, engine.round())
    honest = incremental.assign

    def faulty(*args: Any, **more: Any) -> Candidate:
        if fault == "raises":
            raise IndexError("pop from empty list")
        found = honest(*args, **more)
        return replace(found, starts={0: (0, ())}, preempted={})

    monkeypatch.setattr(incremental, "assign", faulty)
    plan = engine.round(churn(engine.state, 0))
    holds(engine, plan)
    assert any("adapted" in said for said in certificate_of(plan).degraded)


def with_smaller_options(round_: Round) -> Round:
    """Jobs of a task of several GPUs may also have half of them, and are worth half as much."""

    def offered(job: Job) -> Job:
        (option,) = job.options
        (group, *others) = option.groups
        if others or group.count > 1 or group.gpu % 2000:
            return job
        half = group.model_copy(update={"gpu": group.gpu // 2})
        return job.model_copy(
            update={"options": (option, option.model_copy(update={"groups": (half,)}))}
        )

    return round_.model_copy(update={"jobs": tuple(map(offered, round_.jobs))})


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(4))
def test_no_plan_beats_the_bound_of_an_engine_whose_jobs_may_resize(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_ = with_smaller_options(generate_round(16, 8, mix="tight", seed=seed))
    engine = Engine(round_, isolation="none", time_limit=1, gap=0.2)
    exact = parameters.PARAMETERS.run.max_exact_variables
    for number in range(4):
        set_parameters(monkeypatch, "run", max_exact_variables=-1)
        plan = engine.round(churn(engine.state, number) if number else None)
        holds(engine, plan)
        set_parameters(monkeypatch, "run", max_exact_variables=exact)
        first, *_ = certificate_of(plan).terms
        alone, *_ = certificate_of(solve_round(engine.round_solved, isolation="none")).terms
        assert alone.status == "optimal"
        assert first.value <= alone.value
        assert first.bound is not None
        assert alone.value <= first.bound


@pytest.mark.nightly
def test_an_engine_searches_no_further_than_a_search_that_gained_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    round_ = generate_round(512, 400, mix="tight")
    engine = Engine(round_, isolation="none", time_limit=60, gap=0.1)
    holds(engine, engine.round())
    # Of what runs that is more than the smallest job, 1,000, and less than 2,000.
    set_parameters(monkeypatch, "incremental", negligible_gain_rel=6e-4)
    searches: list[str] = []

    def nothing(name: str) -> Callable[..., Iterator[Candidate]]:
        def search(*_: Any) -> Iterator[Candidate]:
            searches.append(name)
            yield from ()

        return search

    monkeypatch.setattr(incremental, "migrate", nothing("migrate"))
    monkeypatch.setattr(incremental, "run", nothing("run"))
    idle, spared, number = None, 0, 0

    def searched() -> float:
        """Play a round; return the gap that it leaves."""
        nonlocal number
        searches.clear()
        plan = engine.round(churn(engine.state, number, share=200))
        number += 1
        holds(engine, plan)
        (first, *_) = certificate_of(plan).terms
        assert first.bound is not None
        return first.bound - first.value

    for _ in range(6):
        left = searched()
        if left >= 2_000:
            known = idle is not None and idle / 2 <= left <= idle
            assert searches == ([] if known else ["migrate", "run"])
            spared += known
            idle = idle if known else left
    assert idle is not None
    assert spared
    # After many changes it searches again.
    set_parameters(monkeypatch, "incremental", max_changed_share=0.0)
    while searched() < 2_000:
        pass
    assert searches == ["migrate", "run"]


def test_what_leaves_may_have_run_or_waited() -> None:
    engine = Engine(generate_round(64, 40, mix="tight"), isolation="none", time_limit=0)
    engine.round()
    for running in (True, False):
        gone = [job.name for job in engine.state.jobs if (job.running is not None) is running][:3]
        assert gone
        holds(engine, engine.round(Changes(removed=gone)))
        assert not {job.name for job in engine.state.jobs} & set(gone)


def test_a_job_that_did_not_start_after_all_waits_again() -> None:
    engine = Engine(generate_round(64, 40), isolation="none")
    plan = engine.round()
    started = next(d.job for d in plan.decisions if d.decision is DecisionKind.START)
    job = next(job for job in engine.state.jobs if job.name == started)
    plan = engine.round(Changes(updated=[job.model_copy(update={"running": None})]))
    holds(engine, plan)
    kind = next(d.decision for d in plan.decisions if d.job == started)
    assert kind in (DecisionKind.START, DecisionKind.WAIT)


def test_a_preempted_job_keeps_the_time_that_it_takes_to_start_again() -> None:
    raw = {
        "cluster": {"hosts": [{"name": "h0", "gpus": 4, "gpu_model": "A"}]},
        "jobs": [
            {
                "name": "victim",
                "options": [{"groups": [{"gpu": 4}]}],
                "running": {"tasks": [{"host": "h0", "gpus": [0, 1, 2, 3]}], "restart_s": 90},
            },
            {
                "name": "urgent",
                "priority": 1,
                "weight": 2,
                "options": [{"groups": [{"gpu": 4}]}],
            },
        ],
    }
    with Engine(Round.model_validate(raw), isolation="none") as engine:
        engine.round()
        assert engine.state.jobs[0].running is None
        engine.round(Changes(removed=["urgent"], now=10))
        running = engine.state.jobs[0].running
        assert running is not None
        assert (running.restart_s, running.checkpoint) == (90, 10)


def test_refused_changes_leave_the_engine_as_it_was() -> None:
    engine = Engine(generate_round(64, 10), isolation="none")
    engine.round()
    state, solved = engine.state, engine.round_solved
    with pytest.raises(InvalidInputError):
        engine.round(Changes(removed=["nobody"]))
    assert engine.state is state
    assert engine.round_solved is solved


def test_rounds_share_a_solver_process_until_the_engine_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = 0
    started = process._started

    def counted() -> object:
        nonlocal begun
        begun += 1
        return started()

    monkeypatch.setattr(process, "_started", counted)
    with Engine(generate_round(32, 6, mix="tight"), isolation="process") as engine:
        for number in range(3):
            engine.round(churn(engine.state, number))
        assert begun == 1
    holds(engine, engine.round())
    assert begun == 2
    engine.close()


def test_threads_that_share_an_engine_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    children = []
    started = process._started

    def kept() -> process.Child:
        children.append(started())
        return children[-1]

    monkeypatch.setattr(process, "_started", kept)
    engine = Engine(generate_round(32, 6, mix="tight"), isolation="process")
    engine.round()
    together = threading.Barrier(4)

    def rounds(number: int) -> list[Plan]:
        together.wait()
        now = engine.state.now
        return [engine.round(Changes(now=now + 60)) for _ in range(3)]

    with ThreadPoolExecutor(4) as threads:
        plans = [plan for some in threads.map(rounds, range(4)) for plan in some]
    assert len(plans) == 12
    assert not any(certificate_of(plan).degraded for plan in plans)
    engine.close()
    assert len(children) == 1
    assert children[0].process.poll() is not None


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_of_an_engine_has_a_solver_process_and_turns_of_its_own() -> None:
    with Engine(generate_round(32, 6, mix="tight")) as engine:
        engine.round()
        # Another thread is in the middle of a call while this process is copied.
        inside, over = threading.Event(), threading.Event()

        def call() -> None:
            with engine._alone():
                inside.set()
                over.wait()

        thread = threading.Thread(target=call)
        thread.start()
        inside.wait()
        copy = multiprocessing.get_context("fork").Process(target=engine.close)
        copy.start()
        copy.join(60)
        over.set()
        thread.join()
        assert copy.exitcode == 0
        assert not certificate_of(engine.round(churn(engine.state, 0))).degraded


def test_what_is_kept_from_the_last_round_changes_no_digest_and_no_array() -> None:
    engine = Engine(generate_round(64, 40, mix="tight"), isolation="none", time_limit=0)
    engine.round()
    digest, compiler = Digester(), Compiler()
    for number in range(4):
        engine.round(everything(engine.state, number))
        round_ = engine.state
        assert digest(round_) == round_digest(round_)
        kept, cold = compiler(round_), compile_round(round_)
        assert (kept.state.free == cold.state.free).all()
        assert (kept.state.gpu_free == cold.state.gpu_free).all()
        assert (kept.state.healthy == cold.state.healthy).all()
        assert (kept.open == cold.open).all()
        assert kept.quota == cold.quota
        assert [k.jobs for k in kept.classes] == [k.jobs for k in cold.classes]
        assert [(r.places, r.preempt_cost) for r in kept.running.values()] == [
            (r.places, r.preempt_cost) for r in cold.running.values()
        ]


def test_options_of_jobs_that_are_gone_are_not_kept() -> None:
    compiler, other = Compiler(), generate_round(64, 40, seed=1)
    # Copied, as generated rounds share options.
    first = generate_round(64, 40).model_copy(deep=True)
    compiler(first)
    gone = weakref.ref(first.jobs[0].options[0])
    compiler(first.model_copy(update={"jobs": other.jobs}))
    del first
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_an_engine_that_is_pickled_or_copied_says_that_it_cannot_be(
    copied: Callable[[Engine], object], full_cluster: Round
) -> None:
    with Engine(full_cluster, isolation="none", time_limit=0) as engine:
        for _ in range(2):  # before its first round and after
            with pytest.raises(TypeError, match="Engine cannot be pickled or copied; expected its"):
                copied(engine)
            plan = engine.round()
        assert copied(engine.state)
    assert plan["job-0"] is plan.decisions[0]
    with pytest.raises(KeyError, match="nobody"):
        plan["nobody"]

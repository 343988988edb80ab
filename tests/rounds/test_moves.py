"""In which order a plan's moves can be carried out, and how many of them need a spare place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations, permutations
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from examples import examples
from fuzz.small_units import as_document
from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import Decision, DecisionKind, Task
from placewright.instances.documents.round import Round
from placewright.rounds.sections import moves
from placewright.rounds.sections.moves import move_section

Raw = dict[str, Any]
Place = tuple[str, tuple[int, ...]]
Case = tuple[Round, list[Decision]]


def job(name: str, before: Sequence[Place], after: Sequence[Place] | None, **asked: Any) -> Raw:
    """A running job of one group; `after` is None if it is preempted."""
    return {"name": name, "before": before, "after": after, "asked": {"gpu": 1000, **asked}}


def one(name: str, before: str, after: str, **asked: Any) -> Raw:
    """A job of one task on GPU 0 of its host."""
    return job(name, [(before, (0,))], [(after, (0,))], **asked)


def tasks_at(places: Sequence[Place]) -> tuple[Task, ...]:
    return tuple(Task(index=i, host=host, gpus=gpus) for i, (host, gpus) in enumerate(places))


def case(hosts: Iterable[Raw], jobs: Sequence[Raw], pending: Sequence[Raw] = ()) -> Case:
    """Make a round and the decisions that bring each job from `before` to `after`."""
    entries = [
        {
            "name": entry["name"],
            "options": [{"groups": [{"count": len(entry["before"]), **entry["asked"]}]}],
            "running": {"tasks": tasks_at(entry["before"])},
        }
        for entry in jobs
    ]
    raw = {"cluster": {"hosts": list(hosts)}, "jobs": [*entries, *pending]}
    round_ = Round.model_validate(as_document(raw))
    check_round(round_)
    decisions = []
    for entry in jobs:
        if entry["after"] is None:
            decisions.append(Decision(job=entry["name"], decision=DecisionKind.PREEMPT))
            continue
        moved = entry["after"] != entry["before"]
        kind = DecisionKind.MIGRATE if moved else DecisionKind.KEEP
        tasks = tasks_at(entry["after"])
        decisions.append(Decision(job=entry["name"], decision=kind, option=0, tasks=tasks))
    return round_, decisions


def hosts(names: Iterable[str], gpus: int = 1, **more: Any) -> list[Raw]:
    return [{"name": name, "gpus": gpus, "gpu_model": "A", **more} for name in names]


def usage(round_: Round, places: Iterable[tuple[str, Sequence[Task]]]) -> Counter[tuple[str, Any]]:
    """What jobs of one group hold at their places, per host and resource or GPU."""
    groups = {entry.name: entry.options[0].groups[0] for entry in round_.jobs}
    held: Counter[tuple[str, Any]] = Counter()
    for name, tasks in places:
        for task in tasks:
            held[task.host, "cpu"] += groups[name].cpu
            for gpu in task.gpus:
                held[task.host, gpu] += min(groups[name].gpu, 1000)
    return held


def overcommitted(round_: Round, places: Iterable[tuple[str, Sequence[Task]]]) -> list[Any]:
    cpu = {entry.name: entry.cpu or 0 for entry in round_.cluster.hosts}
    held = usage(round_, places)
    return [
        (host, what)
        for (host, what), amount in held.items()
        if amount > (cpu[host] if what == "cpu" else 1000)
    ]


def before(round_: Round) -> dict[str, Sequence[Task]]:
    return {entry.name: entry.running.tasks for entry in round_.jobs if entry.running is not None}


def after(decisions: Sequence[Decision], kind: DecisionKind) -> dict[str, Sequence[Task]]:
    return {d.job: d.tasks for d in decisions if d.decision is kind}


def replay(round_: Round, decisions: Sequence[Decision], section: Raw) -> None:
    """Carry a section out step by step and look for too much at every step."""
    places = before(round_)
    stopped = after(decisions, DecisionKind.PREEMPT)
    moved = after(decisions, DecisionKind.MIGRATE)
    steps, spares = section["steps"], section["needs_spare"]
    assert sorted([*steps, *spares]) == sorted([*stopped, *moved])
    assert set(steps[: len(stopped)]) == set(stopped)
    for name in (*stopped, *spares):
        del places[name]
    for name in (*steps[len(stopped) :], *spares):
        places[name] = moved[name]
        assert not overcommitted(round_, places.items())


def fewest_spares(round_: Round, decisions: Sequence[Decision]) -> int:
    """Try every set of spares with every order of the others."""
    moved = after(decisions, DecisionKind.MIGRATE)
    start = before(round_)
    for name in after(decisions, DecisionKind.PREEMPT):
        del start[name]

    def works(spares: Sequence[str], order: Sequence[str]) -> bool:
        places = {name: tasks for name, tasks in start.items() if name not in spares}
        for name in order:
            places[name] = moved[name]
            if overcommitted(round_, places.items()):
                return False
        return True

    return next(
        count
        for count in range(len(moved) + 1)
        for spares in combinations(moved, count)
        if any(works(spares, order) for order in permutations(sorted({*moved} - {*spares})))
    )


def ordered(hosts_: Iterable[Raw], jobs: Sequence[Raw]) -> tuple[list[str], list[str]]:
    """Steps and spares of a case, replayed and the same a second time."""
    round_, decisions = case(hosts_, jobs)
    section = move_section(round_, decisions)
    assert section is not None
    assert section["kind"] == "moves"
    assert section == move_section(round_, decisions)
    replay(round_, decisions, section)
    return section["steps"], section["needs_spare"]


def test_a_plan_without_moves_has_no_section() -> None:
    assert move_section(*case(hosts("ab"), [one("a", "a", "a")])) is None


def test_the_last_of_a_chain_moves_first() -> None:
    jobs = [one("first", "a", "b"), one("second", "b", "c"), one("third", "c", "d")]
    assert ordered(hosts("abcd"), jobs) == (["third", "second", "first"], [])


def test_preempted_jobs_stop_before_anything_moves() -> None:
    jobs = [one("mover", "a", "b"), job("victim", [("b", (0,))], None)]
    assert ordered(hosts("ab"), jobs) == (["victim", "mover"], [])


def test_two_jobs_swap_by_way_of_the_place_of_a_preempted_one() -> None:
    machines = [*hosts("a", 3, cpu=3), *hosts("b", 3, cpu=4)]
    swap = [
        job("x", [("a", (0,))], [("b", (1,))], cpu=2),
        job("y", [("b", (0,))], [("a", (1,))], cpu=2),
    ]
    kept = job("other", [("b", (2,))], [("b", (2,))], cpu=2)
    assert len(ordered(machines, [*swap, kept])[1]) == 1
    preempted = job("other", [("b", (2,))], None, cpu=2)
    assert ordered(machines, [*swap, preempted]) == (["other", "x", "y"], [])


def test_a_victim_alone_is_a_section() -> None:
    assert ordered(hosts("a"), [job("victim", [("a", (0,))], None)]) == (["victim"], [])


def test_of_two_jobs_that_swap_one_needs_a_spare() -> None:
    steps, spares = ordered(hosts("ab"), [one("x", "a", "b"), one("y", "b", "a")])
    assert (len(steps), len(spares)) == (1, 1)


def test_of_jobs_in_a_circle_the_smallest_needs_a_spare() -> None:
    jobs = [
        job("x", [("a", (0, 1))], [("b", (0, 1))], gpu=2000),
        job("small", [("b", (0,))], [("c", (0,))]),
        job("z", [("c", (0, 1))], [("a", (0, 1))], gpu=2000),
    ]
    assert ordered(hosts("abc", 2), jobs) == (["x", "z"], ["small"])


def test_circles_apart_need_a_spare_each_and_what_hangs_on_them_none() -> None:
    jobs = [
        one("x", "a", "b"),
        one("y", "b", "a"),
        job("between", [("a", (1,))], [("c", (1,))]),
        job("z", [("c", (0, 1))], [("d", (0, 1))], gpu=2000),
        job("w", [("d", (0, 1))], [("c", (0, 2))], gpu=2000),
    ]
    steps, spares = ordered([*hosts("ab", 2), *hosts("cd", 3)], jobs)
    assert len(spares) == 2
    assert "between" in steps


def test_a_first_step_that_would_block_the_others_is_not_taken() -> None:
    """One core of b is free, for three that want one; only y's move lets z leave b.

    x or v could go first, too, but w takes the places of both: it would wait for ever.
    """
    machines = [host for name in "acde" for host in hosts(name, 9, cpu=1)] + hosts("b", 9, cpu=5)
    jobs = [
        job("v", [("d", (0,))], [("b", (4,))], cpu=1),
        job("x", [("a", (0,))], [("b", (5,))], cpu=1),
        job("y", [("c", (0,))], [("b", (6,))], cpu=1),
        job("z", [("b", (0,)), ("b", (1,))], [("c", (1,)), ("e", (1,))], cpu=1),
        job("w", [("b", (2,)), ("b", (3,))], [("a", (1,)), ("d", (1,))], cpu=1),
    ]
    steps, spares = ordered(machines, jobs)
    assert (steps[:2], spares) == (["y", "z"], [])


def test_a_job_that_nobody_waits_for_does_not_take_what_a_circle_needs() -> None:
    """One core of b is free: x may have it only after y and z have changed places."""
    jobs = [
        job("x", [("a", (0,))], [("b", (0,))], cpu=1),
        job("y", [("c", (0,))], [("b", (1,))], cpu=1),
        job("z", [("b", (2,))], [("c", (1,))], cpu=1),
    ]
    machines = [*hosts("a", 3, cpu=9), *hosts("b", 3, cpu=2), *hosts("c", 3, cpu=1)]
    assert ordered(machines, jobs) == (["y", "z", "x"], [])


def test_tasks_that_stay_hold_their_places_and_those_that_move_may_use_their_own() -> None:
    rolls = job("rolls", [("a", (0,)), ("a", (1,))], [("a", (1,)), ("a", (2,))])
    assert ordered(hosts("a", 3), [rolls]) == (["rolls"], [])
    gang = job("gang", [("a", (0,)), ("b", (0,))], [("a", (0,)), ("c", (0,))])
    steps, spares = ordered(hosts("abc"), [one("y", "c", "b"), gang])
    assert (len(steps), len(spares)) == (1, 1)


def test_parking_a_job_whose_tasks_stay_lets_two_pairs_swap() -> None:
    """u and v, w and x swap hosts, and the gang's staying tasks hold the core they lack."""
    pairs = [("u", "a", "b"), ("v", "b", "a"), ("w", "c", "d"), ("x", "d", "c")]
    swaps = [job(name, [(old, (1,))], [(new, (2,))], cpu=2) for name, old, new in pairs]
    stay: list[Place] = [("a", (0,)), ("c", (0,))]
    gang = job("gang", [*stay, ("e", (0,))], [*stay, ("e", (1,))], cpu=1)
    machines = [*hosts("ac", 3, cpu=4), *hosts("bd", 3, cpu=2), *hosts("e", 3, cpu=1)]
    assert ordered(machines, [*swaps, gang])[1] == ["gang"]


def test_shares_of_one_gpu_pass_each_other_where_they_fit() -> None:
    jobs = [one("x", "a", "b", gpu=600), one("y", "b", "a", gpu=500)]
    small = one("small", "a", "b", gpu=100)
    assert len(ordered(hosts("ab"), jobs)[1]) == 1
    jobs = [one("x", "a", "b", gpu=500), one("y", "b", "a", gpu=400), small]
    assert ordered(hosts("ab"), jobs)[1] == []


@pytest.mark.parametrize("resource", ["cpu", "memory", "nic"])
def test_other_resources_block_where_gpus_do_not(resource: str) -> None:
    def amount(n: int) -> Raw:
        return {"resources": {"nic": n}} if resource == "nic" else {resource: n}

    jobs = [
        job("x", [("a", (0,))], [("b", (0,))], **amount(5)),
        job("y", [("b", (1,))], [("a", (1,))], **amount(5)),
    ]
    for capacity, spares in (9, 1), (10, 0):
        section = move_section(*case(hosts("ab", 2, **amount(capacity)), jobs))
        assert section is not None
        assert len(section["needs_spare"]) == spares


def test_one_spare_turns_a_circle_of_a_thousand() -> None:
    names = [f"h{i}" for i in range(1000)]
    jobs = [one(old, old, new) for old, new in zip(names, names[1:] + names[:1], strict=True)]
    section = move_section(*case(hosts(names), jobs))
    assert section is not None
    assert (len(section["steps"]), len(section["needs_spare"])) == (999, 1)


def test_starting_jobs_are_not_counted() -> None:
    pending = {"name": "new", "options": [{"groups": [{"gpu": 1000}]}]}
    round_, decisions = case(hosts("ab"), [one("x", "a", "b")], [pending])
    place = (Task(host="a", gpus=(0,)),)
    start = Decision(job="new", decision=DecisionKind.START, option=0, tasks=place)
    assert move_section(round_, [*decisions, start]) == {
        "kind": "moves",
        "steps": ["x"],
        "needs_spare": [],
    }


@st.composite
def cases(draw: st.DrawFn, most: int = 4) -> Case:
    """Up to `most` jobs of one or two tasks on two or three nearly full hosts, and a valid plan."""
    names = "abc"[: draw(st.integers(2, 3))]
    gpus, cpu = draw(st.integers(1, 3)), draw(st.integers(3, 6))
    machines = hosts(names, gpus, cpu=cpu)
    free_before: Counter[tuple[str, Any]] = Counter()
    for host in names:
        free_before[host, "cpu"] = cpu
        for gpu in range(gpus):
            free_before[host, gpu] = 1000
    free_after = free_before.copy()

    def place(free: Counter[tuple[str, Any]], task: Raw, first: int) -> Place | None:
        shifted = [*names[first:], *names[:first]]
        for host in shifted:
            idle = [g for g in range(gpus) if free[host, g] >= min(task["gpu"], 1000)]
            wanted = -(-task["gpu"] // 1000)
            if len(idle) >= wanted and free[host, "cpu"] >= task["cpu"]:
                chosen = tuple(draw(st.permutations(idle))[:wanted])
                free[host, "cpu"] -= task["cpu"]
                for g in chosen:
                    free[host, g] -= min(task["gpu"], 1000)
                return host, tuple(sorted(chosen))
        return None

    def places(free: Counter[tuple[str, Any]], task: Raw, count: int) -> list[Place] | None:
        found = [place(free, task, draw(st.integers(0, len(names) - 1))) for _ in range(count)]
        return None if None in found else [p for p in found if p is not None]

    jobs = []
    for i in range(draw(st.integers(2, most))):
        task = {
            "gpu": draw(st.sampled_from([400, 600, 1000, 2000, 0])),
            "cpu": draw(st.integers(0, 3)),
        }
        count = draw(st.sampled_from([1, 1, 2]))
        there, then = places(free_before, task, count), places(free_after, task, count)
        if there is None or then is None:
            break
        if draw(st.integers(0, 7)) == 7:
            then = None
        jobs.append(job(f"job-{i}", there, then, **task))
    assume(len(jobs) > 1)
    return case(machines, jobs)


@settings(max_examples=examples(day=60, nightly=400))
@given(cases())
def test_a_section_can_be_replayed_with_as_few_spares_as_any_order(problem: Case) -> None:
    round_, decisions = problem
    section = move_section(round_, decisions)
    if section is None:
        assert {d.decision for d in decisions} == {DecisionKind.KEEP}
        return
    replay(round_, decisions, section)
    assert len(section["needs_spare"]) == fewest_spares(round_, decisions)


@pytest.mark.parametrize(("name", "value"), [("EXACT_JOBS", 1), ("EXACT_TRIES", 1)])
@settings(max_examples=examples(day=20, nightly=100))
@given(cases(most=7))
def test_what_the_rule_orders_can_be_replayed(name: str, value: int, problem: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moves, name, value)
        section = move_section(*problem)
    if section is not None:
        replay(*problem, section)

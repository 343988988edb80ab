"""The bundled rounds have the answers that their comments state, by brute force over hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from pathlib import Path

import pytest

from placewright.instances import verify as verification
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Task
from placewright.instances.documents.round import Round
from placewright.instances.io.files import load_round

LIBRARY = Path(verification.__file__).parents[1] / "library"
TESTS = Path(__file__).parents[1]

# File, terms of every optimum, and the tasks per host of the optimum where there is only one.
ANSWERS: dict[str, tuple[dict[str, int], dict[str, dict[str, int]] | None]] = {
    "knavigator-nwtopo": (
        {"value": 24_000, "proximity": 5},
        {"replicas": {"n5": 1, "n7": 1, "n8": 1}},
    ),
    "kueue-pr-13383": ({"value": 4000}, None),
    "kueue-4474": (
        {"value": 4000},
        {"workload-a": {"x2": 1, "x3": 1}, "workload-b": {"x1": 1}},
    ),
    "kueue-best-fit": (
        {"value": 7000, "opened": 3, "leftover": 0},
        {"pods": {"x1": 3, "x2": 3, "x4": 1}},
    ),
    "kueue-best-fit-slices": (
        {"value": 12_000, "opened": 3, "leftover": 0},
        {"slices": {"x1": 3, "x3": 2, "x5": 1}},
    ),
    "pair": ({"value": 0}, {}),
    "helios-7-7-7": ({"value": 0}, {}),
    "helios-8-8-4": ({"value": 12_000, "opened": 1}, None),
    "strict-priority": (
        {"value_1": 4000, "value_2": 0, "disruption": 0, "spread": 0, "opened": 1},
        {"urgent": {"h0": 1}},
    ),
    "fgd": ({"value": 1000, "stranded": 0}, {"pod": {"h2": 1}}),
}


def load(name: str) -> Round:
    return load_round(LIBRARY / f"{name}.yaml")


def start(job: Job, hosts: tuple[tuple[str, ...], ...], free: dict[str, list[int]]) -> Decision:
    """Start a job's first option on these hosts, one tuple per group; GPUs from the lowest up."""
    tasks = []
    for number, group in enumerate(job.options[0].groups):
        for index, host in enumerate(hosts[number]):
            gpus = tuple(free[host].pop(0) for _ in range(min(group.gpu // 1000, len(free[host]))))
            tasks.append(Task(group=number, index=index, host=host, gpus=gpus))
    return Decision(job=job.name, decision=DecisionKind.START, option=0, tasks=tuple(tasks))


def name_in_policy(term: str) -> str:
    """A term as the policy lists it: `value` for those of priority classes."""
    return "value" if term.startswith("value_") else term


def free_gpus(round_: Round) -> dict[str, list[int]]:
    free = {
        name: list(range(entry.gpus or 0))
        for entry in round_.cluster.hosts
        for name in expand(entry.name)
    }
    for job in round_.jobs:
        for task in job.running.tasks if job.running else ():
            for gpu in task.gpus:
                free[task.host].remove(gpu)
    return free


def keep(job: Job) -> Decision:
    assert job.running is not None
    return Decision(
        job=job.name,
        decision=DecisionKind.KEEP,
        option=job.running.option,
        tasks=job.running.tasks,
    )


def all_plans(round_: Round) -> Iterator[Plan]:
    """Every way to start or leave each pending job, up to the order of equal tasks.

    Running jobs are pinned, as in the sources.
    """
    names = list(free_gpus(round_))
    choices: list[list[tuple[tuple[str, ...], ...] | None]] = []
    for job in round_.jobs:
        if job.running is None:
            per_group = [
                combinations_with_replacement(names, group.count) for group in job.options[0].groups
            ]
            choices.append([None, *product(*per_group)])
        else:
            assert job.running.pinned
            choices.append([None])
    for chosen in product(*choices):
        free = free_gpus(round_)
        yield Plan(
            decisions=tuple(
                keep(job)
                if job.running
                else start(job, hosts, free)
                if hosts
                else Decision(job=job.name, decision=DecisionKind.WAIT)
                for job, hosts in zip(round_.jobs, chosen, strict=True)
            )
        )


def tasks_per_host(plan: Plan) -> dict[str, dict[str, int]]:
    return {
        decision.job: dict(Counter(task.host for task in decision.tasks))
        for decision in plan.decisions
        if decision.decision is DecisionKind.START
    }


@pytest.mark.parametrize("name", ANSWERS)
def test_no_placement_beats_the_stated_answer(name: str) -> None:
    round_ = load(name)
    terms, only = ANSWERS[name]
    assert round_.policy.terms == tuple(dict.fromkeys(name_in_policy(term) for term in terms))
    best: tuple[int, ...] | None = None
    optima: list[dict[str, dict[str, int]]] = []
    for plan in all_plans(round_):
        checked = verification.verify(round_, plan)
        if not checked.ok:
            continue
        score = tuple(
            v if name_in_policy(term) != "value" else -v for term, v in checked.terms.items()
        )
        if best is None or score < best:
            best, optima = score, []
        if score == best:
            optima.append(tasks_per_host(plan))
    assert best == tuple(v if name_in_policy(term) != "value" else -v for term, v in terms.items())
    if only is not None:
        assert optima == [only]


def test_the_next_best_placement_of_knavigator_has_seven() -> None:
    round_ = load("knavigator-nwtopo")
    checked = [verification.verify(round_, plan) for plan in all_plans(round_)]
    found = {c.terms["proximity"] for c in checked if c.ok and c.terms["value"] == 24_000}
    assert sorted(found)[:2] == [5, 7]


def test_the_published_placement_of_kueue_pr_13383_is_valid() -> None:
    round_ = load("kueue-pr-13383")
    hosts = (("x3",), ("x1", "x2", "x2", "x3"))
    plan = Plan(decisions=(start(round_.jobs[0], hosts, free_gpus(round_)),))
    assert verification.verify(round_, plan).ok


def test_the_stated_answer_of_the_quickstart_is_reached() -> None:
    round_ = load("quickstart")
    jobs = {job.name: job for job in round_.jobs}
    free = free_gpus(round_)
    started = {
        "pretrain": start(jobs["pretrain"], (("a1", "a2"),), free),
        "finetune": start(jobs["finetune"], (("b1",),), free),
        "sweep": start(jobs["sweep"], (("b0",) * 4,), free),
    }
    first, second = free["b0"]
    started["notebooks"] = Decision(
        job="notebooks",
        decision=DecisionKind.START,
        option=0,
        tasks=tuple(
            Task(index=index, host="b0", gpus=(gpu,))
            for index, gpu in enumerate((first, first, second))
        ),
    )
    plan = Plan(
        decisions=tuple(
            keep(job)
            if job.running
            else started.get(job.name) or Decision(job=job.name, decision=DecisionKind.WAIT)
            for job in round_.jobs
        )
    )
    checked = verification.verify(round_, plan)
    assert checked.ok, checked.violations
    assert checked.terms == {"value": 90_400, "disruption": 0, "spread": 0, "opened": 3}


def test_every_file_has_a_header_an_answer_and_a_test() -> None:
    stems = set()
    for path in LIBRARY.glob("*.yaml"):
        stems.add(path.stem)
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines[0] == "# yaml-language-server: $schema=../schema/round.json"
        labels = [line.split()[1] for line in lines if line.startswith("# ") and line[2] != " "]
        assert labels[1:] == ["Source:", "Objective:", "Answer:"]
        assert load(path.stem).name == path.stem
        if path.stem in ANSWERS:
            terms, _ = ANSWERS[path.stem]
            stated = ", ".join(f"{name} {value}" for name, value in terms.items())
            assert f"# Answer: {stated}" in lines
    # Systems with rules of their own have their answers checked in tests of their own.
    others = stems - {*ANSWERS, "quickstart"}
    sources = [path.read_text() for path in TESTS.rglob("test_*.py") if path != Path(__file__)]
    assert {stem for stem in others if not any(f'"{stem}"' in text for text in sources)} == set()
    assert stems >= {*ANSWERS, "quickstart"}

"""A policy in one file: its spec, formulation, check, rule, term and view, each registered.

The policy `shortest_queue` starts as many pending jobs as it can; no job may wait that asks for
fewer GPUs than one that starts. docs/how-to/add-a-policy.md explains it step by step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from placewright import InvalidInputError, Round, load_round, solve_round, verify
from placewright.cli.app import main
from placewright.cli.views.policies import VIEWS, PolicyViews
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.instances.checks.policies import CHECKS, PolicyChecks
from placewright.instances.documents.plan import Decision, Plan, Reason
from placewright.instances.policies import POLICIES, PolicySpec
from placewright.instances.verify import rule_ids
from placewright.instances.verify.policies import RULES, PolicyRules
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule
from placewright.report.page import render_report
from placewright.report.panels.policies import PANELS, PolicyPanels
from placewright.report.panels.subject import Subject
from placewright.report.table import Table, table
from placewright.rounds import prove_bounds
from placewright.rounds.deciders.base import (
    DECIDERS,
    Decider,
    PolicyDecider,
    Resources,
)
from placewright.rounds.decisions import Why

NAME = "shortest_queue"

SPEC = PolicySpec(
    name=NAME,
    title="as many jobs as possible, the smallest first",
    terms={"jobs_started": "max"},
    leading=("jobs_started",),
    default=("jobs_started",),
    reasons=("capacity",),
)


def check_one_task(round_: Round) -> None:
    """Refuse jobs that run, and those of more than one task: this policy does not place them."""
    for i, job in enumerate(round_.jobs):
        if job.running is not None or sum(g.count for g in job.options[0].groups) != 1:
            raise InvalidInputError(
                "expected a pending job of one task", path=("jobs", i), value=job.name
            )


def jobs_started(reading: Reading) -> int:
    """Jobs that start."""
    return len(reading.started)


def smallest_first(reading: Reading) -> Iterator[Finding]:
    """Require that no job waits that asks for fewer GPUs than one that starts."""
    largest = max((placed.option.milli_gpu for placed in reading.started), default=0)
    started = {placed.job.name for placed in reading.started}
    for index, decision in enumerate(reading.plan.decisions):
        job = reading.jobs.get(decision.job)
        if job is not None and job.name not in started and job.options[0].milli_gpu < largest:
            yield Finding(
                ("decisions", index),
                f"job {job.name!r} waits behind a larger one; expected the smallest first",
            )


def run(problem: Round, session: Session) -> Iterator[Candidate | Bound]:
    """First fit, smallest first; every job counts one, so that many is the trivial bound."""
    yield Bound("jobs_started", len(problem.jobs), certified=True)
    free = [list(range(host.gpus)) for host in problem.cluster.hosts]
    starts = {}
    for j in sorted(range(len(problem.jobs)), key=lambda j: _gpus(problem, j)):
        needed = _gpus(problem, j)
        host = next((h for h, gpus in enumerate(free) if len(gpus) >= needed), None)
        if host is None:
            break
        gpus, free[host] = free[host][:needed], free[host][needed:]
        starts[j] = 0, ((0, 0, host, tuple(gpus)),)
    yield Candidate(starts, "first fit", final=True)


def _gpus(round_: Round, job: int) -> int:
    return round_.jobs[job].options[0].groups[0].gpu // 1000


class ShortestQueueDecider:
    """Joins the formulation to the documents."""

    def __init__(self, round_: Round) -> None:
        self._round = round_
        self.hosts = tuple(host.name for host in round_.cluster.hosts)
        self.terms: tuple[str, ...] = round_.policy.terms

    def steps(self, session: Session) -> Iterator[Candidate | Bound]:
        """Yield what the formulation yields."""
        return run(self._round, session)

    def reasons(self, candidate: Candidate) -> Mapping[int, Why]:
        """Return the reason of every job that waits."""
        waiting = set(range(len(self._round.jobs))) - set(candidate.starts)
        return dict.fromkeys(waiting, Why(Reason.CAPACITY))

    def sections(
        self, candidate: Candidate, decisions: Sequence[Decision]
    ) -> Iterator[dict[str, Any] | None]:
        """Yield no section."""
        return iter(())


def decider(round_: Round, resources: Resources) -> Decider:
    """Make the decider of a round."""
    return ShortestQueueDecider(round_)


def queue_tables(subject: Subject, plan: Plan) -> Iterator[Table]:
    """Yield how many jobs still wait, for the page."""
    waiting = sum(not decision.tasks for decision in plan.decisions)
    yield table("Queue", ("jobs", "waiting"), [(str(len(subject.jobs)), str(waiting))])


def print_queue(console: Any, round_: Round, plan: Plan) -> None:
    """Print how many jobs still wait."""
    waiting = sum(not decision.tasks for decision in plan.decisions)
    console.print(f"Queue: {waiting} of {len(round_.jobs)} jobs wait")


@pytest.fixture(autouse=True)
def policy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Register the policy with every layer, for one test."""
    monkeypatch.setitem(POLICIES, NAME, SPEC)
    CHECKS.register(NAME, PolicyChecks(jobs=check_one_task))
    RULES.register(
        NAME,
        PolicyRules(
            terms={"jobs_started": jobs_started}, rules=(Rule("smallest_first", smallest_first),)
        ),
    )
    DECIDERS.register(NAME, PolicyDecider(decider))
    PANELS.register(NAME, PolicyPanels("Queue", queue_tables))
    VIEWS.register(NAME, PolicyViews(plan_tables=print_queue, plan_charts=print_queue))
    yield
    for registry in (CHECKS, RULES, DECIDERS, PANELS, VIEWS):
        registry.remove(NAME)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A round of the policy: three jobs, of which the smallest two fit."""
    path = tmp_path / "queue.json"
    jobs = [{"name": n, "options": [{"groups": [{"gpu": f"{g}m"}]}]} for n, g in SIZES.items()]
    raw = {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Round",
        "cluster": {"hosts": [{"name": "h0", "gpus": 4, "gpu_model": "A100"}]},
        "jobs": jobs,
        "policy": {"formulation": NAME},
    }
    path.write_text(json.dumps(raw))
    return path


SIZES = {"large": 4000, "small": 1000, "middle": 2000}


def test_a_round_of_the_policy_is_solved_and_verified(file: Path) -> None:
    round_ = load_round(file)
    assert round_.policy.terms == ("jobs_started",)
    plan = solve_round(round_, isolation="none")
    checked = verify(round_, plan)
    assert checked.ok
    assert checked.terms == {"jobs_started": 2}
    assert {d.job: d.reason for d in plan.decisions if not d.tasks} == {"large": Reason.CAPACITY}
    assert plan.certificate is not None
    (term,) = plan.certificate.terms
    assert (term.value, term.bound, term.sense, term.proof) == (2, 3, "max", "certified")
    assert prove_bounds(round_, plan, isolation="none")[0].bound == 3


def test_its_check_and_its_rule_refuse_what_breaks_them(file: Path, tmp_path: Path) -> None:
    raw = json.loads(file.read_text())
    raw["jobs"][0]["options"][0]["groups"][0]["count"] = 2
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(raw))
    with pytest.raises(InvalidInputError, match="expected a pending job of one task"):
        load_round(wrong)
    round_ = load_round(file)
    large = {"job": "large", "decision": "start", "option": 0}
    large["tasks"] = [{"host": "h0", "gpus": [0, 1, 2, 3]}]
    waiting = [{"job": n, "decision": "wait", "reason": "capacity"} for n in ("small", "middle")]
    plan = Plan.model_validate({"decisions": [large, *waiting]})
    assert [found.rule for found in verify(round_, plan).violations] == ["smallest_first"] * 2
    assert "smallest_first" in rule_ids()


def test_other_policies_neither_have_its_term_nor_know_it(file: Path, tmp_path: Path) -> None:
    raw = json.loads(file.read_text())
    raw["policy"] = {"formulation": "gang", "terms": ["jobs_started"]}
    other = tmp_path / "other.json"
    other.write_text(json.dumps(raw))
    with pytest.raises(InvalidInputError, match="is not for policy 'gang'"):
        load_round(other)


def test_it_is_shown(file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plan = str(tmp_path / "plan.json")
    assert main(["solve", str(file), "-o", plan]) == 0
    assert "Queue: 1 of 3 jobs wait" in capfd.readouterr().out
    assert main(["show", str(file), "--plan", plan]) == 0
    assert "Queue: 1 of 3 jobs wait" in capfd.readouterr().out
    assert main(["verify", str(file), plan, "-v"]) == 0
    assert "smallest_first" in capfd.readouterr().out


def test_its_page_has_its_table(file: Path) -> None:
    round_ = load_round(file)
    page = render_report(round_, solve_round(round_, isolation="none"))
    assert "<caption>Queue</caption>" in page

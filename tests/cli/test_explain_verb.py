"""The verb `explain`: text and JSON, one job or all, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from placewright.instances.io.files import load_round, write
from placewright.rounds import solve_round

LIBRARY = Path(__file__).parents[2] / "instances" / "library"
PAIR, QUICKSTART = str(LIBRARY / "pair.yaml"), str(LIBRARY / "quickstart.yaml")
REPLICAS = str(LIBRARY / "mast-replicas.yaml")


@pytest.fixture
def plan(tmp_path: Path) -> str:
    """A plan of the quickstart."""
    path = tmp_path / "plan.json"
    write(solve_round(load_round(QUICKSTART), isolation="none"), path)
    return str(path)


def test_text_begins_with_job_and_verdict(run: Callable) -> None:
    result = run("explain", PAIR, "--job", "pair")
    assert result.code == 0
    first = result.out.splitlines()[0]
    assert first == "job pair (2 GPUs (two) and 4 GPUs (four), priority 0): can never run here"
    assert "    asks   4 GPUs per task\n" in result.out


def test_json_has_verdict_and_conflict(run: Callable, plan: str) -> None:
    result = run("explain", QUICKSTART, plan, "--job", "homework", "--format", "json")
    assert result.code == 0
    document = json.loads(result.out)
    assert document["kind"] == "Explanation"
    assert document["verdict"] == "never_within_rules"
    assert [fact["stratum"] for fact in document["conflict"]] == ["asks", "asks", "rules"]


def test_all_jobs_that_wait(run: Callable, plan: str) -> None:
    result = run("explain", QUICKSTART, plan, "--all", "--format", "json")
    assert result.code == 0
    groups = json.loads(result.out)["groups"]
    assert sorted(name for group in groups for name in group["jobs"]) == [
        *("colossus", "homework", "pretrain-next", "render")
    ]
    assert "colossus" in run("explain", QUICKSTART, plan, "--all").out


def test_without_time_the_exit_code_is_6(run: Callable) -> None:
    result = run("explain", PAIR, "--job", "pair", "--time-limit", "0")
    assert result.code == 9
    assert "could not be decided within the limit" in result.out


def test_what_cannot_be_explained_is_said(run: Callable, plan: str) -> None:
    unknown = run("explain", PAIR, "--job", "pairs")
    assert unknown.code == 3
    assert "did you mean pair?" in unknown.err
    started = run("explain", QUICKSTART, plan, "--job", "pretrain")
    assert started.code == 3
    assert "expected a job that waits" in started.err
    assert run("explain", PAIR).code == 2
    assert run("explain", PAIR, "--job", "pair", "--all").code == 2
    assert run("explain", PAIR, plan, "--job", "pair").code == 3


def test_escapes_of_an_argument_do_not_reach_the_terminal(run: Callable) -> None:
    result = run("explain", PAIR, "--job", "\x1b[31mred")
    assert result.code == 3
    assert "\x1b" not in result.err


def test_the_reason_and_what_to_try_first_come_next(run: Callable, plan: str) -> None:
    result = run("explain", QUICKSTART, plan, "--job", "homework")
    first = result.out.splitlines()[1]
    assert first.startswith(
        "  Try first: ask 4 instead of 8 tasks (user); not beside what this plan starts (pretrain"
    )
    render = run("explain", QUICKSTART, plan, "--job", "render").out.splitlines()
    assert render[1].startswith("  In short: the plan starts ")
    assert "Try first" not in run("explain", PAIR, "--job", "pair", "--corrections", "0").out


def test_why_a_replica_is_missing(run: Callable) -> None:
    result = run("explain", REPLICAS, "--replica", "web=north")
    assert result.code == 0
    page = (LIBRARY.parents[1] / "docs" / "how-to" / "why-is-it-pending.md").read_text()
    assert result.out in page
    could = run("explain", REPLICAS, "--replica", "web=west", "--format", "json")
    document = json.loads(could.out)
    assert document["verdict"] == "could_start"
    assert (document["dataset"], document["region"]) == ("web", "west")
    assert "job" not in document


def test_a_question_for_a_replica_that_makes_no_sense(run: Callable, plan: str) -> None:
    assert "unknown dataset" in run("explain", REPLICAS, "--replica", "nope=west").err
    assert "has web, or gets it" in run("explain", REPLICAS, "--replica", "web=east").err
    assert "expected policy replicas" in run("explain", PAIR, "--replica", "web=east").err
    assert "expected DATASET=REGION" in run("explain", REPLICAS, "--replica", "web").err
    assert run("explain", QUICKSTART, plan, "--replica", "web=west").code == 2
    assert run("explain", PAIR, "--replica", "web=east", "--all").code == 2

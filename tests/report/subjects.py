"""Rounds and plans that pages are made of: of each policy, a dump, large, hostile."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from placewright.instances.converters import read_slurm
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.plan import Decision, DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_round
from placewright.instances.io.files import load_round
from placewright.rounds import solve_round
from placewright.rounds.decisions import DefaultDecisions

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "instances" / "library"
DUMP = ROOT.parent / "shared" / "data" / "live" / "slurm" / "22.05-64nodes"

MARKUP = "</script><script>document.title='pwned'</script><img src=x onerror=alert(1)>"
TERMINAL = "\x1b]0;pwned\x07\x1b[31m\x9b2J\u202e\u2066\u2028\u2029\x7f"
EVIL = f"'\"><b>{MARKUP}{TERMINAL}{{{{7*7}}}}<!--"


@cache
def solved(name: str) -> tuple[Round, Plan]:
    """A bundled round and its plan."""
    round_ = load_round(LIBRARY / f"{name}.yaml")
    return round_, solve_round(round_, time_limit=5, isolation="none")


@cache
def dumped() -> tuple[Round, Plan]:
    """The round of a real Slurm of 64 hosts, and a plan that starts what it can."""
    if not DUMP.is_dir():
        pytest.skip("needs the captured dumps of live clusters")
    round_ = read_slurm([DUMP]).round
    return round_, solve_round(round_, time_limit=5, isolation="none")


def kept(round_: Round) -> Plan:
    """The plan in which nothing happens."""
    return Plan(decisions=DefaultDecisions()(round_))


@cache
def large() -> tuple[Round, Plan]:
    """100,000 GPUs; every third job that runs there is a pending one that the plan starts."""
    made = generate_round(100_000, 10_000, seed=3)
    running = [job for job in made.jobs if job.running is not None]
    starts = {job.name: job for job in running[::3]}
    jobs = tuple(
        job.model_copy(update={"running": None}) if job.name in starts else job for job in made.jobs
    )
    round_ = made.model_copy(update={"jobs": jobs})
    decisions = []
    for decision in kept(round_).decisions:
        held = starts[decision.job].running if decision.job in starts else None
        if held is not None:
            decision = Decision.model_construct(
                job=decision.job,
                decision=DecisionKind.START,
                option=held.option,
                tasks=held.tasks,
            )
        decisions.append(decision)
    return round_, Plan.model_construct(decisions=tuple(decisions))


def hostile() -> tuple[Round, Plan]:
    """The quickstart with names that no document may have: whoever checks names may be wrong."""
    round_, plan = solved("quickstart")
    hosts = tuple(
        entry.model_copy(update={"name": name})
        for entry in round_.cluster.hosts
        for name in expand(entry.name)
    )
    round_ = round_.model_copy(
        update={"cluster": round_.cluster.model_copy(update={"hosts": hosts})}
    )
    entries = *round_.jobs, *round_.tenants, *hosts, *round_.cluster.domains
    names = {round_.name, *(entry.name for entry in entries)}
    renamed = {name: f"{name}{EVIL}" for name in names}
    document = round_.model_copy(update={"annotations": {"note": EVIL}})
    return _renamed(document, renamed), _renamed(plan, renamed)


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """Replace names in documents, without any validation."""
    if isinstance(value, str) and type(value) is str:
        return names.get(value, value)
    if isinstance(value, tuple):
        return tuple(_renamed(one, names) for one in value)
    if isinstance(value, dict):
        return {key: _renamed(one, names) for key, one in value.items()}
    if hasattr(value, "model_copy"):
        fields = {key: _renamed(one, names) for key, one in dict(value).items()}
        return value.model_copy(update=fields)
    return value

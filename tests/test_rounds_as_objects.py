"""A round made of objects is refused as one from a file is: every mistake, by every entrance."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import pkgutil
import re
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, is_typeddict

import pytest

import placewright
from placewright import Changes, Edits, Engine, Plan, Round, apply_edits, load_round, solve_round
from placewright import verify as verified
from placewright.explain.audit import audit
from placewright.explain.comparison import compare
from placewright.explain.current_placement import current_placement
from placewright.explain.explain_job import explain_job
from placewright.explain.kinds import explain_all
from placewright.explain.missing_replica import explain_missing_replica
from placewright.explain.whatif import whatif
from placewright.instances.checks import round as checks_of_rounds
from placewright.instances.checks.round import check_round, is_checked
from placewright.instances.documents.job import Job
from placewright.instances.errors import InvalidInputError
from placewright.instances.exporters.csv_table import plan_csv
from placewright.instances.exporters.kubernetes import bind_requests, kubernetes_script
from placewright.instances.exporters.kueue import kueue_script, topology_assignments
from placewright.instances.exporters.needs import obeying
from placewright.instances.exporters.ray import bundle_selectors
from placewright.instances.exporters.slurm import slurm_script
from placewright.instances.io.digest import round_digest
from placewright.instances.presets.presets import (
    defragment,
    drain,
    hot_swap,
    minimal_victims,
    return_hosts,
)
from placewright.instances.presets.replica_teams import replica_teams
from placewright.instances.verify import RefusalReasons
from placewright.report.page import render_report
from placewright.rounds import prove_bounds
from placewright.rounds.protection import protect

ROOT = Path(placewright.__file__).resolve().parents[2]
LIBRARY = ROOT / "instances" / "library"
PLAN = Plan(decisions=())
GOOD = load_round(LIBRARY / "quickstart.yaml")

ENTRANCES: dict[str, Callable[[Round], object]] = {
    "rounds.solve.solve_round": solve_round,
    "rounds.engine.Engine": Engine,
    "rounds.solve.prove_bounds": lambda r: prove_bounds(r, PLAN),
    "rounds.protection.protect": lambda r: protect(r, 2, "rack", 1),
    "instances.verify.verify": lambda r: verified(r, PLAN),
    "instances.verify.refusal_reasons.RefusalReasons": lambda r: RefusalReasons(r, PLAN),
    "instances.edits.apply.apply_edits": lambda r: apply_edits(r, Edits(edits=())),
    "instances.io.digest.round_digest": round_digest,
    "instances.presets.presets.drain": lambda r: drain(r, ["h0"]),
    "instances.presets.presets.hot_swap": lambda r: hot_swap(r, ["h0"]),
    "instances.presets.presets.defragment": lambda r: defragment(r, "rack", 1),
    "instances.presets.presets.minimal_victims": lambda r: minimal_victims(r, "a"),
    "instances.presets.presets.return_hosts": lambda r: return_hosts(r, ["h0"], 1),
    "instances.presets.replica_teams.replica_teams": lambda r: replica_teams(r, 2, "rack", 1),
    "instances.exporters.kubernetes.bind_requests": lambda r: bind_requests(r, PLAN),
    "instances.exporters.kubernetes.kubernetes_script": lambda r: kubernetes_script(r, PLAN),
    "instances.exporters.kueue.kueue_script": lambda r: kueue_script(r, PLAN),
    "instances.exporters.kueue.topology_assignments": lambda r: topology_assignments(r, PLAN),
    "instances.exporters.csv_table.plan_csv": lambda r: plan_csv(r, PLAN),
    "instances.exporters.needs.obeying": lambda r: obeying(r, PLAN),
    "instances.exporters.ray.bundle_selectors": lambda r: bundle_selectors(r, PLAN),
    "instances.exporters.slurm.slurm_script": lambda r: slurm_script(r, PLAN),
    "explain.audit.audit": lambda r: audit(r, PLAN),
    "explain.comparison.compare": lambda r: compare(r, PLAN, GOOD, PLAN),
    "explain.comparison.compare, second": lambda r: compare(GOOD, PLAN, r, PLAN),
    "explain.current_placement.current_placement": current_placement,
    "explain.explain_job.explain_job": lambda r: explain_job(r, None, "a"),
    "explain.kinds.explain_all": lambda r: explain_all(r, None),
    "explain.missing_replica.explain_missing_replica": (
        lambda r: explain_missing_replica(r, "d", "r")
    ),
    "explain.whatif.whatif": lambda r: whatif(r, Edits(edits=())),
    "report.page.render_report": lambda r: render_report(r, PLAN),
}  # fmt: skip

BEHIND = {
    "instances.documents.round.Round",
    "instances.exporters.kubernetes.PodCalls",
    "instances.exporters.kubernetes.Hostnames",
    "instances.exporters.kubernetes.waiting_event",
    "instances.exporters.needs.Needs",
    "instances.exporters.slurm.places_of",
    "instances.exporters.slurm.slurm_steps",
    "instances.presets.presets.with_policy",
    "instances.edits.apply.edited",
    "instances.verify.breaks",
    "instances.verify.class_terms",
    "instances.verify.data_facts.GeoFacts",
    "instances.verify.reading.GeoFacts",
    "instances.verify.reading.read_geo",
    "instances.verify.terms_of",
    "explain.explain_job.waiting_job",
    "explain.missing_replica.probing",
    "explain.whatif.WhatIf",
    "rounds.protection.Protection",
    "rounds.solve.Solve",
    "rounds.solve.starting_candidates",
}
"""What holds a round that was checked, or is called with one by the entrances alone."""

PAGES = ("docs/library.md", "README.md")


def public() -> Iterator[object]:
    """All public callables: of packages that say what they export, and of modules in the docs."""
    for package in ("", ".instances", ".instances.verify", ".rounds"):
        module = importlib.import_module(f"placewright{package}")
        yield from (getattr(module, name) for name in module.__all__)
    named = {"placewright.explain.current_placement", "placewright.explain.kinds"}
    for entrance in ENTRANCES:
        named.add(f"placewright.{entrance.rsplit('.', 1)[0]}")
    for page in PAGES:
        text = (ROOT / page).read_text()
        named |= set(re.findall(r"(placewright(?:\.[a-z_]+)+)\.[A-Za-z_]+\(", text))
    for folder in ("instances.exporters", "instances.presets"):
        package = importlib.import_module(f"placewright.{folder}")
        named |= {
            found.name for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        }
    for name in named:
        module = importlib.import_module(name)
        for key, one in vars(module).items():
            if not key.startswith("_") and getattr(one, "__module__", "") == name:
                yield one


def test_every_public_callable_that_takes_a_round_is_an_entrance():
    found = set()
    for one in public():
        if not (inspect.isclass(one) or inspect.isfunction(one)):
            continue
        if not one.__module__.startswith("placewright.") or is_typeddict(one):
            continue
        parameters = inspect.signature(one).parameters.values()
        if any(re.search(r"\bRound\b", str(each.annotation)) for each in parameters):
            found.add(f"{one.__module__.removeprefix('placewright.')}.{one.__name__}")
    found.discard("instances.documents.round.Round")
    known = {name.split(",")[0] for name in ENTRANCES}
    assert found - BEHIND == known
    assert not known & BEHIND


MODULES = (
    "test_all_errors", "test_arrangement_references", "test_caps",
    "test_cell_references", "test_deadlines", "test_geo_references", "test_host_sets",
    "test_magnitudes", "test_pools", "test_references", "test_sharing",
)  # fmt: skip


def mistakes(module: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Round, str]]:
    """Yield the rounds that tests of a module have refused, with what they were told.

    Those of tests without fixtures, each with all its parameters.
    """
    refused: list[tuple[Round, str]] = []

    def noted(round_: Round) -> None:
        try:
            check_round(round_)
        except InvalidInputError as error:
            refused.append((round_, str(error)))
            raise

    monkeypatch.setattr(checks_of_rounds, "check_round", noted)
    monkeypatch.setattr(module, "check_round", noted, raising=False)
    for name, test in inspect.getmembers(module, inspect.isfunction):
        if not name.startswith("test_") or hasattr(test, "hypothesis"):
            continue
        marks = [m for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
        names = [
            tuple(re.split(r",\s*", m.args[0]) if isinstance(m.args[0], str) else m.args[0])
            for m in marks
        ]
        if {n for some in names for n in some} != set(inspect.signature(test).parameters):
            continue
        for values in product(*(m.args[1] for m in marks)):
            rows = [v if len(n) > 1 else (v,) for n, v in zip(names, values, strict=True)]
            test(
                **{
                    n: v
                    for ns, row in zip(names, rows, strict=True)
                    for n, v in zip(ns, row, strict=True)
                }
            )
    monkeypatch.undo()
    yield from refused


@pytest.mark.nightly(after=3)
@pytest.mark.parametrize("name", MODULES)
def test_every_mistake_is_refused_by_every_entrance_with_the_loaders_words(name, monkeypatch):
    module = importlib.import_module(f"tests.instances.{name}")
    told = {}
    for round_, text in mistakes(module, monkeypatch):
        told.setdefault(text, round_)
    assert told
    for text, round_ in told.items():
        for entrance, ask in ENTRANCES.items():
            with pytest.raises(InvalidInputError) as caught:
                ask(round_)
            assert str(caught.value) == text, entrance


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_what_is_no_round_is_refused(entrance):
    with pytest.raises(InvalidInputError, match="round: 'dict': expected a Round, as loaders"):
        ENTRANCES[entrance]({"jobs": []})  # type: ignore[arg-type]


def test_an_object_is_checked_once_and_what_is_made_of_it_again():
    good = load_round(LIBRARY / "pair.yaml")
    assert is_checked(good)
    wrong = {"jobs": (*good.jobs, good.jobs[0])}
    made: list[Round] = [
        good.model_copy(update=wrong),
        good.model_copy(deep=True),
        copy.copy(good),
        copy.deepcopy(good),
        pickle.loads(pickle.dumps(good)),
        good.without_jobs({"nobody"}),
        Round.model_validate(good.model_dump()),
    ]
    assert not any(map(is_checked, made))
    with pytest.raises(InvalidInputError, match="job given twice"):
        solve_round(made[0])
    assert [verified(one, PLAN).terms for one in made[1:]] == [verified(good, PLAN).terms] * 6
    assert all(map(is_checked, made[1:]))


def test_a_lenient_reading_stays_one(tmp_path):
    raw = GOOD.model_dump(mode="json", exclude_defaults=True)
    strange = {**raw["jobs"][-1], "name": "strange", "tenant": "nobody", "running": None}
    round_ = Round.model_validate({**raw, "jobs": [*raw["jobs"], strange]})
    with pytest.raises(InvalidInputError, match="'nobody': unknown tenant"):
        solve_round(round_)
    lenient = round_.with_invalid({"strange": "who?"})
    plan = solve_round(lenient, time_limit=0)
    assert plan.decisions[-1].reason == "invalid"
    assert verified(lenient, plan).ok


def job(name: str, gpus: int = 8, **fields: Any) -> Job:
    groups = [{"gpu": 8, "count": gpus // 8}]
    return Job.model_validate(
        {"name": name, "weight": 10**6, "options": [{"groups": groups}], **fields}
    )


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ([job("a", tenant="nobody")], r"added\[0\]\.tenant: 'nobody': unknown tenant"),
        ([job("a"), job("a")], r"added\[1\]\.name: 'a': job given twice"),
        ([job(f"w{i}", 8 * 10**5) for i in range(1000)], "jobs: 1,280,.* in all; expected at most"),
    ],
)  # fmt: skip
def test_changes_are_refused_as_rounds_are(jobs, words):
    with Engine(GOOD, time_limit=0, isolation="none") as engine:
        engine.round(Changes(added=[job(f"v{i}", 8 * 10**5) for i in range(600)]))
        with pytest.raises(InvalidInputError, match=words):
            engine.round(Changes(added=jobs))
        assert len(engine.state.jobs) == len(GOOD.jobs) + 600

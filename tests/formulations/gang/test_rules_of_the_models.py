"""Each block of rows is needed: without it a small round has an answer that no plan has."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from placewright.formulations.gang.bounds import freed_bounds
from placewright.formulations.gang.models.aggregate.gpu_columns import GpuPatterns
from placewright.formulations.gang.models.aggregate.host_classes import ResourceGrid, host_classes
from placewright.formulations.gang.models.aggregate.host_columns import (
    HostPatterns,
    grid_host_classes,
    host_patterns_apply,
)
from placewright.formulations.gang.models.aggregate.model import (
    build_aggregate_model as build_counts,
)
from placewright.formulations.gang.models.aggregate.solve import bound_by_relaxation
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.models.host.model import build_host_model
from placewright.formulations.gang.models.host.preemption import add_preemption
from placewright.formulations.gang.models.host.rows import add_gpus
from placewright.formulations.gang.models.host.terms import add_terms
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.plan_messages import HOLD_SLACK
from placewright.formulations.session import Session
from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round
from placewright.solver import Arrays, InProcess, Limits, Model, Status
from tests.formulations.gang import oracle
from tests.formulations.gang import oracle_running as moves

Raw = dict[str, Any]


def host(name: str, gpus: int, rack: str = "a", **more: Any) -> Raw:
    return {"name": name, "parent": rack, "gpus": gpus, "gpu_model": "A", "cpu": "8m", **more}


def job(*groups: Raw, **more: Any) -> Raw:
    return {"options": [{"groups": list(groups)}], **more}


def tasks(count: int, gpu: int, cpu: int = 0, **more: Any) -> Raw:
    """Tasks of so many milli-GPU and millicores each."""
    return {"count": count, "gpu": f"{gpu}m", "cpu": f"{cpu}m", **more}


def runs(gpu: int, *at: tuple[str, *tuple[int, ...]], **more: Any) -> Raw:
    """A job of one group that runs, each task on a host and GPUs."""
    places = [{"index": i, "host": host, "gpus": gpus} for i, (host, *gpus) in enumerate(at)]
    running = {"tasks": places, **more.pop("running", {})}
    return job(tasks(len(at), gpu, preferred=[]), running=running, **more)


def small(hosts: list[Raw], jobs: list[Raw], terms: tuple[str, ...], **more: Any) -> Round:
    """Make a round of hosts in racks and jobs without names; some of `more` goes to its policy."""
    named = [{"name": f"job-{i}", **job_} for i, job_ in enumerate(jobs)]
    domains = [{"name": rack, "level": "rack"} for rack in sorted({h["parent"] for h in hosts})]
    cluster = {"levels": ["rack"], "domains": domains, "hosts": hosts}
    policy = {"terms": terms, "priority": "preemption"} | {
        key: more.pop(key) for key in {"vacate", "freeing"} & set(more)
    }
    round_ = Round.model_validate({"cluster": cluster, "jobs": named, "policy": policy, **more})
    check_round(round_)
    return round_


MENU = small(
    [host("h0", 3)],
    [{"options": [{"groups": [tasks(1, gpu)]} for gpu in (1000, 2000, 4000)]}],
    ("value",),
)
GANG = small([host("h0", 4), host("h1", 4, "b")], [job(tasks(3, 4000, preferred=[]))], ("value",))
CORES = small([host("h0", 4)], [job(tasks(1, 1000, cpu=cpu)) for cpu in (4, 5)], ("value",))
WHOLE = small([host("h0", 4)], [job(tasks(1, gpu)) for gpu in (3000, 2000)], ("value",))
SHARES = small([host("h0", 1)], [job(tasks(1, gpu)) for gpu in (600, 700)], ("value",))
QUOTA = small(
    [host("h0", 4)],
    [job(tasks(1, 2000, cpu=cpu), tenant="red") for cpu in (1, 2)],
    ("value",),
    tenants=[{"name": "red", "quota": {"gpu": 2}}],
)
REQUIRED = small(
    [host("h0", 4), host("h1", 4, "b")], [job(tasks(2, 4000, required="rack"))], ("value",)
)
SPREAD = small([host("h0", 4), host("h1", 4, "b")], [job(tasks(2, 4000))], ("value", "spread"))
OPENED = small([host("h0", 4), host("h1", 4)], [job(tasks(1, 1000))] * 2, ("value", "opened"))
LEFTOVER = small([host("h0", 4), host("h1", 4)], [job(tasks(1, 3000))], ("value", "leftover"))
PAIRS = small([host("h0", 2), host("h1", 2)], [job(tasks(3, 1000))], ("value", "proximity"))
HALVES = small(
    [host("h0", 3), host("h1", 3)], [job(tasks(1, 2000, cpu=cpu)) for cpu in (0, 1, 2)], ("value",)
)
ONE_RACK = small(
    [host("h0", 4), host("h1", 4), host("h2", 4, "b"), host("h3", 4, "c")],
    [job(tasks(2, gpu, required="rack")) for gpu in (4000, 3000)],
    ("value",),
)
RESIDUAL = small(
    [host("h0", 1)],
    [
        runs(500, ("h0", 0), running={"pinned": True}),
        *[job(tasks(1, gpu)) for gpu in (500, 300)],
    ],
    ("value",),
)
LEAVES = small(
    [host("h0", 2), host("h1", 2)],
    [runs(1000, ("h0", 0), running={"restart_s": 3})],
    ("remaining", "disruption"),
    vacate=["h0"],
)
FAILED = small(
    [host("h0", 1, healthy=False), host("h1", 1), host("h2", 2)],
    [runs(1000, ("h0", 0), ("h1", 0))],
    ("remaining", "disruption"),
    vacate=["h1"],
)
PROFIT = small(
    [host("h0", 2)],
    [runs(2000, ("h0", 0, 1)), *(job(tasks(1, 1000), priority=p, weight=5) for p in (1, 0))],
    ("value",),
)
EXCUSE = small(
    [host("h0", 4), host("h1", 4)],
    [
        runs(2000, ("h0", 0, 1), tenant="red"),
        job(tasks(1, 4000), tenant="red"),
        job(tasks(1, 1000), priority=1),
    ],
    ("value",),
    tenants=[{"name": "red", "quota": {"gpu": 4}}],
)
CHAIN = small(
    [host("h0", 1), host("h1", 1)],
    [runs(1000, ("h0", 0)), runs(1000, ("h1", 0), priority=1), job(tasks(1, 1000), weight=5)],
    ("value",),
)
LEVELS = small(
    [host(f"h{i}", gpus, gpu_model="ABC"[i]) for i, gpus in enumerate((1, 2, 1))],
    [
        runs(1000, ("h0", 0)),
        *(runs(1000, (name, 0), priority=1) for name in ("h1", "h2")),
        *(
            job(tasks(1, 1000, gpu_models=[model]), priority=priority, weight=5)
            for model, priority in (("A", 2), ("B", 2), ("C", 0))
        ),
    ],
    ("value",),
)
VICTIM = small([host("h0", 1)], [runs(1000, ("h0", 0))], ("remaining",), vacate=["h0"])
ON_HOSTS = {"level": "host", "gpu_worth_s": 5}
EMPTY = small(
    [host("h0", 1), host("h1", 2)],
    [runs(1000, ("h0", 0)), runs(1000, ("h1", 0), running={"pinned": True})],
    ("freed",),
    freeing=ON_HOSTS,
)
TAKEN = small([host("h0", 1), host("h1", 1)], [runs(1000, ("h0", 0))], ("freed",), freeing=ON_HOSTS)
PACKED = small(
    [host("h0", 2), host("h1", 2)],
    [runs(1000, ("h0", 0)), runs(1000, ("h0", 1)), runs(1000, ("h1", 0))],
    ("freed",),
    freeing=ON_HOSTS,
)

EXACT = [
    ("one option", MENU),
    ("gang", GANG),
    ("capacity", CORES),
    ("gpus", WHOLE),
    ("gpu", SHARES),
    ("share", SHARES),
    ("quota", QUOTA),
    ("domain", REQUIRED),
    ("domain", SPREAD),
    ("required level", REQUIRED),
    ("opened", OPENED),
    ("used", LEFTOVER),
    ("left", LEFTOVER),
    ("count", PAIRS),
    ("kept", LEAVES),
    ("kept", FAILED),
    ("victim", VICTIM),
    ("counterfactual", PROFIT),
    ("touched", PROFIT),
    ("quota of victims", EXCUSE),
    ("returned", CHAIN),
    ("moved back", CHAIN),
    ("victims of a level", LEVELS),
    ("empty", EMPTY),
    ("taken", TAKEN),
]
COUNTS = [
    ("one option", MENU),
    ("tasks", GANG),
    ("gangs", REQUIRED),
    ("capacity", CORES),
    ("gpus", WHOLE),
    ("floor", HALVES),
    ("share", SHARES),
    ("residual", RESIDUAL),
    ("domain", ONE_RACK),
    ("quota", QUOTA),
]


def exact_model(round_: Round) -> Model:
    problem = compile_round(round_)
    hosts = np.arange(problem.cluster.num_hosts)
    cleared = Placement(problem, cleared=True)
    exact = build_host_model(problem, cleared, hosts, problem.num_pending, list(problem.running))
    add_gpus(exact)
    add_preemption(exact)
    add_terms(exact)
    return exact.model


def answer(round_: Round, without: tuple[str, ...] = ()) -> tuple[int, ...]:
    """The terms of the exact model's optimum, one held after the other."""
    model = exact_model(round_)
    values = []
    for term in round_.policy.terms:
        arrays = model.arrays(term, without=without)
        outcome = InProcess().solve("highs", arrays, Limits(seconds=60.0, gap=0.0))
        assert outcome.status is Status.OPTIMAL
        assert outcome.objective is not None
        values.append(round(outcome.objective))
        model.hold(term, values[-1], HOLD_SLACK)
    return tuple(values)


def beats(terms: tuple[str, ...], one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    senses = [oracle.SENSE[term] for term in terms]
    return [s * x for s, x in zip(senses, one, strict=True)] > [
        s * x for s, x in zip(senses, other, strict=True)
    ]


@pytest.mark.parametrize(("block", "round_"), EXACT, ids=[block for block, _ in EXACT])
def test_the_exact_model_needs_the_block(block: str, round_: Round) -> None:
    best = oracle.optimum(round_, moves.attainable_with_moves(round_))
    assert answer(round_) == best
    assert beats(round_.policy.terms, answer(round_, (block,)), best)


def test_every_block_of_the_exact_model_is_tried() -> None:
    found = {block.name for _, round_ in EXACT for block in exact_model(round_).row_blocks}
    assert found == {block for block, _ in EXACT}


PATTERNS = [
    ("one option", MENU),
    ("tasks", GANG),
    ("gangs", REQUIRED),
    ("hosts", CORES),
    ("domain", ONE_RACK),
    ("quota", QUOTA),
]


def pattern_model(round_: Round) -> tuple[AggregateModel, HostPatterns]:
    problem = compile_round(round_)
    empty = Placement(problem)
    grid = ResourceGrid(problem, empty)
    assert host_patterns_apply(problem, grid)
    fitting = np.stack([empty.fits(shape) for shape in range(len(problem.shape_gpu))])
    classes = grid_host_classes(empty, fitting, grid)
    counts = build_counts(problem, classes, fitting, empty.whole, sums=False)
    return counts, HostPatterns(counts, grid)


def count_model(round_: Round) -> tuple[AggregateModel, GpuPatterns | None]:
    problem = compile_round(round_)
    empty = Placement(problem)
    fitting = np.stack([empty.fits(shape) for shape in range(len(problem.shape_gpu))])
    counts = build_counts(problem, host_classes(problem, fitting), fitting, empty.whole)
    return counts, GpuPatterns(counts) if len(counts.parts) else None


def bound(round_: Round, model: Any = count_model) -> float:
    """The tightest bound that the model's relaxation gives of the first term."""
    session = Session(InProcess().solve, deadline=time.monotonic() + 60.0)
    found = list(bound_by_relaxation(session, *model(round_), round_.policy.terms[0]))
    assert {bound.certified for bound in found} == {True, False}
    return min(bound.value for bound in found)


def loosen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Lift the limits of a block's rows; the rows stay, because patterns count on their places."""
    snapshot = Model.arrays

    def loosened(self: Model, *args: Any, **kwargs: Any) -> Arrays:
        arrays = snapshot(self, *args, **kwargs)
        lifted = np.array([block == name for block in arrays.block_names])[arrays.row_block]
        return replace(
            arrays,
            row_lower=np.where(lifted, -np.inf, arrays.row_lower),
            row_upper=np.where(lifted, np.inf, arrays.row_upper),
        )

    monkeypatch.setattr(Model, "arrays", loosened)


@pytest.mark.parametrize(("block", "round_"), COUNTS, ids=[block for block, _ in COUNTS])
def test_the_count_model_needs_the_block(
    monkeypatch: pytest.MonkeyPatch, block: str, round_: Round
) -> None:
    whole = bound(round_)
    assert whole >= oracle.optimum(round_)[0]
    loosen(monkeypatch, block)
    assert bound(round_) > whole


def test_every_block_of_the_count_model_is_tried() -> None:
    found = {rows.name for _, round_ in COUNTS for rows in count_model(round_)[0].model.row_blocks}
    assert found == {block for block, _ in COUNTS}


@pytest.mark.parametrize(("block", "round_"), PATTERNS, ids=[block for block, _ in PATTERNS])
def test_the_model_of_host_patterns_needs_the_block(
    monkeypatch: pytest.MonkeyPatch, block: str, round_: Round
) -> None:
    whole = bound(round_, pattern_model)
    assert oracle.optimum(round_)[0] <= whole <= bound(round_)
    loosen(monkeypatch, block)
    assert bound(round_, pattern_model) > whole


def test_every_block_of_the_model_of_host_patterns_is_tried() -> None:
    models = [pattern_model(round_)[0].model for _, round_ in PATTERNS]
    found = {rows.name for model in models for rows in model.row_blocks}
    assert found == {block for block, _ in PATTERNS}


def freed_bound(round_: Round) -> float:
    """The tightest bound of `freed` that packing all running jobs anew gives."""
    session = Session(InProcess().solve, deadline=time.monotonic() + 60.0)
    return min(bound.value for bound in freed_bounds(compile_round(round_), session))


def test_the_bound_of_what_is_freed_needs_all_jobs_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = freed_bound(PACKED)
    assert whole >= oracle.optimum(PACKED, moves.attainable_with_moves(PACKED))[0]
    loosen(monkeypatch, "all run")
    assert freed_bound(PACKED) > whole

"""Rounds of regions one after the other: what plans order is there, or gone, in the next ones."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.checks.round import check_round
from placewright.instances.derived.arrived_copies import with_arrived_copies
from placewright.instances.documents.geo import Copying, Dataset, Geo, Region, WanLink
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import parse_round
from placewright.instances.verify import verify
from placewright.rounds import Changes, Engine
from placewright.rounds.state.changes import TransferOrders, geo_after_plan

Raw = dict[str, Any]


def job(name: str, *reads: str, **fields: Any) -> Raw:
    wanted = [{"dataset": d, "gib": 5, "remote": False} for d in reads]
    return {"name": name, "options": [{"groups": [{"gpu": 1}]}], "reads": wanted, **fields}


def round_of(policy: str, jobs: list[Raw], **geo: Any) -> Round:
    """A has one GPU, B four; d is in A. A GiB takes a second from A to B."""
    given: Raw = {
        "window_s": 100,
        "regions": [{"name": "A", "storage": 20}, {"name": "B", "storage": 15}],
        "links": [{"source": "A", "target": "B", "bandwidth": 8590, "budget": 12}],
        "datasets": [{"name": "d", "size": 10, "replicas": ["A"]}],
    }
    raw = {
        "now": 1000,
        "cluster": {
            "levels": ["region"],
            "domains": [{"name": r, "level": "region"} for r in "AB"],
            "hosts": [
                {"name": "a", "parent": "A", "gpus": 1, "gpu_model": "V100"},
                {"name": "b", "parent": "B", "gpus": 4, "gpu_model": "V100"},
            ],
        },
        "jobs": jobs,
        "geo": {**given, **geo},
        "policy": {"formulation": policy},
    }
    return parse_round(raw)


REPLICAS: Raw = {
    "kind": "replicas",
    "creates": [{"dataset": "d", "region": "B", "ready": 1020}],
    "drops": [{"dataset": "d", "region": "A", "at": 1030}],
}
FLOWS: Raw = {
    "kind": "flows",
    "flows": [
        {"dataset": "d", "path": ["A", "B"], "gib": 4, "start": 1000, "end": 1008},
        {"dataset": "d", "path": ["A", "B"], "gib": 6, "start": 1010, "end": 1020},
    ],
}


def replicas(geo: Geo) -> dict[str, tuple[str, ...]]:
    return {dataset.name: dataset.replicas for dataset in geo.datasets}


def test_what_a_plan_orders_is_under_way_and_then_there() -> None:
    given = round_of("replicas", [])
    geo = geo_after_plan(given, [REPLICAS, FLOWS])
    assert replicas(geo) == {"d": ()}
    assert geo.copying == (Copying(dataset="d", region="B", ready=1020),)
    assert with_arrived_copies(geo, 1019) == geo
    assert replicas(with_arrived_copies(geo, 1020)) == {"d": ("B",)}
    assert with_arrived_copies(geo, 1020).copying == ()


def test_budgets_sink_within_a_window_and_bandwidth_until_flows_end() -> None:
    given = round_of("replicas", [])
    orders = TransferOrders().after(given, [REPLICAS, FLOWS])

    def link_at(now: int) -> tuple[int, int]:
        (link,) = orders.residual_round(given.model_copy(update={"now": now})).geo.links
        assert link.budget is not None
        return link.bandwidth, given.geo.model_copy(update={"links": (link,)}).budget(link)

    # The second flow takes 6 GiB in 10 s: 5154 Mbit/s; the first one less.
    assert link_at(1000) == (8590 - 5154, 2)
    assert link_at(1019) == (8590 - 5154, 2)
    assert link_at(1020) == (8590, 2)
    assert link_at(1099) == (8590, 2)
    assert link_at(1100) == (8590, 12)


def test_the_storage_of_a_replica_comes_free_when_it_goes() -> None:
    given = round_of("replicas", [])
    orders = TransferOrders().after(given, [REPLICAS, FLOWS])
    for now, free in ((1000, 10), (1029, 10), (1030, 20)):
        seen = orders.residual_round(given.model_copy(update={"now": now})).geo.regions
        assert [region.storage for region in seen] == [free, 15]


def test_a_window_later_what_was_spent_is_forgotten() -> None:
    given = round_of("replicas", [])
    orders = TransferOrders().after(given, [REPLICAS, FLOWS])
    assert orders.spent == {("A", "B"): 10}
    later = orders.after(given.model_copy(update={"now": 1250}), [])
    assert (later.began, later.spent, later.flows, later.drops) == (1200, {}, (), ())


def test_rounds_without_regions_know_nothing_of_orders() -> None:
    given = round_of("geo", [])
    plain = Round.model_validate({"cluster": given.cluster})
    assert TransferOrders(began=0).residual_round(plain) is plain
    assert TransferOrders().after(plain, []) == TransferOrders()
    assert geo_after_plan(plain, []) == plain.geo


def solved(engine: Engine, changes: Changes | None = None) -> dict[str, str]:
    """Decide a round; the plan is valid, and leads to a legal state."""
    plan = engine.round(changes)
    assert verify(engine.round_solved, plan).violations == ()
    check_round(engine.state)
    return {one.job: one.reason or one.decision.value for one in plan.decisions}


def test_a_job_starts_when_the_copy_that_it_waits_for_is_there() -> None:
    given = round_of("geo", [job("waits", "d", regions=["B"])])
    with Engine(given, isolation="none", time_limit=5.0) as engine:
        assert solved(engine) == {"waits": "data"}
        (copy,) = engine.state.geo.copying
        assert (copy.dataset, copy.region) == ("d", "B")
        # Once more, before it is there: it goes on waiting, and nothing is ordered twice.
        assert solved(engine, Changes(now=copy.ready - 1)) == {"waits": "data"}
        assert engine.state.geo.copying == (copy,)
        assert solved(engine, Changes(now=copy.ready)) == {"waits": "start"}
        assert replicas(engine.state.geo) == {"d": ("A", "B")}
        assert engine.round_solved.geo.links[0].budget == 2
        assert engine.state.geo.links[0].budget == 12


def test_copies_of_later_rounds_have_what_earlier_ones_leave_of_a_budget() -> None:
    more = {"name": "e", "size": 5, "replicas": ["A"]}
    data = [{"name": "d", "size": 10, "replicas": ["A"]}, more]
    given = round_of("geo", [job("first", "d", regions=["B"])], datasets=data)
    second = Job.model_validate(job("second", "e", regions=["B"]))
    with Engine(given, isolation="none", time_limit=5.0) as engine:
        assert solved(engine) == {"first": "data"}
        # Two GiB are left of the budget, and five of the storage.
        assert solved(engine, Changes(added=[second], now=1050))["second"] != "data"
        assert solved(engine, Changes(now=1100))["second"] == "data"


def test_where_data_moves_the_next_day_begins_with_it_there() -> None:
    jobs = [job(f"j{i}", "d") for i in range(4)]
    with Engine(round_of("replicas", jobs), isolation="none", time_limit=5.0) as engine:
        solved(engine)
        assert [copy.region for copy in engine.state.geo.copying] == ["B"]
        solved(engine, Changes(now=1100))
        assert "B" in replicas(engine.state.geo)["d"]
        assert engine.state.geo.copying == ()


def test_changes_of_data_take_the_place_of_what_was() -> None:
    given = round_of("geo", [job("waits", "d", regions=["B"])])
    with Engine(given, isolation="none", time_limit=5.0) as engine:
        solved(engine)
        changes = Changes(
            datasets=[
                Dataset(name="d", size=10, replicas=("A", "B")),
                Dataset(name="new", size=1),
            ],
            links=[
                WanLink(source="A", target="B", bandwidth=1),
                WanLink(source="B", target="A", bandwidth=2),
            ],
            regions=[Region(name="B")],
        )
        assert solved(engine, changes) == {"waits": "start"}
        geo = engine.state.geo
        assert replicas(geo) == {"d": ("A", "B"), "new": ()}
        assert [(k.source, k.bandwidth) for k in geo.links] == [("A", 1), ("B", 2)]
        assert [(one.name, one.storage) for one in geo.regions] == [("A", 20), ("B", None)]
        assert geo.copying == ()


def test_a_copy_that_failed_is_ordered_again() -> None:
    given = round_of("geo", [job("waits", "d", regions=["B"])])
    with Engine(given, isolation="none", time_limit=5.0) as engine:
        solved(engine)
        assert solved(engine, Changes(copying=(), now=1100)) == {"waits": "data"}
        assert [copy.region for copy in engine.state.geo.copying] == ["B"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            Changes(datasets=[Dataset(name="x", size=1)] * 2),
            "datasets[1].name: 'x': dataset given twice; expected each name once",
        ),
        (
            Changes(regions=[Region(name="A")] * 2),
            "regions[1].name: 'A': region given twice; expected each name once",
        ),
        (
            Changes(links=[WanLink(source="A", target="C", bandwidth=1)]),
            "geo.links[1].target: 'C': unknown region; expected A or B",
        ),
        (
            Changes(copying=[Copying(dataset="d", region="A", ready=5000)]),
            (
                "geo.copying[0].region: 'A': holds dataset d already; "
                "expected regions without a replica"
            ),
        ),
    ],
)
def test_changes_of_data_that_make_no_sense_are_refused(changes: Changes, message: str) -> None:
    with Engine(round_of("geo", []), isolation="none") as engine:
        before = engine.state
        with pytest.raises(InvalidInputError) as caught:
            engine.round(changes)
        assert str(caught.value) == message
        assert engine.state is before


def test_changes_of_data_are_for_policies_of_data() -> None:
    plain = Round.model_validate({"cluster": round_of("geo", []).cluster})
    with Engine(plain, isolation="none") as engine, pytest.raises(InvalidInputError) as caught:
        engine.round(Changes(regions=[Region(name="A")]))
    assert str(caught.value) == "regions: not used by policy 'gang'; expected none"

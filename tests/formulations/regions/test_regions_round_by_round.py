"""An engine over rounds of regions: copies that are ordered arrive, regions fail, data is lost."""

from __future__ import annotations

from typing import Any

from placewright.instances.documents.plan import DecisionKind, Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.io.files import parse_round
from placewright.instances.verify import verify
from placewright.rounds import Changes, Engine

REGIONS = ("east", "west")


def round_of(jobs: list[dict[str, Any]], **fields: Any) -> Round:
    """Two regions of one host of four GPUs each, linked both ways; data lies in the east."""
    return parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {
                "levels": ["region"],
                "domains": [{"name": name, "level": "region"} for name in REGIONS],
                "hosts": [
                    {"name": f"{name}-0", "parent": name, "gpus": 4, "gpu_model": "A"}
                    for name in REGIONS
                ],
            },
            "jobs": jobs,
            "geo": {
                "window_s": 1000,
                "links": [
                    {"source": "east", "target": "west", "bandwidth": 8000, "budget": 150},
                    {"source": "west", "target": "east", "bandwidth": 8000, "budget": 150},
                ],
                "datasets": [{"name": "d", "size": 100, "replicas": ["east"]}],
            },
            "policy": {"formulation": "geo"},
        }
        | fields
    )


def job(name: str, gpus: int = 4, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "options": [{"groups": [{"gpu": gpus}]}],
        "reads": [{"dataset": "d", "gib": 7, "remote": False}],
        **fields,
    }


def decided(engine: Engine, changes: Changes | None = None) -> tuple[Plan, dict[str, Any]]:
    plan = engine.round(changes)
    assert verify(engine.round_solved, plan).ok
    return plan, {d.job: d.reason or d.decision for d in plan.decisions}


def test_a_job_starts_when_its_copy_is_done() -> None:
    round_ = round_of([job("away", regions=["west"])])
    with Engine(round_, isolation="none") as engine:
        plan, fates = decided(engine)
        assert fates == {"away": Reason.DATA}
        (copy,) = engine.state.geo.copying
        assert (copy.dataset, copy.region) == ("d", "west")
        reads = next(s for s in plan.sections if s["kind"] == "reads")
        assert reads["waiting"] == [{"job": "away", "region": "west", "ready": copy.ready}]

        # It is on its way: no other copy is ordered, and the job goes on waiting.
        plan, fates = decided(engine, Changes(now=copy.ready - 1))
        assert fates == {"away": Reason.DATA}
        assert engine.state.geo.copying == (copy,)

        plan, fates = decided(engine, Changes(now=copy.ready))
        assert fates == {"away": DecisionKind.START}
        assert plan.decisions[0].tasks[0].host == "west-0"
        assert engine.state.geo.datasets[0].replicas == ("east", "west")
        assert not engine.state.geo.copying


def test_jobs_without_room_beside_their_data_get_a_copy_where_there_is_room() -> None:
    with Engine(round_of([job("a"), job("b")]), isolation="none") as engine:
        _, fates = decided(engine)
        assert sorted(fates.values()) == [Reason.DATA, DecisionKind.START]
        ready = engine.state.geo.copying[0].ready
        _, fates = decided(engine, Changes(now=ready))
        assert set(fates.values()) == {DecisionKind.START, DecisionKind.KEEP}


def test_a_region_that_fails_leaves_a_valid_plan() -> None:
    with Engine(round_of([job("a"), job("b", 2)]), isolation="none") as engine:
        decided(engine)
        running = next(j for j in engine.state.jobs if j.running is not None)
        # The host is gone, and with it the job's place.
        failed = running.model_copy(update={"running": None})
        changes = Changes(updated=(failed,), health={"east-0": False})
        _, fates = decided(engine, changes)
        assert set(fates.values()) <= {Reason.DATA, Reason.NO_REGION, Reason.CAPACITY}


def test_data_that_nobody_holds_any_more_leaves_its_readers_without_a_region() -> None:
    with Engine(round_of([job("a")]), isolation="none") as engine:
        lost = engine.state.geo.datasets[0].model_copy(update={"replicas": ()})
        _, fates = decided(engine, Changes(datasets=(lost,)))
        assert fates == {"a": Reason.NO_REGION}


def test_links_that_carry_nothing_bring_no_data() -> None:
    with Engine(round_of([job("a", regions=["west"])]), isolation="none") as engine:
        links = [link.model_copy(update={"bandwidth": 0}) for link in engine.state.geo.links]
        _, fates = decided(engine, Changes(links=links))
        assert fates == {"a": Reason.NO_REGION}

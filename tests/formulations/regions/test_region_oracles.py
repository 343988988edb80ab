"""The brute-force oracles on rounds that are solved by hand."""

from __future__ import annotations

from typing import Any

from placewright.instances.documents.round import Round
from tests.formulations.regions import geo_oracle, replicas_oracle


def round_of(policy: str, jobs: list[dict[str, Any]], **geo: Any) -> Round:
    """Two regions of one GPU each."""
    regions = "east", "west"
    return Round.model_validate(
        {
            "cluster": {
                "levels": ["region"],
                "domains": [{"name": r, "level": "region"} for r in regions],
                "hosts": [
                    {"name": f"{r}-0", "parent": r, "gpus": 1, "gpu_model": "A"} for r in regions
                ],
            },
            "jobs": jobs,
            "geo": geo,
            "policy": {"formulation": policy},
        }
    )


def job(name: str, *datasets: str, remote: bool = True, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "options": [{"groups": [{"gpu": 1}]}],
        "reads": [{"dataset": d, "gib": 5, "remote": remote} for d in datasets],
        **fields,
    }


LINK = {"source": "east", "target": "west", "bandwidth": 1000, "egress": 2}
DATA = {"name": "d", "size": 3, "replicas": ["east"]}


def test_two_readers_of_one_dataset_read_once_remotely() -> None:
    jobs = [job("a", "d"), job("b", "d")]
    found = geo_oracle.vectors(round_of("geo", jobs, links=[LINK], datasets=[DATA]))
    assert found == {(0, 0, 0, 0), (1000, 0, 0, 0), (1000, 5, 10, 0), (2000, 5, 10, 0)}
    # Without a link, or where data may not leave, only one of them runs.
    for geo in (
        {"datasets": [DATA]},
        {"links": [LINK], "datasets": [{**DATA, "regions": ["east"]}]},
    ):
        assert geo_oracle.vectors(round_of("geo", jobs, **geo)) == {(0, 0, 0, 0), (1000, 0, 0, 0)}


def test_a_job_gives_way_to_higher_priority_on_its_host_only() -> None:
    running = {"tasks": [{"host": "east-0", "gpus": [0]}]}
    jobs = [job("low", running=running), job("high", "d", priority=1, weight=3)]
    found = geo_oracle.vectors(round_of("geo", jobs, links=[LINK], datasets=[DATA]))
    # It waits, takes the place in the east, or reads from there in the west.
    assert found == {(0, 0, 0, 0, 0), (3000, -1000, 0, 0, 0), (3000, 0, 5, 10, 0)}


def test_a_copy_needs_budget_and_storage() -> None:
    jobs = [job("a", "d", remote=False), job("b", "d", remote=False)]
    geo = {"datasets": [DATA], "regions": [{"name": "west", "storage": 3}]}
    stays = (2000 - 1000 + (5 * 2000 - 6 * 1000) // 5, 0, 0, 0, 2000)
    assert replicas_oracle.vectors(round_of("replicas", jobs, **geo)) == {stays}
    for budget, room in ((2, 3), (3, 2)):
        geo = {"datasets": [DATA], "links": [{**LINK, "budget": budget}]}
        geo["regions"] = [{"name": "west", "storage": room}]
        assert replicas_oracle.vectors(round_of("replicas", jobs, **geo)) == {stays}
    geo = {"datasets": [DATA], "links": [{**LINK, "budget": 3}]}
    geo["regions"] = [{"name": "west", "storage": 3}]
    one = (0, 0, 3, 0, 1000)
    assert min(replicas_oracle.vectors(round_of("replicas", jobs, **geo))) == one


def test_two_full_regions_cannot_exchange_their_data() -> None:
    other = {"name": "e", "size": 3, "replicas": ["west"]}
    back = {**LINK, "source": "west", "target": "east"}
    jobs = [job("a", "d", regions=["west"]), job("b", "e", regions=["east"])]
    geo = {"datasets": [DATA, other], "links": [LINK, back]}
    for room, remote in ((3, 10), (5, 10), (6, 0)):
        regions = [{"name": "east", "storage": 3}, {"name": "west", "storage": room}]
        found = replicas_oracle.vectors(round_of("replicas", jobs, regions=regions, **geo))
        assert min(found)[:2] == (0, remote)

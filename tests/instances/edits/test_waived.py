"""Edits for jobs that take turns, for hosts with outages, and for quotas of regions."""

from __future__ import annotations

from pathlib import Path

import pytest

from placewright import load_round
from placewright.instances.documents.edits import Edit, Edits
from placewright.instances.documents.job import Job
from placewright.instances.documents.policy import Tenant
from placewright.instances.documents.round import Round
from placewright.instances.edits.apply import apply_edits
from placewright.instances.errors import InvalidInputError

LIBRARY = Path(__file__).parents[3] / "instances" / "library"


def edited(round_: Round, **edit: object) -> Round:
    return apply_edits(round_, Edits(edits=(Edit.model_validate(edit),)))


def job(round_: Round, name: str) -> Job:
    return next(one for one in round_.jobs if one.name == name)


def test_slowdown_load_and_conflicts_are_waived() -> None:
    round_ = load_round(LIBRARY / "kube-knots.yaml")
    pairs = (("search", "vision"), ("backup", "encoding"))
    sharing = round_.sharing.model_copy(update={"conflicts": pairs})
    round_ = round_.model_copy(update={"sharing": sharing})
    waived = ["slowdown", "load", "conflicts"]
    after = edited(round_, job={"search": {"without": waived}})
    profile = job(after, "search").profile
    assert profile is not None
    assert (profile.slowdown, profile.load) == (None, ())
    assert after.sharing.conflicts == (("backup", "encoding"),)
    assert job(after, "vision") == job(round_, "vision")


def test_restored_hosts_have_no_outage() -> None:
    round_ = load_round(LIBRARY / "chronus-lost-host.yaml")
    assert [one.host for one in round_.leases.outages] == ["h[1-2]"]
    after = edited(round_, restore=["h1"])
    assert [one.host for one in after.leases.outages] == ["h2"]
    assert not edited(after, restore=["h2"]).leases.outages


def test_quotas_of_regions_are_set() -> None:
    round_ = load_round(LIBRARY / "mast-regions.yaml")
    round_ = round_.model_copy(update={"tenants": (Tenant(name="t"),)})
    after = edited(round_, quota={"t": {"in_regions": {"east": 4, "north": 1}}})
    quotas = {one.name: one.quotas for one in after.geo.regions}
    assert quotas == {"east": {"t": 4000}, "west": {}, "north": {"t": 1000}}
    with pytest.raises(InvalidInputError, match="unknown region"):
        edited(round_, quota={"t": {"in_regions": {"mars": 4}}})
    gangs = load_round(LIBRARY / "quickstart.yaml")
    with pytest.raises(InvalidInputError, match="knows no quotas of regions"):
        edited(gangs, quota={"research": {"in_regions": {"east": 4}}})

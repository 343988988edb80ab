"""Regions, links and data of a round: what is read, and one line for each that makes no sense."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from placewright.cli.app import main
from placewright.instances.checks.geo import MAX_CELLS, MAX_READS
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.geo import Geo, WanLink
from placewright.instances.documents.policy import Policy, headline
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.digest import round_digest
from placewright.instances.io.files import load_round, parse_round
from placewright.instances.presets.presets import drain

Raw = dict[str, Any]

ROUND: Raw = {
    "apiVersion": "placewright/v1alpha2",
    "kind": "Round",
    "now": 1000,
    "cluster": {
        "levels": ["region", "rack"],
        "domains": [
            *({"name": region, "level": "region"} for region in "ABC"),
            *({"name": f"r{region}", "level": "rack", "parent": region} for region in "ABC"),
        ],
        "hosts": [
            {"name": "a[0-1]", "parent": "rA", "gpus": 8, "gpu_model": "V100"},
            {"name": "b0", "parent": "rB", "gpus": 8, "gpu_model": "A100"},
            {"name": "c0", "parent": "rC", "gpus": 0},
        ],
    },
    "tenants": [{"name": "t"}],
    "jobs": [
        {
            "name": "p",
            "options": [{"groups": [{"gpu": 1}]}],
            "reads": [
                {"dataset": "d", "gib": 5},
                {"dataset": "e", "gib": 7, "remote": False},
            ],
            "regions": ["A", "B"],
        },
        {
            "name": "q",
            "options": [{"groups": [{"gpu": 1, "count": 2}]}],
            "running": {
                "tasks": [{"host": "a0", "gpus": [0]}, {"index": 1, "host": "a1", "gpus": [0]}]
            },
        },
    ],
    "geo": {
        "level": "region",
        "window_s": 3600,
        "regions": [
            {"name": "A", "storage": 100, "prices": {"V100": 5}, "quotas": {"t": 4000}},
            {"name": "B"},
        ],
        "links": [
            {"source": "A", "target": "B", "bandwidth": 8590, "egress": 3, "budget": 100},
            {"source": "B", "target": "A", "bandwidth": 0, "rtt_us": 9},
        ],
        "datasets": [
            {"name": "d", "size": 10, "replicas": ["A"]},
            {"name": "e", "size": 20, "replicas": ["A", "B"], "regions": ["A", "B"]},
        ],
        "copying": [{"dataset": "d", "region": "B", "ready": 900}],
    },
    "policy": {"formulation": "geo"},
}


def changed(path: str, value: object, raw: Raw = ROUND) -> Raw:
    raw = copy.deepcopy(raw)
    *parts, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = raw
    for part in parts:
        place = place[part]
    place[last] = value
    return raw


READ, LINK, DATA, ENTRY = "jobs.0.reads", "geo.links.0", "geo.datasets.1", "geo.regions.0"
REFUSED: list[tuple[str, Any, str]] = [
    (f"{READ}.0.dataset", "f", "jobs[0].reads[0].dataset: 'f': unknown dataset; expected d or e"),
    (f"{READ}.1.dataset", "d", "jobs[0].reads[1].dataset: 'd': dataset given twice; expected each"),
    (f"{READ}.0.gib", 0, "jobs[0].reads[0].gib: 0: expected at least 1"),
    (f"{READ}.0.gib", 1.5, "jobs[0].reads[0].gib: 1.5: expected an integer"),
    (f"{READ}.0.gib", "5Gi", "jobs[0].reads[0].gib: '5Gi': expected an integer"),
    (f"{READ}.0.gib", float("nan"), "jobs[0].reads[0].gib: nan: expected an integer"),
    (f"{READ}.0.remote", "yes", "jobs[0].reads[0].remote: 'yes': expected true or false"),
    (f"{READ}.0", {"gib": 1}, "jobs[0].reads[0].dataset: missing; expected a value"),
    (f"{READ}.0.size", 1, "jobs[0].reads[0].size: 1: unknown field; expected one of dataset, gib"),
    (
        READ,
        [{"dataset": "d", "gib": 1}] * 65,
        "jobs[0].reads: [{'dataset': 'd'",
    ),
    ("jobs.0.regions", [], "jobs[0].regions: []: expected at least 1 in the list"),
    ("jobs.0.regions", ["E"], "jobs[0].regions[0]: 'E': unknown region; expected A or B or C"),
    ("jobs.0.regions", ["rA"], "jobs[0].regions[0]: 'rA': unknown region; expected A or B or C"),
    ("jobs.0.regions", ["A", "A"], "jobs[0].regions[1]: 'A': region given twice; expected each"),
    ("jobs.0.regions", "A", "jobs[0].regions: 'A': expected a list"),
    (
        "jobs.1.running.tasks.1.host",
        "b0",
        "jobs[1].running.tasks[1].host: 'b0': lies in region B, and the first task in A; expected",
    ),
    ("geo", None, "geo: None: expected a mapping"),
    ("geo.level", "zone", "geo.level: 'zone': unknown level; expected rack or region"),
    ("geo.level", "host", "geo.level: 'host': unknown level; expected rack or region"),
    ("geo.window_s", 0, "geo.window_s: 0: expected at least 1"),
    ("geo.window_s", 10**8, "geo.window_s: 100000000: expected at most 10000000"),
    ("geo.window", 5, "geo.window: 5: unknown field; expected one of copying, datasets, level"),
    (f"{ENTRY}.name", "E", "geo.regions[0].name: 'E': unknown region; expected A or B or C"),
    ("geo.regions.1.name", "A", "geo.regions[1].name: 'A': region given twice; expected each name"),
    (f"{ENTRY}.storage", -1, "geo.regions[0].storage: -1: expected at least 0"),
    (f"{ENTRY}.prices", {"H100": 1}, "geo.regions[0].prices.H100: 'H100': unknown GPU model; exp"),
    (f"{ENTRY}.prices.V100", 0.5, "geo.regions[0].prices.V100: 0.5: expected an integer"),
    (f"{ENTRY}.prices.V100", -5, "geo.regions[0].prices.V100: -5: expected at least 0"),
    (f"{ENTRY}.quotas", {"u": 1}, "geo.regions[0].quotas.u: 'u': unknown tenant; expected t"),
    (f"{ENTRY}.quotas.t", 1.5, "geo.regions[0].quotas.t: 1.5: expected a share of one GPU"),
    (f"{LINK}.source", "E", "geo.links[0].source: 'E': unknown region; expected A or B or C"),
    (f"{LINK}.target", "E", "geo.links[0].target: 'E': unknown region; expected A or B or C"),
    (
        f"{LINK}.target",
        "A",
        "geo.links[0].target: 'A': is where the link starts, too; expected another region",
    ),
    (
        "geo.links.1",
        {"source": "A", "target": "B", "bandwidth": 1},
        "geo.links[1].target: 'B': linked from A already; expected each direction once",
    ),
    (f"{LINK}.bandwidth", -1, "geo.links[0].bandwidth: -1: expected at least 0"),
    (f"{LINK}.bandwidth", float("inf"), "geo.links[0].bandwidth: inf: expected an integer"),
    (f"{LINK}.bandwidth", 10**10, "geo.links[0].bandwidth: 10000000000: expected at most 10000000"),
    (f"{LINK}.budget", -1, "geo.links[0].budget: -1: expected at least 0"),
    (f"{LINK}.egress", -1, "geo.links[0].egress: -1: expected at least 0"),
    (f"{LINK}.rtt_us", "9ms", "geo.links[0].rtt_us: '9ms': expected an integer"),
    ("geo.links.0", {"source": "A", "target": "B"}, "geo.links[0].bandwidth: missing; expected a"),
    (
        "geo.datasets",
        [*ROUND["geo"]["datasets"], {"name": "d", "size": 1}],
        "geo.datasets[2].name: 'd': dataset given twice; expected each name once",
    ),
    (f"{DATA}.size", 0, "geo.datasets[1].size: 0: expected at least 1"),
    (f"{DATA}.size", "2Ti", "geo.datasets[1].size: '2Ti': expected an integer"),
    (f"{DATA}.replicas", ["E"], "geo.datasets[1].replicas[0]: 'E': unknown region; expected A or"),
    (f"{DATA}.replicas", ["A", "A"], "geo.datasets[1].replicas[1]: 'A': region given twice; expe"),
    (
        f"{DATA}.replicas",
        ["B", "C"],
        "geo.datasets[1].replicas[1]: 'C': may not hold dataset e; expected one of its regions",
    ),
    (f"{DATA}.regions", [], "geo.datasets[1].regions: []: expected at least 1 in the list"),
    (f"{DATA}.regions", ["A", "E"], "geo.datasets[1].regions[1]: 'E': unknown region; expected A"),
    (f"{DATA}.regions", ["A", "A"], "geo.datasets[1].regions[1]: 'A': region given twice; expec"),
    ("geo.copying.0.dataset", "f", "geo.copying[0].dataset: 'f': unknown dataset; expected d or"),
    ("geo.copying.0.region", "E", "geo.copying[0].region: 'E': unknown region; expected A or B"),
    (
        "geo.copying.0.region",
        "A",
        "geo.copying[0].region: 'A': holds dataset d already; expected regions without a replica",
    ),
    (
        "geo.copying.0",
        {"dataset": "e", "region": "C", "ready": 1},
        "geo.copying[0].region: 'C': may not hold dataset e; expected one of its regions",
    ),
    (
        "geo.copying",
        [{"dataset": "d", "region": "B", "ready": ready} for ready in (5, 6)],
        "geo.copying[1].region: 'B': gets dataset d already; expected each copy once",
    ),
    ("geo.copying.0.ready", -1, "geo.copying[0].ready: -1: expected at least 0"),
    (
        "policy.terms",
        ["remote_reads"],
        "policy.terms[0]: 'remote_reads': is not for policy 'geo'; expected first value",
    ),
    ("policy.terms", ["value", "copies"], "policy.terms[1]: 'copies': is not for policy 'geo'; ex"),
    ("policy.formulation", "gang", "geo: {'level': 'region'"),
    ("policy.vacate", ["a0"], "policy.vacate: not used by policy 'geo'; expected the round wit"),
    (
        "tenants.0.guarantee",
        {"gpu": 0.001},
        "tenants[0].guarantee: not used by policy 'geo'; expecte",
    ),
    ("leases", {}, "leases: {}: section not used by policy 'geo'; expected the round without it"),
    ("jobs.0.profile", {"stages": [1] * 4}, "jobs[0].profile: not used by policy 'geo'; expecte"),
    ("jobs.0.deadline", {"work_s": 9}, "jobs[0].deadline: not used by policy 'geo'; expected no"),
]


@pytest.mark.parametrize(("path", "value", "message"), REFUSED)
def test_what_makes_no_sense_is_one_line(path: str, value: object, message: str) -> None:
    raw = changed(path, value)
    with pytest.raises(InvalidInputError) as caught:
        parse_round(raw)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("formulation", ["gang", "deadline", "interleaving"])
@pytest.mark.parametrize(
    ("field", "value"), [("reads", ROUND["jobs"][0]["reads"]), ("regions", ["A"])]
)
def test_reads_and_regions_are_for_policies_of_data(
    formulation: str, field: str, value: object
) -> None:
    job = {"name": "j", "options": [{"groups": [{"gpu": 1}]}], field: value}
    raw = {
        "cluster": ROUND["cluster"],
        "jobs": [job],
        "policy": {"formulation": formulation},
    }
    with pytest.raises(InvalidInputError) as caught:
        parse_round(raw)
    expected = f"jobs[0].{field}: not used by policy {formulation!r}; expected none"
    assert str(caught.value) == expected


@pytest.mark.parametrize("formulation", ["geo", "replicas"])
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("geo.datasets.0.replicas", []),
        ("geo.links.0.bandwidth", 0),
        ("geo.links", []),
        ("geo.copying", []),
        ("geo.copying.0.ready", 5000),
        ("geo.regions", []),
        ("geo.regions.0.storage", 0),
        ("geo.level", "rack"),
        ("jobs.0.regions", ["C"]),
        ("jobs.1.regions", ["B"]),
        ("cluster.hosts.0.healthy", False),
        ("jobs", []),
    ],
)
def test_what_only_makes_jobs_wait_is_legal(formulation: str, path: str, value: object) -> None:
    """Nobody has it, nothing passes, residencies that exclude each other, a region without GPUs."""
    raw = changed(path, value)
    raw["policy"] = {"formulation": formulation}
    if path == "geo.level":
        raw["cluster"]["hosts"][0]["name"] = "a0"
        raw["jobs"], raw["geo"] = [raw["jobs"][1]], {"level": "rack"}
        raw["jobs"][0]["running"]["tasks"][1].update(host="a0", gpus=[1])
    assert parse_round(raw).policy.formulation == formulation


def test_any_level_above_the_host_makes_regions() -> None:
    raw = changed("geo", {"level": "rack"})
    raw["jobs"] = raw["jobs"][1:]
    assert parse_round(raw).geo.level == "rack"
    raw["cluster"]["domains"].append({"name": "rA2", "level": "rack", "parent": "A"})
    raw["cluster"]["hosts"][0]["name"] = "a0"
    raw["cluster"]["hosts"].append({**raw["cluster"]["hosts"][0], "name": "a1", "parent": "rA2"})
    with pytest.raises(InvalidInputError, match="lies in region rA2, and the first task in rA;"):
        parse_round(raw)


def test_more_regions_than_can_be_counted_are_refused() -> None:
    domains = [{"name": f"r{r}", "level": "region"} for r in range(257)]
    cluster = {
        "levels": ["region"],
        "domains": domains,
        "hosts": [{"name": "h", "parent": "r0", "gpus": 1, "gpu_model": "V100"}],
    }
    raw = {"cluster": cluster, "policy": {"formulation": "geo"}}
    with pytest.raises(InvalidInputError, match="'region': has 257 domains; expected at most 256"):
        parse_round(raw)
    cluster["domains"] = domains[:256]
    assert len(parse_round(raw).cluster.domains) == 256


def test_more_data_than_can_be_counted_is_refused() -> None:
    cluster = copy.deepcopy(ROUND["cluster"])
    cluster["domains"] += [{"name": f"s{r}", "level": "region"} for r in range(253)]
    datasets = [{"name": f"d{d}", "size": 1} for d in range(MAX_CELLS // 256 + 1)]
    raw = {
        "cluster": cluster,
        "geo": {"datasets": datasets[:-1]},
        "policy": {"formulation": "replicas"},
    }
    assert len(parse_round(raw).geo.datasets) * 256 <= MAX_CELLS
    raw["geo"] = {"datasets": datasets}
    with pytest.raises(InvalidInputError) as caught:
        parse_round(raw)
    assert str(caught.value) == (
        "geo: 78,126 jobs and datasets times 256 regions; expected at most 20,000,000 together"
    )


def test_more_reads_than_can_be_counted_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_READS >= 50_000 * 8
    monkeypatch.setattr("placewright.instances.checks.geo.MAX_READS", 1)
    with pytest.raises(InvalidInputError, match=r"jobs: 2 reads of all jobs together; expected at"):
        parse_round(ROUND)


def test_prices_at_which_costs_cannot_be_counted_are_refused() -> None:
    costly = changed("geo.links.0.egress", MAX_AMOUNT)
    costly["jobs"][0]["reads"][0]["gib"] = 993
    assert parse_round(costly)
    costly["jobs"][0]["reads"][0]["gib"] = 994
    with pytest.raises(InvalidInputError) as caught:
        parse_round(costly)
    assert str(caught.value) == (
        "geo.links[0].egress: 1000000000000: times the 1,001 GiB that all jobs read; "
        "expected at most 1,000,000,000,000,000 micro-dollars in all"
    )
    costly = changed("geo.regions.0.prices.V100", MAX_AMOUNT)
    assert parse_round(costly)
    costly["cluster"]["hosts"][0]["name"] = "a[0-124]"
    with pytest.raises(InvalidInputError) as caught:
        parse_round(costly)
    assert str(caught.value) == (
        "geo.regions[0].prices.V100: 1000000000000: times the 1,008 GPUs of the cluster; "
        "expected at most 1,000,000,000,000,000 micro-dollars in all"
    )


def test_a_budget_is_at_most_what_the_link_carries() -> None:
    geo = Geo(window_s=3600)
    assert geo.carries(WanLink(source="A", target="B", bandwidth=8590)) == 3600
    assert geo.budget(WanLink(source="A", target="B", bandwidth=8590)) == 3600
    assert geo.budget(WanLink(source="A", target="B", bandwidth=8590, budget=100)) == 100
    assert geo.budget(WanLink(source="A", target="B", bandwidth=8590, budget=5000)) == 3600
    assert geo.budget(WanLink(source="A", target="B", bandwidth=8589)) == 3599
    assert geo.budget(WanLink(source="A", target="B", bandwidth=0)) == 0


def test_policies_of_data_have_terms_of_their_own() -> None:
    assert Policy(formulation="geo").terms == (
        *("value", "remote_reads", "disruption", "spread", "opened"),
    )
    terms = ("overload", "remote_reads", "copies", "imbalance", "hottest")
    assert Policy(formulation="replicas").terms == terms
    assert headline(terms) == ("overload",)
    with pytest.raises(InvalidInputError, match="expected first overload"):
        parse_round({**ROUND, "policy": {"formulation": "replicas", "terms": ["hottest"]}})
    with pytest.raises(InvalidInputError, match=r"'value': is not for policy 'replicas'"):
        parse_round({**ROUND, "policy": {"formulation": "replicas", "terms": ["value"]}})


def test_presets_are_not_for_policies_of_data() -> None:
    with pytest.raises(InvalidInputError, match="has no presets; expected gang"):
        drain(parse_round(ROUND), ["a0"])


def test_a_round_of_gangs_may_say_nothing_of_regions() -> None:
    plain = Round.model_validate({"cluster": ROUND["cluster"]})
    assert Round.model_validate(plain.model_dump()) == plain
    assert "geo" not in plain.model_dump(exclude_defaults=True)
    with pytest.raises(InvalidInputError, match="section not used"):
        parse_round({"cluster": ROUND["cluster"], "geo": {**Geo().model_dump(), "window_s": 3}})


@pytest.mark.parametrize("formulation", ["geo", "replicas"])
def test_a_round_with_data_reads_back_and_keeps_its_digest(formulation: str) -> None:
    made = parse_round({**ROUND, "policy": {"formulation": formulation}})
    again = parse_round(made.model_dump(mode="json"))
    assert again == made
    assert round_digest(again) == round_digest(made)
    assert parse_round(made.model_dump(mode="json", exclude_defaults=True)) == made


def test_a_file_with_a_fault_is_reported_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "round.json"
    file.write_text(json.dumps(ROUND))
    assert load_round(file) == parse_round(ROUND)
    file.write_text(json.dumps(changed("geo.links.0.target", "A")))
    assert main(["validate", str(file)]) == 3
    assert (
        capsys.readouterr()
        .err.strip()
        .endswith(
            "geo.links[0].target: 'A': is where the link starts, too; expected another region"
        )
    )

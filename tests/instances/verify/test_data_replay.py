"""Random transfers: the verifier agrees with a replay that looks at every half second.

The replay is written from the description of the rules, in fractions, without any event: it asks at
each moment who holds what, how full each region is, and what passes each link.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from placewright.instances.documents.plan import Plan
from placewright.instances.io.files import parse_round
from placewright.instances.verify import verify
from placewright.instances.verify.rules.geo.copies import RULES_OF_COPIES, RULES_OF_FLOWS

Raw = dict[str, Any]
NOW, WINDOW = 100, 8
GIB_PER_S = 8590
"""Mbit/s, rounded up."""
RULES = {rule.id for rule in (*RULES_OF_COPIES, *RULES_OF_FLOWS)}


def draw_round(rng: np.random.Generator) -> Raw:
    regions = "ABCD"[: int(rng.integers(2, 5))]
    datasets: list[Raw] = []
    copying: list[Raw] = []
    for name in "xyz"[: int(rng.integers(1, 4))]:
        lawful = [r for r in regions if rng.random() < 0.9] or [regions[0]]
        held = [r for r in lawful if rng.random() < 0.45]
        data: Raw = {"name": name, "size": int(rng.integers(1, 5)), "replicas": held}
        datasets.append(data if len(lawful) == len(regions) else {**data, "regions": lawful})
        copying += [
            {"dataset": name, "region": r, "ready": int(rng.integers(98, 107))}
            for r in lawful
            if r not in held and rng.random() < 0.15
        ]
    links = [
        {
            "source": a,
            "target": b,
            "bandwidth": GIB_PER_S * int(rng.choice([0, 1, 2, 4], p=[0.1, 0.3, 0.3, 0.3])),
            "budget": int(rng.integers(2, 9)),
        }
        for a in regions
        for b in regions
        if a != b and rng.random() < 0.85
    ]
    entries = [
        {"name": r, "storage": int(rng.integers(2, 12))} for r in regions if rng.random() < 0.6
    ]
    return {
        "now": NOW,
        "cluster": {
            "levels": ["region"],
            "domains": [{"name": r, "level": "region"} for r in regions],
            "hosts": [{"name": f"h{r}", "parent": r, "gpus": 0} for r in regions],
        },
        "geo": {
            "window_s": WINDOW,
            "regions": entries,
            "links": links,
            "datasets": datasets,
            "copying": copying,
        },
        "policy": {"formulation": "replicas"},
    }


def draw_plan(rng: np.random.Generator, raw: Raw) -> tuple[list[Raw], list[Raw], list[Raw]]:
    """Return new replicas, deletions and flows, most of which make some sense."""
    geo, regions = raw["geo"], [d["name"] for d in raw["cluster"]["domains"]]
    creates, drops, flows = [], [], []
    for data in geo["datasets"]:
        coming = [c["region"] for c in geo["copying"] if c["dataset"] == data["name"]]
        for region in regions:
            here = region in data["replicas"] or region in coming
            if here and rng.random() < 0.3:
                at = int(rng.integers(NOW - (rng.random() < 0.02), NOW + WINDOW + 1))
                drops.append({"dataset": data["name"], "region": region, "at": at})
            if rng.random() > (0.02 if here else 0.5):
                continue
            parts = [data["size"]]
            if parts[0] > 1 and rng.random() < 0.4:
                first = int(rng.integers(1, parts[0]))
                parts = [first, parts[0] - first]
            ends = []
            for gib in parts:
                sources = data["replicas"] or regions
                if rng.random() < 0.3:
                    sources = regions
                path = [str(rng.choice(sources))]
                if rng.random() < 0.3:
                    path.append(str(rng.choice(regions)))
                path.append(region)
                if len(set(path)) < len(path) and rng.random() < 0.95:
                    path = [*dict.fromkeys(r for r in path if r != region), region]
                if len(path) < 2:
                    path = [next(r for r in regions if r != region), region]
                start = int(rng.integers(NOW, NOW + WINDOW))
                ends.append(int(rng.integers(start + 1, NOW + WINDOW + 1)))
                size = max(1, gib + int(rng.choice([0, 1, -1], p=[0.98, 0.01, 0.01])))
                flows.append(
                    {
                        "dataset": data["name"],
                        "path": path,
                        "gib": size,
                        "start": start,
                        "end": ends[-1],
                    }
                )
            ready = max(ends) + int(rng.random() < 0.02)
            creates.append({"dataset": data["name"], "region": region, "ready": ready})
    if rng.random() < 0.98:
        flows.sort(key=lambda flow: flow["start"])
    if creates and rng.random() < 0.03:
        creates.pop()
    return creates, drops, flows


class Replay:
    """A round and its transfers, asked moment by moment."""

    def __init__(self, raw: Raw, creates: list[Raw], drops: list[Raw], flows: list[Raw]) -> None:
        geo = raw["geo"]
        self.regions = [d["name"] for d in raw["cluster"]["domains"]]
        self.data = {d["name"]: d for d in geo["datasets"]}
        self.links = {(k["source"], k["target"]): k for k in geo["links"] if k["bandwidth"]}
        self.storage = {e["name"]: e["storage"] for e in geo["regions"]}
        self.coming = {(c["dataset"], c["region"]): c["ready"] for c in geo["copying"]}
        self.creates, self.drops, self.flows = creates, drops, flows

    def lawful(self, name: str) -> list[str]:
        lawful: list[str] = self.data[name].get("regions", self.regions)
        return lawful

    def had(self, name: str, region: str) -> bool:
        """Whether a replica is there before the plan, or comes."""
        return region in self.data[name]["replicas"] or (name, region) in self.coming

    def complete(self, name: str, region: str, moment: Fraction) -> bool:
        """Whether a region has all of a dataset at a moment."""
        for drop in self.drops:
            if (drop["dataset"], drop["region"]) == (name, region) and drop["at"] <= moment:
                return False
        if region in self.data[name]["replicas"]:
            return True
        if (name, region) in self.coming:
            return self.coming[name, region] <= moment
        return any(
            (one["dataset"], one["region"]) == (name, region) and one["ready"] <= moment
            for one in self.creates
        )

    def used(self, region: str, moment: Fraction) -> int:
        total = 0
        for name, data in self.data.items():
            gone = any(
                (one["dataset"], one["region"]) == (name, region) and one["at"] <= moment
                for one in self.drops
            )
            if self.had(name, region):
                here = True
            else:
                here = any(
                    (one["dataset"], one["region"]) == (name, region) for one in self.creates
                ) and any(
                    flow["dataset"] == name and flow["path"][-1] == region
                    for flow in self.flows
                    if flow["start"] <= moment
                )
            total += data["size"] * (here and not gone)
        return total

    def broken(self) -> set[str]:
        """Return the rules that are broken."""
        found: set[str] = set()
        for one in self.creates:
            name, region = one["dataset"], one["region"]
            if self.had(name, region) or region not in self.lawful(name):
                found.add("create")
            mine = [f for f in self.flows if (f["dataset"], f["path"][-1]) == (name, region)]
            whole = sum(flow["gib"] for flow in mine) == self.data[name]["size"]
            if not whole or one["ready"] != max(flow["end"] for flow in mine):
                found.add("copy")
        targets = {(one["dataset"], one["region"]) for one in self.creates}
        if {(flow["dataset"], flow["path"][-1]) for flow in self.flows} - targets:
            found.add("copy")
        for one in self.drops:
            ready = self.coming.get((one["dataset"], one["region"]), NOW)
            if ready > NOW or not NOW <= one["at"] <= NOW + WINDOW:
                found.add("drop")
        starts = [flow["start"] for flow in self.flows]
        if starts != sorted(starts):
            found.add("flow_times")
        for flow in self.flows:
            path = flow["path"]
            if (
                len(set(path)) < len(path)
                or not set(path) <= set(self.lawful(flow["dataset"]))
                or any(pair not in self.links for pair in pairwise(path))
            ):
                found.add("flow_path")
        taken: Counter[tuple[str, str]] = Counter()
        for flow in self.flows:
            taken.update(dict.fromkeys(pairwise(flow["path"]), 0))
            for pair in pairwise(flow["path"]):
                taken[pair] += flow["gib"]
        for pair, gib in taken.items():
            if pair in self.links:
                carried = self.links[pair]["bandwidth"] * WINDOW * 10**6 // 2**33
                if gib > min(carried, self.links[pair]["budget"]):
                    found.add("link_budget")
        for half in range(2 * WINDOW + 4):
            found |= self.broken_at(NOW + Fraction(half, 2))
        return found

    def broken_at(self, moment: Fraction) -> set[str]:
        found: set[str] = set()
        for region, limit in self.storage.items():
            before = sum(d["size"] for name, d in self.data.items() if self.had(name, region))
            if self.used(region, moment) > max(limit, before):
                found.add("storage")
        passing = [flow for flow in self.flows if flow["start"] <= moment < flow["end"]]
        for flow in passing:
            if not self.complete(flow["dataset"], flow["path"][0], moment):
                found.add("flow_source")
        for pair, link in self.links.items():
            rate = sum(
                Fraction(flow["gib"] * 2**33, 10**6 * (flow["end"] - flow["start"]))
                for flow in passing
                for each in pairwise(flow["path"])
                if each == pair
            )
            if rate > link["bandwidth"] + 1:
                found.add("link_rate")
        for name in {one["dataset"] for one in self.drops}:
            first = [
                self.coming.get((name, region), NOW)
                for region in self.regions
                if self.had(name, region)
            ]
            somebody = any(self.complete(name, region, moment) for region in self.regions)
            if not somebody and moment >= min(first):
                found.add("last_replica")
        return found


def test_random_transfers_break_the_rules_that_a_replay_of_every_moment_finds() -> None:
    rng = np.random.default_rng(7)
    seen: Counter[str] = Counter()
    for _ in range(1500):
        raw = draw_round(rng)
        creates, drops, flows = draw_plan(rng, raw)
        replicas = {"kind": "replicas", "creates": creates, "drops": drops}
        sections = [replicas, {"kind": "flows", "flows": flows}]
        plan = Plan.model_validate({"decisions": [], "sections": sections})
        found = {one.rule for one in verify(parse_round(raw), plan).violations}
        expected = Replay(raw, creates, drops, flows).broken()
        assert found == expected, (raw, creates, drops, flows)
        seen.update(expected if len(expected) == 1 else ("several" if expected else "valid",))
    assert seen.keys() > RULES
    assert min(seen["valid"], seen["several"]) > 100

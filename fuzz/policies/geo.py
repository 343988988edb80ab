"""The policy `geo`: which region runs which job now, on which hosts.

All plans of the round of gangs are enumerated (`fuzz.book`) in which each job lies in one region,
with all ways to read over links. Copies that are ordered for jobs which wait count in no term: so
they come in a sample, as do the reasons of jobs that wait. The sample of invalid plans has tasks
elsewhere, reads that are missing or wrong, reasons that are not true, and schedules with a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

from fuzz.book.choices import WAIT, Choices, Enumeration
from fuzz.book.facts import WHOLE
from fuzz.book.mutations import mutated
from fuzz.data.carrying import Carried, carry
from fuzz.data.changing import changed
from fuzz.data.drawing import draw_reads, draw_world, enlarge, regions_of, some
from fuzz.data.reading import Sources, Waiting
from fuzz.data.reasons import untrue
from fuzz.data.regions import Book, Said
from fuzz.data.replay import broken
from fuzz.data.world import World, read_world
from fuzz.drawing import chance, costs, options, settle
from fuzz.drawing_caps import draw_caps
from fuzz.policies.gang import counting, disruption_limits
from fuzz.policy import Judged, Policy, Raw, Setting, TooManyPlansError
from placewright.formulations.geo import parameters

COSTS = ("remote_reads", "egress_cost", "gpu_cost")
PLACES = ("disruption", "spread", "proximity", "opened")
MAX_PLANS = 2_000
MOST_WORTH = 10**12
SPOILT, MUTATED, WAITING = 8, 8, 12
"""Invalid plans that the enumeration meets, changed plans, and plans that say why jobs wait."""


def draw(rng: Random) -> Raw:
    """Draw a round."""
    parts = chance(rng, 0.08)
    drawn = draw_world(rng, "geo", least=1, parts=parts)
    if chance(rng, 0.3):
        for host in drawn["cluster"]["hosts"]:
            host |= {"cpu": rng.choice((1, 2, 4)), "memory": rng.choice((1, 3, 5))}
    drawn["tenants"] = [{"name": name} for name in ("t0", "t1")]
    if chance(rng, 0.25):
        drawn["tenants"][0]["quota"] = {"gpu": WHOLE * rng.randint(1, 3)}
    for region in drawn["geo"]["regions"]:
        if chance(rng, 0.2):
            region["quotas"] = {rng.choice(("t0", "t1")): WHOLE * rng.randint(0, 3)}
    if chance(rng, 0.12):
        drawn["reservations"] = [_reservation(rng, drawn["cluster"])]
    drawn["jobs"] = []
    for i in range(rng.choices((1, 2, 3, 4, 5), (1, 5, 8, 5, 2))[0]):
        job = _job(rng, drawn, f"j{i}", parts=parts)
        if chance(rng, 0.4):
            _run(rng, drawn, job)
        drawn["jobs"].append(job)
    drawn["policy"] = _policy(rng, drawn)
    enlarge(rng, drawn)
    if chance(rng, 0.1):
        _make_dear(rng, drawn)
    if chance(rng, 0.3):
        drawn["policy"]["priority"] = "preemption"
    if chance(rng, 0.25):
        draw_caps(rng, drawn)
    return drawn


def _make_dear(rng: Random, drawn: Raw) -> None:
    """Let jobs be worth more than solvers count in one, or prices and egress be so high."""
    worth, price = rng.choice(((10**6, 1), (10**6, 10**6), (1, 10**9), (10**9, 1)))
    for job in drawn["jobs"]:
        for option in job["options"]:
            if "value" in option:
                option["value"] = min(MOST_WORTH, option["value"] * worth)
    for link in drawn["geo"]["links"]:
        link["egress"] = link.get("egress", 0) * price
    for region in drawn["geo"]["regions"]:
        region["prices"] = {m: p * price for m, p in region.get("prices", {}).items()}


def _reservation(rng: Random, cluster: Raw) -> Raw:
    host = rng.choice(cluster["hosts"])
    entry: Raw = {"host": host["name"]}
    if host["gpus"] and chance(rng, 0.6):
        entry["gpus"] = sorted(rng.sample(range(host["gpus"]), rng.randint(1, host["gpus"])))
    return entry


def _job(rng: Random, drawn: Raw, name: str, *, parts: bool) -> Raw:
    most = rng.choice((1, 1, 1, 2))
    job: Raw = {"name": name, "options": options(rng, drawn["cluster"], most, parts=parts)}
    job["options"] = job["options"][: rng.choice((1, 1, 2))]
    job["reads"] = draw_reads(rng, drawn)
    if chance(rng, 0.5):
        job["priority"] = rng.choice((-1, 1, 2))
    if chance(rng, 0.3):
        job["weight"] = rng.choice((0, 2, 3))
    if chance(rng, 0.6):
        job["tenant"] = rng.choice(("t0", "t1"))
    if chance(rng, 0.15):
        job["regions"] = some(rng, regions_of(drawn))
    if chance(rng, 0.12):
        level = rng.choice((*drawn["cluster"]["levels"], "host"))
        job["anti_affinity"] = {"label": f"one-per-{level}", "level": level}
    return job


def _run(rng: Random, drawn: Raw, job: Raw) -> None:
    """Let a job run in some region, if there is room."""
    if any("hosts" in group for option in job["options"] for group in option["groups"]):
        return
    region_of = read_world(drawn).region_of
    region = rng.choice(regions_of(drawn))
    hosts = [host for host in drawn["cluster"]["hosts"] if region_of[host["name"]] == region]
    if not hosts:
        return
    here = [
        other
        for other in drawn["jobs"]
        if "running" in other and region_of[other["running"]["tasks"][0]["host"]] == region
    ]
    view = {**drawn, "cluster": {**drawn["cluster"], "hosts": hosts}, "jobs": here}
    view.pop("reservations", None)
    settle(rng, view, [job])
    if "running" in job:
        costs(rng, job["running"])


def _policy(rng: Random, drawn: Raw) -> Raw:
    others = [*COSTS, *PLACES]
    policy: Raw = {"formulation": "geo"}
    if chance(rng, 0.3):
        rest = ["remote_reads", "disruption", "spread", "opened"]
    else:
        rest = rng.sample(others, rng.randint(0, 5))
    policy["terms"] = ["value", *rest]
    if chance(rng, 0.3):
        levels = (*drawn["cluster"]["levels"], "host")
        chosen = rng.sample(levels, rng.randint(1, len(levels)))
        policy["spread_weights"] = {level: rng.choice((0, 1, 3)) for level in chosen}
    if chance(rng, 0.2):
        policy["limits"] = {"disruption": disruption_limits(rng)}
    return policy


def plans(round_: Raw, rng: Random) -> Iterator[Judged]:
    """Yield the plans."""
    book, seed = Book(round_), rng.randrange(1 << 30)
    valid: list[tuple[Choices, Sources]] = []
    spoilt: list[tuple[Choices, str]] = []
    for choices in Enumeration(book.facts, book.admits):
        if fault := book.between(choices):
            spoilt.append((choices, fault))
            continue
        valid += ((choices, sources) for sources in book.reading.ways(book.runs(choices)))
        if len(valid) > MAX_PLANS:
            raise TooManyPlansError
    for choices, sources in valid:
        yield _judged(book, choices, sources, _readers(sources), seed)
    for choices, fault in rng.sample(spoilt, min(SPOILT, len(spoilt))):
        sources = next(book.reading.ways(book.runs(choices)))
        yield _judged(book, choices, sources, _readers(sources), seed)._replace(broken=fault)
    for _ in range(MUTATED):
        yield _mutated(book, *rng.choice(valid), rng, seed)
    for _ in range(WAITING):
        yield _told(book, *rng.choice(valid), rng, seed)


def _readers(sources: Sources) -> list[Raw]:
    """Return who reads what, for the section `reads`."""
    by_job: dict[str, list[Raw]] = {}
    for (job, dataset), source in sources.items():
        by_job.setdefault(job, []).append({"dataset": dataset, "source": source})
    return [{"job": job, "reads": reads} for job, reads in by_job.items()]


def _judged(
    book: Book, choices: Choices, sources: Sources, readers: list[Raw], seed: int
) -> Judged:
    said = Said(readers, {}, [], Carried([], [], []))
    document = partial(book.document, choices, said, seed)
    return Judged(document, book.terms(choices, sources))


def _mutated(book: Book, choices: Choices, sources: Sources, rng: Random, seed: int) -> Judged:
    """Return a plan with one job elsewhere, or one entry of the reads different."""
    readers = _readers(sources)
    if readers and chance(rng, 0.5):
        _change_reads(rng, book.world, readers)
    else:
        choices = mutated(book.facts, choices, rng)
        ways = book.reading.ways(book.runs(choices))
        readers = _readers(rng.choice(list(ways)))
    fault = book.broken(choices) or book.reading.broken(book.runs(choices), readers)
    sources = {(r["job"], one["dataset"]): one["source"] for r in readers for one in r["reads"]}
    terms = {} if fault else book.terms(choices, sources)
    said = Said(readers, {}, [], Carried([], [], []))
    return Judged(partial(book.document, choices, said, seed), terms, fault)


def _change_reads(rng: Random, world: World, readers: list[Raw]) -> None:
    reader = rng.choice(readers)
    read = rng.choice(reader["reads"])
    match rng.randrange(5):
        case 0:
            read["source"] = rng.choice(world.regions)
        case 1:
            read["dataset"] = rng.choice(list(world.size))
        case 2:
            reader["reads"].append(dict(read))
        case 3:
            readers.append(deepcopy(reader))
        case _:
            readers.remove(reader)


def _told(book: Book, choices: Choices, sources: Sources, rng: Random, seed: int) -> Judged:
    """Return a plan that says why jobs wait, with copies for them perhaps; true or not."""
    idle = {
        j.name for j, choice in zip(book.facts.jobs, choices, strict=True) if choice.kind == WAIT
    }
    wanted = {read["dataset"] for name in idle for read in book.reading.jobs[name].get("reads", ())}
    carried = _copies(book.world, wanted, rng)
    creates = {(one["dataset"], one["region"]): one["ready"] for one in carried.creates}
    waiting, said, entries = Waiting(book.reading, creates), {}, []
    fault = broken(book.world, *carried, dropping=False)
    for job, choice in zip(book.facts.jobs, choices, strict=True):
        if choice.kind != WAIT:
            continue
        reason, mine = _reason(rng, book.world, waiting.could(job.name))
        entries += [{"job": job.name, **entry} for entry in mine]
        if reason is not None:
            said[job.name] = reason
        fault = fault or waiting.broken(job.name, reason, mine)
    told = Said(_readers(sources), said, entries, carried)
    document = partial(book.document, choices, told, seed)
    return Judged(document, book.terms(choices, sources), fault)


def _copies(world: World, wanted: set[str], rng: Random) -> Carried:
    """Return a copy or two of data, or none, at times with something changed."""
    there = world.held | world.coming.keys()
    everywhere = [(dataset, region) for dataset in sorted(wanted) for region in world.regions]
    free = [one for one in everywhere if one[1] in world.may[one[0]] and one not in there]
    chosen = set(rng.sample(free, min(len(free), rng.choice((0, 1, 1, 2)))))
    carried = carry(world, chosen, set()) or Carried([], [], [])
    if any(carried) and chance(rng, 0.3):
        return changed(rng, world, carried)
    if world.held and chance(rng, 0.05):
        dataset, region = rng.choice(sorted(world.held))
        carried.drops.append({"dataset": dataset, "region": region, "at": world.end})
    return carried


def _reason(rng: Random, world: World, could: Mapping[str, int]) -> tuple[str | None, list[Raw]]:
    """Return a reason to wait, and what is said of data: mostly the truth."""
    later = [(region, ready) for region, ready in could.items() if ready > world.now]
    if later and chance(rng, 0.6):
        region, ready = rng.choice(later)
        entry: Raw = {"region": region, "ready": ready}
        if chance(rng, 0.2):
            entry |= rng.choice(({"region": rng.choice(world.regions)}, {"ready": ready + 1}))
        if chance(rng, 0.1):
            return rng.choice(("no_region", None)), [entry]
        return "data", [entry] * rng.choices((0, 1, 2), (1, 20, 1))[0]
    if not could and chance(rng, 0.6):
        return "no_region", []
    return rng.choices((None, "no_region", "not_asked", "data"), (20, 2, 1, 1))[0], []


def _sizes(**values: Any) -> Callable[[], Any]:
    """Return the context in which parameters of the formulation have these values."""
    tuning = replace(parameters.PARAMETERS, **values)
    return partial(patch.object, parameters, "PARAMETERS", tuning)


SETTINGS = (
    Setting("whole", 4),
    Setting("counting", 1, counting),
    Setting("regions", 3, _sizes(max_monolithic_size=0, max_refined_size=0)),
    Setting("both", 2, _sizes(max_monolithic_size=0)),
    Setting("hurried", 1, seconds=0.02),
    Setting("regions, hurried", 1, _sizes(max_monolithic_size=0), seconds=0.05),
)
POLICY = Policy("geo", draw, plans, SETTINGS, untrue=untrue)

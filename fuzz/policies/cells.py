"""Policy `gang` in rounds in which tenants own cells."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial
from random import Random

from fuzz.book.cell_reasons import untrue
from fuzz.book.cells import Bound, Cells
from fuzz.book.choices import Choices, Enumeration
from fuzz.book.facts import Facts
from fuzz.book.gangs import MAX_PLANS, SPOILT, MissedPlanError, fault
from fuzz.book.judgement import Judgement
from fuzz.book.mutations import mutated
from fuzz.book.reading import choices_of
from fuzz.book.terms import Terms
from fuzz.book.writing import written
from fuzz.drawing import NOW, chance, costs, options, settle
from fuzz.drawing_caps import draw_caps
from fuzz.drawing_pools import draw_pools
from fuzz.policies.gang import SETTINGS, disruption_limits
from fuzz.policy import Judged, Policy, Raw, TooManyPlansError

TERMS = ("disruption", "spread", "opened", "progress", "proximity", "leftover", "entitled", "share")


class Book:
    """The rules and terms of a round with cells."""

    def __init__(self, round_: Raw) -> None:
        self.facts = Facts(round_)
        self.cells = Cells(self.facts)
        self.judgement = Judgement(self.facts)
        self.terms = Terms(self.judgement)

    def bound(self, choices: Choices) -> tuple[tuple[Bound, ...], str]:
        """Return bindings that suit a plan, or some that do not and the rule that they break."""
        found: tuple[tuple[Bound, ...], str] = (), "inside_cells"
        for bindings in self.cells.bindings(choices):
            found = bindings, self.cells.broken(choices, bindings)
            if not found[1]:
                break
        return found

    def written(self, choices: Choices, bindings: tuple[Bound, ...], seed: int) -> Raw:
        """Write a plan as a document."""
        document = written(self.terms, choices, seed)
        document["sections"].append(self.cells.section(choices, bindings))
        evictable = any(
            job.running is not None and not job.running.pinned and not self.cells.guaranteed(job)
            for job in self.facts.jobs
        )
        if self.cells.may_wait_for_budget and evictable:
            for job, entry in zip(self.facts.jobs, document["decisions"], strict=True):
                if self.cells.guaranteed(job) and entry["decision"] == "wait":
                    entry["reason"] = "disruption_limit"
        return document


def plans(round_: Raw, rng: Random) -> Iterator[Judged]:
    """Yield every plan; which cells are bound no term can tell, so one set of them is shown."""
    book = Book(round_)
    seed = rng.randrange(1 << 30)
    valid: list[Choices] = []
    spoilt: list[tuple[Choices, tuple[Bound, ...], str]] = []
    values = set()
    for choices in Enumeration(book.facts, book.cells.admits):
        bindings, broken = book.bound(choices)
        broken = broken or book.judgement.between(choices)
        if broken:
            if len(spoilt) < SPOILT or rng.random() < 0.02:
                spoilt.append((choices, bindings, broken))
            continue
        valid.append(choices)
        if len(valid) > MAX_PLANS:
            raise TooManyPlansError
        mine = book.terms(choices)
        scope = book.cells.places(choices)
        values.add((scope, tuple(mine.values())))
        yield Judged(partial(book.written, choices, bindings, seed), mine, scope=scope)
    for _ in range(SPOILT if valid else 0):
        choices = mutated(book.facts, rng.choice(valid), rng)
        bindings, broken = book.bound(choices)
        broken = book.judgement.broken(choices) or broken
        if broken:
            spoilt.append((choices, bindings, broken))
        elif (book.cells.places(choices), tuple(book.terms(choices).values())) not in values:
            raise MissedPlanError(f"the enumeration misses {choices}")
    for choices, bindings, broken in dict.fromkeys(spoilt):
        yield Judged(partial(book.written, choices, bindings, seed), {}, broken)


def scope(round_: Raw, plan: Raw) -> Hashable:
    """Return where a plan starts guaranteed jobs, as `Cells.places` does."""
    facts = Facts(round_)
    return Cells(facts).places(choices_of(facts, plan))


def draw(rng: Random) -> Raw:
    """Two to four hosts in chains, one or two tenants with cells, one to four jobs."""
    document = _cluster(rng)
    round_: Raw = {"now": NOW, "cluster": document, "jobs": [], "tenants": []}
    used, free = _owned(rng, round_)
    if chance(rng, 0.4):
        round_["tenants"].append({"name": "other"})
    names = [tenant["name"] for tenant in round_["tenants"]]
    jobs = [_job(rng, document, i, names) for i in range(rng.choice((1, 2, 2, 3, 3, 4)))]
    many = rng.choice((0, 1, 1, 2, 3))
    owners = {tenant["name"] for tenant in round_["tenants"] if tenant.get("cells")}
    for job in jobs[:many]:
        mine = job.get("tenant") in owners and not job.get("opportunistic")
        settle(rng, round_, [job], used.get(job["tenant"], set()) if mine else used[""] | free)
    for job in round_["jobs"]:
        costs(rng, job["running"])
    round_["jobs"] += [job for job in jobs if "running" not in job]
    rng.shuffle(round_["jobs"])
    if chance(rng, 0.1):
        round_["reservations"] = [{"host": rng.choice(document["hosts"])["name"]}]
    terms = rng.sample(TERMS, rng.randint(0, 4))
    if chance(rng, 0.7):
        terms = ["value", *terms]
    round_["policy"] = {"terms": terms or ["value"]}
    if chance(rng, 0.25):
        round_["policy"]["limits"] = {"disruption": disruption_limits(rng)}
    if chance(rng, 0.25):
        draw_caps(rng, round_)
    if chance(rng, 0.2):
        draw_pools(rng, round_)
    return round_


def _cluster(rng: Random) -> Raw:
    """Equal hosts, or two kinds of them, in racks of equal size if there are racks."""
    racks = rng.choice((0, 0, 1, 2))
    each = rng.choice((2, 3, 4)) if racks < 2 else rng.choice((1, 2, 2))
    models = rng.choice(("A", "A", "A", "AB")) if racks == 0 else "A"
    kind: Raw = {"gpus": rng.choice((1, 2, 2))}
    if chance(rng, 0.5):
        kind |= {"cpu": rng.choice((2, 4)), "memory": rng.choice((3, 8))}
    document: Raw = {"levels": ["rack"] if racks else [], "domains": [], "hosts": []}
    for r in range(max(racks, 1)):
        if racks:
            document["domains"].append({"name": f"r{r}", "level": "rack"})
        for i in range(each):
            host = {"name": f"h{r}{i}", **kind, "gpu_model": models[i % len(models)]}
            document["hosts"].append(host | ({"parent": f"r{r}"} if racks else {}))
    for host in document["hosts"]:
        if chance(rng, 0.06):
            host["healthy"] = False
    return document


def _owned(rng: Random, round_: Raw) -> tuple[dict[str, set[str]], set[str]]:
    """Let tenants own cells, bind some; return hosts bound by tenant ("": none), and those free."""
    document = round_["cluster"]
    free = {host["name"]: host for host in document["hosts"]}
    used: dict[str, set[str]] = {"": set()}
    bindings = []
    for name in ("t0", "t1")[: rng.choice((1, 1, 2))]:
        cells: list[Raw] = []
        for _ in range(rng.choice((1, 1, 2))):
            if not free:
                break
            first = free[rng.choice(sorted(free))]
            rack = first.get("parent")
            whole = {n for n, host in free.items() if host.get("parent") == rack}
            size = sum(host.get("parent") == rack for host in document["hosts"])
            entry: Raw = {"level": "host", "gpu_model": first["gpu_model"]}
            mine = {first["name"]}
            if rack is not None and len(whole) == size and chance(rng, 0.4):
                entry["level"], mine = "rack", whole
            for host in mine:
                del free[host]
            at = next((i for i, one in enumerate(cells) if one == {**one, **entry}), len(cells))
            if at == len(cells):
                cells.append(entry)
            else:
                cells[at]["count"] = cells[at].get("count", 1) + 1
            if chance(rng, 0.6):
                domain = first["name"] if entry["level"] == "host" else rack
                bindings.append({"tenant": name, "cell": at, "domain": domain})
                used.setdefault(name, set()).update(mine)
        tenant: Raw = {"name": name, "cells": cells}
        if chance(rng, 0.1):
            tenant["quota"] = {"gpu": rng.choice((1000, 2000))}
        round_["tenants"].append(tenant)
    if bindings:
        round_["bindings"] = bindings
    return used, {host["name"] for host in document["hosts"]}


def _job(rng: Random, document: Raw, number: int, names: list[str]) -> Raw:
    job: Raw = {"name": f"j{number}", "options": options(rng, document, rng.choice((1, 2, 2)))}
    if chance(rng, 0.8):
        job["tenant"] = rng.choice(names)
        if chance(rng, 0.3):
            job["opportunistic"] = True
    if chance(rng, 0.4):
        job["priority"] = rng.choice((-1, 1, 2))
    if chance(rng, 0.15):
        job["weight"] = rng.choice((0, 2))
    return job


POLICY = Policy("cells", draw, plans, SETTINGS, scope, untrue=untrue, fault=fault)

"""Why jobs wait: the tests of docs/plans.md, by trying all places of the one job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from fuzz.book.arrangement import arrangement
from fuzz.book.choices import KEEP, MIGRATE, PREEMPT, START, WAIT, Choice, Choices
from fuzz.book.facts import WHOLE, Facts, Group, Host, Job, Place
from fuzz.book.reading import choices_of, decisions_of
from fuzz.book.room import Room
from fuzz.book.standing import Standing
from fuzz.policy import Raw

NEVER_FITS, QUOTA, CAPACITY, DISPLACED, NOT_CHOSEN = ORDER = (
    "never_fits",
    "quota",
    "capacity",
    "displaced_by_priority",
    "not_chosen",
)


class State:
    """Hosts as a reason speaks of them: what some jobs leave, in each of `rooms` at once.

    A place has to be free in all rooms. `held` has the jobs that count, with their places.
    """

    def __init__(self, facts: Facts, held: Sequence[Sequence[tuple[Job, Choice]]]) -> None:
        self.facts = facts
        self.rooms = [Room(facts) for _ in held]
        self.closed: dict[tuple[str, int], set[str]] = {}
        for room, jobs in zip(self.rooms, held, strict=True):
            for job, choice in jobs:
                for place in choice.places:
                    room.take(job.options[choice.option].groups[place[0]], place)
                    if job.label is not None:
                        domain = facts.hosts[place[2]].domains[job.label[1]]
                        self.closed.setdefault(job.label, set()).add(domain)

    def fits(self, job: Job, number: int) -> bool:
        """Whether all tasks of an option of a job find places at once."""
        return self.finds(job, number, list(job.options[number].tasks()))

    def finds(
        self, job: Job, number: int, tasks: Sequence[tuple[int, int]], among: str | None = None
    ) -> bool:
        """Whether some tasks of an option find places, all in one domain if one is given."""
        return self._from(job, number, tasks, (), among)

    def _from(
        self,
        job: Job,
        number: int,
        tasks: Sequence[tuple[int, int]],
        before: tuple[Place, ...],
        among: str | None,
    ) -> bool:
        if len(before) == len(tasks):
            return bool(before) and not arrangement(self.facts, job, number, before)
        g, index = tasks[len(before)]
        group = job.options[number].groups[g]
        for place in list(self.places(job, group, g, index)):
            if among is not None and among not in self.facts.hosts[place[2]].domains:
                continue
            if index and before[-1][0] == g and not group.ordered and place[2] < before[-1][2]:
                continue
            for room in self.rooms:
                room.take(group, place)
            found = self._from(job, number, tasks, (*before, place), among)
            for room in self.rooms:
                room.take(group, place, -1)
            if found:
                return True
        return False

    def places(self, job: Job, group: Group, g: int, index: int) -> Iterator[Place]:
        """Yield where one task may arrive."""
        for place in self.rooms[0].places(group, g, index):
            hers = self.facts.hosts[place[2]].domains
            if job.label is not None and hers[job.label[1]] in self.closed.get(job.label, ()):
                continue
            if all(room.holds(group, place) for room in self.rooms[1:]):
                yield place

    def allowed(self, job: Job, group: Group) -> list[Host]:
        """Return the hosts to which tasks of a group may come, if there is enough."""
        return [
            host
            for host in self.facts.hosts
            if host.open
            and (group.hosts is None or host.number in group.hosts)
            and (group.models is None or host.model in group.models)
            and (group.profile is None or group.profile in host.slices)
            and (not group.gpu_memory or (host.gpu_memory or 0) >= group.gpu_memory)
            and all(name in self.named for name, _ in group.wants)
            and (
                job.label is None
                or host.domains[job.label[1]] not in self.closed.get(job.label, ())
            )
        ]

    @property
    def named(self) -> set[str]:
        """The resources that some host has."""
        return {name for host in self.facts.hosts for name in host.has}

    def left(self, host: Host, resource: str) -> int:
        """Return what is free of a resource beside GPUs."""
        return max(0, min(room.left[host.number].get(resource, 0) for room in self.rooms))

    def gpus(self, host: Host) -> list[int]:
        """Return the free milli-GPU of each GPU that may be used; 0 of one with slices."""
        return [
            0
            if gpu in host.reserved_gpus or any(room.cut[host.number][gpu] for room in self.rooms)
            else max(0, min(room.gpus[host.number][gpu] for room in self.rooms))
            for gpu in range(host.gpus)
        ]


class Reasons:
    """The true reasons of the jobs that a plan lets wait."""

    def __init__(self, facts: Facts, choices: Choices) -> None:
        self.facts, self.choices = facts, choices
        self.standing = Standing(facts)
        self._pairs = list(zip(facts.jobs, choices, strict=True))
        empty = Facts(facts.raw)
        empty.hosts = tuple(
            replace(
                host,
                healthy=True,
                reserved=False,
                reserved_gpus=frozenset(),
                vacated=False,
                away=False,
            )
            for host in facts.hosts
        )
        self._empty = State(empty, [[]])

    def of(self, job: Job) -> tuple[str, int]:
        """Return the reason of a job, and the option that it speaks of."""
        options = sorted(range(len(job.options)), key=lambda o: job.options[o].asks["gpu"])
        best = max(options, key=lambda o: ORDER.index(self.of_option(job, o)))
        return self.of_option(job, best), best

    def of_option(self, job: Job, number: int) -> str:
        """Return the first test that an option fails."""
        failed: Mapping[str, Callable[[], bool]] = {
            NEVER_FITS: lambda: not self._empty.fits(job, number),
            QUOTA: lambda: any(e > 0 for *_, e in self.quota(job, number).values()),
            CAPACITY: lambda: not self.state(CAPACITY, job, number).fits(job, number),
            DISPLACED: lambda: not self.state(DISPLACED, job, number).fits(job, number),
        }
        return next((reason for reason, fails in failed.items() if fails()), NOT_CHOSEN)

    def quota(self, job: Job, number: int) -> dict[str, tuple[int, int, int, int]]:
        """Return what is asked, used after the round, allowed, and too much, by resource."""
        tenant = next((t for t in self.facts.tenants if t["name"] == job.tenant), {})
        found = {}
        for name, limit in (tenant.get("quota") or {}).items():
            mine = [pair for pair in self._pairs if pair[0].tenant == job.tenant]
            held = sum(
                one.options[one.running.option].asks.get(name, 0)
                for one, _ in mine
                if one.running is not None
            )
            used = sum(one.options[c.option].asks.get(name, 0) for one, c in mine if c.runs)
            asked, most = job.options[number].asks.get(name, 0), max(limit, held)
            found[name] = asked, used, most, used + asked - most
        return found

    def state(self, reason: str, job: Job, number: int) -> State:
        """Return the hosts that the test of a reason looks at, for an option of a job."""
        if reason == NEVER_FITS:
            return self._empty
        mine = self.standing.of(job, number)
        stay = [(one, choice) for one, choice in self._pairs if choice.kind in (KEEP, MIGRATE)]
        above = [
            (one, choice)
            for one, choice in self._pairs
            if choice.kind == START
            and (reason == NOT_CHOSEN or self.standing.of(one, choice.option) > mine)
        ]
        victims = [
            (one, Choice(KEEP, one.running.option, one.running.places))
            for one, choice in self._pairs
            if choice.kind == PREEMPT
            and one.running is not None
            and self.standing.of(one, one.running.option) >= mine
        ]
        kept = [(one, choice) for one, choice in stay if choice.kind == KEEP]
        first = stay + (above if reason in (DISPLACED, NOT_CHOSEN) else [])
        return State(self.facts, [first, kept + victims] if victims else [first])


def untrue(round_: Raw, plan: Raw) -> str:
    """Say which reason of a plan is not true, "" if all are; the plan keeps all other rules."""
    facts = Facts(round_)
    reasons = Reasons(facts, choices_of(facts, plan))
    for decision in plan["decisions"]:
        if (decision["job"] in facts.invalid) != (decision.get("reason") == "invalid"):
            return f"{decision['job']} waits for {decision.get('reason')!r}"
    for job, decision in zip(facts.jobs, decisions_of(facts, plan), strict=True):
        if decision["decision"] != WAIT:
            continue
        true, option = reasons.of(job)
        said, detail = decision.get("reason"), _given(decision)
        where = f"{job.name} waits for {true!r} by option {option}, the plan says"
        if (said, detail.get("option", 0)) != (true, option):
            return f"{where} {said!r}, {detail}"
        if fault := _untrue_detail(reasons, job, option, true, detail):
            return f"{where} {detail}: {fault}"
    return ""


def _given(decision: Raw) -> Raw:
    """Return the facts that a detail has."""
    facts = decision.get("detail") or {}
    return {name: fact for name, fact in facts.items() if fact is not None}


def _untrue_detail(reasons: Reasons, job: Job, number: int, reason: str, detail: Raw) -> str:
    """Say what is not true of a detail, "" if all is."""
    if detail.get("unproven"):
        return "a tiny round leaves nothing open"
    if reason == NOT_CHOSEN:
        startable = reasons.state(reason, job, number).fits(job, number)
        return "" if detail.get("startable", False) == startable else f"startable is {startable}"
    if reason == QUOTA:
        name = detail.get("resource", "")
        said = tuple(detail.get(field) for field in ("asked", "used", "limit", "excess"))
        true = reasons.quota(job, number).get(name, (0, 0, 0, 0))
        wrong = detail.get("tenant") != job.tenant or said != true or true[3] <= 0
        return f"of {name!r} it is {true}" if wrong else ""
    state = reasons.state(reason, job, number)
    option = job.options[number]
    if detail.get("tasks") is None:
        return _untrue_sum(state, job, number, detail)
    g = detail.get("group", 0)
    group = option.groups[g]
    if detail["tasks"] != group.count:
        return f"the group has {group.count} tasks"
    level = _level(option.required, group)
    most = _most_places(state, job, number, g, level)
    if detail["places"] != max(most.values()) or detail["places"] >= group.count:
        return f"places are {most}"
    if "domain" in detail:
        if level is None or detail["level"] != state.facts.levels[level]:
            return f"the level is {level}"
        if most.get(detail["domain"]) != detail["places"]:
            return f"places are {most}"
    if "host" in detail:
        return _untrue_host(state, job, group, detail)
    if "resource" in detail:
        name, hosts = detail["resource"], state.allowed(job, group)
        if "domain" in detail:
            hosts = [host for host in hosts if detail["domain"] in host.domains]
        each = group.gpu if name == "gpu" else dict(group.wants)[name]
        free = sum(_free(state, host, name, whole=group.gpu >= WHOLE) for host in hosts)
        if (detail["asked"], detail["free"]) != (each * group.count, free):
            return f"of {name} {each * group.count} is asked and {free} free"
    return ""


def _level(joint: int | None, group: Group) -> int | None:
    """Return the level of which one domain holds the group."""
    levels = [level for level in (joint, group.required) if level is not None]
    return max(levels) if levels and group.count > 1 else None


def _most_places(
    state: State, job: Job, number: int, g: int, level: int | None
) -> dict[str | None, int]:
    """Return how many tasks of a group find places at once, by domain."""
    option = job.options[number]
    group = option.groups[g]
    size = (
        group.slices[0]
        if group.slices and group.slices[1] > (-1 if level is None else level)
        else 1
    )
    slices = group.slices if size > 1 else None
    domains = {None} if level is None else {host.domains[level] for host in state.facts.hosts}
    found = {}
    for domain in domains:
        found[domain] = 0
        for count in range(group.count - group.count % size, 0, -size):
            fewer = replace(group, count=count, slices=slices)
            alone = replace(option, groups=(fewer,))
            one = replace(job, options=(alone,))
            if state.finds(one, 0, [(0, i) for i in range(count)], domain):
                found[domain] = count
                break
    return found


def _untrue_host(state: State, job: Job, group: Group, detail: Raw) -> str:
    host = state.facts.hosts[state.facts.numbers[detail["host"]]]
    name = detail["resource"]
    if host not in state.allowed(job, group):
        return f"no task may come to {host.name}"
    if name == "mig":
        return "" if (detail["asked"], detail["free"]) == (1, 0) else "of a slice 1 is asked"
    if name == "gpu_memory":
        asked = group.gpu_memory
        free = max(
            (
                min(room.memory[host.number][gpu] for room in state.rooms)
                for gpu, milli in enumerate(state.gpus(host))
                if milli >= group.each
            ),
            default=0,
        )
    elif name == "gpu" and group.gpu < WHOLE:
        asked, free = group.gpu, max(state.gpus(host), default=0)
    else:
        asked = group.gpu if name == "gpu" else dict(group.wants)[name]
        free = _free(state, host, name, whole=True)
    if (detail["asked"], detail["free"]) != (asked, free) or free >= asked:
        return f"of {name} {asked} is asked and {free} free on {host.name}"
    return ""


def _free(state: State, host: Host, name: str, *, whole: bool) -> int:
    """Return what is free on a host; of GPUs those that are free as a whole, if `whole`."""
    if name != "gpu":
        return state.left(host, name)
    return sum(milli for milli in state.gpus(host) if milli == WHOLE or not whole)


def _untrue_sum(state: State, job: Job, number: int, detail: Raw) -> str:
    """Say what is not true of what all groups lack together."""
    option = job.options[number]
    if len(option.groups) == 1:
        return "one group has tasks and places"
    for g, group in enumerate(option.groups):
        level = _level(option.required, group)
        if max(_most_places(state, job, number, g, level).values()) < group.count:
            return f"group {g} lacks places alone"
    if "resource" not in detail:
        return ""
    name = detail["resource"]
    hosts = {
        host.number: host
        for group in option.groups
        for host in state.allowed(job, group)
        if detail.get("domain") in (None, *host.domains)
    }
    asked = option.asks.get(name, 0)
    free = sum(_sum_free(state, host, name) for host in hosts.values())
    if (detail["asked"], detail["free"]) != (asked, free) or free >= asked:
        return f"of {name} {asked} is asked and {free} free"
    return ""


def _sum_free(state: State, host: Host, name: str) -> int:
    """Return what is free on a host for all groups; GPUs with slices count with what is left."""
    if name != "gpu":
        return state.left(host, name)
    return sum(
        max(0, min(room.gpus[host.number][gpu] for room in state.rooms))
        for gpu in range(host.gpus)
        if gpu not in host.reserved_gpus
    )

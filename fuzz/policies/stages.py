"""The policy `stages`: jobs that wait for others, with every schedule of whole seconds.

All times up to a horizon that no sensible schedule needs are tried for each task, with each option;
what begins now has every assignment to hosts until one fits. Rows of capacity are counted for all
sets of GPU models, not only for those that the documents make rows of: the rest follows from these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import combinations, combinations_with_replacement, product
from math import comb, prod
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

from fuzz.policy import Judged, Policy, Raw, Setting, TooManyPlansError
from placewright.formulations.stages import parameters

TERMS = ("makespan", "completion")
MOST_TRIED, MOST_PLANS = 20_000, 3_000
WHOLE, NOW = 1000, 40
INVALID = 0.02


def draw(rng: Random) -> Raw:
    """Draw a round."""
    hosts: list[Raw] = [{"name": "h0", "gpus": rng.randint(1, 3), "gpu_model": "A", "cpu": 2000}]
    if rng.random() < 0.5:
        hosts.append({"name": "h1", "gpus": rng.randint(1, 2), "gpu_model": rng.choice("AB")})
        hosts[1]["cpu"] = rng.choice((0, 1000))
        hosts[1]["healthy"] = rng.random() < 0.8
    if rng.random() < 0.3:
        hosts.append({"name": "c", "gpus": 0, "cpu": 2000})
    drawn: Raw = {"now": NOW, "cluster": {"hosts": hosts}, "jobs": []}
    drawn["policy"] = {"formulation": "stages", "terms": rng.sample(TERMS, rng.randint(1, 2))}
    if rng.random() < 0.3:
        drawn["tenants"] = [{"name": "t", "quota": {"gpu": rng.choice((1000, 2000))}}]
    for number in range(rng.choice((1, 2, 2, 3, 3))):
        job = _job(rng, f"j{number}", drawn)
        if _fits(drawn, job):
            drawn["jobs"].append(job)
    return drawn


def _job(rng: Random, name: str, drawn: Raw) -> Raw:
    before = [job["name"] for job in drawn["jobs"]]
    options = []
    for _ in range(rng.choice((1, 1, 1, 2))):
        group: Raw = {"gpu": rng.choice((0, 1000, 1000, 2000)), "count": rng.choice((1, 1, 2))}
        group["cpu"] = rng.choice((0, 0, 1000))
        if rng.random() < 0.2:
            group["gpu_models"] = ["A"]
        options.append({"groups": [group]})
    stage = {
        "task_s": [rng.randint(1, 2) for _ in options],
        "after": [one for one in before if rng.random() < 0.4],
        "gang": rng.random() < 0.6,
    }
    job: Raw = {"name": name, "options": options, "stage": stage, "weight": rng.randint(0, 2)}
    if drawn.get("tenants") and rng.random() < 0.5:
        job["tenant"] = "t"
    group = options[0]["groups"][0]
    if not before and rng.random() < 0.25 and group["count"] == 1 and group["gpu"] <= WHOLE:
        gpus = [0] if group["gpu"] else []
        job["running"] = {"tasks": [{"host": "h0", "gpus": gpus}]}
        job["running"]["started"] = NOW - rng.randint(0, 2)
        stage["gang"], stage["after"] = True, []
    return job


class Mode(NamedTuple):
    """A job with one of its options: units that begin by themselves, and what each asks."""

    option: int
    seconds: int
    units: int
    tasks: int
    gpu: int
    cpu: int
    allowed: frozenset[str]


def modes(round_: Raw, job: Raw) -> list[Mode]:
    """Return the modes of a job."""
    found, kinds = [], {host.get("gpu_model", "") for host in round_["cluster"]["hosts"]}
    for o, option in enumerate(job["options"]):
        (group,) = option["groups"]
        count, seconds = group.get("count", 1), job["stage"]["task_s"]
        named = group.get("gpu_models")
        allowed = kinds & set(named) if named else kinds - {""} if group["gpu"] else kinds
        gang = job["stage"].get("gang", True)
        found.append(
            Mode(
                o,
                seconds if isinstance(seconds, int) else seconds[o],
                1 if gang else count,
                count if gang else 1,
                group["gpu"],
                group.get("cpu", 0),
                frozenset(allowed),
            )
        )
    return found


def _hosts(round_: Raw) -> list[Raw]:
    return [host for host in round_["cluster"]["hosts"] if host.get("healthy", True)]


def _fits(round_: Raw, job: Raw) -> bool:
    """Whether a job fits the empty hosts, and its tenant's quota, with some option."""
    quota = round_["tenants"][0]["quota"]["gpu"] if "tenant" in job else 2**62
    for mode in modes(round_, job):
        places = 0
        for host in _hosts(round_):
            if host.get("gpu_model", "") in mode.allowed:
                most = [host["gpus"] * WHOLE // max(1, mode.gpu)] * bool(mode.gpu)
                most += [host.get("cpu", 0) // max(1, mode.cpu)] * bool(mode.cpu)
                places += min(most, default=mode.tasks)
        if places >= mode.tasks and mode.gpu * mode.tasks <= quota:
            return True
    return False


def _run(round_: Raw, job: Raw) -> Mode:
    """Return the mode in which a job runs."""
    option: int = job["running"].get("option", 0)
    return modes(round_, job)[option]


def _end(round_: Raw, job: Raw) -> int:
    """Return when a running job ends."""
    now = int(round_["now"])
    return max(now + 1, int(job["running"].get("started", now)) + _run(round_, job).seconds)


class Begins(NamedTuple):
    """A pending job: its mode, and when each of its units begins."""

    mode: Mode
    at: tuple[int, ...]

    @property
    def end(self) -> int:
        """When it is done."""
        return max(self.at) + self.mode.seconds


def plans(round_: Raw, rng: Random) -> Iterator[Judged]:
    """Yield the plans."""
    now = int(round_["now"])
    pending = [job for job in round_["jobs"] if "running" not in job]
    running = {job["name"]: _end(round_, job) for job in round_["jobs"] if "running" in job}
    each = [modes(round_, job) for job in pending]
    longest = sum(max(mode.seconds * mode.units for mode in mine) for mine in each)
    times = range(now, max([now, *running.values()]) + longest)
    tried = prod(sum(comb(len(times) + m.units - 1, m.units) for m in mine) for mine in each)
    if tried > MOST_TRIED:
        raise TooManyPlansError
    count, capacity = 0, list(rows(round_))
    ways = [
        [Begins(m, at) for m in mine for at in combinations_with_replacement(times, m.units)]
        for mine in each
    ]
    for chosen in product(*ways):
        named = dict(zip((job["name"] for job in pending), chosen, strict=True))
        fault = _fault(round_, named, running, capacity)
        if fault and rng.random() > INVALID:
            continue
        places = _places(round_, named, now)
        if places is None:
            continue
        count += not fault
        if count > MOST_PLANS:
            raise TooManyPlansError
        document = partial(_document, round_, named, places)
        judged = Judged(document, _values(round_, named, running), fault)
        yield judged
        if round_["jobs"] and not fault and rng.random() < INVALID:
            yield _wrong(judged, round_, rng)


class Row(NamedTuple):
    """What there is of something; what units ask, by job and option; what jobs hold that run."""

    have: int
    asks: dict[tuple[str, int], int]
    held: dict[str, int]


def rows(round_: Raw) -> Iterator[Row]:
    """Yield the rows of capacity: of each resource and all sets of models, and of quotas."""
    jobs, kinds = round_["jobs"], {one.get("gpu_model", "") for one in round_["cluster"]["hosts"]}
    pending = [(job, m) for job in jobs if "running" not in job for m in modes(round_, job)]
    runs = [(job, _run(round_, job), job["running"]["tasks"]) for job in jobs if "running" in job]
    for n, resource in product(range(1, len(kinds) + 1), ("gpu", "cpu")):
        for models in map(set, combinations(sorted(kinds), n)):
            hosts = [one for one in _hosts(round_) if one.get("gpu_model", "") in models]
            names = {one["name"] for one in hosts}
            yield Row(
                sum(
                    one["gpus"] * WHOLE if resource == "gpu" else one.get("cpu", 0) for one in hosts
                ),
                {
                    (job["name"], m.option): m.tasks * getattr(m, resource) * (m.allowed <= models)
                    for job, m in pending
                },
                {
                    job["name"]: sum(one["host"] in names for one in tasks) * getattr(m, resource)
                    for job, m, tasks in runs
                },
            )
    for tenant in round_.get("tenants", ()):
        mine = {job["name"]: job.get("tenant") == tenant["name"] for job in jobs}
        asks = {(j["name"], m.option): m.tasks * m.gpu * mine[j["name"]] for j, m in pending}
        held = {j["name"]: len(tasks) * m.gpu * mine[j["name"]] for j, m, tasks in runs}
        yield Row(tenant["quota"]["gpu"], asks, held)


def _fault(
    round_: Raw, named: dict[str, Begins], running: dict[str, int], capacity: Sequence[Row]
) -> str:
    """Return the rule that a schedule breaks, "" if it is valid."""
    for job in round_["jobs"]:
        for before in job["stage"].get("after", ()):
            done = running[before] if before in running else named[before].end
            if job["name"] in named and min(named[job["name"]].at) < done:
                return "stage_order"
    for t in range(int(round_["now"]), max([0, *(one.end for one in named.values())])):
        active = {
            (name, one.mode.option): sum(at <= t < at + one.mode.seconds for at in one.at)
            for name, one in named.items()
        }
        for row in capacity:
            held = sum(row.held[name] for name, end in running.items() if t < end)
            asked = sum(units * row.asks[of] for of, units in active.items())
            if asked > max(0, row.have - held):
                return "stage_capacity"
    return ""


def _places(round_: Raw, named: dict[str, Begins], now: int) -> dict[str, list[Raw]] | None:
    """Return a place of every task that begins now, None if there is none for all."""
    free = {host["name"]: set(range(host["gpus"])) for host in round_["cluster"]["hosts"]}
    cpu = {host["name"]: host.get("cpu", 0) for host in round_["cluster"]["hosts"]}
    for job in round_["jobs"]:
        for task in job.get("running", {}).get("tasks", ()):
            free[task["host"]] -= set(task.get("gpus", ()))
            cpu[task["host"]] -= _run(round_, job).cpu
    tasks = [
        (name, one.mode)
        for name, one in named.items()
        for at in one.at
        for _ in range(one.mode.tasks if at == now else 0)
    ]
    open_ = _hosts(round_)
    for hosts in product(open_, repeat=len(tasks)):
        left, cores = {name: sorted(gpus) for name, gpus in free.items()}, dict(cpu)
        places: dict[str, list[Raw]] = {}
        for (name, mode), host in zip(tasks, hosts, strict=True):
            at, gpus = host["name"], mode.gpu // WHOLE
            fits = len(left[at]) >= gpus and cores[at] >= mode.cpu
            if host.get("gpu_model", "") not in mode.allowed or not fits:
                break
            mine = places.setdefault(name, [])
            mine.append({"index": len(mine), "host": at, "gpus": left[at][:gpus]})
            left[at], cores[at] = left[at][gpus:], cores[at] - mode.cpu
        else:
            return places
    return None


def _values(round_: Raw, named: dict[str, Begins], running: dict[str, int]) -> dict[str, int]:
    now = int(round_["now"])
    ends = {**running, **{name: one.end for name, one in named.items()}}
    awaited = {name for job in round_["jobs"] for name in job["stage"].get("after", ())}
    values = {
        "makespan": max(ends.values(), default=now) - now,
        "completion": sum(
            job.get("weight", 1) * (ends[job["name"]] - now)
            for job in round_["jobs"]
            if job["name"] not in awaited
        ),
    }
    return {term: values[term] for term in round_["policy"]["terms"]}


def _document(round_: Raw, named: dict[str, Begins], places: dict[str, list[Raw]]) -> Raw:
    """Return the plan."""
    now, decisions, entries = int(round_["now"]), list[Raw](), list[Raw]()
    for job in round_["jobs"]:
        name = job["name"]
        if name in named:
            mode, at = named[name]
            waves = [[t, at.count(t)] for t in sorted(set(at))]
            gang = job["stage"].get("gang", True)
            most = max(sum(t <= s < t + mode.seconds for t in at) for s in at)
            decision: Raw = {"decision": "wait", "reason": "later", "detail": {"at": min(at)}}
            if min(at) == now:
                decision = {"decision": "start", "option": mode.option, "tasks": places[name]}
            entry: Raw = {"option": mode.option, "start": min(at), "end": named[name].end}
            entry |= {"tasks": mode.tasks if gang else most, "waves": [] if gang else waves}
        else:
            held = job["running"]
            option = held.get("option", 0)
            decision = {"decision": "keep", "option": option, "tasks": held["tasks"]}
            entry = {"option": option, "start": held.get("started", now), "end": _end(round_, job)}
            entry |= {"tasks": len(held["tasks"]), "waves": []}
        decisions.append({"job": name, **decision})
        entries.append({"job": name, **entry})
    return {"decisions": decisions, "sections": [{"kind": "schedule", "jobs": entries}]}


def _wrong(judged: Judged, round_: Raw, rng: Random) -> Judged:
    """Return a plan with something wrong in it."""
    plan = judged.document()
    entries = plan["sections"][0]["jobs"]
    number = rng.randrange(len(entries))
    match rng.randrange(5):
        case 0:
            entries[number]["end"] += 1
            broken = "schedule_times"
        case 1:
            del entries[number]
            broken = "schedule"
        case 2:
            entries.append(dict(entries[number]))
            broken = "schedule"
        case 3:
            entries[number]["tasks"] += 1
            broken = "schedule_times"
        case _:
            decision = plan["decisions"][number]
            kept = "running" in round_["jobs"][number]
            if decision["decision"] == "wait":
                decision["detail"]["at"] += 1
                broken = "later_reason"
            elif kept:
                plan["decisions"][number] = {"job": decision["job"], "decision": "preempt"}
                broken = "stage_keep"
            else:
                plan["decisions"][number] = {"job": decision["job"], "decision": "wait"}
                broken = "stage_start"
    return judged._replace(document=lambda: plan, broken=broken)


@contextmanager
def _with(**values: Any) -> Iterator[None]:
    """Solve with other parameters, as if rounds of other sizes were small or large."""
    others = replace(parameters.PARAMETERS, **values)
    with patch.object(parameters, "PARAMETERS", others):
        yield


SETTINGS = (
    Setting("exact", 12),
    Setting("hurried", 2, seconds=0.02),
    Setting("lists", 3, partial(_with, max_interval_units=-1)),
    Setting("placed once", 2, partial(_with, max_placing_rounds=1)),
)
POLICY = Policy("stages", draw, plans, SETTINGS)

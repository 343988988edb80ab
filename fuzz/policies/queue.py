"""Policy `gang` with reservations, backfilling and maintenance: a queue that crowds some hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from random import Random

from fuzz.book import gangs
from fuzz.book.choices import START, WAIT, Choice, Choices, Enumeration
from fuzz.book.facts import Facts, Job
from fuzz.book.judgement import Judgement
from fuzz.book.reading import choices_of, decisions_of
from fuzz.book.reservations import (
    KIND,
    delayed,
    maintained,
    read_section,
    running,
    section_fault,
    turns,
)
from fuzz.book.terms import Terms
from fuzz.book.waiting import NEVER, Held, Reserved, Timeline, Waiting
from fuzz.book.writing import written
from fuzz.drawing import NOW, chance, costs, numbers_of_hosts, settle
from fuzz.drawing_caps import draw_caps, draw_leave
from fuzz.drawing_pools import draw_pools
from fuzz.policies.gang import SETTINGS
from fuzz.policy import Judged, Policy, Raw, TooManyPlansError

MAX_PLANS = 400
SPOILT = 6
TIMES = (1, 3, 5, 5, 10, 10, 20, 40)
RESERVED, HELD_FOR = "reserved", "held_for_reservation"


def draw(rng: Random) -> Raw:
    """One to three hosts, two to five jobs with run times, of which some run."""
    round_: Raw = {"now": NOW, "cluster": _cluster(rng), "jobs": []}
    if chance(rng, 0.3):
        quota = {"gpu": rng.choice((1000, 2000, 3000))}
        round_["tenants"] = [{"name": "t0", "quota": quota}, {"name": "t1"}]
        if chance(rng, 0.4):
            round_["tenants"][1]["guarantee"] = {"gpu": rng.choice((1000, 2000))}
    jobs = [_job(rng, round_, i) for i in range(rng.choice((2, 3, 3, 4, 4, 5)))]
    runs = jobs[: rng.choice((0, 1, 1, 2, 2))]
    settle(rng, round_, runs)
    pins = chance(rng, 0.4)
    for job in round_["jobs"]:
        job["running"] |= {"started": NOW - rng.choice((1, 3, 8, 15)), "pinned": pins}
        if chance(rng, 0.1):
            del job["running"]["started"]
        costs(rng, job["running"])
    round_["jobs"] += [job for job in jobs if "running" not in job]
    rng.shuffle(round_["jobs"])
    terms = ["value", *rng.sample(("disruption", "spread", "opened"), rng.randint(0, 2))]
    if chance(rng, 0.1):
        terms.insert(rng.choice((0, 1)), "entitled")
    round_["policy"] = {"terms": terms, "priority": rng.choice(("strict", "preemption"))}
    if chance(rng, 0.85):
        round_["policy"]["backfill"] = {"depth": rng.choice((1, 1, 2, "all"))}
        if chance(rng, 0.3):
            round_["policy"]["backfill"]["order"] = "listed"
    if chance(rng, 0.35):
        round_["maintenance"] = [_window(rng, round_) for _ in range(rng.choice((1, 1, 2)))]
    if chance(rng, 0.1):
        host = rng.choice(round_["cluster"]["hosts"])
        round_["reservations"] = [{"host": host["name"], "gpus": [0]}]
    if chance(rng, 0.25):
        draw_caps(rng, round_)
    if chance(rng, 0.2):
        draw_pools(rng, round_)
    if chance(rng, 0.15):
        draw_leave(rng, round_)
    return round_


def _cluster(rng: Random) -> Raw:
    racks = rng.choice((0, 0, 2))
    kind = {"gpus": rng.choice((1, 2, 2, 3, 4)), "gpu_model": "A"}
    if chance(rng, 0.3):
        kind |= {"cpu": rng.choice((2, 4)), "memory": 4}
    hosts = []
    for i in range(rng.choice((1, 2, 2, 3))):
        host = {"name": f"h{i}", **kind}
        if racks:
            host["parent"] = f"r{rng.randrange(racks)}"
        hosts.append(host)
    domains = [{"name": f"r{i}", "level": "rack"} for i in range(racks)]
    return {"levels": ["rack"] if racks else [], "domains": domains, "hosts": hosts}


def _window(rng: Random, round_: Raw) -> Raw:
    window: Raw = {"host": rng.choice(round_["cluster"]["hosts"])["name"]}
    if chance(rng, 0.85):
        window["start"] = NOW + rng.choice((-5, 3, 5, 10))
    if chance(rng, 0.8):
        window["end"] = NOW + rng.choice((11, 15, 20))
    return window


def _job(rng: Random, round_: Raw, number: int) -> Raw:
    option = {"groups": [_group(rng, round_) for _ in range(rng.choice((1,) * 7 + (2,)))]}
    if chance(rng, 0.08):
        numbers_of_hosts(rng, option)
    job: Raw = {"name": f"j{number}", "options": [option]}
    if chance(rng, 0.12):
        job["options"].append({"groups": [_group(rng, round_)]})
    if chance(rng, 0.9):
        job["expected_runtime_s"] = rng.choice(TIMES)
    if chance(rng, 0.7):
        job["submitted"] = NOW - rng.choice((0, 1, 2, 5, 9))
    if chance(rng, 0.25):
        job["priority"] = rng.choice((1, 2))
    if chance(rng, 0.15):
        job["weight"] = rng.choice((0, 3))
    if round_.get("tenants") and chance(rng, 0.8):
        job["tenant"] = rng.choice(round_["tenants"])["name"]
        if chance(rng, 0.1):
            job["opportunistic"] = True
    if chance(rng, 0.05):
        job["not_before"] = NOW + rng.choice((0, 5))
    return job


def _group(rng: Random, round_: Raw) -> Raw:
    group: Raw = {"gpu": rng.choice((1000, 1000, 1000, 2000, 2000, 3000))}
    if "cpu" in round_["cluster"]["hosts"][0]:
        group["cpu"] = rng.choice((0, 1, 2))
    if chance(rng, 0.4):
        group["count"] = rng.choice((2, 2, 3))
        if round_["cluster"]["levels"] and chance(rng, 0.3):
            group["required"] = "rack"
    return group


def plans(round_: Raw, rng: Random) -> Iterator[Judged]:
    """Yield the plans beside some lawful reservations of the round, and some that break a rule."""
    facts = Facts(round_)
    waiting = Waiting(facts)
    fixed, reserved = _walk(waiting, rng)
    yield from _all(waiting, fixed, reserved, rng)


def within(round_: Raw, plan: Raw) -> Iterator[Judged]:
    """Yield the plans with the reservations of a plan, and with its starts in their turn."""
    facts = Facts(round_)
    starts, reserved = read_section(facts, plan) or ([], [])
    choices = choices_of(facts, plan)
    fixed = {number: choices[number] for number in starts}
    found = _all(Waiting(facts), fixed, reserved, Random(0))
    yield from (judged for judged in found if not judged.broken)


def _walk(waiting: Waiting, rng: Random) -> tuple[dict[int, Choice], list[Reserved]]:
    """Take the queue in turn, with places drawn of those that there are."""
    facts, now = waiting.facts, waiting.now
    timeline = Timeline(waiting, running(waiting), [])
    fixed: dict[int, Choice] = {}

    def start(number: int) -> bool:
        job = facts.jobs[number]
        for option in sorted(range(len(job.options)), key=lambda o: -job.options[o].value):
            if ways := timeline.ways(job, option, now):
                fixed[number] = _start(timeline, job, option, rng.choice(ways))
                timeline.held.append(Held(job, fixed[number], waiting.ends[number]))
                return True
        return False

    def reserve(number: int) -> None:
        job = facts.jobs[number]
        for at in timeline.times()[1:]:
            for option in range(len(job.options)):
                if ways := timeline.ways(job, option, at):
                    tasks = job.options[option].tasks()
                    places = zip((g for g, _ in tasks), rng.choice(ways), strict=True)
                    tasks_of = sorted(Counter(places).items())
                    entry = tuple((g, h, n) for (g, h), n in tasks_of)
                    end = waiting.end_from(number, at)
                    timeline.reserved.append(Reserved(number, option, at, end, entry))
                    return

    for number in waiting.queue:
        if len(timeline.reserved) >= waiting.depth:
            break
        if not start(number):
            reserve(number)
    _, behind = turns(waiting, timeline.reserved)
    for number in behind:
        waits = [waiting.ranks[n] for n in waiting.queue if n not in {*fixed, *behind}]
        waits += [waiting.ranks[n] for n in behind[: behind.index(number)] if n not in fixed]
        if not (waiting.free_to_stop and max(waits) > waiting.ranks[number]):
            start(number)
    return fixed, timeline.reserved


def _start(timeline: Timeline, job: Job, option: int, hosts: tuple[int, ...]) -> Choice:
    """Return a start on some hosts, on the first GPUs that are free there."""
    used = {
        (place[2], gpu) for one in timeline.held for place in one.choice.places for gpu in place[3]
    }
    places = []
    for (g, index), h in zip(job.options[option].tasks(), hosts, strict=True):
        host = timeline.facts.hosts[h]
        free = [n for n in range(host.gpus) if (h, n) not in used and n not in host.reserved_gpus]
        gpus = tuple(free[: job.options[option].groups[g].number])
        used |= {(h, gpu) for gpu in gpus}
        places.append((g, index, h, gpus, None))
    return Choice(START, option, tuple(places))


def _all(
    waiting: Waiting, fixed: Mapping[int, Choice], reserved: list[Reserved], rng: Random
) -> Iterator[Judged]:
    """Yield all plans in which jobs start as fixed, then some that break a rule."""
    facts = waiting.facts
    judgement = Judgement(facts)
    terms = Terms(judgement)
    section = _section(waiting, fixed, reserved)
    held = {
        (place[2], gpu)
        for job in facts.jobs
        if job.running is not None
        for place in job.running.places
        for gpu in place[3]
    }

    def admits(job: Job, choice: Choice) -> bool:
        if job.number not in fixed:
            return True
        mine = fixed[job.number]
        new = all((place[2], gpu) not in held for place in choice.places for gpu in place[3])
        return (
            new
            and choice.kind == START
            and choice.option == mine.option
            and Counter(p[::2][:2] for p in choice.places)
            == Counter(p[::2][:2] for p in mine.places)
        )

    spoilt: list[tuple[Choices, str]] = []
    number = 0
    enumeration = Enumeration(facts, admits)
    for choices in enumeration:
        broken = judgement.between(choices, room=enumeration.room)
        if not broken and delayed(waiting, fixed, reserved, choices):
            broken = "reservations"
        if not broken and not maintained(waiting, choices):
            broken = "maintenance"
        if broken:
            spoilt.append((choices, broken))
            continue
        number += 1
        if number > MAX_PLANS:
            raise TooManyPlansError
        yield Judged(partial(_written, terms, choices, section), terms(choices))
    for choices, broken in rng.sample(spoilt, min(SPOILT, len(spoilt))):
        yield Judged(partial(_written, terms, choices, section), {}, broken)


def _section(waiting: Waiting, fixed: Mapping[int, Choice], reserved: list[Reserved]) -> Raw | None:
    if not waiting.depth:
        return None
    facts = waiting.facts
    return {
        "kind": KIND,
        "starts": [facts.jobs[number].name for number in fixed],
        "jobs": [
            {
                "job": facts.jobs[r.job].name,
                "option": r.option,
                "at": r.at,
                "end": None if r.end == NEVER else int(r.end),
                "tasks": [
                    {"group": g, "host": facts.hosts[h].name, "tasks": n} for g, h, n in r.tasks
                ],
            }
            for r in reserved
        ],
    }


def _written(terms: Terms, choices: Choices, section: Raw | None) -> Raw:
    plan = written(terms, choices, 0)
    return plan if section is None else {**plan, "sections": [*plan["sections"], section]}


def fault(round_: Raw, plan: Raw) -> str:
    """Say which rule a plan breaks, or what its certificate says wrongly; "" if nothing."""
    facts = Facts(round_)
    waiting, choices = Waiting(facts), choices_of(facts, plan)
    if not maintained(waiting, choices):
        return "a task comes to a host that maintenance takes"
    found = read_section(facts, plan)
    if (found is None) != (not waiting.depth):
        return f"it has {'no' if found is None else 'a'} section {KIND}"
    if found is not None:
        if wrong := section_fault(waiting, *found, choices):
            return wrong
        if delayed(waiting, *found, choices):
            return "it delays a reservation"
    return gangs.fault(round_, plan)


def untrue(round_: Raw, plan: Raw) -> str:
    """Say which reason about the queue is not true, "" if all are."""
    facts = Facts(round_)
    waiting = Waiting(facts)
    _, reserved = read_section(facts, plan) or ([], [])
    at = {facts.jobs[r.job].name: r.at for r in reserved}
    for job, decision in zip(facts.jobs, decisions_of(facts, plan), strict=True):
        if decision["decision"] != WAIT:
            continue
        reason, detail = decision["reason"], decision.get("detail") or {}
        time, end = detail.get("at"), waiting.ends[job.number]
        true = {
            "held": job.ineligible == "held",
            "not_before": job.ineligible == "not_before",
            RESERVED: time == at.get(job.name, -1),
            HELD_FOR: time == at.get(detail.get("job", ""), -1) and end > time,
            "held_for_maintenance": any(
                max(start, waiting.now) == time and over > waiting.now and start < end
                for _, start, over in waiting.windows
            ),
        }.get(reason, not job.ineligible and job.name not in at)
        if not true:
            return f"{job.name} waits for {reason}, {detail}"
    return ""


def features(round_: Raw, plan: Raw) -> Iterator[str]:
    """Yield what makes a round worth playing."""
    facts = Facts(round_)
    starts, reserved = read_section(facts, plan) or ([], [])
    if reserved:
        yield f"{len(reserved)} reservations" if len(reserved) > 1 else "a reservation"
        if set(starts) & set(turns(Waiting(facts), reserved)[1]):
            yield "backfilled"
    if round_.get("maintenance"):
        yield "maintenance"
    for decision in decisions_of(facts, plan):
        if decision["decision"] == WAIT and decision["reason"].startswith(("held", RESERVED)):
            yield f"waits: {decision['reason']}"


POLICY = Policy(
    "queue",
    draw,
    plans,
    SETTINGS,
    within=within,
    fault=fault,
    untrue=untrue,
    features=features,
)

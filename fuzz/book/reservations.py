"""Whether reservations are those of docs/formulations/backfill.md, and a plan delays none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from fuzz.book.arrangement import arrangement
from fuzz.book.choices import KEEP, START, WAIT, Choice, Choices
from fuzz.book.facts import WHOLE, Facts
from fuzz.book.waiting import (
    NEVER,
    Held,
    Reserved,
    Timeline,
    Waiting,
    gpus_reserved,
    is_plain,
    may_come,
    reserved_of_pools,
)
from fuzz.policy import Raw

KIND = "reservations"


def read_section(facts: Facts, plan: Raw) -> tuple[list[int], list[Reserved]] | None:
    """Return the jobs that start in their turn and the reservations of a plan, None without."""
    numbers = {job.name: job.number for job in facts.jobs}
    for section in plan.get("sections", ()):
        if section["kind"] == KIND:
            reserved = [
                Reserved(
                    numbers[entry["job"]],
                    entry.get("option", 0),
                    entry["at"],
                    NEVER if entry.get("end") is None else entry["end"],
                    tuple(
                        (task.get("group", 0), facts.numbers[task["host"]], task["tasks"])
                        for task in entry["tasks"]
                    ),
                    entry.get("was") is not None,
                )
                for entry in section.get("jobs", ())
            ]
            return [numbers[name] for name in section.get("starts", ())], reserved
    return None


def turns(waiting: Waiting, reserved: list[Reserved]) -> tuple[list[int], list[int]]:
    """Return the queue in two parts: up to the last reservation, and those behind, in turn."""
    queue = waiting.queue
    if len(reserved) < waiting.depth or not reserved:
        return queue, []
    last = max(queue.index(r.job) for r in reserved)
    if waiting.listed:
        return queue[: last + 1], queue[last + 1 :]
    first = min(r.at for r in reserved)

    def turn(number: int) -> tuple[bool, int, bool]:
        entitled, priority = waiting.ranks[number]
        return not entitled, -priority, waiting.ends[number] > first

    return queue[: last + 1], sorted(queue[last + 1 :], key=turn)


def running(waiting: Waiting) -> list[Held]:
    """Return the jobs that run before the round, where they are."""
    return [
        Held(job, Choice(KEEP, job.running.option, job.running.places), waiting.ends[job.number])
        for job in waiting.facts.jobs
        if job.running is not None
    ]


def section_fault(
    waiting: Waiting, starts: Collection[int], reserved: list[Reserved], choices: Choices
) -> str:
    """Say what is wrong with the section of a plan, "" if nothing is."""
    facts = waiting.facts
    named = [waiting.queue.index(r.job) if r.job in waiting.queue else -1 for r in reserved]
    if named != sorted(set(named)) or -1 in named or len(named) > waiting.depth:
        return "reservations are not those of the first jobs in the queue, in its order"
    by_job = {r.job: r for r in reserved}
    timeline = Timeline(waiting, running(waiting), [])
    front, behind = turns(waiting, reserved)
    for number in (*front, *behind):
        job, choice = facts.jobs[number], choices[number]
        if number in starts:
            if choice.kind != START or not _stands(timeline, number, choice):
                return f"{job.name} does not start in its turn"
            timeline.held.append(Held(job, choice, waiting.ends[number]))
        elif number in by_job:
            mine = by_job[number]
            if wrong := _misplaced(timeline, mine):
                return f"the reservation of {job.name} {wrong}"
            moved = mine.kept and waiting.depth > 1  # others of the last round may bind it
            for time in timeline.times() if is_plain(job) and not moved else ():
                if time < mine.at and timeline.ways(job, 0, time):
                    return f"{job.name} fits at {time}, and is reserved {mine.at}"
            timeline.reserved.append(mine)
        elif choice.kind == WAIT and is_plain(job):
            if number in behind and _outranked(waiting, starts, number):
                continue
            times = timeline.times()
            for time in times[:1] if number in behind else times:
                if timeline.ways(job, 0, time):
                    return f"{job.name} is passed over: it fits at {time}"
    return ""


def _outranked(waiting: Waiting, starts: Collection[int], number: int) -> bool:
    """Whether a job of higher precedence waits that might start where jobs move or stop."""
    others = [waiting.ranks[other] for other in waiting.queue if other not in starts]
    return waiting.free_to_stop and max(others) > waiting.ranks[number]


def _stands(timeline: Timeline, number: int, choice: Choice) -> bool:
    """Whether a start fits in its places beside what has come before it, until its end."""
    waiting = timeline.waiting
    job, end = waiting.facts.jobs[number], waiting.ends[number]
    if not timeline.within_quota(job, choice.option, waiting.now, end):
        return False
    beside = Timeline(waiting, [*timeline.held, Held(job, choice, end)], timeline.reserved)
    hosts = {place[2] for place in choice.places}
    mine = timeline.pools.taken_by(job, choice)
    if not all(beside.within_pools(mine, time) for time in timeline.breaks(waiting.now, end)):
        return False
    return all(
        beside.left(time)[host].get(name, 0) >= 0
        for time in timeline.breaks(waiting.now, end)
        for host in hosts
        for name in ("gpu", *waiting.facts.hosts[host].has)
    )


def _misplaced(timeline: Timeline, mine: Reserved) -> str:
    """Say what is wrong with when and where a reservation is, "" if nothing is."""
    waiting = timeline.waiting
    job = waiting.facts.jobs[mine.job]
    option = job.options[mine.option]
    if mine.at <= waiting.now or mine.end != waiting.end_from(mine.job, mine.at):
        return "has wrong times"
    tasks = Counter[int]()
    for group, host, number in mine.tasks:
        tasks[group] += number
        if not may_come(waiting, option.groups[group], host, mine.at, mine.end):
            return "is on a host where nothing may arrive"
    if any(tasks[g] != group.count for g, group in enumerate(option.groups)):
        return "has another number of tasks"
    hosts = [(g, h) for g, h, number in mine.tasks for _ in range(number)]
    if all(group.slices is None for group in option.groups):
        places = tuple((g, i, h, (), None) for i, (g, h) in enumerate(sorted(hosts)))
        if arrangement(waiting.facts, job, mine.option, places):
            return "has tasks in several domains"
    if not timeline.within_quota(job, mine.option, mine.at, mine.end):
        return "exceeds a quota"
    beside = Timeline(waiting, timeline.held, [*timeline.reserved, mine])
    pooled = reserved_of_pools(timeline.pools, mine)
    for time in timeline.breaks(mine.at, mine.end):
        if not beside.within_pools(pooled, time):
            return f"exceeds a pool at {time}"
        for _, host, _ in mine.tasks:
            if any(amount < 0 for amount in beside.left(time)[host].values()):
                return f"does not fit at {time}"
    return ""


def delayed(
    waiting: Waiting, starts: Collection[int], reserved: list[Reserved], choices: Choices
) -> bool:
    """Whether what a plan starts and moves delays a reservation."""
    return any(_delayed_at(waiting, starts, reserved, choices, r.at) for r in reserved)


def _delayed_at(
    waiting: Waiting,
    starts: Collection[int],
    reserved: list[Reserved],
    choices: Choices,
    time: int,
) -> bool:
    facts = waiting.facts
    active = [r for r in reserved if r.at <= time < r.end]
    gpus: Counter[int] = Counter()
    wanted: dict[int, Counter[str]] = {}
    for r in active:
        groups = facts.jobs[r.job].options[r.option].groups
        for group, host, number in r.tasks:
            gpus[host] += gpus_reserved(groups[group], number)
            mine = wanted.setdefault(host, Counter())
            mine.update({name: number * amount for name, amount in groups[group].wants})
    used = {host: set(facts.hosts[host].reserved_gpus) for host in wanted}
    for job in facts.jobs:
        choice, alive = choices[job.number], waiting.ends[job.number] > time
        turn = job.number in starts
        before = job.running.places if job.running is not None else choice.places if turn else ()
        option = job.running.option if job.running is not None else choice.option
        for group, _, host, held, _ in before if alive else ():
            if host in wanted and job.options[option].groups[group].each < WHOLE:
                used[host].update(held)
        for group, _, host, held, _ in choice.places if alive else ():
            if host not in wanted:
                continue
            asked = job.options[choice.option].groups[group]
            part = 0 < asked.each < WHOLE
            if part and gpus[host] and choice.kind == START and not turn:
                return True
            used[host].update(held)
            wanted[host].update(dict(asked.wants))
    for host, amounts in wanted.items():
        entry = facts.hosts[host]
        if gpus[host] and len(used[host]) + gpus[host] > entry.gpus:
            return True
        if any(amount > entry.has.get(name, 0) for name, amount in amounts.items()):
            return True
    return _over_pools(waiting, active, choices, time) or _over_quota(
        waiting, active, choices, time
    )


def _over_pools(waiting: Waiting, active: list[Reserved], choices: Choices, time: int) -> bool:
    """Whether a pool around a reservation has too little."""
    pairs = zip(waiting.facts.jobs, choices, strict=True)
    held = [Held(job, choice, waiting.ends[job.number]) for job, choice in pairs]
    timeline = Timeline(waiting, held, active)
    mine = {where for r in active for where in reserved_of_pools(timeline.pools, r)}
    return not timeline.within_pools(mine, time)


def _over_quota(waiting: Waiting, active: list[Reserved], choices: Choices, time: int) -> bool:
    facts = waiting.facts
    for account in {a for r in active for a in facts.jobs[r.job].accounts} & facts.limits.keys():
        uses: Counter[str] = Counter()
        for r in active:
            if account in facts.jobs[r.job].accounts:
                uses.update(facts.jobs[r.job].options[r.option].counts)
        for job in facts.jobs:
            choice = choices[job.number]
            if account in job.accounts and choice.runs and waiting.ends[job.number] > time:
                uses.update(job.options[choice.option].counts)
        if any(uses[name] > most for name, most in facts.limits[account].items()):
            return True
    return False


def maintained(waiting: Waiting, choices: Choices) -> bool:
    """Whether no task comes to a host that maintenance takes before its job would have ended."""
    for job in waiting.facts.jobs:
        choice = choices[job.number]
        before = () if job.running is None else job.running.places
        for place in choice.places:
            comes = place not in before
            if comes and waiting.away(place[2], waiting.now, waiting.ends[job.number]):
                return False
    return True

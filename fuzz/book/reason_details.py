"""The facts of a reason to wait: whether they are true (docs/plans.md#why-a-job-waits)."""

from __future__ import annotations

from dataclasses import replace

from fuzz.book.accounts import JOBS, Account, of_model
from fuzz.book.choices import WAIT
from fuzz.book.facts import MANY, WHOLE, Facts, Group, Host, Job
from fuzz.book.pool_details import untrue_pool
from fuzz.book.reading import choices_of, decisions_of
from fuzz.book.reasons import NOT_CHOSEN, ORDER, QUOTA, Reasons
from fuzz.book.states import State
from fuzz.book.turns import Team, Teams
from fuzz.policy import Raw


def limit_of(detail: Raw) -> tuple[str, Account]:
    """Return which amount of which account the facts speak of."""
    name, model = detail.get("resource", ""), detail.get("gpu_model")
    if detail.get("cap") is None:
        return name, ("tenant", detail.get("tenant", ""))
    name = JOBS if name == "jobs" else name if model is None else of_model(model)
    return name, ("cap", detail["cap"])


def untrue(round_: Raw, plan: Raw) -> str:
    """Say which reason of a plan is not true, "" if all are; the plan keeps all other rules."""
    facts = Facts(round_)
    reasons = Reasons(facts, choices_of(facts, plan), _teams(facts, plan))
    for decision in plan["decisions"]:
        if (decision["job"] in facts.invalid) != (decision.get("reason") == "invalid"):
            return f"{decision['job']} waits for {decision.get('reason')!r}"
    for job, decision in zip(facts.jobs, decisions_of(facts, plan), strict=True):
        if decision["decision"] == WAIT and (fault := untrue_of(reasons, job, decision)):
            return fault
    return ""


def untrue_of(reasons: Reasons, job: Job, decision: Raw) -> str:
    """Say what is not true of the reason of a job, "" if all is."""
    said, detail = decision.get("reason"), given(decision)
    if job.ineligible:
        at = reasons.facts.raw["jobs"][job.number].get("not_before")
        if said != job.ineligible or (said == "not_before" and detail.get("at") != at):
            return f"{job.name} is ineligible: {job.ineligible!r}, the plan says {said!r}"
        return ""
    true, option = reasons.of(job)
    cluster = reasons.facts.raw["cluster"]
    if detail.get("unproven") and (cluster.get("pools") or cluster.get("gpu_links")):
        # Whether several groups find places at once within pools, or with links, may be left open.
        return "" if ORDER.index(said) >= ORDER.index(true) else f"{job.name} comes further: {true}"
    where = f"{job.name} waits for {true!r} by option {option}, the plan says"
    if (said, detail.get("option", 0)) != (true, option):
        return f"{where} {said!r}, {detail}"
    if fault := untrue_detail(reasons, job, option, true, detail):
        return f"{where} {detail}: {fault}"
    return ""


def given(decision: Raw) -> Raw:
    """Return the facts that a detail has."""
    facts = decision.get("detail") or {}
    return {name: fact for name, fact in facts.items() if fact is not None}


def _teams(facts: Facts, plan: Raw) -> Teams:
    numbers = {job.name: job.number for job in facts.jobs}
    groups = (s["groups"] for s in plan.get("sections", ()) if s["kind"] == "groups")
    return tuple(
        Team(
            tuple(sorted(numbers[member["job"]] for member in group["members"])),
            tuple(member["offset"] for member in group["members"]),
        )
        for listed in groups
        for group in listed
    )


def untrue_detail(reasons: Reasons, job: Job, number: int, reason: str, detail: Raw) -> str:
    """Say what is not true of a detail, "" if all is."""
    if detail.get("unproven"):
        return "a tiny round leaves nothing open"
    if reason == NOT_CHOSEN:
        startable = reasons.state(reason, job, number).fits(job, number)
        return "" if detail.get("startable", False) == startable else f"startable is {startable}"
    if reason == QUOTA:
        name, account = limit_of(detail)
        said = tuple(detail.get(field) for field in ("asked", "used", "limit", "excess"))
        known = reasons.quota(job, number, account, "region" in detail)
        true = known.get((name, detail.get("job", "")), (0, 0, 0, 0))
        wrong = account not in job.accounts or said != true or true[3] <= 0
        return f"of {name!r} it is {true}" if wrong else ""
    state = reasons.state(reason, job, number)
    option = job.options[number]
    untrue = _untrue_numbers(state, job, number, detail) if "num_hosts" in detail else ""
    if untrue:
        return untrue
    if "limit" in detail:
        return untrue_pool(state, job, number, detail)
    if detail.get("tasks") is None:
        if "num_hosts" in detail:
            return ""
        return _untrue_sum(state, job, number, detail)
    g = detail.get("group", 0)
    group = option.groups[g]
    if detail["tasks"] != group.count:
        return f"the group has {group.count} tasks"
    level = _level(option.required, group)
    most = _most_places(state, job, number, g, level)
    if detail["places"] != max(most.values()) or detail["places"] >= group.count:
        return f"places are {most}"
    if "gpu_links" in detail:
        plain = replace(group, gpu_links=None)
        bare = replace(option, groups=(*option.groups[:g], plain, *option.groups[g + 1 :]))
        options = (*job.options[:number], bare, *job.options[number + 1 :])
        without = _most_places(state, replace(job, options=options), number, g, level)
        least = (group.gpu_links or {}).get("required", "system")
        if max(without.values()) <= detail["places"] or detail["gpu_links"] != least:
            return f"links of {least} or better are asked; without them places are {without}"
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


def _untrue_numbers(state: State, job: Job, number: int, detail: Raw) -> str:
    """Say what is not true of the hosts on which a group, or an option, has to be."""
    option = job.options[number]
    alone = len(option.groups) == 1
    one = option.groups[detail.get("group", 0)]
    asks = [option.on_hosts] if alone or "group" not in detail else []
    asks += [one.on_hosts] if alone or "group" in detail else []
    known = [ask for ask in asks if ask is not None]
    numbers: Raw = dict(detail["num_hosts"])
    said = numbers.get("min", 1), numbers.get("max") or MANY
    count = one.count if alone or "group" in detail else sum(g.count for g in option.groups)
    least, most = max((a for a, _ in known), default=1), min((b for _, b in known), default=MANY)
    if said != (least, most if most < count else MANY):
        return f"it asks {asks}"
    groups = tuple(replace(group, on_hosts=None) for group in option.groups)
    if "tasks" in detail:
        groups = (groups[detail.get("group", 0)],)
    free = replace(job, options=(replace(option, groups=groups, on_hosts=None),))
    tasks = [(g, i) for g, group in enumerate(groups) for i in range(group.count)]
    return "" if state.finds(free, 0, tasks, None) else "it fits no number of hosts"


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
            on_hosts = option.on_hosts if len(option.groups) == 1 else None
            alone = replace(option, groups=(fewer,), on_hosts=on_hosts)
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

"""Why a job waits, as one sentence."""

from __future__ import annotations

from collections.abc import Callable

from placewright.instances.derived.phrases import LINKS, of_hosts
from placewright.instances.documents.arrangement import HostCount
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.plan import Detail, Reason
from placewright.instances.documents.quantities import amount_text, memory_in_gi
from placewright.instances.errors import printable
from placewright.topology.gpu_links import LinkKind

MEANINGS = {
    Reason.NEVER_FITS: "fits not even the empty, healthy cluster",
    Reason.QUOTA: "exceeds what is left of its tenant's quota, or of a cap",
    Reason.HOSTS_AWAY: "does not fit until hosts are back that are away",
    Reason.CAPACITY: "does not fit beside the jobs that go on running",
    Reason.DISPLACED_BY_PRIORITY: "does not fit beside started jobs of higher precedence",
    Reason.DISRUPTION_LIMIT: "what it would evict exceeds the disruption budget",
    Reason.NOT_CHOSEN: "no better plan was found in which it starts",
    Reason.PROMISED_LATER: "has a promise, and its leases come later",
    Reason.REFUSED: "none of its due times is promised",
    Reason.DATA: "a region has such GPUs, and its data is on the way there",
    Reason.NO_REGION: "no region may run it with all of its data",
    Reason.NOT_ASKED: "the policy decides where data lives, and starts nobody",
    Reason.HELD: "is held",
    Reason.NOT_BEFORE: "may not start yet",
    Reason.RESERVED: "has a reservation for later",
    Reason.HELD_FOR_RESERVATION: "would delay the reservation of another job",
    Reason.HELD_FOR_MAINTENANCE: "would not end before the maintenance of hosts that it needs",
    Reason.LATER: "begins later in the schedule",
    Reason.INVALID: "makes no sense in the round",
}
"""What each reason says of every job that waits for it."""

_AT = {
    Reason.PROMISED_LATER: "has a promise; the first of its leases begins",
    Reason.REFUSED: "none of its due times is promised; the earliest that could be is",
    Reason.NOT_BEFORE: "may not start before its time,",
    Reason.RESERVED: "has a reservation",
    Reason.LATER: "begins in the schedule",
    Reason.HELD_FOR_MAINTENANCE: "would not end before the maintenance of hosts that it needs,",
}
"""What reasons say with a time, which follows."""

_BESIDE = {
    Reason.NEVER_FITS: "even when all is empty",
    Reason.HOSTS_AWAY: "even when all open hosts are empty",
    Reason.CAPACITY: "beside running jobs",
    Reason.DISPLACED_BY_PRIORITY: "beside started jobs of higher precedence",
}


def _at(seconds: int) -> str:
    return f"at {seconds} s"


def reason_text(reason: Reason, detail: Detail | None, when: Callable[[int], str] = _at) -> str:
    """Say why a job waits, with the facts of its detail; `when` writes a time on the clock."""
    detail = detail or Detail()
    text = _with_facts(reason, detail, when) or MEANINGS[reason]
    if detail.region is not None and reason not in (Reason.QUOTA, Reason.DATA):
        text = f"in region {detail.region}: {text}"
    if detail.option is not None:
        text = f"option {detail.option}: {text}"
    return f"{text}; whether it fits at all is not decided" if detail.unproven else text


def _with_facts(reason: Reason, detail: Detail, when: Callable[[int], str]) -> str:
    """Say why a job waits if the detail has the facts, else ""."""
    text = ""
    if detail.cells is not None and detail.tenant is not None:
        text = _of_cells(reason, detail, detail.cells)
    elif reason in _BESIDE:
        text = _lack(detail, _BESIDE[reason])
        if text and reason is Reason.HOSTS_AWAY:
            text = f"until hosts are back: {text}"
    elif reason is Reason.QUOTA and detail.cap is not None:
        text = f"cap {detail.cap} {_of_cap(detail)}"
    elif reason is Reason.QUOTA and detail.tenant is not None:
        where = "" if detail.region is None else f"in region {detail.region}"
        text = _quota(detail, where) or f"has too little left of its quota {where}".rstrip()
        text = f"tenant {detail.tenant} {text}"
    elif detail.at is not None:
        text = _at_a_time(reason, detail, when(detail.at))
    elif reason is Reason.NOT_CHOSEN and not detail.unproven:
        where = "beside all that starts"
        if not detail.startable:
            where = "where jobs of its precedence or lower start"
        text = f"fits {where}; no better plan was found with it"
    elif reason is Reason.INVALID and detail.message is not None:
        text = printable(detail.message)
    return text


def _at_a_time(reason: Reason, detail: Detail, time: str) -> str:
    if reason is Reason.HELD_FOR_RESERVATION and detail.job is not None:
        return f"would delay the reservation of job {detail.job} {time}"
    if reason is Reason.DATA and detail.region is not None:
        return f"region {detail.region} has such GPUs, and all data of the job {time}"
    return f"{_AT.get(reason, MEANINGS[reason])} {time}"


def _quota(detail: Detail, where: str = "") -> str:
    """Say what a tenant uses and may use, "" if the detail does not."""
    used = _part(detail.resource, detail.used, detail.limit)
    if not used or detail.asked is None or detail.excess is None:
        return ""
    excess = _number(detail.resource, detail.excess)
    text = f"uses {used} {where}".rstrip()
    if detail.job is not None:
        text += f" with what preempted job {detail.job} gave back, for higher jobs alone"
    return f"{text}; the job asks {_amount(detail.resource, detail.asked)}, {excess} too many"


def _of_cap(detail: Detail) -> str:
    """Say what the jobs of a cap hold and may hold."""
    if None in (detail.resource, detail.used, detail.limit, detail.asked, detail.excess):
        return "has too little left"
    measure = Measure.named(detail.resource or "", detail.gpu_model)
    used, limit = measure.text(detail.used or 0), measure.text(detail.limit or 0)
    text = f"holds {used.partition(' ')[0]} of {limit}"
    if detail.job is not None:
        text += f" with what preempted job {detail.job} gave back, for higher jobs alone"
    asked, excess = measure.text(detail.asked or 0), measure.text(detail.excess or 0)
    return f"{text}; the job counts {asked}, {excess.partition(' ')[0]} too many"


def _of_cells(reason: Reason, detail: Detail, unused: int) -> str:
    """Say what the cells of a tenant lack."""
    if reason is Reason.NOT_CHOSEN:
        return (
            f"fits what is left of the cells of tenant {detail.tenant}, but none was found for it"
        )
    asked, free = _asked_and_free(detail)
    if reason is Reason.CAPACITY and free:
        return (
            f"tenant {detail.tenant} may still claim {asked} in cells of level {detail.level} and "
            f"above, and {free} of usable ones are free"
        )
    if quota := _quota(detail, "in its cells"):
        return f"tenant {detail.tenant} {quota}"
    left = f"{unused} not in use" if unused else "all in use"
    return f"does not fit the cells of tenant {detail.tenant} beside its guaranteed jobs ({left})"


def _lack(detail: Detail, beside: str) -> str:
    """Say what an option lacks beside some jobs, "" if the detail does not."""
    if detail.limit is not None:
        return _of_pool(detail, beside)
    asked, free = _asked_and_free(detail)
    group = "" if detail.group is None else f" of group {detail.group}"
    where = "" if detail.domain is None else f"{detail.level} {detail.domain}"
    if detail.host is not None:
        lacks = f"{detail.host} has {free} free, a task asks {asked}"
        if detail.resource == "mig":
            lacks = f"{detail.host} has no place for its slice"
        return f"no host takes a task{group} {beside}: {lacks}"
    if detail.num_hosts is not None:
        return _of_num_hosts(detail.num_hosts, detail, group, beside)
    if detail.gpu_links is not None:
        return _of_gpu_links(detail.gpu_links, detail, group, beside)
    if detail.tasks is not None and not (detail.places or detail.resource):
        return f"no open host may take a task{group} {beside}"
    if detail.tasks is not None:
        one = f" one {detail.level}" if where else ""
        text = f"at most {detail.places:,} of {detail.tasks:,} tasks{group} fit{one} {beside}"
        if detail.apart is not None:
            text = f"{text}, since they keep apart by {detail.apart}"
        if not free:
            return f"{text} ({where})" if where else text
        scarce = f"{where} has {free} free" if where else f"{free} free"
        if (detail.free or 0) >= (detail.asked or 0):
            return f"{text} ({scarce}, in parts that are too small)"
        return f"{text} ({scarce}, the {detail.tasks:,} ask {asked})"
    if free:
        has = where or ("the cluster" if detail.region is None else f"region {detail.region}")
        return f"its groups together ask {asked}, and {has} has {free} free for them {beside}"
    return f"its groups fit {where} one by one {beside}, but not at once" if where else ""


def _of_gpu_links(kind: LinkKind, detail: Detail, group: str, beside: str) -> str:
    """Say that the GPUs are there for a group, but not the links between them."""
    tasks, places = detail.tasks or 0, detail.places or 0
    fit = f"at most {places:,} of {tasks:,} tasks{group} fit" if places else f"no task{group} fits"
    more, ask = ("more", "they ask") if places else ("one", "it asks")
    by = "" if kind == "system" else f" by {LINKS[kind]}"
    return f"{fit} {beside}: GPUs for {more} are free, but not joined{by} as {ask}"


def _of_num_hosts(asked: HostCount, detail: Detail, group: str, beside: str) -> str:
    """Say that an option, or a group, does not fit as many hosts as it has to be on."""
    text = f"needs {of_hosts(asked)}{group and f' for the tasks{group}'}"
    of = "" if detail.domain is None else f" of one {detail.level}"
    where = "" if detail.domain is None else f" ({detail.level} {detail.domain})"
    if detail.tasks is None:
        return f"{text}, and fits {beside} on other numbers of hosts alone"
    if not detail.places:
        return f"{text}, and fewer{of} have room {beside}{where}"
    tasks = f"{detail.places:,} of {detail.tasks:,} tasks"
    return f"{text}, and at most {tasks} fit so many{of} {beside}{where}"


def _of_pool(detail: Detail, beside: str) -> str:
    """Say which domain of a pool has too little left, "" if the detail does not."""
    if detail.free is None or detail.limit is None or detail.asked is None:
        return ""
    where = "the cluster" if detail.domain is None else f"{detail.level} {detail.domain}"
    has = f"{detail.free:,} {detail.resource}"
    if detail.free != detail.limit:
        has = f"{detail.free:,} of {detail.limit:,} {detail.resource} left"
    return f"hosts have room {beside}, but {where} has {has}, and the job asks {detail.asked:,}"


def _asked_and_free(detail: Detail) -> tuple[str, str]:
    """Return what is asked and what is free, with units; "" if a detail does not say."""
    if detail.resource is None or detail.asked is None or detail.free is None:
        return "", ""
    return _amount(detail.resource, detail.asked), _amount(detail.resource, detail.free)


def _part(resource: str | None, part: int | None, whole: int | None) -> str:
    """Return "8 of 16 GPUs", "" if an amount is not known."""
    if resource is None or part is None or whole is None:
        return ""
    return f"{_number(resource, part)} of {_amount(resource, whole)}"


def _number(resource: str | None, amount: int) -> str:
    return _amount(resource, amount).partition(" ")[0]


def _amount(resource: str | None, amount: int) -> str:
    """Return an amount with its unit."""
    if resource == "gpu_memory":
        return f"{memory_in_gi(amount)} of GPU memory"
    return amount_text(resource or "", amount)

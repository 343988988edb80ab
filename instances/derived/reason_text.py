"""Why a job waits, as one sentence."""

from __future__ import annotations

from placewright.instances.documents.plan import Detail, Reason
from placewright.instances.documents.quantities import amount_text, memory_text
from placewright.instances.errors import printable

MEANINGS = {
    Reason.NEVER_FITS: "fits not even the empty, healthy cluster",
    Reason.QUOTA: "exceeds what is left of its tenant's quota",
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
    Reason.INVALID: "makes no sense in the round",
}
"""What each reason says of every job that waits for it."""

_TIMES = {
    Reason.PROMISED_LATER: ", the first at",
    Reason.REFUSED: "; it could be promised to be done at",
}
"""What the time of a reason is, where it is not when the job may start."""

_BESIDE = {
    Reason.NEVER_FITS: "even when all is empty",
    Reason.CAPACITY: "beside running jobs",
    Reason.DISPLACED_BY_PRIORITY: "beside started jobs of higher precedence",
}


def reason_text(reason: Reason, detail: Detail | None) -> str:
    """Say why a job waits, with the facts of its detail."""
    detail = detail or Detail()
    if detail.cells is not None and detail.tenant is not None:
        text = _of_cells(reason, detail, detail.cells)
    elif reason in _BESIDE and (lack := _lack(detail, _BESIDE[reason])):
        text = lack
    elif reason is Reason.QUOTA and detail.tenant is not None:
        where = "" if detail.region is None else f"in region {detail.region}"
        text = _quota(detail, where) or f"has too little left of its quota {where}".rstrip()
        text = f"tenant {detail.tenant} {text}"
    elif reason is Reason.HELD_FOR_RESERVATION and detail.job is not None:
        text = f"would delay the reservation of job {detail.job} at {detail.at} s"
    elif detail.at is not None and reason in _TIMES:
        text = f"{MEANINGS[reason]}{_TIMES[reason]} {detail.at} s"
    elif detail.at is not None:
        text = f"{MEANINGS[reason]}: at {detail.at} s"
    elif detail.startable:
        text = "fits beside all that starts, but no better plan was found in which it starts"
    elif reason is Reason.INVALID and detail.message is not None:
        text = printable(detail.message)
    else:
        text = MEANINGS[reason]
    if detail.region is not None and reason is not Reason.QUOTA:
        text = f"in region {detail.region} {text}"
    if detail.option is not None:
        text = f"option {detail.option}: {text}"
    return f"{text}; whether it fits at all is not decided" if detail.unproven else text


def _quota(detail: Detail, where: str = "") -> str:
    """Say what a tenant uses and may use, "" if the detail does not."""
    used = _part(detail.resource, detail.used, detail.limit)
    if not used or detail.asked is None or detail.excess is None:
        return ""
    excess = _number(detail.resource, detail.excess)
    text = f"uses {used} {where}".rstrip()
    if detail.job is not None:
        text += f", what preempted job {detail.job} held included, as only higher jobs may have it"
    return f"{text}; the job asks {_amount(detail.resource, detail.asked)}, {excess} too many"


def _of_cells(reason: Reason, detail: Detail, unused: int) -> str:
    """Say what the cells of a tenant lack."""
    left = f"{unused} of its cells {'is' if unused == 1 else 'are'} not in use"
    if reason is Reason.CAPACITY and (free := _part(detail.resource, detail.free, detail.asked)):
        return (
            f"tenant {detail.tenant} has no usable cell: {left}, and of level {detail.level} and "
            f"above {free} that it may claim are free"
        )
    if quota := _quota(detail, "in its cells"):
        return f"tenant {detail.tenant} {quota}"
    left = left if unused else "all of its cells are in use"
    return (
        f"does not fit the cells of tenant {detail.tenant} beside its guaranteed jobs there; {left}"
    )


def _lack(detail: Detail, beside: str) -> str:
    """Say what an option lacks beside some jobs, "" if the detail does not."""
    has = _part(detail.resource, detail.free, detail.asked)
    if detail.resource == "mig":
        has = "no place for its slice"
    elif has:
        has += " free"
    group = "" if detail.group is None else f" of group {detail.group}"
    where = "" if detail.domain is None else f"{detail.level} {detail.domain}"
    if detail.host is not None:
        return f"no host takes a task{group} {beside}: {detail.host} has {has}"
    if detail.tasks is not None and not (detail.places or detail.resource):
        return f"no open host may take a task{group} {beside}"
    if detail.tasks is not None:
        one = f" one {detail.level}" if where else ""
        text = f"at most {detail.places} of {detail.tasks} tasks{group} fit{one} {beside}"
        if detail.free is not None and detail.asked is not None and detail.free >= detail.asked:
            has = f"{_amount(detail.resource, detail.free)} free, in parts that are too small"
        facts = " has ".join(filter(None, (where, has)))
        return f"{text} ({facts})" if facts else text
    if has:
        return f"for its groups together {where or 'the cluster'} has {has} {beside}"
    return f"its groups fit {where} one by one {beside}, but not at once" if where else ""


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
        return f"{memory_text(amount)} of GPU memory"
    return amount_text(resource or "", amount)

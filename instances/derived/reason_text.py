"""Why a job waits, as one sentence."""

from __future__ import annotations

from placewright.instances.documents.plan import Detail, Reason
from placewright.instances.documents.quantities import amount_text, memory_text

MEANINGS = {
    Reason.NEVER_FITS: "fits not even the empty, healthy cluster",
    Reason.QUOTA: "exceeds what is left of its tenant's quota",
    Reason.CAPACITY: "does not fit beside the jobs that go on running",
    Reason.DISPLACED_BY_PRIORITY: "does not fit beside started jobs of higher precedence",
    Reason.NOT_CHOSEN: "no better plan was found in which it starts",
    Reason.PROMISED_LATER: "will be done as promised in later leases",
    Reason.REFUSED: "could be promised none of its due times",
    Reason.DATA: "a region has such GPUs, and its data is on the way there",
    Reason.NO_REGION: "no region may run it with all of its data",
    Reason.NOT_ASKED: "the policy decides where data lives, and starts nobody",
}
"""What each reason says of every job that waits for it."""

_BESIDE = {
    Reason.NEVER_FITS: "on the empty, healthy cluster",
    Reason.CAPACITY: "beside the jobs that go on running",
    Reason.DISPLACED_BY_PRIORITY: "beside started jobs of higher precedence",
}


def reason_text(reason: Reason, detail: Detail | None) -> str:
    """Say why a job waits, with the facts of its detail."""
    detail = detail or Detail()
    if reason in _BESIDE and (lack := _lack(detail, _BESIDE[reason])):
        text = lack
    elif reason is Reason.QUOTA and detail.resource is not None:
        text = _quota(detail)
    elif reason is Reason.QUOTA and detail.tenant is not None:
        text = f"tenant {detail.tenant} has no cell left for it"
    else:
        text = MEANINGS[reason]
    if detail.option is not None:
        text = f"option {detail.option}: {text}"
    return f"{text}; whether it fits at all is not decided" if detail.unproven else text


def _quota(detail: Detail) -> str:
    limit, used, asked, excess = (
        _amount(detail.resource, amount)
        for amount in (detail.limit, detail.used, detail.asked, detail.excess)
    )
    return (
        f"tenant {detail.tenant} may use {limit} and uses {used}; "
        f"the job asks {asked}, {excess} more than is left"
    )


def _lack(detail: Detail, beside: str) -> str:
    """Say what an option lacks beside some jobs, "" if the detail does not."""
    asked, free = (_amount(detail.resource, amount) for amount in (detail.asked, detail.free))
    group = "" if detail.group is None else f" of group {detail.group}"
    where = "" if detail.domain is None else f" in {detail.level} {detail.domain}"
    if detail.host is not None:
        closest = f"{detail.host} comes closest, {free} free, {asked} asked"
        return f"no host takes a task{group} {beside}: {closest}"
    if detail.tasks is not None:
        if not detail.places and detail.resource is None:
            return f"no open host may take a task{group} {beside}"
        text = f"places for {detail.places} of {detail.tasks} tasks{group} {beside}"
        text += f",{where}, which has most" if where else ""
        return text if detail.resource is None else f"{text} ({free} free, {asked} asked)"
    if detail.resource is not None:
        return f"its groups ask {asked} together{where}, and {free} are free {beside}"
    if where:
        return f"its groups find places{where} one by one {beside}, but not all at once"
    return ""


def _amount(resource: str | None, amount: int | None) -> str:
    """Return an amount with its unit."""
    if resource is None or amount is None:
        return ""
    if resource == "gpu_memory":
        return f"{memory_text(amount)} of GPU memory"
    if resource == "mig":
        return "no place for a slice" if not amount else "a slice"
    return amount_text(resource, amount)

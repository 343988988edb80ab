"""What starting a job all the same would cost a plan, as one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from placewright.instances.derived.phrases import several
from placewright.instances.policies import term_of
from placewright.report.text import priorities, term_text
from placewright.report.verdicts import PROOF

if TYPE_CHECKING:
    from placewright.explain.loss import Loss

MAX_JOBS = 3

_WOULD: Mapping[tuple[str, str], str] = {
    ("start", "wait"): "would wait",
    ("wait", "start"): "would start",
    ("keep", "preempt"): "would stop",
    ("keep", "migrate"): "would move",
    ("migrate", "keep"): "would stay",
    ("migrate", "preempt"): "would stop",
    ("preempt", "keep"): "would go on",
    ("preempt", "migrate"): "would move and go on",
}
"""What becomes of a job, by its decision in the plan and in the one that starts the other job."""


def cost_text(cost: Loss, doing: str = "Starting it") -> str:
    """Say what it costs to start a job, whether that is proven, and who gives way."""
    it = f"{doing} all the same would cost"
    if cost.startable is False:
        return f"Moving or preempting others cannot start it ({PROOF[cost.proof]})"
    if cost.is_tie:
        return f"{it} nothing: an equally good plan starts it{_instead(cost)}"
    if cost.term is None:
        return "What starting it all the same would cost is not known: no plan that does was found"
    least = term_text(cost.term, cost.at_least)
    if cost.at_most is None:
        return f"{it} at least {least} of {_term(cost)} ({PROOF[cost.proof]})"
    most = term_text(cost.term, cost.at_most)
    if cost.at_most == 0:
        return f"{it} nothing: a better plan starts it{_instead(cost)}"
    if cost.at_least == cost.at_most:
        return f"{it} {most} of {_term(cost)} ({PROOF[cost.proof]}){_instead(cost)}"
    if cost.at_least == 0:
        return f"{it} at most {most} of {_term(cost)}{_instead(cost)}"
    return f"{it} {least} to {most} of {_term(cost)}{_instead(cost)}"


def _term(cost: Loss) -> str:
    """Return the term as people know it: of `value_4` the value of its priorities."""
    name = term_of(cost.term or "")
    return f"the {name} of {priorities(cost.precedences)}" if cost.precedences else name


def _instead(cost: Loss) -> str:
    if not cost.instead:
        return ""
    said = [
        f"job {one.job} {_WOULD.get((one.before, one.after), f'would {one.after}')}"
        for one in cost.instead
    ]
    return f"; {several(said, MAX_JOBS)}"

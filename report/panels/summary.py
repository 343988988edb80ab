"""The figures at the top of a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from placewright.instances.documents.plan import DecisionKind
from placewright.report.facts.outcomes import MOVES, milli_gpu_of
from placewright.report.facts.usage import gpu_usage
from placewright.report.panels.objective import terms_of
from placewright.report.panels.subject import Subject
from placewright.report.table import Meter
from placewright.report.text import gpus, number, percent, term_name
from placewright.topology.units import WHOLE_GPU


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its name, what it was before, and what it is of.

    `values` has one for each plan; `meter` is drawn below.
    """

    title: str
    values: tuple[str, ...]
    note: str = ""
    meter: Meter | None = None


def summary(subject: Subject) -> list[Figure]:
    """Return the figures of a round and its plans."""
    return list(_figures(subject))


def _figures(subject: Subject) -> Iterator[Figure]:
    plans = subject.plans
    used = [gpu_usage(subject.round, plan, subject.cluster) for plan in plans]
    places_jobs = subject.round.policy.spec.places_jobs
    if used[0] and places_jobs:
        there = sum(model.gpus for model in used[0])
        before = sum(model.before for model in used[0])
        after = [sum(model.after for model in rows) for rows in used]
        part = after[0] / max(1, there * WHOLE_GPU)
        yield Figure(
            "GPUs in use",
            tuple(map(gpus, after)),
            f"of {there:,}, {percent(part)}; before {gpus(before)}",
            Meter("", part),
        )
    milli = [milli_gpu_of(subject.jobs, plan) for plan in plans]
    kinds_shown = [
        ("started", (DecisionKind.START,)),
        ("waiting", (DecisionKind.WAIT,)),
        ("moved or stopped", MOVES),
        ("kept", (DecisionKind.KEEP,)),
    ]
    for word, kinds in kinds_shown if places_jobs else ():
        jobs = [[one.job for one in plan.decisions if one.decision in kinds] for plan in plans]
        asked = [
            gpus(sum(held[job] for job in names)) for held, names in zip(milli, jobs, strict=True)
        ]
        yield Figure(
            f"Jobs {word}",
            tuple(number(len(names)) for names in jobs),
            f"{' / '.join(asked)} GPUs",
        )
    terms = [terms_of(subject, plan) for plan in plans]
    if all(terms):
        heads = [one[0] for one in terms]
        proofs = {one.proof or "no bound" for one in heads}
        yield Figure(
            f"Gap of {term_name(heads[0])}",
            tuple(percent(one.gap) for one in heads),
            f"to the {' / '.join(sorted(proofs))} bound" if proofs != {"no bound"} else "no bound",
        )
    if subject.cluster.num_gpus:
        first, *later = (free["host"] for free, _ in subject.free)
        yield Figure("Whole hosts free", tuple(map(number, later)), f"before {first:,}")

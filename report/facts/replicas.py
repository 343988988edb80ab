"""Facts about the replicas that a plan creates, moves and drops, and the links that it uses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pydantic import ValidationError

from placewright.instances.documents.base import Document
from placewright.instances.documents.plan_data import FlowSection, ReadsSection, ReplicaSection
from placewright.report.facts.regions import Regions

if TYPE_CHECKING:
    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.plan_data import Flow

Section = TypeVar("Section", bound=Document)


class ChangeKind(StrEnum):
    """What happens to a replica; one that moves is created in a region and dropped in another."""

    CREATED = "created"
    MOVED = "moved"
    DROPPED = "dropped"


class Change(NamedTuple):
    """A replica that comes or goes, by names.

    Parameters
    ----------
    kind, dataset, gib
        What happens to what.
    region
        Where the replica will be, or was.
    other
        Of a replica that moves, where the other end is: the region that is left, or, where that is
        the change (`DROPPED`), the one that is moved to.
    sources, paths
        Of a copy: the regions that it comes from, and the regions of each path.
    start, end
        When its first flow begins, and when it is complete; both are the time of a drop.
    """

    kind: ChangeKind
    dataset: str
    gib: int
    region: str
    other: str | None
    sources: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    start: int
    end: int


@dataclass(slots=True)
class LinkUse:
    """What a plan sends over a link, by the indices of its ends.

    Parameters
    ----------
    copies, gib, budget
        How many flows there are, their GiB, and what they may be.
    jobs, reads, carries
        How many jobs read over the link, what they read per window, and what it carries in that
        time, in GiB.
    egress
        Micro-dollars of what is read.
    """

    source: int
    target: int
    budget: int
    carries: int
    copies: int = 0
    gib: int = 0
    jobs: int = 0
    reads: int = 0
    egress: int = 0

    @property
    def copied(self) -> float:
        """The part of the budget that copies take."""
        return _part(self.gib, self.budget)

    @property
    def read(self) -> float:
        """What is read, as a part of what the link carries."""
        return _part(self.reads, self.carries)


def changes_of(plan: Plan, regions: Regions) -> tuple[Change, ...]:
    """Return what happens to replicas, in the order in which it begins."""
    section = section_of(plan, ReplicaSection)
    flows: defaultdict[tuple[str, str], list[Flow]] = defaultdict(list)
    for flow in section_of(plan, FlowSection, flows=()).flows:
        flows[flow.dataset, flow.path[-1]].append(flow)
    leaving: defaultdict[str, list[str]] = defaultdict(list)
    for drop in sorted(section.drops, key=lambda drop: drop.at):
        leaving[drop.dataset].append(drop.region)
    changes, moved_to = [], {}
    for create in sorted(section.creates, key=lambda create: create.ready):
        parts = flows[create.dataset, create.region]
        left = leaving[create.dataset]
        other = left.pop(0) if left else None
        if other is not None:
            moved_to[create.dataset, other] = create.region
        changes.append(
            Change(
                ChangeKind.CREATED if other is None else ChangeKind.MOVED,
                create.dataset,
                regions.size[create.dataset],
                create.region,
                other,
                tuple(dict.fromkeys(flow.path[0] for flow in parts)),
                tuple(dict.fromkeys(flow.path for flow in parts)),
                min((flow.start for flow in parts), default=create.ready),
                create.ready,
            )
        )
    changes += [
        Change(
            ChangeKind.DROPPED,
            drop.dataset,
            regions.size[drop.dataset],
            drop.region,
            moved_to.get((drop.dataset, drop.region)),
            (),
            (),
            drop.at,
            drop.at,
        )
        for drop in section.drops
    ]
    return tuple(sorted(changes, key=lambda change: (change.start, change.end)))


def links_used(
    plan: Plan, regions: Regions, homes: Iterable[int]
) -> dict[tuple[int, int], LinkUse]:
    """Return what goes over each link that a plan uses, by its ends.

    `homes` has the region of each job after the plan, in the order of the round.
    """
    index, used = regions.index, {}

    def use(source: int, target: int) -> LinkUse:
        key = source, target
        if key not in used:
            used[key] = LinkUse(source, target, regions.budget(key), regions.carries(key))
        return used[key]

    for flow in section_of(plan, FlowSection, flows=()).flows:
        ends = [index[name] for name in flow.path]
        for source, target in pairwise(ends):
            link = use(source, target)
            link.copies, link.gib = link.copies + 1, link.gib + flow.gib
    readers = section_of(plan, ReadsSection).readers
    reading = {reader.job for reader in readers}
    jobs = {
        job.name: (job, home)
        for job, home in zip(regions.round.jobs, homes, strict=True)
        if job.name in reading
    }
    for reader in readers:
        job, home = jobs[reader.job]
        gib = {read.dataset: read.gib for read in job.reads}
        for source in {index[read.source] for read in reader.reads}:
            use(source, home).jobs += 1
        for read in reader.reads:
            link = use(index[read.source], home)
            link.reads += gib[read.dataset]
            document = regions.links.get((link.source, link.target))
            link.egress += gib[read.dataset] * (0 if document is None else document.egress)
    return used


def section_of(plan: Plan, section: type[Section], **empty: object) -> Section:
    """Return a section of a plan; one of nothing but `empty` if it has none that can be read."""
    kind = section.model_fields["kind"].default
    for found in plan.sections:
        if found.get("kind") == kind:
            try:
                return section.model_validate(found)
            except ValidationError:
                break
    return section.model_validate(empty)


def _part(amount: int, most: int) -> float:
    if not amount:
        return 0.0
    return amount / most if most else float("inf")

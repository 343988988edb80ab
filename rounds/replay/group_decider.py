"""Groups of jobs that take turns at the resources of one place. No solver takes part."""

from __future__ import annotations

from typing import Any

import numpy as np

from placewright.rounds.policies.base import Columns, GroupPolicy
from placewright.rounds.replay.book import Group
from placewright.rounds.replay.group_speeds import GroupSpeeds
from placewright.rounds.replay.grouping import Jobs, candidates, merged
from placewright.rounds.replay.ledger import Place, Places
from placewright.rounds.replay.loop import Decider, Loop


class GroupDecider(Decider):
    """Groups anew at each decision; groups are placed in the order of their first jobs.

    Parameters
    ----------
    policy
        Order of the jobs, and which pairs are merged.
    speeds
        How fast jobs are together.
    places
        `free`: all groups are placed anew. `kept`: a group takes the place of the first of its jobs
        that runs, if no other group took it.
    """

    def __init__(self, policy: GroupPolicy, speeds: GroupSpeeds, places: Places) -> None:
        super().__init__()
        self._policy, self._speeds, self._places = policy, speeds, places

    def state(self) -> Any:
        """Return nothing: each decision begins with the jobs alive and where they run."""
        return None

    def restore(self, state: Any) -> None:
        """Take nothing over."""

    def arrive(self, loop: Loop, job: int) -> None:
        """Take note of nothing: jobs alive are those of the loop."""

    def shrink(self, loop: Loop, jobs: tuple[int, ...]) -> None:
        """Let the others go on at their speeds without the job that has ended."""
        for job, speed in zip(jobs, self._speeds.speeds(jobs), strict=True):
            loop.set_speed(job, speed)

    def decide(self, loop: Loop) -> None:
        """Form groups and place them."""
        self._speeds.forget()
        order = self._order(loop)
        ledger = loop.ledger
        ledger.clear()
        buckets = candidates(order, loop.gpus, ledger)
        best_first = self._policy.merges == "best"
        groups = merged(buckets, self._speeds, ledger.open_total, best_first=best_first)
        rank = {job: number for number, job in enumerate(order)}
        groups.sort(key=lambda group: min(map(rank.__getitem__, group)))
        ledger.clear()
        kept = self._kept(loop, groups) if self._places == "kept" else {}
        placed = []
        for group in groups:
            place = kept.get(group)
            if place is None:
                place = ledger.find(loop.gpus[group[0]])
                if place is None:
                    continue
                ledger.take(place)
            placed.append(Group(group, place, self._speeds.speeds(group)))
        loop.share_all(placed)

    def _order(self, loop: Loop) -> list[int]:
        jobs = np.fromiter(loop.alive, dtype=np.int64, count=len(loop.alive))
        columns = Columns(loop, jobs, self._policy.sees)
        order: list[int] = jobs[
            np.lexsort((jobs, -columns.gpus, self._policy.order(columns)))
        ].tolist()
        return order

    def _kept(self, loop: Loop, groups: list[Jobs]) -> dict[Jobs, Place]:
        """Return the places that groups keep, and take them: counted in their order, who fits."""
        free, kept, taken = loop.ledger.open_total, {}, set()
        for group in groups:
            gpus = loop.gpus[group[0]]
            if gpus > free:
                continue
            free -= gpus
            for job in group:
                holder = loop.together.get(job, (job,))[0]
                if job in loop.place and holder not in taken:
                    taken.add(holder)
                    kept[group] = loop.place[job]
                    loop.ledger.take(kept[group])
                    break
        return kept

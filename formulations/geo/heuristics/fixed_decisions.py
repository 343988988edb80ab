"""Decisions of earlier passes, and what nobody may have because jobs gave it back.

Nobody of a victim's precedence or lower may have what it gave back
(docs/plans.md#who-may-be-preempted). The round of a region sees to that for its own victims, but
does not know those of earlier passes. So later passes leave alone what these gave back, and what
jobs left that would move back with them, whoever asks for it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from placewright.formulations.plan_messages import Candidate, Place, Slots
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round


@dataclass(slots=True)
class FixedDecisions:
    """Decisions of earlier passes, by indices of jobs in the whole round.

    `starts`, `preempted` and `slots` are those of a candidate. `of_region` and `touched` have, by
    region, the jobs that have started or migrated and the hosts that received tasks. Running jobs
    in `pinned_jobs` stay where they are. Nothing more comes to the `closed_hosts`, nor where an
    anti-affinity label of `closed_labels` counts.
    """

    starts: dict[int, tuple[int, tuple[Place, ...]]] = field(default_factory=dict)
    preempted: dict[int, int] = field(default_factory=dict)
    slots: dict[int, Slots] = field(default_factory=dict)
    of_region: dict[int, list[int]] = field(default_factory=dict)
    touched: dict[int, set[str]] = field(default_factory=dict)
    pinned_jobs: frozenset[int] = frozenset()
    closed_hosts: frozenset[str] = frozenset()
    closed_labels: frozenset[str] = frozenset()

    def add(self, region: int, found: Candidate, names: Sequence[str]) -> None:
        """Add the lifted plan of a region; `names` are those of all hosts."""
        self.starts.update(found.starts)
        self.preempted.update(found.preempted)
        self.slots.update(found.slots)
        self.of_region.setdefault(region, []).extend(found.starts)
        touched = self.touched.setdefault(region, set())
        touched.update(names[place[2]] for _, places in found.starts.values() for place in places)

    def fixed_in(self, region: int) -> Sequence[int]:
        """Return the jobs that have started or migrated in a region."""
        return self.of_region.get(region, ())

    def hosts(self, region: int) -> Collection[str]:
        """Return the hosts of a region that received tasks."""
        return self.touched.get(region, frozenset())

    def close_what_was_given_back(self, round_: Round, names: Sequence[str]) -> None:
        """Close the hosts and labels of preempted jobs, and of those that would move back.

        These are the migrated jobs with a task on a closed host or with a closed label, and so on.
        """
        hosts, labels = set[str](), set[str]()
        back = list(self.preempted)
        movers = {j for j in self.starts if round_.jobs[j].running is not None}
        while back:
            for job in (round_.jobs[j] for j in back):
                hosts.update(() if job.running is None else (t.host for t in job.running.tasks))
                labels.update(() if job.anti_affinity is None else (job.anti_affinity.label,))
            movers.difference_update(back)
            back = [
                j
                for j in movers
                if any(names[host] in hosts for _, _, host, _ in self.starts[j][1])
                or _has_label(round_.jobs[j], labels)
            ]
        self.closed_hosts, self.closed_labels = frozenset(hosts), frozenset(labels)

    def closed_to(self, job: Job) -> bool:
        """Whether a job has an anti-affinity label that is closed."""
        return _has_label(job, self.closed_labels)


def _has_label(job: Job, labels: Collection[str]) -> bool:
    return job.anti_affinity is not None and job.anti_affinity.label in labels

"""Jobs that regions cannot tell apart but for data: what they ask, and rows of what there is.

A **way** is an option in a region. It asks milli-GPU of sets of GPU models: a set's row counts the
groups that may have no other model. A **kind** holds jobs whose ways ask and are worth the same,
pending ones or such as run in one region. Rows bound whatever gangs do on hosts, for tasks that
move within a region count wherever they are; what pinned jobs hold is not there.
Other rows say for whom jobs stop (barring.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from placewright.formulations.common.wan.arrays import Bools, Ints
from placewright.formulations.geo.problem.compile import Problem


@dataclass(frozen=True, slots=True, eq=False)
class JobClasses:
    """What jobs ask, as arrays.

    Attributes
    ----------
    of_job : Ints
        (jobs,): the kind of each job, NONE of pinned ones.
    at : Ints
        (kinds,): the region where jobs of a kind run, NONE if they are pending.
    may_stop : Bools
        (kinds,): whether jobs that run may make way for others at all.
    way_kind, way_region, way_option : Ints
        (ways,): of which kind, in which region and with which option.
    way_model : Ints
        (ways,): the GPU model of all its tasks, NONE if ways do not tell.
    value : Ints
        (ways,): what starting that way counts, of a running job what it loses if it stops.
    entry_way, entry_row, asks : Ints
        (entries,): what a way takes of a row; below nothing what it leaves that is taken if the
        job stops.
    room : Ints
        (rows,): what there is.
    """

    problem: Problem
    class_of_job: Ints
    current_region: Ints
    preemptible: Bools
    assignment_class: Ints
    assignment_region: Ints
    assignment_option: Ints
    assignment_model: Ints
    value: Ints
    entry_assignment: Ints
    entry_row: Ints
    entry_usage: Ints
    capacity: Ints

    @property
    def num_assignments(self) -> int:
        """The number of ways."""
        return len(self.assignment_class)

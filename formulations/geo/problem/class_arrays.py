"""Job classes: sets of jobs with equal demand and value, and the capacity rows that they share.

An **assignment** is an option of a job class in a region. It uses milli-GPU of rows, one for each
region and set of GPU models: the row of a set counts the task groups that may use no model outside
the set (a Hall condition). A class holds pending jobs whose assignments are equal in use and value,
or running jobs of one region. The rows are a relaxation: tasks may move within their region, so a
running job counts anywhere in it. What pinned jobs hold is not part of the capacity. Preemption
adds rows of its own (preemption_rows.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.geo.problem.compile import Problem


@dataclass(frozen=True, slots=True, eq=False)
class JobClasses:
    """Job classes, their assignments and the capacity rows, as arrays.

    Attributes
    ----------
    class_of_job : Ints
        (jobs,): the class of each job, NONE for pinned jobs.
    current_region : Ints
        (classes,): the region of a class of running jobs, NONE for pending ones.
    preemptible : Bools
        (classes,): whether running jobs of the class may be preempted by some pending job.
    assignment_class, assignment_region, assignment_option : Ints
        (assignments,): the job class, region and option of each assignment.
    assignment_model : Ints
        (assignments,): the GPU model of all its tasks, NONE if models are not distinguished.
    value : Ints
        (assignments,): value of a job started this way; for a running job, the value lost if it is
        preempted. Under strict priority it is weighted by priority class.
    priority_class, own_value : Ints
        (assignments,): the priority class that a job counts in, and its value there.
    entry_assignment, entry_row, entry_usage : Ints
        (entries,): sparse use of rows by assignments. A negative use is capacity that a running job
        adds to a row by going on.
    capacity : Ints
        (rows,): right-hand sides.
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
    priority_class: Ints
    own_value: Ints
    entry_assignment: Ints
    entry_row: Ints
    entry_usage: Ints
    capacity: Ints

    def with_value(self, value: Ints) -> JobClasses:
        """Return the classes with other values of assignments (assignments,)."""
        return replace(self, value=value)

    def value_of_class(self, k: int) -> Ints:
        """Return what assignments add to the term of a priority class (assignments,)."""
        return np.where(self.priority_class == k, self.own_value, 0)

    @property
    def num_assignments(self) -> int:
        """The number of assignments."""
        return len(self.assignment_class)

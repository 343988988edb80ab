"""The options of all job classes as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang.problem.jobs import Group, JobClass
from placewright.formulations.gang.problem.terms import CLASS_VALUES, ENTITLED, PROGRESS, VALUE


@dataclass(frozen=True, eq=False, slots=True)
class Options:
    """An entry per job class and choice, in order of the classes; and one per group of each.

    Attributes
    ----------
    job_class, choice : int64 (options,)
        Index of the class, and of the choice in it.
    class_start : int64 (classes + 1,)
        The options of class c are `class_start[c]:class_start[c + 1]`.
    value, own_value, progress, milli_gpu : int64 (options,)
        Of one job with the option.
    priority_class : int64 (options,)
        See `Choice.priority_class`.
    entitled : bool (options,)
        See `Choice.entitled`.
    group_start : int64 (options + 1,)
        The groups of option i are `group_start[i]:group_start[i + 1]`.
    groups : tuple of Group
        Task groups, option by option.
    group_shape, group_count : int64 (groups,)
        Shape and number of their tasks.
    """

    job_class: Ints
    choice: Ints
    class_start: Ints
    value: Ints
    own_value: Ints
    priority_class: Ints
    progress: Ints
    milli_gpu: Ints
    entitled: NDArray[np.bool_]
    group_start: Ints
    groups: tuple[Group, ...]
    group_shape: Ints
    group_count: Ints

    @property
    def entitled_value(self) -> Ints:
        """What each option adds to the term `entitled`, int64 (options,)."""
        return np.where(self.entitled, self.own_value, 0)

    def amounts(self, term: str) -> Ints:
        """Return what each option adds to a term that is a sum over options, int64 (options,)."""
        if term in CLASS_VALUES:
            mine = self.priority_class == CLASS_VALUES.index(term)
            return np.where(mine, self.own_value, 0)
        return {VALUE: self.value, ENTITLED: self.entitled_value, PROGRESS: self.progress}[term]

    def groups_of(self, options: Ints) -> tuple[Ints, Ints]:
        """Return, per group of some options, its option's position in `options` and its index."""
        number = self.group_start[options + 1] - self.group_start[options]
        which = np.repeat(np.arange(len(options)), number)
        begin = self.group_start[options] - np.cumsum(number) + number
        return which, np.arange(len(which)) + begin[which]

    def sum_over_tasks(self, each: Ints) -> Ints:
        """Sum a number per task of each group, int64 (groups,), over the tasks of each option."""
        return _sums(each * self.group_count, self.group_start)


def list_options(classes: Sequence[JobClass]) -> Options:
    """List the options of job classes."""
    choices = [choice for job_class in classes for choice in job_class.choices]
    groups = tuple([group for choice in choices for group in choice.groups])
    first = _ends([len(job_class.choices) for job_class in classes])
    group_first = _ends([len(choice.groups) for choice in choices])
    job_class = np.repeat(np.arange(len(classes)), np.diff(first))
    return Options(
        job_class=job_class,
        choice=np.arange(len(choices)) - first[job_class],
        class_start=first,
        value=_array([choice.value for choice in choices]),
        own_value=_array([choice.own_value for choice in choices]),
        priority_class=_array([choice.priority_class for choice in choices]),
        progress=_array([choice.progress for choice in choices]),
        milli_gpu=_sums(_array([group.milli_gpu for group in groups]), group_first),
        entitled=np.array([choice.entitled for choice in choices], dtype=np.bool_),
        group_start=group_first,
        groups=groups,
        group_shape=_array([group.shape for group in groups]),
        group_count=_array([group.count for group in groups]),
    )


def _sums(each: Ints, first: Ints) -> Ints:
    """Return the sum of `each` over the consecutive ranges that `first` begins and ends."""
    upto = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(each)])
    sums: Ints = upto[first[1:]] - upto[first[:-1]]
    return sums


def _array(numbers: list[int]) -> Ints:
    return np.array(numbers, dtype=np.int64)


def _ends(sizes: list[int]) -> Ints:
    """Return where ranges of these sizes begin, and the end of the last."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(_array(sizes))])

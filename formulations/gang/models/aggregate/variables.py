"""The variables of the aggregate model: its columns, and the rows that patterns are priced by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang.models.aggregate.gangs import GangColumns, GangKind
from placewright.formulations.gang.models.aggregate.gpu_parts import GpuPartTypes
from placewright.formulations.gang.models.aggregate.host_classes import HostClasses
from placewright.formulations.gang.problem.dominant_shares import TenantShare
from placewright.formulations.gang.problem.jobs import Group
from placewright.formulations.gang.problem.problem import Problem
from placewright.solver import Model


class AccountRow(NamedTuple):
    """A row of an account: numbers of y, what a job takes of each, and the most of all together."""

    y: Ints
    amounts: Ints
    most: int


@dataclass(frozen=True, eq=False)
class AggregateModel:
    """The aggregate model (model.py says what it is), and where its variables are.

    Attributes
    ----------
    host_classes : the host classes
    y, y_option : columns of y, and the option of each
    y_most, y_cost : most jobs of each y; least cost of stopping one of them, 0 for pending jobs
    x, x_shape, x_class : columns of x, shape and host class of each
    opened : column of o per host class, -1 for classes in use
    u, gangs : columns of u, and what each stands for
    gang_kinds, gang_kind_of : the gang kinds, and the kind of each group that has one
    option_row : row per job class, its jobs with any option
    task_row : row per shape, tasks placed less tasks started
    gpu_row, share_row : row per host class (-1: none), row per (part, host class)
    quota_row : row per quota of the problem
    parts : the kinds of GPU parts that shapes ask for
    y_use : what stopping a job of each y uses of the disruption budget at least, (y, limits)
    y_least : jobs of each y that have to run on
    budget_row : row per limit of the disruption budget, -1 for none
    account_rows : rows of quotas and caps, and of precedence within them
    """

    problem: Problem
    host_classes: HostClasses
    model: Model
    y: Ints
    y_option: Ints
    y_most: Ints
    y_cost: Ints
    x: Ints
    x_shape: Ints
    x_class: Ints
    opened: Ints
    u: Ints
    gangs: GangColumns
    gang_kinds: list[GangKind]
    gang_kind_of: dict[Group, int]
    option_row: Ints
    task_row: Ints
    gpu_row: Ints
    share_row: Ints
    quota_row: Ints
    parts: GpuPartTypes
    y_use: Ints
    y_least: Ints
    budget_row: Ints
    account_rows: list[AccountRow] = field(default_factory=list)

    def part_of(self, shape: Ints, host_class: Ints) -> Ints:
        """Return the parts that shapes ask for on hosts of some classes, -1 for whole GPUs."""
        known, first = np.unique(self.host_classes.of_host, return_index=True)
        product = self.problem.cluster.product[first[known >= 0]]
        parts: Ints = self.parts.of[shape, product[host_class]]
        return parts

    @property
    def y_class(self) -> Ints:
        """Job class of each y."""
        return self.problem.options.job_class[self.y_option]

    @property
    def y_choice(self) -> Ints:
        """Choice of each y."""
        return self.problem.options.choice[self.y_option]

    @property
    def sifted(self) -> Ints:
        """The y that sifting may leave out: not those that a disruption budget has run on."""
        if self.problem.budget is None:
            return np.arange(len(self.y))
        return np.flatnonzero(self.problem.num_pending[self.y_class])

    @property
    def y_columns(self) -> tuple[Ints, Ints, Ints]:
        """The columns y, and the job class and choice of each."""
        return self.y, self.y_class, self.y_choice

    @property
    def left_out_shares(self) -> tuple[TenantShare, ...]:
        """The tenants, holding what running jobs may keep that the model leaves out."""
        return self.problem.shares_with_jobs(
            (self.problem.num_jobs - self.problem.num_competing).tolist()
        )

    @property
    def inner_gang_columns(self) -> NDArray[np.bool_]:
        """Marks columns of gangs inside the domain that they require; only `spread` needs them."""
        outermost = np.array([kind.levels[0] for kind in self.gang_kinds], dtype=np.int64)
        mask = np.zeros(self.model.columns, dtype=np.bool_)
        mask[self.u] = self.gangs.level > outermost[self.gangs.kind]
        return mask

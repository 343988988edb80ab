"""Templates: groups of profiles, whose places any classes of these profiles may take.

A group's period depends on profiles alone. Its members may differ in all else: weight, speed, use
of rows, whether they must be covered. So few profiles have few templates, however many classes
there are; and at given duals the best column of a template has the best class in each place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    MAX_MEMBERS,
    PackingProblem,
    periods,
    sort_members,
)
from placewright.formulations.interleaving.set_packing.columns import (
    count_columns,
    enumerate_columns,
    weights,
)

Number = TypeVar("Number", np.int64, np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Profiles:
    """The profiles of a packing problem.

    Attributes
    ----------
    packing
        Profiles as classes; weight, speed and rows are those of some class of the profile.
    of : int64 (classes,)
        The profile of each class.
    """

    packing: PackingProblem
    of: Ints

    @classmethod
    def of_problem(cls, packing: PackingProblem) -> Profiles:
        """Find the profiles.

        Classes with a `separation_key` have one of their own. So have those that must be covered,
        unless that makes too many templates: their prices may be negative, and a bound that puts
        one of them in several places of a template is poor.
        """
        number = packing.separation_key()
        own_profile = np.where(
            packing.must_cover, packing.classes + 1 + np.arange(packing.classes), number
        )
        profiles = cls._by_number(packing, own_profile)
        return (
            profiles
            if profiles.templates <= parameters.PARAMETERS.max_templates
            else cls._by_number(packing, number)
        )

    @classmethod
    def _by_number(cls, packing: PackingProblem, number: Ints) -> Profiles:
        """Return profiles shared by classes of one profile and one number."""
        keys = [
            number,
            packing.bucket,
            packing.iteration,
            packing.memory,
            packing.max_period(),
            *packing.stages.T,
        ]
        _, first, of = np.unique(np.vstack(keys).T, axis=0, return_index=True, return_inverse=True)
        return cls(packing.aggregate(first, of.reshape(-1)), of.reshape(-1))

    @property
    def templates(self) -> int:
        """Upper bound of the number of templates."""
        return count_columns(self.packing) - self.packing.classes


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """The places for one profile, and who may fill them.

    Attributes
    ----------
    template, place, turn : int64 (places,)
        Where they are; the turn of the second place for a profile in its template is 1.
    period : int64 (places,)
        Index of the template's period among the different ones.
    candidates : int64 (candidates,)
        Classes of the profile, each as often as a template could hold it.
    value : int64 (different periods, candidates)
    """

    template: Ints
    place: Ints
    turn: Ints
    period: Ints
    candidates: Ints
    value: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Templates:
    """All templates of a packing problem.

    Attributes
    ----------
    members : int64 (templates, 4)
        Profiles in ascending order, `ALONE` after the last one.
    bucket, size, value : int64 (templates,)
        Bucket, number of places, and the value of a template with any members.
    """

    members: Ints
    bucket: Ints
    size: Ints
    value: Ints
    places: tuple[_Places, ...]

    @classmethod
    def of_problem(cls, packing: PackingProblem, profiles: Profiles) -> Templates:
        """Return the templates of the profiles, with each class's value in each place."""
        packed = profiles.packing
        # If every profile must be covered, no group is left out for its small value.
        columns = enumerate_columns(
            replace(packed, must_cover=np.ones(packed.classes, dtype=np.bool_))
        )
        columns = columns.take(columns.members[:, 1] != ALONE)
        members = columns.members
        present = members != ALONE
        size = present.sum(axis=1)
        period = np.zeros(len(members), dtype=np.int64)
        for number in range(2, MAX_MEMBERS + 1):
            some = np.flatnonzero(size == number)
            if len(some):
                period[some] = periods(packed, members[some, :number])
        turn = np.zeros_like(members)
        for k in range(1, MAX_MEMBERS):
            again = members[:, k] == members[:, k - 1]
            turn[:, k] = np.where(again, turn[:, k - 1] + 1, 0)
        shared = packing.rules.objective == "efficiency"
        speed = (0 if shared else 1) * packing.speed * packing.iteration
        places = []
        for profile in range(packed.classes):
            template, place = np.nonzero(members == profile)
            classes = np.flatnonzero(profiles.of == profile)
            candidates = np.repeat(classes, packing.count[classes].clip(max=MAX_MEMBERS))
            different, index = np.unique(period[template], return_inverse=True)
            value = speed[candidates] // different[:, None] * weights(packing)[candidates]
            places.append(_Places(template, place, turn[template, place], index, candidates, value))
        fixed = columns.value if shared else np.zeros(len(members), dtype=np.int64)
        return cls(members, packed.bucket[members[:, 0]], size, fixed, tuple(places))

    def __len__(self) -> int:
        return len(self.size)

    def fill(self, cost: NDArray[Number]) -> tuple[NDArray[Number], Ints]:
        """Return the best column of each template at given costs of the classes.

        Parameters
        ----------
        cost : (classes,)

        Returns
        -------
        earned : (templates, 4)
            What each place earns so, 0 where there is none.
        chosen : int64 (templates, 4)
            Who fills it: no class more often than it has jobs, ascending, `ALONE` last.
        """
        earned = np.zeros(self.members.shape, dtype=cost.dtype)
        chosen = np.full_like(self.members, ALONE)
        for at in self.places:
            if not len(at.template):
                continue
            gain = at.value - cost[at.candidates]
            best = np.argsort(-gain, axis=1, kind="stable")[:, :MAX_MEMBERS]
            who = best[at.period, at.turn]
            earned[at.template, at.place] = gain[at.period, who]
            chosen[at.template, at.place] = at.candidates[who]
        return earned, sort_members(chosen)

    def max_earned(self, cost: Ints) -> Ints:
        """Return the largest gain in each place, int64 (templates, 4).

        Whether it is in another place of the template, too, is not asked.
        """
        earned = np.zeros(self.members.shape, dtype=np.int64)
        for at in self.places:
            if len(at.template):
                gain = (at.value - cost[at.candidates]).max(axis=1)
                earned[at.template, at.place] = gain[at.period]
        return earned

    def least_costs(self, price: Ints, own: Ints) -> Ints:
        """Return the least costs at which no class gains more than the price of a place.

        Parameters
        ----------
        price : int64 (templates, 4)
            What each place asks for.
        own : int64 (classes,)
            What each class earns elsewhere: the least cost there is.
        """
        cost = own.copy()
        for at in self.places:
            if not len(at.template):
                continue
            least = np.full(len(at.value), np.iinfo(np.int64).max)
            np.minimum.at(least, at.period, price[at.template, at.place])
            np.maximum.at(cost, at.candidates, (at.value - least[:, None]).max(axis=0))
        return cost

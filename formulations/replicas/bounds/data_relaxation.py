"""Relaxations of the data terms that guide the search, and that bounds begin with.

The replica tree of the sum of both terms sends annealing to regions, and fractional replicas of
`copies` say which dataset classes LNS decides anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from placewright.array_types import Floats
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.bounds.single_dataset import with_dataset_bounds
from placewright.formulations.replicas.bounds.target import is_large, needs_tree, probed_tree
from placewright.formulations.replicas.models.relaxation import Relaxation, build_relaxation
from placewright.formulations.replicas.models.solve_relaxation import (
    RelaxationResult,
    try_relaxation,
)
from placewright.formulations.replicas.problem.job_classes import (
    AggregateProblem,
    aggregate_problem,
)
from placewright.formulations.replicas.problem.minimum_remote_reads import restrict_to_values
from placewright.formulations.replicas.problem.problem import DATA_SUM, Problem
from placewright.formulations.replicas.problem.restriction import (
    largest_datasets,
    restrict_to_datasets,
)
from placewright.formulations.session import Session
from placewright.solver import Arrays

if TYPE_CHECKING:
    from placewright.formulations.replicas.bounds.replica_tree import ReplicaTree


def is_beyond(problem: Problem) -> bool:
    """Whether the relaxation takes too much memory; then the only bound of a term is 0."""
    return (
        len(problem.read_gib) * problem.regions**2
        > parameters.PARAMETERS.relaxation_max_source_pairs
    )


def replica_tree_of(
    problem: Problem, session: Session, held: Mapping[str, int], share: float = 1.0
) -> ReplicaTree | None:
    """Return the replica tree of both data terms in one sum, after strong branching.

    None without a solver or time, where the relaxation takes too much memory, or where there are
    too few or too many possible copies.

    Parameters
    ----------
    held
        Values of the terms before.
    share
        Largest share of the time left for the relaxation.
    """
    if is_beyond(problem):
        return None
    aggregate = restrict_to_values(aggregate_problem(problem.wan), held)
    found = data_relaxation(aggregate, session, held, share) if needs_tree(aggregate) else None
    if found is None or session.expired():
        return None
    return probed_tree(*found, tuple(held.items()), session)


def data_relaxation(
    aggregate: AggregateProblem, session: Session, held: Mapping[str, int], share: float = 1.0
) -> tuple[Relaxation, Arrays, RelaxationResult] | None:
    """Return the relaxation of the sum of both data terms: the model, its arrays, the result.

    Very large rounds are restricted to the largest datasets. None without a solver or time, of
    which it may take a share of what is left.
    """
    if is_large(aggregate):
        aggregate, share = (
            restrict_to_datasets(
                aggregate, largest_datasets(aggregate, parameters.PARAMETERS.restricted_datasets)
            ),
            parameters.PARAMETERS.restricted_time_share * share,
        )
    else:
        aggregate = with_dataset_bounds(
            aggregate, held, session, parameters.PARAMETERS.bounded_datasets
        )
    relaxation = build_relaxation(aggregate)
    arrays = relaxation.arrays(DATA_SUM, held)
    root = try_relaxation(arrays, session, share)
    return None if root is None else (relaxation, arrays, root)


def relaxation_replicas(
    problem: Problem, session: Session, held: Mapping[str, int], share: float
) -> Floats | None:
    """Return the fractional replicas (datasets, regions) of the relaxation of `copies`.

    At the values held. None without a solver or time, or where it takes too much memory. Very large
    rounds are restricted to the largest datasets.
    """
    if is_beyond(problem):
        return None
    aggregate = restrict_to_values(aggregate_problem(problem.wan), held)
    relaxation = build_relaxation(
        restrict_to_datasets(
            aggregate, largest_datasets(aggregate, parameters.PARAMETERS.restricted_datasets)
        )
        if is_large(aggregate)
        else aggregate
    )
    found = try_relaxation(relaxation.arrays("copies", held), session, share)
    if found is None or found.point is None:
        return None
    return relaxation.replicas(found.point)

"""From a sensitivity matrix to options: one per non-dominated point of CPU and memory.

Options are written out as a job is read, not derived where needed (`instances.derived`),
because they are part of the format: `running.option` and the option of a decision are indices in
this list, and the digest by which a plan names its round is that of the round with all options.

References
----------
Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI'22.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.option import Option
from placewright.instances.documents.profile import Sensitivity
from placewright.instances.documents.quantities import amount_text, memory_text, whole_units
from placewright.instances.errors import InvalidInputError
from placewright.topology.units import WHOLE_GPU

UNIT = 10**6
"""The speed of a job at its proportional share, and of one without a sensitivity."""


def speed_at(matrix: Sensitivity, option: Option) -> int:
    """Return how fast a job is alone with an option, in millionths.

    That is the entry of the largest grid point not above the option's CPU and memory per GPU, 0 if
    there is none; of several task groups the one with the least of either counts.
    """
    asking = [group for group in option.groups if group.gpu]
    row = sum(all(g.cpu * WHOLE_GPU >= c * g.gpu for g in asking) for c in matrix.cores)
    column = sum(all(g.memory * WHOLE_GPU >= m * g.gpu for g in asking) for m in matrix.memory)
    return matrix.speeds[row - 1][column - 1] if row and column else 0


def derive_options(first: Option, matrix: Sensitivity) -> tuple[Option, ...]:
    """Return an option followed by one for each non-dominated grid point that is no slower.

    A point is dominated by one that asks no more of either resource, less of one, and is as fast.
    A point that asks what the first option asks is left out.

    Raises
    ------
    InvalidInputError
        Some point is more CPU or memory than a task can ask; the path begins in the job.
    """
    options = [first]
    for row, column in non_dominated(matrix.speeds, max(speed_at(matrix, first), 1)):
        option = _at(first, matrix, row, column)
        if option.groups != first.groups:
            options.append(option)
    return tuple(options)


def non_dominated(speeds: Sequence[Sequence[float]], least: float) -> Iterator[tuple[int, int]]:
    """Yield the non-dominated points (row, column) that are no slower than `least`.

    A point is dominated by one of no larger row and column, one of them smaller, that is as fast.
    """
    for i, row in enumerate(speeds):
        for k, here in enumerate(row):
            # Speeds may fall as the share grows: compare with all smaller points, not neighbours.
            smaller = (speeds[c][m] for c in range(i + 1) for m in range(k + 1) if (c, m) != (i, k))
            if here >= least and not any(other >= here for other in smaller):
                yield i, k


def _at(first: Option, matrix: Sensitivity, row: int, column: int) -> Option:
    """Return an option with the CPU and memory of a grid point for each of its GPUs."""
    cores, memory = matrix.cores[row], matrix.memory[column]
    groups = []
    for group in first.groups:
        cpu, mib = -(-cores * group.gpu // WHOLE_GPU), -(-memory * group.gpu // WHOLE_GPU)
        for resource, path, each, amount in (
            ("cpu", ("cores", row), whole_units(cores), cpu),
            ("memory", ("memory", column), memory_text(memory), mib),
        ):
            if amount > MAX_AMOUNT:
                raise InvalidInputError(
                    f"is {amount_text(resource, amount)} for a task of "
                    f"{amount_text('gpu', group.gpu)}; expected at most "
                    f"{amount_text(resource, MAX_AMOUNT)}",
                    ("profile", "sensitivity", *path),
                    each,
                )
        asked = {"cpu": cpu, "memory": mib} if group.gpu else {}
        groups.append(group.model_copy(update=asked))
    name = f"{cores}m-{memory}Mi-per-gpu"
    return first.model_copy(update={"name": name, "groups": tuple(groups)})

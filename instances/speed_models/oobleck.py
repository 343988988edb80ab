"""Oobleck: pipelines of several sizes, so that any number of surviving hosts is in use.

Source: Jang et al., "Oobleck: Resilient Distributed Training of Large Models Using Pipeline
Templates", SOSP'23: section 4.1.1 (templates of consecutive sizes n_0 ... N - f n_0; with more than
n_0 - 1 of them every number of hosts is covered), section 4.1.2 and equations 1 to 4 (iteration
time of a template), section 5 (borrow hosts from the largest pipeline, else merge pipelines). The
largest number that k consecutive sizes from n on do not cover is Sylvester's and Frobenius's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models.amounts import WORKER


def template_sizes(hosts: int, failures: int, least: int) -> range:
    """Return the sizes of the pipeline templates: from `least` to what f + 1 pipelines leave.

    `hosts`: N, hosts at the start. `failures`: f, failures at a time that must leave a copy of the
    model. `least`: n_0, hosts that hold the model's state. Raises InvalidInputError if f + 1
    pipelines of the least size do not fit.
    """
    if least < 1 or hosts < (failures + 1) * least:
        raise InvalidInputError(
            f"expected at least {(failures + 1) * least} hosts for {failures + 1} pipelines",
            ("hosts",),
            hosts,
        )
    return range(least, hosts - failures * least + 1)


def largest_uncovered(sizes: range) -> int:
    """Return the largest number of hosts that pipelines of consecutive sizes cannot all use.

    (floor((n_0 - 2) / (p - 1)) + 1) n_0 - 1 for p sizes from n_0 on; -1 if they begin with 1.
    Raises InvalidInputError if there is one size only, above 1: then there is no largest.
    """
    least, count = sizes.start, len(sizes)
    if least == 1:
        return -1
    if count < 2:
        raise InvalidInputError("expected at least two sizes", ("sizes",), count)
    return ((least - 2) // (count - 1) + 1) * least - 1


def compositions(hosts: int, sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the multisets of sizes that add up to exactly `hosts`, each in ascending order."""
    yield from _compositions(hosts, sorted(set(sizes)))


def _compositions(hosts: int, sizes: list[int]) -> Iterator[tuple[int, ...]]:
    if hosts == 0:
        yield ()
    for i, size in enumerate(sizes):
        if size <= hosts:
            for rest in _compositions(hosts - size, sizes[i:]):
                yield (size, *rest)


def reconfigured(survivors: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the pipelines after failures, which use every host that is left.

    As many pipelines as there were, or else as many as there can be; of those the ones for which
    fewest hosts change their pipeline; of those the most even ones, so that hosts are borrowed from
    the largest pipeline.

    `survivors`: hosts that are left of each pipeline. `sizes`: sizes of the templates. Raises
    InvalidInputError if no pipelines use exactly the hosts that are left.
    """
    before = sorted(survivors, reverse=True)

    def rank(after: tuple[int, ...]) -> tuple[int, int, int]:
        large = sorted(after, reverse=True)
        stay = sum(min(a, b) for a, b in zip(before, large, strict=False))
        return -len(after), sum(before) - stay, sum(n * n for n in after)

    possible = [c for c in compositions(sum(before), sizes) if len(c) <= len(before)]
    if not possible:
        raise InvalidInputError(
            "expected hosts that pipelines can use", ("survivors",), tuple(survivors)
        )
    return min(possible, key=rank)


def pipelines(count: int, sizes: Sequence[int], host: TaskGroup = WORKER) -> tuple[Job, ...]:
    """Return `count` jobs, each a pipeline of any of the sizes; progress 1 for each that runs.

    Under the terms `progress, value` as many pipelines run as can, f + 1 of them for Oobleck's
    guarantee, and then as many hosts are in use as can be.

    `host`: what one host of a pipeline takes: all its GPUs, as one task.
    """
    options = tuple(
        Option(
            name=f"template-{n}",
            groups=(host.model_copy(update={"name": "hosts", "count": n}),),
            progress=1,
        )
        for n in sizes
    )
    return tuple(Job(name=f"pipeline-{i}", options=options) for i in range(count))


def iteration_s(layers_s: Sequence[float], cuts: Sequence[int], microbatches: int) -> float:
    """Return the seconds of an iteration of a pipeline: equations 1 to 4.

    With w_i the forward and backward seconds of stage i and k* the rightmost slowest stage (from
    0): sum_i w_i  +  (Nb - S + k* - 1) w_k*  +  sum_{i >= k*} w_i.

    `layers_s`: forward and backward seconds of each layer. `cuts`: after how many layers each stage
    but the last ends. `microbatches`: Nb, microbatches of an iteration.
    """
    ends = [0, *cuts, len(layers_s)]
    stages = [sum(layers_s[a:b]) for a, b in pairwise(ends)]
    slowest = max(range(len(stages)), key=lambda i: (stages[i], i))
    waits = (microbatches - len(stages) + slowest - 1) * stages[slowest]
    return sum(stages) + waits + sum(stages[slowest:])

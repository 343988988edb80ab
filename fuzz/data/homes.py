"""The rules of the policy `replicas`: where data may be in the end, and jobs at home then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple, TypeAlias

from fuzz.data.carrying import Carried, carry
from fuzz.data.replay import broken
from fuzz.data.world import WHOLE, Replica, World
from fuzz.policy import Raw, TooManyPlansError

MOST_LAYOUTS = 256
HOMELESS = 3
Home: TypeAlias = tuple[str, str]
"""Region and GPU model."""


class Layout(NamedTuple):
    """Replicas in the end, and how they come and go."""

    final: frozenset[Replica]
    carried: Carried
    broken: str


def layouts(world: World) -> Iterator[Layout]:
    """Yield all that may be replicated in the end, each with a schedule."""
    free = [
        (dataset, region)
        for dataset in world.size
        for region in world.regions
        if (dataset, region) in world.held
        or (region in world.may[dataset] and (dataset, region) not in world.coming)
    ]
    if 2 ** len(free) > MOST_LAYOUTS:
        raise TooManyPlansError
    before = world.held | world.coming.keys()
    for number in range(len(free) + 1):
        for chosen in combinations(free, number):
            creates, drops = set(chosen) - world.held, set(chosen) & world.held
            carried = carry(world, creates, drops)
            if carried is None:
                carried = _naive(world, creates, drops)
            fault = broken(world, *carried, dropping=True)
            yield Layout((before | creates) - drops, carried, fault)


def _naive(world: World, creates: set[Replica], drops: set[Replica]) -> Carried:
    """Return copies all at once, straight from some region: mostly against a rule."""
    flows = []
    for dataset, region in sorted(creates):
        sources = [r for r in world.regions if r != region and (dataset, r) in world.held]
        if sources:
            path = [sources[0], region]
            flows.append(
                {
                    "dataset": dataset,
                    "path": path,
                    "gib": world.size[dataset],
                    "start": world.now,
                    "end": world.end,
                }
            )
    return Carried(
        [{"dataset": d, "region": r, "ready": world.end} for d, r in sorted(creates)],
        [{"dataset": d, "region": r, "at": world.end} for d, r in sorted(drops)],
        flows,
    )


def models_of(world: World, job: Raw) -> list[str]:
    """Return the GPU models that the first option of a job allows for all its tasks."""
    models = {model for _, model in world.supply}
    for group in job["options"][0]["groups"]:
        models &= set(group.get("gpu_models", models))
    return sorted(models)


def homes_of(world: World, job: Raw, final: frozenset[Replica]) -> list[Home]:
    """Return where a job may be at home once data is where it is to be."""
    return [
        (region, model)
        for region in world.allowed(job)
        if all(
            (read["dataset"], region) in final
            or (read.get("remote", True) and world.sources(read["dataset"], region, final))
            for read in job.get("reads", ())
        )
        for model in models_of(world, job)
        if (region, model) in world.supply
    ]


def _asks(job: Raw) -> int:
    return sum(group["gpu"] * group.get("count", 1) for group in job["options"][0]["groups"])


def values_of(
    round_: Raw, world: World, layout: Layout, homes: Sequence[Home | None]
) -> dict[str, int]:
    """Return the values of all terms, with the home of each job."""
    demand: Counter[Home] = Counter()
    overload = remote = 0
    for job, home in zip(round_["jobs"], homes, strict=True):
        asks = _asks(job)
        if home is None:
            overload += HOMELESS * asks
        else:
            demand[home] += asks
        remote += sum(
            read["gib"]
            for read in job.get("reads", ())
            if home is None or (read["dataset"], home[0]) not in layout.final
        )
    for where, asks in demand.items():
        has = world.supply.get(where, 0)
        overload += max(0, asks - has) + max(0, -((6 * has - 5 * asks) // 5))
    used = world.used(layout.final)
    stored, limits = sum(used[r] for r in world.storage), sum(world.storage.values())
    heat = 0
    for region in world.regions:
        asks = sum(amount for (where, _), amount in demand.items() if where == region)
        has = sum(amount for (where, _), amount in world.supply.items() if where == region)
        heat = max(heat, -(-1000 * asks // (has or WHOLE)))
    return {
        "overload": overload,
        "remote_reads": remote,
        "copies": sum(world.size[one["dataset"]] for one in layout.carried.creates),
        "imbalance": sum(
            max(0, used[region] - (stored * limit // limits if limits else 0))
            for region, limit in world.storage.items()
        ),
        "hottest": heat,
    }

"""Schedules of copies with one thing changed: mostly against a rule, and sometimes not."""

from __future__ import annotations

from copy import deepcopy
from random import Random

from fuzz.data.carrying import Carried
from fuzz.data.world import World
from fuzz.policy import Raw

EARLIEST, LATEST = -3, 3


def changed(rng: Random, world: World, carried: Carried) -> Carried:
    """Return a schedule of which an entry is gone, doubled or different; it has one at least."""
    result = deepcopy(carried)
    entries = rng.choice([listed for listed in result if listed])
    number = rng.randrange(len(entries))
    kind = rng.random()
    if kind < 0.1:
        del entries[number]
    elif kind < 0.2:
        entries.insert(number, dict(entries[number]))
    else:
        _change(rng, world, entries[number])
    return result


def _change(rng: Random, world: World, entry: Raw) -> None:
    field = rng.choice([name for name in entry if name != "dataset" or len(world.size) > 1])
    if field == "dataset":
        entry[field] = rng.choice(list(world.size))
    elif field == "region":
        entry[field] = rng.choice(world.regions)
    elif field == "path":
        stops = rng.randint(2, max(2, len(world.regions)))
        entry[field] = [rng.choice(world.regions) for _ in range(stops)]
    elif field == "gib":
        entry[field] = max(1, entry[field] + rng.choice((-1, 1)))
    else:
        entry[field] = rng.choice(
            (
                max(0, entry[field] + rng.randint(EARLIEST, LATEST)),
                rng.randint(world.now, world.end),
                world.end + 1,
                world.now - 1,
            )
        )

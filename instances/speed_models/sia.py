"""Sia: sizes times GPU models, each as fast as it was measured or estimated there.

Source: Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster
scheduling", SOSP'23: its configurations (powers of two inside a node, whole nodes beyond) and its
policy (the goodputs of a job are divided by its least; their powers are summed, p = -0.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models.amounts import SCALE, positive, power_gains

Configuration = tuple[str, int]
"""A GPU model and a number of GPUs."""


def sizes(gpus_per_host: int, hosts: int, most: int) -> tuple[int, ...]:
    """Return the GPUs that a job may get of one model: 1, 2, 4 ... of a host, then whole hosts.

    At most `most`, on at most `hosts` hosts of `gpus_per_host`.
    """
    inside = [*takewhile(lambda n: n < gpus_per_host, (1 << k for k in range(32)))]
    beyond = range(gpus_per_host, gpus_per_host * hosts + 1, gpus_per_host)
    return tuple(n for n in (*inside, *beyond) if n <= most)


def options(
    goodputs: Mapping[Configuration, float],
    gpus_per_host: Mapping[str, int],
    *,
    power: float = -0.5,
    value: int = 1,
    scale: int = SCALE,
) -> tuple[Option, ...]:
    """Return an option per configuration; its progress is the power of its relative goodput.

    Up to a host's GPUs are one task, more are tasks of a whole host each.

    `goodputs`: goodput of each (GPU model, GPUs), in any unit. `gpus_per_host`: GPUs of a host of
    each model. `power`: p: the smaller, the fairer. Below 0 what is left of the worst case counts.
    `value`: the same for all options: that the job runs at all. Raises InvalidInputError if a
    goodput is not above 0, or a size is neither within one host nor whole hosts.
    """
    least = min((positive(rate, ("goodputs", *key)) for key, rate in goodputs.items()), default=1.0)
    keys = list(goodputs)
    gains = power_gains({i: goodputs[k] / least for i, k in enumerate(keys)}, power, scale)
    return tuple(
        Option(
            name=f"{model}-{gpus}",
            groups=(_group(model, gpus, gpus_per_host[model]),),
            value=value,
            progress=gains[i],
        )
        for i, (model, gpus) in enumerate(keys)
    )


def _group(model: str, gpus: int, host: int) -> TaskGroup:
    if gpus > host and gpus % host:
        raise InvalidInputError(
            f"expected at most {host} GPUs or a multiple of {host}", ("goodputs", model), gpus
        )
    each = min(gpus, host)
    return TaskGroup(count=gpus // each, gpu=each, gpu_models=(model,))

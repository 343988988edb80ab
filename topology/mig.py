"""MIG: the slice profiles of each GPU, and the positions at which a slice may start.

A GPU that supports it has 7 compute slices and 8 memory slices. A MIG slice takes some of both;
where it lies is said by the first memory slice that it takes. The products differ only in what
they call their slices, after the memory of one. A GPU holds any slices that lie on different memory
slices, each at one of its starts, at most one of them with media extensions. That is enough: the
compute slices then never add up to more than 7, which `tests/topology/test_mig.py` counts out.

Source: NVIDIA Multi-Instance GPU User Guide, "Supported MIG Profiles" (the tables for A100, H100
and H200), and the placements that `nvidia-smi mig -lgipp` prints for these products.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

COMPUTE_SLICES = 7
MEMORY_SLICES = 8
_GIB = 1024


@dataclass(frozen=True, slots=True)
class Slice:
    """A kind of MIG slice.

    `compute`: compute slices that it takes, of 7. `size`: memory slices that it takes, of 8.
    `starts`: where its first memory slice may be. `media`: whether it has the media extensions,
    which only one slice of a GPU can have.
    """

    compute: int
    size: int
    starts: tuple[int, ...]
    media: bool = False


SLICES = (
    Slice(1, 1, (0, 1, 2, 3, 4, 5, 6)),
    Slice(1, 1, (0, 1, 2, 3, 4, 5, 6), media=True),
    Slice(1, 2, (0, 2, 4, 6)),
    Slice(2, 2, (0, 2, 4)),
    Slice(3, 4, (0, 4)),
    Slice(4, 4, (0,)),
    Slice(7, 8, (0,)),
)
"""All kinds of slices."""


@dataclass(frozen=True, slots=True)
class Product:
    """A kind of GPU that can be cut: its family, the gigabytes it is sold with, its slices.

    `profiles` says by name which of `SLICES` a profile is.
    """

    family: str
    gigabytes: int
    profiles: Mapping[str, int]


def _product(family: str, gigabytes: int, one: int, two: int, half: int) -> Product:
    """Return a product; profiles are named by the size of one, two and four memory slices."""
    names = (
        f"1g.{one}gb",
        f"1g.{one}gb+me",
        f"1g.{two}gb",
        f"2g.{two}gb",
        f"3g.{half}gb",
        f"4g.{half}gb",
        f"7g.{gigabytes}gb",
    )
    return Product(family, gigabytes, MappingProxyType({name: i for i, name in enumerate(names)}))


PRODUCTS = (
    _product("A100", 40, 5, 10, 20),
    _product("A100", 80, 10, 20, 40),
    _product("H100", 80, 10, 20, 40),
    _product("H100", 94, 12, 24, 47),
    _product("H100", 96, 12, 24, 48),
    _product("H200", 141, 18, 35, 71),
)
"""The GPUs that this module knows how to cut."""

PROFILES = tuple(dict.fromkeys(name for product in PRODUCTS for name in product.profiles))
"""Names of all profiles."""

NO_MIG = -1
_TOLERANCE = 0.1
"""Tools tell a little less memory than a product is sold with."""
_FAMILY = re.compile(r"(?<![A-Z])(A100|H100|H200)(?![0-9A-Z])")
_GIGABYTES = re.compile(r"(?:^|[-_])([0-9]{1,4})GB(?:$|[-_])")


def milli_of(profile: str) -> int:
    """Return the milli-GPU that a profile stands for: its part of 7 compute slices, rounded down.

    Raises KeyError if no product has such a profile.
    """
    return 1000 * _COMPUTE[profile] // COMPUTE_SLICES


_COMPUTE = {
    name: SLICES[kind].compute for product in PRODUCTS for name, kind in product.profiles.items()
}


def memory_in_name(gpu_model: str) -> int | None:
    """Return the GPU memory in the name of a model (``A100-SXM4-80GB``), in MiB; None without one.

    Vendors write GB for the GiB of their memory modules.
    """
    found = _GIGABYTES.search(gpu_model)
    return int(found[1]) * _GIB if found else None


@lru_cache
def product_of(gpu_model: str, memory: int | None) -> int:
    """Return the index in `PRODUCTS` of a GPU model with this memory; `NO_MIG` if there is none."""
    family = _FAMILY.search(gpu_model)
    if family is None or memory is None:
        return NO_MIG
    differs = {
        abs(product.gigabytes * _GIB - memory) / (product.gigabytes * _GIB): i
        for i, product in enumerate(PRODUCTS)
        if product.family == family[1]
    }
    least = min(differs)
    return differs[least] if least <= _TOLERANCE else NO_MIG

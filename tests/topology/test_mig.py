"""The table of MIG profiles: names, places, and what one GPU holds."""

from __future__ import annotations

from itertools import combinations

import pytest

from placewright.topology.mig import (
    COMPUTE_SLICES,
    MEMORY_SLICES,
    NO_MIG,
    PRODUCTS,
    PROFILES,
    SLICES,
    memory_in_name,
    milli_of,
    product_of,
)

GIB = 1024


def layouts() -> set[frozenset[tuple[int, int]]]:
    """All sets of (kind, start) that lie on different memory slices, one with media at the most."""
    found = {frozenset[tuple[int, int]]()}
    waiting = [(frozenset[tuple[int, int]](), 0, False)]
    while waiting:
        chosen, taken, media = waiting.pop()
        for kind, one in enumerate(SLICES):
            for start in one.starts:
                mask = ((1 << one.size) - 1) << start
                more = chosen | {(kind, start)}
                if not taken & mask and not (media and one.media) and more not in found:
                    found.add(more)
                    waiting.append((more, taken | mask, media or one.media))
    return found


LAYOUTS = layouts()


def fits(*names: str) -> bool:
    """Whether an A100 80GB holds these profiles together."""
    wanted = sorted(PRODUCTS[1].profiles[name] for name in names)
    return any(sorted(kind for kind, _ in layout) == wanted for layout in LAYOUTS)


def test_slices_on_different_memory_slices_never_take_more_than_seven_compute_slices():
    most = max(sum(SLICES[kind].compute for kind, _ in layout) for layout in LAYOUTS)
    assert most == COMPUTE_SLICES


def test_no_slice_reaches_beyond_the_last_memory_slice():
    assert all(start + one.size <= MEMORY_SLICES for one in SLICES for start in one.starts)


@pytest.mark.parametrize(
    ("names", "together"),
    [
        (("1g.10gb",) * 7, True),
        (("1g.10gb",) * 8, False),
        (("4g.40gb", "3g.40gb"), True),
        (("4g.40gb", "4g.40gb"), False),
        (("3g.40gb", "3g.40gb"), True),
        (("3g.40gb", "3g.40gb", "1g.10gb"), False),
        (("2g.20gb",) * 3 + ("1g.10gb",), True),
        (("2g.20gb",) * 4, False),
        (("1g.20gb",) * 4, True),
        (("1g.20gb",) * 4 + ("1g.10gb",), False),
        (("1g.10gb+me", "1g.10gb"), True),
        (("1g.10gb+me", "1g.10gb+me"), False),
        (("7g.80gb",), True),
        (("7g.80gb", "1g.10gb"), False),
        (("4g.40gb", "2g.20gb", "1g.10gb"), True),
        (("3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"), True),
        (("3g.40gb", "2g.20gb", "2g.20gb"), True),
    ],
)
def test_published_facts_about_one_gpu(names, together):
    assert fits(*names) is together


def test_a_slice_at_3_blocks_the_larger_slices_of_the_first_half():
    beside = [layout for layout in LAYOUTS if (0, 3) in layout]
    kinds = {(kind, start) for layout in beside for kind, start in layout}
    assert (5, 0) not in kinds
    assert (4, 0) not in kinds
    assert (4, 4) in kinds


@pytest.mark.parametrize(
    ("profile", "milli"),
    [("1g.10gb", 142), ("1g.20gb", 142), ("2g.10gb", 285), ("3g.47gb", 428), ("4g.40gb", 571),
     ("7g.141gb", 1000), ("1g.5gb+me", 142)],
)  # fmt: skip
def test_a_profile_is_its_part_of_seven_compute_slices(profile, milli):
    assert milli_of(profile) == milli


@pytest.mark.parametrize(
    ("model", "memory", "expected"),
    [
        ("A100-SXM4-80GB", 80 * GIB, ("A100", 80)),
        ("A100-PCIE-40GB", 40_536, ("A100", 40)),
        ("NVIDIA-H100-80GB-HBM3", 81_559, ("H100", 80)),
        ("H100-NVL", 95_830, ("H100", 94)),
        ("H100", 97_871, ("H100", 96)),
        ("H200", 143_771, ("H200", 141)),
        ("A100", None, None),
        ("A100", 60 * GIB, None),
        ("V100-SXM2-32GB", 32 * GIB, None),
        ("GH200", 96 * GIB, None),
        ("A1000", 40 * GIB, None),
    ],
)
def test_name_and_memory_tell_the_product(model, memory, expected):
    product = product_of(model, memory)
    found = None if product == NO_MIG else (PRODUCTS[product].family, PRODUCTS[product].gigabytes)
    assert found == expected


@pytest.mark.parametrize(
    ("name", "memory"),
    [("A100-SXM4-80GB", 80 * GIB), ("NVIDIA-H100-80GB-HBM3", 80 * GIB), ("V100_16GB", 16 * GIB),
     ("GB200", None), ("T4", None), ("80GBX", None)],
)  # fmt: skip
def test_a_name_may_tell_the_memory(name, memory):
    assert memory_in_name(name) == memory


def test_every_product_has_all_kinds_and_names_are_not_reused_within_it():
    for product in PRODUCTS:
        assert sorted(product.profiles.values()) == list(range(len(SLICES)))
        assert set(product.profiles) <= set(PROFILES)


def test_equal_names_of_two_products_may_be_different_slices():
    assert SLICES[PRODUCTS[0].profiles["1g.10gb"]].size == 2
    assert SLICES[PRODUCTS[1].profiles["1g.10gb"]].size == 1
    assert all(
        SLICES[a.profiles[name]].compute == SLICES[b.profiles[name]].compute
        for a, b in combinations(PRODUCTS, 2)
        for name in a.profiles.keys() & b.profiles.keys()
    )

"""The colours of maps and pictures: one per large started or migrated job, one for the rest.

The hues of the large jobs stay apart for readers with a colour vision deficiency; what runs
already and stays is grey, so that a plan stands out from what it found. Timelines have a colour
per resource, charts of leases one per kind of promise, none of them that of a job.
"""

from __future__ import annotations

LARGE = (
    "#e69f00",
    "#009e73",
    "#d55e00",
    "#cc79a7",
    "#7e57c2",
    "#c0b000",
    "#882255",
    "#0f5ea8",
)
HATCHES = (None, "///", "...")
"""Of jobs after those with the plain colours, and after those."""
PLACED = "#56b4e9"
STAYS = ("#a6a6a6", "#c4c4c4", "#8a8a8a")
PREEMPTED, STOPS = "#fbe3e0", "#e2897f"
RESERVED, TO_VACATE, SHADE = "#f7f1d5", "#f7f1d5", "#b8a24a"
LIGHT = "#ffffff"
"""Of hatches, as `STOPS` and `SHADE` are."""
FREE = ("#ececec", "#d9ead3", "#e4ddf0", "#f8e8cc", "#d5ebf2", "#f4dada", "#efeebe", "#cfd8e6")
FREE_HATCHES, FREE_EDGE = (None, "...", "---", "|||", "\\\\\\", "///", "+++", "xxx"), "#d2d2d2"
UNHEALTHY = "#333333"
STAGES = (
    "#99ddff",
    "#ee8866",
    "#bbcc33",
    "#ffaabb",
    "#44bb99",
    "#eedd88",
    "#aaaa00",
    "#dddddd",
)
"""Light enough for black letters on them."""
PROMISED, LATER, EFFORT, OFFERED = "#4477aa", "#99bbdd", "#ccbb88", "#d55e00"
BANDS = ("#2b4d73", "#4477aa", "#88aacc", "#c3d5e6")


def free_colour(model: int) -> str:
    """Return the pale colour of a free GPU by the index of its model."""
    return FREE[model % len(FREE)]


def free_hatch(model: int) -> str | None:
    """Return the hatch of a free GPU by the index of its model."""
    return FREE_HATCHES[model % len(FREE_HATCHES)]


def stage_colour(resource: int) -> str:
    """Return the colour of a resource in timelines; they repeat after `STAGES`."""
    return STAGES[resource % len(STAGES)]


def band_colour(index: int) -> str:
    """Return the colour of a band of promises, the darkest first."""
    return BANDS[index]

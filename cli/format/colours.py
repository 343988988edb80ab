"""The colours of maps and pictures: one per large started or migrated job, shades for the rest.

The hues of the large jobs stay apart for readers with a colour vision deficiency; what runs
already and stays is grey, so that a plan stands out from what it found. Timelines have a colour
per resource, charts of leases one per kind of promise.
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
SMALL = ("#56b4e9", "#8fcdf0", "#3b9ad6")
PLACED = SMALL[0]
RUNNING = "#a6a6a6"
FREE = ("#ececec", "#d9ead3", "#e4ddf0", "#f8e8cc", "#d5ebf2", "#f4dada", "#efeebe", "#cfd8e6")
UNHEALTHY = "#333333"
STAGES = (
    "#56b4e9",
    "#e69f00",
    "#3aa675",
    "#cc79a7",
    "#c0b000",
    "#9b86d0",
    "#d98c5f",
    "#8a8a8a",
)
"""Light enough for black letters on them."""
PROMISED, LATER, OFFERED = "#009e73", "#e69f00", "#d55e00"
BANDS = ("#00664b", "#009e73", "#5cc4a0", "#b5e3d0")


def free_colour(model: int) -> str:
    """Return the pale colour of a free GPU by the index of its model."""
    return FREE[model % len(FREE)]


def stage_colour(resource: int) -> str:
    """Return the colour of a resource in timelines; they repeat after `STAGES`."""
    return STAGES[resource % len(STAGES)]


def band_colour(index: int) -> str:
    """Return the colour of a band of promises, the darkest first."""
    return BANDS[index]


def job_colour(index: int) -> str:
    """Return the colour of a placed job by its rank in size."""
    return LARGE[index] if index < len(LARGE) else SMALL[index % len(SMALL)]

"""Layout of a region map: distances approximate round-trip times.

Rounds have no coordinates. Torgerson's classical scaling of round-trip times comes near to those of
the earth, up to a turn; boxes that overlap are then pushed apart. Where no time is known, regions
lie on a circle.

References
----------
W. S. Torgerson, "Multidimensional scaling: I. Theory and method", Psychometrika 17 (1952).
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Floats
from placewright.report.facts.regions import Regions

ROUNDS = 400
"""Passes that push boxes apart."""
EVEN, FEW = 0.6, 4
"""How much of a place among many is that in the order of all; among few all of it is distance."""
BOTH = 5
"""Passes between two along both sides."""
FAR = 1.5
"""Regions that no path of links joins, in the longest distance."""


def positions(regions: Regions, width: float, height: float, boxes: Floats) -> Floats:
    """Return the centre of each region on a page, the y axis pointing down (regions, 2).

    `boxes` has the width and height that each region takes (regions, 2); where all of them find no
    place the page is left.
    """
    count = len(regions.names)
    if count == 1:
        return np.array([[width / 2, height / 2]])
    plane = _plane(_distances(regions))
    low, high = plane.min(axis=0), plane.max(axis=0)
    space = np.maximum(np.array([width, height]) - boxes.max(axis=0), 1e-9)
    flat = (plane - (low + high) / 2) * (space / np.maximum(high - low, 1e-9)).min() / space
    # Evenly by rank, in part: one region far away must not squeeze many others together.
    rank = plane.argsort(axis=0, kind="stable").argsort(axis=0) / (count - 1)
    even = EVEN * (1 - FEW / max(count, FEW))
    scaled = (1 - even) * (flat + 0.5) + even * rank
    return _apart(scaled * space + boxes.max(axis=0) / 2, boxes, np.array([width, height]))


def _distances(regions: Regions) -> Floats:
    """Return distances (regions, regions): the least sum of round-trip times along links."""
    count = len(regions.names)
    far = np.full((count, count), np.inf)
    np.fill_diagonal(far, 0)
    for (source, target), link in regions.links.items():
        if link.rtt_us:
            for ends in ((source, target), (target, source)):
                far[ends] = min(far[ends], link.rtt_us)
    for via in range(count):
        np.minimum(far, far[:, via, None] + far[None, via, :], out=far)
    known = far[np.isfinite(far)]
    most = float(known.max())
    return np.where(np.isfinite(far), far, FAR * most if most else 0.0)


def _plane(distances: Floats) -> Floats:
    """Multidimensional scaling: return points that approximate the distances, wider than high."""
    count = len(distances)
    if distances.max() <= 0:
        turn = 2 * np.pi * np.arange(count) / count
        return np.stack([-np.cos(turn), -np.sin(turn)], axis=1)
    centre = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-0.5 * centre @ distances**2 @ centre)
    points = vectors[:, [-1, -2]] * np.sqrt(np.maximum(values[[-1, -2]], 0))
    # A map and its mirror image are alike: the first region lies on the left, above.
    return np.asarray(points * np.where(points[0] > 0, -1, 1))


def _apart(points: Floats, boxes: Floats, page: Floats) -> Floats:
    """Push boxes apart that overlap, along the side on which they overlap less."""
    points = points.copy()
    need = (boxes[:, None] + boxes[None, :]) / 2
    order = np.arange(len(points))
    for turn in range(ROUNDS):
        gap = points[:, None] - points[None, :]
        overlap = need - np.abs(gap)
        both = np.asarray((overlap > 1e-6).all(axis=2))
        np.fill_diagonal(both, False)
        if not both.any():
            break
        # Of two points in one place the first one goes left or up.
        side = np.where(gap == 0, np.where(order[:, None] < order, -1, 1)[:, :, None], np.sign(gap))
        across = overlap[:, :, 0] < overlap[:, :, 1]
        # Now and then along both, or those at the edge of the page never part.
        along = np.stack([across, ~across], axis=2) | (turn % BOTH == 0)
        push = np.where(both[:, :, None] & along, side * overlap / 2, 0).sum(axis=1)
        points += 0.7 * push
        points = np.clip(points, boxes / 2, np.maximum(page - boxes / 2, boxes / 2))
    return points

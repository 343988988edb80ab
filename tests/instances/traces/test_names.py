"""Names that are made when they are asked for, as tuples of names are."""

from __future__ import annotations

import numpy as np
import pytest

from placewright.instances.traces.trace import Names


@pytest.mark.parametrize("given", [None, ("a", "b", "c", "d")])
def test_names_are_as_a_tuple(given: tuple[str, ...] | None) -> None:
    order = np.array([2, 0, 3])
    wanted = ("2", "0", "3") if given is None else ("c", "a", "d")
    names = Names(given, order)
    assert len(names) == 3
    assert names == wanted
    assert wanted == names
    assert names == Names(given, order)
    assert names != wanted[:2]
    assert names != list(wanted)
    assert [names[0], names[-1], names[1:]] == [wanted[0], wanted[-1], wanted[1:]]
    assert Names(names, np.array([1])) == wanted[1:2]
    with pytest.raises(IndexError):
        names[3]

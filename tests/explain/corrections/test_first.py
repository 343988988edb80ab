"""What to try first of the corrections of a waiting job."""

from __future__ import annotations

from placewright.explain.corrections.change import COSTS, Form
from placewright.explain.corrections.find import Correction, Corrections, Part, try_first


def correction(kind: str, *, beside: bool | None = None, left: float = 1.0) -> Correction:
    """A correction of one change, whose text is its kind."""
    part = Part(COSTS[kind].who, kind, Form(kind, (), left=left))
    return Correction((part,), COSTS[kind].price, minimal=True, beside_plan=beside)


def first(now: list[Correction], some_day: list[Correction] | None = None) -> str | None:
    """What to try first."""
    found = try_first(Corrections(None if some_day is None else tuple(some_day), tuple(now)))
    return None if found is None else found.text


def test_nothing_is_told_without_corrections() -> None:
    assert first([]) is None
    assert first([], []) is None


def test_the_cheapest_comes_first() -> None:
    assert first([correction("repair"), correction("models")]) == "models"


def test_what_competes_with_the_plan_comes_later() -> None:
    assert first([correction("models", beside=False), correction("repair", beside=True)]) == (
        "repair"
    )


def test_what_helps_some_day_and_now_comes_before_the_rest() -> None:
    now, some_day = [correction("tasks"), correction("repair")], [correction("level")]
    assert first(now, [*some_day, correction("repair")]) == "repair"
    assert first(now, some_day) == "level"
    assert first(now, []) == "tasks"


def test_last_resorts_come_last() -> None:
    halved = correction("tasks", left=0.4)
    assert first([halved, correction("repair", beside=False)]) == "repair"
    assert first([halved, correction("give_way")]) == "tasks"
    assert first([correction("ended"), correction("quota")]) == "quota"
    assert first([correction("tasks", left=0.5), correction("repair")]) == "tasks"

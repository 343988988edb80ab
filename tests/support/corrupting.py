"""Edits that corrupt a valid plan, or its round: what tests of the verifier share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from placewright.instances.documents.plan import Plan
from placewright.instances.io.files import parse_round
from placewright.instances.verify import Verification, verify

Raw: TypeAlias = dict[str, Any]
Edit: TypeAlias = Callable[[Raw], object]
"""Changes a document in its place."""

Corruption: TypeAlias = tuple[Edit, set[str], str]
"""An edit of a plan, the rules that it breaks, and where one of these says so."""


def nothing(_: Raw) -> None:
    """Leave a document as it is."""


def set_in(*path: str | int, to: Any) -> Edit:
    """An edit that sets the value at a path."""

    def edit(raw: Any) -> None:
        for part in path[:-1]:
            raw = raw[part]
        raw[path[-1]] = to

    return edit


def drop(*path: str | int) -> Edit:
    """An edit that removes what is at a path."""

    def edit(raw: Any) -> None:
        for part in path[:-1]:
            raw = raw[part]
        raw.pop(path[-1])

    return edit


def decide(index: int, to: Raw) -> Edit:
    """An edit that replaces a decision."""
    return set_in("decisions", index, to=to)


def both(*edits: Edit) -> Edit:
    """All edits, one after the other."""

    def edit(raw: Raw) -> None:
        for one in edits:
            one(raw)

    return edit


def verified(round_: Raw, plan: Raw, edit: Edit, of_round: Edit = nothing) -> Verification:
    """What the verifier says of copies of a plan and its round, once edited."""
    raw, corrupted = copy.deepcopy(round_), copy.deepcopy(plan)
    of_round(raw)
    edit(corrupted)
    return verify(parse_round(raw), Plan.model_validate(corrupted))


def rules_in(found: Verification) -> set[str]:
    """The rules that are broken."""
    return {violation.rule for violation in found.violations}


def assert_broken(found: Verification, rules: set[str], where: str) -> None:
    """These rules are broken and no others, one of them there, and each says what is expected."""
    assert not found.ok
    assert rules_in(found) == rules
    assert where in [violation.where for violation in found.violations]
    assert all("; expected " in violation.message for violation in found.violations)


def broken_alone(corruptions: Iterable[Corruption]) -> set[str]:
    """The rules that some corruption breaks without any other."""
    return {next(iter(rules)) for _, rules, _ in corruptions if len(rules) == 1}

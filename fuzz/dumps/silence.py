"""Fields that are retyped, added, or told: none of them may change a round in silence.

A field that is read and has a value that its source never writes is an error, an object that is
left out, or told; a field of no table is told as unknown; one that is told is a caveat.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from placewright.instances.converters.kubernetes.ledger import CLAIMS
from placewright.instances.converters.ledger import Ledger, Rule, Use, expanded
from placewright.instances.converters.slurm.texts import blocks, table
from placewright.instances.converters.support.live import LiveConversion
from placewright.instances.documents.caveats import CAVEATS

__all__ = ["Entry", "Rows", "judged"]

UNKNOWN = "zz-fuzz"
WORD = "!garbage!"
_WORDS = """
    effect operator phase whenUnsatisfiable mode stopPolicy requests limits overhead allocatable
    capacity nominalQuota borrowingLimit lendingLimit creationTimestamp deletionTimestamp startTime
    allocationMode tres_per_job tres_per_node tres_per_task tres_per_socket tres_req_str gres
    cpus_per_tres memory_per_tres gres_detail job_state state nodes Nodes MaxTime MaxNodes MinNodes
    State PriorityTier PriorityJobFactor PreemptMode GraceTime StartTime EndTime GrpTRES GrpJobs
    MaxJobs MaxTRES MaxTRESPerNode MaxWall Priority PreemptExemptTime MaxTRESPU MaxJobsPU MaxTRESPA
    MaxJobsPA Total Used Free Reserved
    FairShare PreemptType PreemptExemptTime PriorityMaxAge PriorityWeightAge
    PriorityWeightFairShare PriorityWeightQOS PriorityWeightPartition PriorityType
"""
WORDS = frozenset(_WORDS.split())
"""Fields of which not every text is a value."""


class Entry(NamedTuple):
    """An object of a dump, and the table of its kind."""

    ledger: Ledger
    raw: dict[str, Any]
    is_text: bool = False


class Change(NamedTuple):
    """What was done to an object: `retyped`, `unknown` or `told`, of which field, to what."""

    what: str
    kind: str
    path: str
    value: Any


def judged(
    entries: Sequence[Entry],
    rng: Random,
    before: LiveConversion,
    read: Callable[[], LiveConversion],
) -> LiveConversion:
    """Change a field of one object, and return what is read then.

    Raises
    ------
    AssertionError
        The change is not told.
    """
    change = _changed(entries, rng)
    if change is None:  # it has none of the kind that was drawn
        return before
    after = read()
    missing = _missing(change, before, after)
    assert not missing, f"{missing}: {change}"
    return after


def _changed(entries: Sequence[Entry], rng: Random) -> Change | None:
    """Change one field of one object in place; return None if there is none to change so."""
    ledger, raw, is_text = rng.choice(entries)
    match rng.choice(("retyped", "retyped", "unknown", "told")) if not is_text else "retyped":
        case "retyped":
            return _retyped(ledger, raw, rng, is_text=is_text)
        case "unknown":
            holders = [(p, h) for p, h in _inside(raw, ledger.table, "") if isinstance(h, dict)]
            path, holder = rng.choice(holders)
            holder[UNKNOWN] = rng.choice(("x", 1, ["x"], {"x": 1}))
            return Change("unknown", ledger.kind, f"{path}{UNKNOWN}", holder[UNKNOWN])
        case _:
            return _told(ledger, raw, rng)


def _missing(change: Change, before: LiveConversion, after: LiveConversion) -> str:
    """Return what a reader should have said of a change, empty if it did."""
    lines = _told_lines(after)
    if change.what == "unknown":
        path = re.escape(change.path)
        return "" if re.search(rf"unknown fields \([^)]*{path}", lines) else "no unknown field"
    if change.value == CLAIMS.text and change.kind == "pods":
        return ""  # a claim that is no choice is read
    if change.what == "told":
        return "" if change.value in lines or _said(before) != _said(after) else "no caveat"
    if _said(before) != _said(after) or _plain(before) == _plain(after):
        return ""
    return "another round in silence"


def _retyped(ledger: Ledger, raw: dict[str, Any], rng: Random, *, is_text: bool) -> Change | None:
    of_value = [(path, use) for path, use in ledger.uses() if isinstance(use, Mapping)]
    read = frozenset(expanded(ledger.read))
    read |= {path for path, use in of_value if Use.READ in use.values()}
    read &= WORDS if is_text else read
    places = [
        (path, holder, key)
        for path, holder, key in _leaves(raw, ledger.table, "")
        if path in read and holder[key] not in (None, "", 0, False, [], {})
    ]
    if not places:
        return None
    path, holder, key = rng.choice(places)
    inside = list(_deeper(holder, key))
    holder, key = rng.choice(inside) if rng.random() < 0.5 else (holder, key)
    typed = path.rpartition(".")[2] in WORDS and isinstance(holder[key], str)
    holder[key] = WORD if is_text else rng.choice(_garbage(holder[key]) + [WORD] * typed)
    return Change("retyped", ledger.kind, path, holder[key])


def _garbage(value: Any) -> list[Any]:
    if isinstance(value, bool | int | float):
        return [WORD, [WORD], {"x": WORD}]
    if isinstance(value, str):
        return [True, [[WORD]], {"x": WORD}]
    return [17.25, ["x", {"x": 1}]] if isinstance(value, dict) else [17.25, {"x": WORD}]


def _told(ledger: Ledger, raw: dict[str, Any], rng: Random) -> Change | None:
    rules = {path: rule for path, rule in ledger.uses() if not isinstance(rule, Use)}
    if not rules:
        return None
    path = rng.choice(sorted(rules))
    rule = rules[path]
    value: Any = [{"name": "x"}]
    if not isinstance(rule, Rule):
        by_value = [(text or WORD, one) for text, one in rule.items() if isinstance(one, Rule)]
        if not by_value:
            return None
        value, rule = rng.choice(by_value)
    holder: Any = raw
    *above, last = path.split(".")
    for name in above:
        below = holder.get(name)
        if isinstance(below, list) and below and isinstance(below[0], dict):
            below = below[0]
        elif not isinstance(below, dict):
            below = holder[name] = {}
        holder = below
    holder[last] = value
    return Change("told", ledger.kind, path, rule.text)


def _inside(value: Any, table: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the mappings whose keys a table knows, with the path before each key."""
    yield path, value
    for name, use in table.items():
        if isinstance(use, dict) and value.get(name):
            below = value[name]
            for part in below if isinstance(below, list) else [below]:
                if isinstance(part, dict):
                    yield from _inside(part, use, f"{path}{name}.")


def _leaves(value: Any, table: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    for before, holder in _inside(value, table, path):
        for key in holder:
            yield f"{before}{key}", holder, key


def _deeper(holder: Any, key: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a value of a container, and all that are in it, as container and key."""
    yield holder, key
    value = holder[key]
    for inner in value if isinstance(value, dict) else ():
        yield from _deeper(value, inner)
    for at in range(len(value)) if isinstance(value, list) else ():
        yield from _deeper(value, at)


def _told_lines(made: LiveConversion) -> str:
    return "\n".join(line.partition("on placement; ")[2] for line in made.book.fields)


def _said(made: LiveConversion) -> tuple[Any, ...]:
    """Return all that a conversion says beside the round."""
    with_caveats: list[Mapping[str, str]] = [one.annotations for one in made.round.jobs]
    with_caveats += [one.annotations for one in made.round.cluster.hosts]
    return (
        {key: sorted(names) for key, names in made.book.left_out.items()},
        {key: sorted(names) for key, names in made.book.unsaid.items()},
        _told_lines(made),
        [one.get(CAVEATS) for one in with_caveats],
    )


def _plain(made: LiveConversion) -> Any:
    return made.round.model_copy(update={"annotations": {}})


class Rows:
    """A text that Slurm's commands print, as rows that can be changed."""

    def __init__(self, text: str) -> None:
        head = text.partition("\n")[0]
        self.rows: list[dict[str, str]]
        if "|" in head:
            self.rows, self._kind = [row for _, row in table(text)], "table"
        elif head.startswith("Configuration"):
            pairs = [line.partition("=") for line in text.splitlines()[1:]]
            self.rows, self._kind = [{k.strip(): v.strip() for k, _, v in pairs}], head
        else:
            self.rows, self._kind = blocks(text, head.partition("=")[0]), ""

    def text(self) -> str:
        """Return it as it is now."""
        if self._kind == "table":
            names = list(self.rows[0])
            lines = ["|".join(names), *("|".join(row[n] for n in names) for row in self.rows)]
        elif self._kind:
            lines = [self._kind, *(f"{k} = {v}" for k, v in self.rows[0].items())]
        else:
            lines = [" ".join(f"{k}={v}" for k, v in row.items()) for row in self.rows]
        return "\n".join(lines) + "\n"

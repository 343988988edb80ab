"""What the baseline's runs and a new one say of the same rounds, and which of it is not as good."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from benchmarks.guards.solve import VALUE

__all__ = ["Comparison", "compared"]

Rows: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Of one run, by the name of the round."""

TOLERANCE = 5e-4
"""Relative: how much worse a value may be where the baseline's own runs differ by less."""

SLACK = 1e-6
"""Relative, of bounds against values: solvers' claims have a tolerance."""

SHOWN = 5
"""So many names of rounds that are not compared are told."""


@dataclass(slots=True)
class Comparison:
    """What was compared.

    Attributes
    ----------
    golden, skipped
        Rounds with equal plans in all runs of the baseline, and those with others.
    absent, unsolved
        Rounds that not all runs have, and those on which the baseline failed.
    failures
        What must not be.
    later, bounds
        The largest relative loss of a later term and of a certified bound, and where.
    """

    golden: int = 0
    skipped: int = 0
    absent: list[str] = field(default_factory=list)
    unsolved: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    later: tuple[float, str] = (0.0, "")
    bounds: tuple[float, str] = (0.0, "")
    cpu_s: tuple[float, float] = (0.0, 0.0)

    def lines(self) -> Iterator[str]:
        """Yield what was found, in words."""
        yield from self.failures
        yield (
            f"golden: {self.golden} rounds compared, {self.skipped} left out that the baseline "
            f"does not repeat"
        )
        for what, names in (
            ("not in all runs", self.absent),
            ("without a plan of the baseline", self.unsolved),
        ):
            if names:
                shown = ", ".join(names[:SHOWN]) + ", ..." * (len(names) > SHOWN)
                yield f"not compared, {what}: {len(names)} ({shown})"
        for what, (loss, where) in (("later term", self.later), ("certified", self.bounds)):
            yield f"largest loss of a {what}: {100 * loss:.3f} % {where}".rstrip()
        yield f"CPU s: {self.cpu_s[0]:.1f} before, {self.cpu_s[1]:.1f} now"
        yield f"{len(self.failures)} failures"


def compared(baseline: Sequence[Rows], new: Rows) -> Comparison:
    """Compare a run with one or more of the baseline on the rounds that all have."""
    common = set(new).intersection(*baseline)
    found = Comparison(absent=sorted(set(new).union(*baseline) - common))
    for name in sorted(common):
        olds = [run[name] for run in baseline]
        if "error" in new[name]:
            found.failures.append(f"{name}: {new[name]['error']}")
            continue
        if any("error" in old for old in olds):
            found.unsolved.append(name)
            continue
        if new[name]["degraded"]:
            found.failures.append(f"{name}: degraded: {'; '.join(new[name]['degraded'])}")
        if name.startswith(VALUE):
            _compare_values(found, name, olds, new[name])
        elif len({old["sha256"] for old in olds}) > 1 or not all(o["repeatable"] for o in olds):
            found.skipped += 1
        else:
            found.golden += 1
            if new[name]["sha256"] != olds[0]["sha256"]:
                found.failures.append(
                    f"{name}: the plan is another: {_difference(olds[0], new[name])}"
                )
        before = sum(old["cpu_s"] for old in olds) / len(olds)
        found.cpu_s = found.cpu_s[0] + before, found.cpu_s[1] + new[name]["cpu_s"]
    return found


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Tell the first term that differs."""
    for before, now in zip(old["terms"], new["terms"], strict=False):
        if before != now:
            return f"{before} before, {now} now"
    return f"{old['status']} before, {new['status']} now, terms are equal"


def _compare_values(
    found: Comparison, name: str, olds: Sequence[Mapping[str, Any]], new: Mapping[str, Any]
) -> None:
    """Compare terms lexicographically, within what the baseline's own runs differ by."""
    decided = False
    for place, now in enumerate(new["terms"]):
        before = [old["terms"][place] for old in olds]
        sign = 1 if now["sense"] == "max" else -1
        values = [sign * term["value"] for term in before]
        scale = max(1.0, *(abs(value) for value in values))
        spread = (max(values) - min(values)) / scale
        worst = min(values)
        loss = (worst - sign * now["value"]) / scale
        where = f"{name}, {now['name']}: {abs(worst)} before, {now['value']} now"
        if not decided and loss > TOLERANCE:
            if place == 0:
                found.failures.append(f"{where}: {100 * loss:.3f} % worse")
            found.later = max(found.later, (loss, where)) if place else found.later
        decided = decided or abs(loss) > max(TOLERANCE, spread)
        if place == 0:
            _compare_bounds(found, name, before, now, sign)


def _compare_bounds(
    found: Comparison,
    name: str,
    before: Sequence[Mapping[str, Any]],
    now: Mapping[str, Any],
    sign: int,
) -> None:
    """Compare bounds of the first term with one another, and with the values of other runs."""
    for one, other in ((now, term) for term in before):
        for bound, value in ((one["bound"], other["value"]), (other["bound"], one["value"])):
            if bound is not None and sign * (value - bound) > SLACK * max(1.0, abs(bound)):
                found.failures.append(f"{name}: {value} of {now['name']} beats the bound {bound}")
    if now["proof"] != "certified" and all(term["proof"] == "certified" for term in before):
        found.failures.append(f"{name}: {now['name']} was certified and is {now['proof']}")
    known = [sign * term["certified"] for term in before if term["certified"] is not None]
    if known and now["certified"] is not None:
        loss = (sign * now["certified"] - max(known)) / max(1.0, abs(max(known)))
        where = f"{name}, {now['name']}: {abs(max(known))} before, {now['certified']} now"
        found.bounds = max(found.bounds, (loss, where))

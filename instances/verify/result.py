"""The result of a verification: violations by rule, and the recomputed objective terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from placewright.instances.errors import path_text

Subject = TypeVar("Subject")


STATEMENTS = frozenset(
    {
        "same_round",
        "invalid_reason",
        "reason",
        "waiting_reason",
        "cell_reason",
        "gang_reason",
        "lease_reason",
        "data_reason",
        "waits_for_data",
        "disruption_limit",
        "refusals",
        "offer",
        "later_reason",
        "displaced_by",
        "moves",
        "move_order",
        "shares",
        "communication",
        "certificate_terms",
        "certificate_value",
        "certificate_classes",
        "certificate_bound",
        "certificate_proof",
        "certificate_gap",
        "certificate_status",
    }
)
"""Rules of what a plan says, not of what it does: the round after it is the same without that."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: its id, the place in the Plan document, and what is wrong there.

    `where` reads like `decisions[12].tasks[3].gpus`.
    """

    rule: str
    where: str
    message: str

    @property
    def is_statement(self) -> bool:
        """Whether it is of what the plan says; the placement may be right."""
        return self.rule in STATEMENTS

    def __str__(self) -> str:
        return f"{self.where}: {self.message} [{self.rule}]"


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of `verify`.

    Parameters
    ----------
    violations
        Every broken rule, in the order of the rules; empty for a valid plan.
    terms
        Each objective term of the round's policy, in its order, recomputed from round and plan
        alone. With violations it covers only what could be read and is no score.
    """

    violations: tuple[Violation, ...]
    terms: dict[str, int]

    @property
    def ok(self) -> bool:
        """Whether the plan breaks no rule."""
        return not self.violations

    @property
    def placement_ok(self) -> bool:
        """Whether the placement breaks no rule, whatever is said of it."""
        return all(found.is_statement for found in self.violations)


class Finding(NamedTuple):
    """What a rule found: a path inside the Plan document, and a message."""

    path: tuple[str | int, ...]
    message: str


@dataclass(frozen=True, slots=True)
class Rule(Generic[Subject]):
    """A rule: its stable id, and the function that yields a finding wherever it is broken."""

    id: str
    check: Callable[[Subject], Iterable[Finding]]

    def violations(self, subject: Subject) -> Iterator[Violation]:
        """Apply the rule."""
        for path, message in self.check(subject):
            yield Violation(self.id, path_text(path), message)


def rules(*checks: Callable[[Subject], Iterable[Finding]]) -> tuple[Rule[Subject], ...]:
    """Return rules that have the names of their functions."""
    return tuple(Rule(getattr(check, "__name__", ""), check) for check in checks)

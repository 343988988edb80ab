"""What a policy brings to the fuzz: rounds from a seed, and every plan that such a round has.

The generator of a policy and its rule book know documents as their JSON files have them, and
docs/plans.md; they share no code with the verifier or the formulations.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, TypeAlias

Raw: TypeAlias = dict[str, Any]
"""A document as its JSON file has it."""


class TooManyPlansError(Exception):
    """A round has more plans than the fuzz wants to look at; another one is drawn."""


class Judged(NamedTuple):
    """A plan, and what the rule book says of it.

    Parameters
    ----------
    document
        Makes the plan as its JSON file has it, without a certificate; only plans that are looked at
        are written.
    terms
        The values of all terms of the round's policy, in their order (`share` with those that it
        stands for). Of a plan that breaks a rule they say nothing.
    broken
        The rule that the plan breaks, as `verify` names it; "" if it is valid.
    scope
        Bounds of a solve speak of the plans of one scope (see `Policy.scope`).
    """

    document: Callable[[], Raw]
    terms: Mapping[str, int]
    broken: str = ""
    scope: Hashable = None


def everything(_round: Raw, _plan: Raw) -> Hashable:
    """Bounds speak of all plans of the round."""
    return None


def nothing(_round: Raw, _plan: Raw) -> Iterable[str]:
    """No feature is counted."""
    return ()


@dataclass(frozen=True, slots=True)
class Setting:
    """Something to solve rounds under: a context, entered `weight` times of the sum of weights.

    A search that would go on for all of the time that it has gets few seconds.
    """

    name: str
    weight: int
    enter: Callable[[], AbstractContextManager[object]] = nullcontext
    seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Policy:
    """What the fuzz plays.

    Parameters
    ----------
    name
        As on the command line.
    draw
        A tiny round from a source of random numbers, with few enough plans, or `TooManyPlansError`.
    plans
        Every valid plan of a round, of plans that are equal by their terms and places at least one,
        and a sample of invalid ones. It may raise `TooManyPlansError`.
    settings
        What the round may be solved under, drawn by seed.
    scope
        Of a round and a plan that the solver made: the scope of the plans of which its bounds
        speak. Cells need it: bounds speak of the plans with guaranteed jobs where this one has
        them.
    judge
        What the rule book says of a plan of the solver that is not among `plans`; None if all valid
        plans are.
    within
        Of a round and a plan that the solver made: the valid plans of which its bounds speak, where
        `plans` cannot have them; they are made once the plan is known.
    fault
        Which rule a plan of the solver breaks, or what its certificate says wrongly, in words, ""
        if nothing; None if a plan is only looked up among `plans`. Of plans on the way, too.
    features
        Of a round and the solver's plan: what makes them worth playing, to be counted.
    untrue
        Which reason of a plan of the solver is not true, in words, "" if all are; None if the rule
        book does not know reasons. The facts of reasons are in small units, as in the round.
    """

    name: str
    draw: Callable[[Random], Raw]
    plans: Callable[[Raw, Random], Iterator[Judged]]
    settings: tuple[Setting, ...] = (Setting("usual", 1),)
    scope: Callable[[Raw, Raw], Hashable] = everything
    judge: Callable[[Raw, Raw], Judged] | None = None
    untrue: Callable[[Raw, Raw], str] | None = None
    within: Callable[[Raw, Raw], Iterator[Judged]] | None = None
    fault: Callable[[Raw, Raw], str] | None = None
    features: Callable[[Raw, Raw], Iterable[str]] = nothing

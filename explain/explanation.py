"""An explanation: why a job waits, as a minimal conflict of facts, with what is proven of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from placewright.explain.conflict import ConflictProof
from placewright.explain.corrections.find import Corrections
from placewright.explain.facts.fact import Fact, World
from placewright.explain.loss import Loss
from placewright.explain.places import GroupPlaces
from placewright.explain.stages import Wait
from placewright.instances.documents.html import html_table
from placewright.instances.documents.plan import Plan


class Verdict(StrEnum):
    """Since when, and for how long, a job cannot start: the last stratum of its conflict.

    `could_start`: nothing keeps it from starting, of a plan beside all that the plan starts.
    `held_for_reservation`: neither, but it would delay a reservation of the plan.
    `undecided`: that was not known within the limit.
    """

    NEVER = "never"
    NEVER_WITHIN_RULES = "never_within_rules"
    NOT_UNTIL_HOSTS_ARE_BACK = "not_until_hosts_are_back"
    NOT_NOW = "not_now"
    OTHERS_INSTEAD = "others_instead"
    HELD_FOR_RESERVATION = "held_for_reservation"
    COULD_START = "could_start"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class HeldBy:
    """The reservation that a job would delay: whose, from when, until when (None: for ever)."""

    job: str
    at: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job waits.

    Parameters
    ----------
    job
        Its name.
    verdict
        How lasting what keeps it from starting is.
    conflict
        Facts that keep it from starting, and without any one of which it starts; in the order of
        preference, none if it could start.
    universe
        All facts in the order of preference.
    world
        The world of the conflict: all other facts do not hold. It is that of all facts if the job
        could start.
    proof
        What is proven of the conflict; None without one.
    plan
        Of a job that could start, a plan of the question's round that starts it.
    places
        The nearest places of each task group of the job's first option, where they are known.
    cost
        What it costs the plan to start the job all the same; None if that was not asked.
    corrections
        What would let it run; None if that was not asked.
    questions
        How often the oracle was asked.
    held_by
        The reservation that it would delay, if there is one.
    in_turn
        Of a job that could start, whether it does so in its turn of the queue; None: there is none.
    scheduler
        What the cluster's own scheduler makes of it, in sentences.
    of_hosts
        Of a job that could start, rules of hosts that are not obeyed, if it needs such hosts.
    wait
        When the schedule of a plan has it begin, and what it waits for until then.
    """

    job: str
    verdict: Verdict
    conflict: tuple[Fact, ...]
    universe: tuple[Fact, ...]
    world: World
    proof: ConflictProof | None
    plan: Plan | None
    places: tuple[GroupPlaces, ...]
    cost: Loss | None
    corrections: Corrections | None
    questions: int
    held_by: HeldBy | None = None
    scheduler: tuple[str, ...] = ()
    in_turn: bool | None = None
    of_hosts: tuple[str, ...] = ()
    wait: Wait | None = None

    def _repr_html_(self) -> str:
        """Return the verdict and the conflict, as a notebook shows them."""
        rows = [(fact.stratum.title, fact.text) for fact in self.conflict]
        title = f"Job {self.job}: {self.verdict}; these facts alone keep it from starting"
        return html_table(title, ("of", "fact"), rows)

    @property
    def facts(self) -> int:
        """How many facts there are; each host or job of a group counts."""
        return sum(max(1, len(fact.names)) for fact in self.universe)

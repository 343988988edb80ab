"""What is doubtful of jobs and hosts as their source was read: rules that are not obeyed, guesses.

Whatever says something of a job says this, too: as far as the round knows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from placewright.instances.derived.phrases import several
from placewright.instances.derived.reason_text import reason_text
from placewright.instances.derived.source_words import words_of
from placewright.instances.documents.bookkeeping import unsaid_of
from placewright.instances.documents.caveats import Caveat, caveats_of, hard_caveats
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision
from placewright.instances.documents.round import Round

SO_FAR = "as far as the round knows"
MAX_TOLD = 2
"""Doubts that a sentence names."""


class Told(NamedTuple):
    """A caveat, and the jobs and hosts that have it."""

    caveat: Caveat
    jobs: tuple[str, ...]
    hosts: tuple[str, ...]

    @property
    def line(self) -> str:
        """Say it in one line, with the name by which `--despite` takes it."""
        jobs = [several(self.jobs)] if self.jobs else []
        hosts = [f"hosts {several(self.hosts)}"] if self.hosts else []
        where = " and ".join((*jobs, *hosts))
        return f"{SO_FAR}: {self.caveat.text} ({self.caveat.rule}): {where}"


def doubts_of(round_: Round, job: Job) -> list[str]:
    """Return what is doubtful of a job: its hard caveats, and what the round does not say."""
    hard = [one.text for one in hard_caveats(job.annotations)]
    return [*hard, *unsaid_of(round_.annotations, job.name)]


def so_far(doubts: Sequence[str]) -> str:
    """Say the first doubts of a job in a phrase, "" if there are none."""
    return f"{SO_FAR}: {several(doubts, MAX_TOLD)}" if doubts else ""


def told_of(round_: Round) -> Iterator[Told]:
    """Yield all caveats of a round, the hard ones first."""
    found: dict[Caveat, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for job in round_.jobs:
        for one in caveats_of(job.annotations):
            found[one][0].append(job.name)
    for host in round_.cluster.hosts:
        for one in caveats_of(host.annotations):
            found[one][1].append(host.name)
    for one in sorted(found, key=lambda one: (not one.hard, one.rule, one.text)):
        yield Told(one, *map(tuple, found[one]))


def told_lines(round_: Round) -> Iterator[str]:
    """Yield a line for each rule of jobs or hosts that can forbid a plan and is not obeyed."""
    return (one.line for one in told_of(round_) if one.caveat.hard)


def why_waits(
    round_: Round, job: Job, decision: Decision, when: Callable[[int], str] | None = None
) -> str:
    """Say in the words of its source why a job waits, "" if nothing is known, with its doubts."""
    words, said = words_of(round_), so_far(doubts_of(round_, job))
    if decision.reason is None:
        return said
    text = words.say(reason_text(decision.reason, decision.detail, when or words.at))
    return f"{text}; {said}" if said else text

"""Many explanations of a policy, one seed after the other, with a state that survives a kill."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from fuzz.explanations import conflicts, reservations
from fuzz.explanations.command_line import CommandLine
from fuzz.explanations.corrections import MOST, Enumerated, beside_plan_faults, lists
from fuzz.explanations.questions import STARTS
from fuzz.explanations.samples import RESERVED, MissingReplica, Sample, missing_replicas, waiting
from fuzz.play import told as error_told
from fuzz.policies import POLICIES
from fuzz.policy import TooManyPlansError
from placewright.explain.explanation import Explanation, Verdict

MISSING = "missing-replicas"
"""Replicas that do not come, in place of jobs that wait."""

NAMES = (
    "gang",
    "queue",
    RESERVED.name,
    "cells",
    "pools",
    "links",
    "interleaving",
    "deadline",
    "geo",
    "replicas",
    MISSING,
)


@dataclass(slots=True)
class State:
    """What was looked at: `blocked` jobs, or replicas, and what is wrong or undecided of them.

    `could_start` are explained, too, and count apart; `too_large` are not enumerated and count
    nowhere else. Where facts are not monotone, the conflict of `weaker` ones is of facts that last
    less than those of another; lists of corrections of `uncompared` ones are not enumerated.
    """

    name: str
    next: int
    blocked: int = 0
    wrong: int = 0
    undecided: int = 0
    could_start: int = 0
    too_large: int = 0
    not_monotone: int = 0
    weaker: int = 0
    corrections: int = 0
    uncompared: int = 0
    seconds: float = 0.0
    verdicts: dict[str, int] = field(default_factory=dict)
    faults: list[dict[str, str | int]] = field(default_factory=list)
    open: list[dict[str, str | int]] = field(default_factory=list)

    def line(self) -> str:
        """Say it in a line."""
        verdicts = ", ".join(f"{v} {n}" for v, n in sorted(self.verdicts.items()))
        return (
            f"{self.name}: {self.blocked} blocked to seed {self.next - 1} ({verdicts}), "
            f"{self.wrong} wrong, {self.undecided} undecided; {self.could_start} could start; "
            f"{self.corrections} corrections, lists of {self.uncompared} jobs not enumerated; "
            f"{self.not_monotone} not monotone, {self.weaker} of these with a conflict that lasts "
            f"less than another; {self.too_large} too large; {self.seconds:.0f} CPU s"
        )


def run(
    name: str, jobs: int, first: int, file: Path | None, told: Callable[[int, str, str], None]
) -> State:
    """Explain until so many jobs, or replicas, were blocked: in all if there is a state.

    Parameters
    ----------
    name
        Of `NAMES`.
    jobs, first
        How many blocked ones, and the first seed (where no state says another).
    file
        Where the state is kept; None: nowhere.
    told
        Is called with the seed, the job and what is wrong or open.
    """
    state = State(name, first)
    if file is not None and file.exists():
        state = State(**json.loads(file.read_text()))
    with TemporaryDirectory() as folder:
        shell = CommandLine(Path(folder))
        while state.blocked < jobs:
            began, seed = time.process_time(), state.next
            for sample in _samples(name, seed):
                _look(sample, seed, shell, state, told)
            state.next = seed + 1
            state.seconds += time.process_time() - began
            if file is not None:
                _save(state, file)
    return state


def _samples(name: str, seed: int) -> Iterator[Sample | MissingReplica]:
    if name == MISSING:
        return missing_replicas(POLICIES["replicas"], [seed])
    return waiting(RESERVED if name == RESERVED.name else POLICIES[name], [seed])


def _look(
    sample: Sample | MissingReplica,
    seed: int,
    shell: CommandLine,
    state: State,
    told: Callable[[int, str, str], None],
) -> None:
    """Explain one, compare and count."""
    job = sample.job if isinstance(sample, Sample) else f"{sample.dataset} in {sample.region}"
    look = _Look(sample, shell)
    try:
        look.at_all()
    except TooManyPlansError:
        state.too_large += 1
        return
    except Exception as error:  # noqa: BLE001
        look.faults.append(error_told(error))
    if look.verdict == Verdict.COULD_START and not look.faults:
        state.could_start += 1
        return
    state.verdicts[look.verdict] = state.verdicts.get(look.verdict, 0) + 1
    state.blocked += 1
    state.corrections += look.corrections
    state.uncompared += look.uncompared
    state.not_monotone += look.not_monotone
    state.weaker += look.weaker
    state.wrong += bool(look.faults)
    for fault in look.faults:
        state.faults.append({"seed": seed, "job": job, "text": fault})
        told(seed, job, f"wrong: {fault}")
    if look.open and not look.faults:
        state.undecided += 1
        state.open.append({"seed": seed, "job": job, "text": look.open})
        told(seed, job, f"undecided: {look.open}")


class _Look:
    """An explanation, what is wrong with it, and what it leaves open."""

    def __init__(self, sample: Sample | MissingReplica, shell: CommandLine) -> None:
        self._sample, self._shell = sample, shell
        self.verdict, self.open, self.faults = "none", "", list[str]()
        self.corrections = 0
        self.uncompared = self.not_monotone = self.weaker = False

    def at_all(self) -> None:
        """Explain, and compare.

        Raises
        ------
        TooManyPlansError
            The explanation cannot be compared.
        """
        sample = self._sample
        if isinstance(sample, MissingReplica):
            self._at_conflict(sample.probe(), sample.explained())
            return
        found = sample.explained(corrections=MOST)
        self._at_conflict(sample, found)
        self._at_corrections(sample, found)

    def _at_conflict(self, sample: Sample, found: Explanation) -> None:
        self.verdict = str(found.verdict)
        starts = STARTS[sample.round.policy.formulation]
        self.faults += conflicts.faults(sample, found, starts)
        self.open = conflicts.undecided(found)
        self.not_monotone = not conflicts.is_monotone(sample.round, sample.job)
        self.weaker = conflicts.may_last_less(sample, found, starts)

    def _at_corrections(self, sample: Sample, found: Explanation) -> None:
        starts = STARTS[sample.round.policy.formulation]
        if found.verdict == Verdict.HELD_FOR_RESERVATION and found.corrections is not None:
            self.corrections += len(found.corrections.now)
        for listed in lists(found, sample):
            self.corrections += len(listed.found)
            if not self.open and any(not one.minimal for one in listed.found):
                self.open = "a correction that may not be minimal"
            try:
                self.faults += Enumerated(listed, sample.job, starts).faults()
            except TooManyPlansError:
                self.uncompared = True
            given = sample.round.valid_part() if listed.is_of_round(sample) else listed.world
            self.faults += self._shell.faults(given, sample.job, listed.found)
        try:
            self.faults += beside_plan_faults(found, sample, starts)
            self.faults += reservations.faults(found, sample)
        except TooManyPlansError:
            self.uncompared = True


def _save(state: State, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix(".tmp")
    aside.write_text(json.dumps(asdict(state), indent=1))
    aside.replace(file)

"""Steps of a plan run on Slurm without a shell, each only if its job is as it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from placewright.instances.derived.phrases import count
from placewright.instances.derived.slurm_marks import HELD
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.exporters.slurm import slurm_script
from placewright.instances.exporters.slurm_steps import State, Step, slurm_steps
from placewright.live.watch.reading import Acted
from placewright.live.watch.slurm_source import run

PATIENCE_S = 120
"""How long a step waits for a job that was told to stop, or to start."""

TELLS = len(("scontrol", "update", "jobid=", "AdminComment="))
"""Words of a command that writes a comment and nothing else."""

_SENDS = (DecisionKind.START, DecisionKind.MIGRATE)
_HELD_BY_ADMIN = "JobHeldAdmin"


class SlurmActor:
    """What a plan means for Slurm.

    Parameters
    ----------
    timeout_s
        How long one command may take.
    applies
        Carry plans out: start, move and stop jobs. Else at most tell of them.
    comments
        Say in the AdminComment of jobs that wait why they do.
    """

    def __init__(self, *, timeout_s: float, applies: bool, comments: bool) -> None:
        self._timeout_s = timeout_s
        self._applies = applies
        self._comments = comments
        self._told: dict[str, str] = {}

    def commands(self, round_: Round, plan: Plan) -> tuple[str, Sequence[str]]:
        """Return the script that carries the plan out, and what it leaves out."""
        made = slurm_script(round_, plan)
        return made.text, [f"Slurm cannot be told: {line}" for line in made.unsaid]

    def act(self, round_: Round, plan: Plan, until: float) -> Acted:
        """Run the steps of the plan in their order, as far as asked.

        A step is not done if its job is no longer as it was, a command fails, or it needs a step
        that was not done. Comments that are not written are not told: the next plan has new ones.
        """
        sent: set[str] = set()
        left: set[str] = set()
        undone = []
        going = {one.job for one in plan.decisions if one.decision in _SENDS}
        steps = slurm_steps(round_, plan).steps
        waiting = {step.job for step in steps if _only_tells(step)}
        self._told = {job: text for job, text in self._told.items() if job in waiting}
        for i, step in enumerate(steps):
            if time.monotonic() > until:
                undone.append(f"not done: the last {count(len(steps) - i, 'step')}: too old by now")
                break
            if _only_tells(step):
                if self._applies or self._comments:
                    self._tell(step)
            elif self._applies:
                unmet = step.unmet(left)
                problem = f"needs {unmet}" if unmet else self._take(step)
                if problem:
                    left.add(step.job)
                    undone.append(f"not done: {step.does}: {problem}")
                elif step.state in (State.PENDING, State.STOPPED) and step.commands:
                    sent.update(going & {step.job})
        return Acted(frozenset(sent), tuple(undone))

    def _tell(self, step: Step) -> None:
        """Write why a job waits, unless that was said before."""
        text = step.commands[0].words[-1]
        if self._told.get(step.job) != text and not self._take(step):
            self._told[step.job] = text

    def _take(self, step: Step) -> str:
        """Take a step; return why it was not taken, "" if it was."""
        held = self._held(step)
        if held is None:
            return "the job is no longer as it was"
        for command in step.commands:
            if command.held in (None, held):
                if command.words[0] == "sleep":
                    time.sleep(int(command.words[1]))
                    continue
                text, problem = run(command.words, timeout_s=self._timeout_s)
                if text is None:
                    return problem
        return ""

    def _held(self, step: Step) -> bool | None:
        """Return whether a step's job is held, None if all is not as the step wants it."""
        match step.state:
            case State.PENDING:
                return self._pending(step.job)
            case State.STOPPED:
                return True if self._comes_to(lambda: self._pending(step.job) is True) else None
            case State.RUNNING:
                return False if self._runs_on(step.job) == set(step.hosts) else None
            case State.STARTED:
                self._comes_to(lambda: self._state(step.job)[0] != "PENDING")
                return False if self._state(step.job)[0] else None
            case State.RESERVED | State.UNRESERVED:
                words = ("scontrol", "show", "reservation", step.job)
                there = self._ask(words) is not None
                return False if there is (step.state is State.RESERVED) else None

    def _runs_on(self, job: str) -> set[str]:
        """Return the hosts that a job runs on."""
        words = ("squeue", "-h", "-j", job, "-t", "RUNNING", "-o", "%N")
        listed = ",".join((self._ask(words) or "").split())
        named = self._ask(("scontrol", "show", "hostnames", listed)) if listed else None
        return set((named or "").split())

    def _state(self, job: str) -> tuple[str, str]:
        """Return state and reason of a job, "" if there is none of its number.

        Of a heterogeneous job squeue lists all components; one that pends goes first.
        """
        listed = self._ask(("squeue", "-h", "-j", job, "-o", "%T|%r")) or ""
        first = min(listed.split("\n"), key=lambda line: not line.startswith("PENDING"))
        state, _, reason = first.strip().partition("|")
        return state, reason

    def _pending(self, job: str) -> bool | None:
        """Return whether a pending job is held by Placewright; None if it is not ours to start."""
        state, reason = self._state(job)
        if state != "PENDING" or reason == _HELD_BY_ADMIN:
            return None
        if "held" not in reason.lower() and "hold" not in reason.lower():
            return False
        words = ("squeue", "-h", "-j", job, "-O", f"admin_comment:{len(HELD)}")
        marks = set((self._ask(words) or "").rstrip("\n").split("\n"))
        return True if marks == {HELD} else None

    @staticmethod
    def _comes_to(true: Callable[[], bool]) -> bool:
        """Wait a while until something is so; return whether it is."""
        end = time.monotonic() + PATIENCE_S
        while not true():
            if time.monotonic() > end:
                return False
            time.sleep(1)
        return True

    def _ask(self, words: Sequence[str]) -> str | None:
        return run(words, timeout_s=self._timeout_s)[0]


def release_held(*, timeout_s: float) -> tuple[int, list[str]]:
    """Release all jobs that Placewright holds, so that Slurm places them itself again.

    Returns
    -------
    How many were released, and a line for each thing that failed.
    """
    words = ("squeue", "-h", "-t", "PENDING", "-O", f"JobID:20,admin_comment:{len(HELD)}")
    listed, problem = run(words, timeout_s=timeout_s)
    if listed is None:
        return 0, [problem]
    released, failed = 0, []
    for line in listed.splitlines():
        job, comment = line[:20].strip(), line[20:].rstrip("\n")
        if comment == HELD and job.isascii() and job.isdigit():
            text, problem = run(("scontrol", "release", job), timeout_s=timeout_s)
            if text is None:
                failed.append(problem)
            else:
                released += 1
    return released, failed


def _only_tells(step: Step) -> bool:
    """Whether a step says why a job waits, and changes nothing."""
    told = [len(one.words) == TELLS for one in step.commands]
    return step.state is State.PENDING and bool(told) and all(told)

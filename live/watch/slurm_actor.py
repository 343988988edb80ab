"""Steps of a plan run on Slurm without a shell, each only if its job is as it was."""

from __future__ import annotations

import time
from collections.abc import Sequence

from placewright.instances.derived.slurm_marks import HELD
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.exporters.slurm import slurm_script
from placewright.instances.exporters.slurm_steps import State, Step, slurm_steps
from placewright.live.watch.reading import Acted
from placewright.live.watch.slurm_source import run

STOPS_WITHIN_S = 120
"""How long a step waits for a job that was told to stop."""

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

    def commands(self, round_: Round, plan: Plan) -> str:
        """Return the script that carries the plan out."""
        return slurm_script(round_, plan).text

    def act(self, round_: Round, plan: Plan) -> Acted:
        """Run the steps of the plan in their order, as far as asked.

        A step is not done if its job is no longer as it was, or a command fails. Comments that are
        not written are not told: the next plan has new ones.
        """
        sent, undone = set(), []
        waiting = {step.job for step in slurm_steps(round_, plan).steps if _only_tells(step)}
        self._told = {job: text for job, text in self._told.items() if job in waiting}
        for step in slurm_steps(round_, plan).steps:
            if _only_tells(step):
                if self._applies or self._comments:
                    self._tell(step)
            elif self._applies:
                problem = self._take(step)
                if problem:
                    undone.append(f"not done: {step.does}: {problem}")
                elif step.state is not State.RUNNING:
                    sent.add(step.job)
        return Acted(frozenset(sent), tuple(undone))

    def _tell(self, step: Step) -> None:
        """Write why a job waits, unless that was said before."""
        text = step.commands[0].words[-1]
        if self._told.get(step.job) != text and not self._take(step):
            self._told[step.job] = text

    def _take(self, step: Step) -> str:
        """Take a step; return why it was not taken, "" if it was."""
        held = self._stopped(step.job) if step.state is State.STOPPED else self._as_planned(step)
        if held is None:
            return "the job is no longer as it was"
        for command in step.commands:
            if command.held in (None, held):
                text, problem = run(command.words, timeout_s=self._timeout_s)
                if text is None:
                    return problem
        return ""

    def _as_planned(self, step: Step) -> bool | None:
        """Return whether a job is held, None if it is not as its step wants it."""
        if step.state is State.PENDING:
            return self._pending(step.job)
        words = ("squeue", "-h", "-j", step.job, "-t", "RUNNING", "-o", "%N")
        listed = (self._ask(words) or "").strip()
        if not listed:
            return None
        found = self._ask(("scontrol", "show", "hostnames", listed)) or ""
        return False if tuple(sorted(found.split())) == tuple(sorted(step.hosts)) else None

    def _pending(self, job: str) -> bool | None:
        """Return whether a pending job is held by Placewright; None if it is not ours to start."""
        state, _, reason = (
            (self._ask(("squeue", "-h", "-j", job, "-o", "%T|%r")) or "").strip().partition("|")
        )
        if state != "PENDING" or reason == _HELD_BY_ADMIN:
            return None
        if "held" not in reason.lower() and "hold" not in reason.lower():
            return False
        words = ("squeue", "-h", "-j", job, "-O", f"admin_comment:{len(HELD)}")
        return True if (self._ask(words) or "").rstrip("\n") == HELD else None

    def _stopped(self, job: str) -> bool | None:
        """Wait until a job that was told to stop has; None if it does not, or is not ours."""
        end = time.monotonic() + STOPS_WITHIN_S
        while time.monotonic() < end:
            if self._pending(job):
                return True
            time.sleep(1)
        return None

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
    """Whether a step writes comments, and neither starts, moves nor stops a job."""
    return all(
        len(command.words) == 4 and command.words[3].startswith("AdminComment=")
        for command in step.commands
    )

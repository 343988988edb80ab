"""Slurm: states from its commands, plans carried out by them."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from placewright.instances.converters import read_slurm
from placewright.instances.derived.phrases import count
from placewright.instances.derived.slurm_marks import HELD, NODE_LIST
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError, printable
from placewright.instances.exporters.slurm import State, Step, slurm_script, slurm_steps
from placewright.live.watch.loop import Acted, Reading, SourceError

MAX_WORDS = 300
"""Characters that are shown of what a command complains about."""

PROBES = 4
"""How often it is asked between two looks whether a job has come, started or ended."""

_PROBE = ("squeue", "-h", "-t", "PENDING,RUNNING", "-S", "i", "-o", "%A %T")
_COLUMNS = (
    "format=Cluster,Account,User,Partition,ParentName,GrpTRES,GrpJobs,MaxJobs,MaxTRES,"
    "MaxTRESMins,MaxTRESPerNode,MaxWall"
)
_JOBS = (("squeue", "--json", "--states=all"),)  # also ended ones, which others depend on
_NODES = (("scontrol", "show", "node", "--json"), ("sinfo", "--json"))
_OTHERS: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = (
    ("topology", (("scontrol", "show", "topology"),)),
    (
        "reservations",
        (("scontrol", "show", "reservation", "--json"), ("scontrol", "show", "reservation")),
    ),
    (
        "associations",
        (("sacctmgr", "--json", "show", "assoc"), ("sacctmgr", "-P", "show", "assoc", _COLUMNS)),
    ),
    ("licences", (("scontrol", "show", "licenses", "--json"), ("scontrol", "show", "licenses"))),
    # As text, which says PreemptMode in all releases.
    ("partitions", (("scontrol", "show", "partition"),)),
    ("config", (("scontrol", "show", "config"),)),
    ("shares", (("sshare", "-a", "-P"),)),
    ("qos", (("sacctmgr", "--json", "show", "qos"), ("sacctmgr", "-P", "show", "qos"))),
)
"""Files of a dump, and the commands of new and old releases that print them."""


class SlurmSource:
    """Dumps of a Slurm cluster, each taken anew.

    `timeout_s`: how long one command may take. `movable`: running jobs may be moved as far as Slurm
    may requeue them.
    """

    def __init__(self, *, timeout_s: float, movable: bool) -> None:
        self._timeout_s = timeout_s
        self._movable = movable
        self._known: dict[str, tuple[str, ...] | None] = {}
        self._probed: str | None = None

    def read(self) -> Reading:
        """Return the state now; jobs and nodes are asked for last, one right after the other.

        Raises SourceError if slurmctld does not answer in time, or what it says is no state of a
        cluster.
        """
        with TemporaryDirectory(prefix="placewright-") as name:
            folder = Path(name)
            for part, commands in _OTHERS:
                self._ask(part, commands, folder, needed=False)
            taken, now = time.monotonic(), int(time.time())
            self._probed, _ = run(_PROBE, timeout_s=self._timeout_s)
            self._ask("nodes", _NODES, folder, needed=True)
            self._ask("jobs", _JOBS, folder, needed=True)
            try:
                made = read_slurm([folder], movable=self._movable, lenient=True, now=now)
            except InvalidInputError as error:
                raise SourceError(str(error).replace(f"{name}/", "")) from None
        return Reading(made, taken)

    def wait(self, seconds: float) -> None:
        """Return after so many seconds, or soon after a job has come, started or ended."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, seconds / PROBES))
            now, _ = run(_PROBE, timeout_s=self._timeout_s)
            if None not in (now, self._probed) and now != self._probed:
                return

    def _ask(
        self, part: str, commands: Sequence[tuple[str, ...]], folder: Path, *, needed: bool
    ) -> None:
        """Write what the first command prints that this release of Slurm has.

        Which one that is, is remembered once it has answered.
        """
        if part in self._known:
            known = self._known[part]
            commands = () if known is None else (known,)
        failed = ""
        for words in commands:
            text, failed = run(words, timeout_s=self._timeout_s)
            as_json = "--json" in words
            if text is None or (as_json and not text.lstrip().startswith("{")):
                continue
            self._known[part] = words
            (folder / f"{part}.{'json' if as_json else 'txt'}").write_text(text)
            return
        if needed:
            raise SourceError(failed or f"{' '.join(commands[0])} prints no JSON")


def run(words: Sequence[str], *, timeout_s: float) -> tuple[str | None, str]:
    """Run a command without a shell; return what it prints, or None and what went wrong."""
    try:
        done = subprocess.run(
            words, capture_output=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return None, f"{' '.join(words[:3])} has not answered within {timeout_s:g} s"
    except OSError as error:
        return None, f"{words[0]} cannot be run ({error.strerror})"
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[:MAX_WORDS]
        return None, printable(f"{' '.join(words[:3])} failed: {said}")
    return done.stdout.decode(errors="replace"), ""


PATIENCE_S = 120
"""How long a step waits for a job that was told to stop, or to start."""

TELLS = len(("scontrol", "update", "jobid=", "AdminComment="))
"""Words of a command that writes a comment and nothing else."""

TELLING_S = 2.0
"""How long a round may tell jobs why they wait, lest those that start wait for the next look."""

TOLD_FOR_S = 600.0
"""How long what a job was told stands if only its numbers are others: times change at each look."""

_HOSTS = f"{NODE_LIST}="
_STATE_WIDTHS = (20, 60, len(HELD))
_NUMBERS = re.compile(r"[0-9]+")
_SENDS = (DecisionKind.START, DecisionKind.MIGRATE)
_HELD_BY_ADMIN = "JobHeldAdmin"


class SlurmActor:
    """What a plan means for Slurm.

    `timeout_s`: how long one command may take. `applies`: carry plans out: start, move and stop
    jobs. Else at most tell of them. `comments`: say in the AdminComment of jobs that wait why they
    do.
    """

    def __init__(self, *, timeout_s: float, applies: bool, comments: bool) -> None:
        self._timeout_s = timeout_s
        self._applies = applies
        self._comments = comments
        self._told: dict[str, tuple[str, float]] = {}
        self._hosts: dict[str, str] = {}

    def commands(self, round_: Round, plan: Plan) -> tuple[str, Sequence[str]]:
        """Return the script that carries the plan out, and what it leaves out."""
        made = slurm_script(round_, plan)
        return made.text, [f"Slurm cannot be told: {line}" for line in made.unsaid]

    def act(self, round_: Round, plan: Plan, until: float) -> Acted:
        """Run the steps of the plan in their order, as far as asked.

        A step is not done if its job is no longer as it was, a command fails, or it needs a step
        that was not done. Comments that are not written are not told: the next plan has new ones.
        They come last, and those for which there is no time wait for the next round.
        """
        sent: set[str] = set()
        left: set[str] = set()
        undone = []
        going = {one.job for one in plan.decisions if one.decision in _SENDS}
        steps = slurm_steps(round_, plan).steps
        waiting = {step.job for step in steps if _only_tells(step)}
        self._told = {job: told for job, told in self._told.items() if job in waiting}
        there = {one.job for one in plan.decisions}
        self._hosts = {job: hosts for job, hosts in self._hosts.items() if job in there}
        telling = 0.0
        for i, step in enumerate(steps):
            if time.monotonic() > until:
                undone.append(f"not done: the last {count(len(steps) - i, 'step')}: too old by now")
                break
            if _only_tells(step):
                if (self._applies or self._comments) and telling < TELLING_S:
                    began = time.monotonic()
                    self._tell(step)
                    telling += time.monotonic() - began
            elif self._applies:
                unmet = step.unmet(left)
                problem = f"needs {unmet}" if unmet else self._take(self._not_again(step))
                if problem:
                    left.add(step.job)
                    undone.append(f"not done: {step.does}: {problem}")
                elif step.state in (State.PENDING, State.STOPPED) and step.commands:
                    sent.update(going & {step.job})
        return Acted(frozenset(sent), tuple(undone))

    def _tell(self, step: Step) -> None:
        """Write why a job waits, unless that was said before, and lately if in other numbers."""
        text, now = step.commands[0].words[-1], time.monotonic()
        before, at = self._told.get(step.job, ("", 0.0))
        same = _NUMBERS.sub("", text) == _NUMBERS.sub("", before) and now < at + TOLD_FOR_S
        if text != before and not same and not self._take(step):
            self._told[step.job] = text, now

    def _not_again(self, step: Step) -> Step:
        """Return a step without hosts if it sends a job to those to which it was sent in vain.

        Slurm has reasons that no round has; where it can start the job, it does. Jobs whose user
        names hosts, as the comment says, are sent there again.
        """
        words = [word for command in step.commands for word in command.words]
        hosts = next((word for word in words if word.startswith(_HOSTS)), _HOSTS)
        before, self._hosts[step.job] = self._hosts.get(step.job), hosts
        named = any(_HOSTS in word and not word.startswith(_HOSTS) for word in words)
        if before != hosts or named:
            return step
        any_host = [
            command._replace(words=tuple(_HOSTS if w == hosts else w for w in command.words))
            for command in step.commands
        ]
        return step._replace(commands=tuple(any_host))

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

    def _state(self, job: str) -> tuple[str, str, str]:
        """Return state, reason and mark of a job, "" if there is none of its number.

        Of a heterogeneous job squeue lists all components; one that pends goes first, and marks
        that differ are none.
        """
        widths = zip(("State", "Reason", "admin_comment"), _STATE_WIDTHS, strict=True)
        asked = ",".join(f"{name}:{width}" for name, width in widths)
        listed = self._ask(("squeue", "-h", "-j", job, "-O", asked)) or ""
        lines = sorted(listed.splitlines(), key=lambda line: not line.startswith("PENDING"))
        state, reason, _ = _STATE_WIDTHS
        marks = {line[state + reason :].rstrip() for line in lines}
        first = lines[0] if lines else ""
        mark = marks.pop() if len(marks) == 1 else ""
        return first[:state].rstrip(), first[state : state + reason].rstrip(), mark

    def _pending(self, job: str) -> bool | None:
        """Return whether a pending job is held by Placewright; None if it is not ours to start."""
        state, reason, mark = self._state(job)
        if state != "PENDING" or reason == _HELD_BY_ADMIN:
            return None
        if "held" not in reason.lower() and "hold" not in reason.lower():
            return False
        return True if mark == HELD else None

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

    Returns how many were released, and a line for each thing that failed.
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

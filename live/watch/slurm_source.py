"""A Slurm cluster, asked by its own commands."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from placewright.instances.converters import read_slurm
from placewright.instances.errors import InvalidInputError, printable
from placewright.live.watch.reading import Reading, SourceError

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

    Parameters
    ----------
    timeout_s
        How long one command may take.
    movable
        Running jobs may be moved as far as Slurm may requeue them.
    """

    def __init__(self, *, timeout_s: float, movable: bool) -> None:
        self._timeout_s = timeout_s
        self._movable = movable
        self._known: dict[str, tuple[str, ...] | None] = {}
        self._probed: str | None = None

    def read(self) -> Reading:
        """Return the state now; jobs and nodes are asked for last, one right after the other.

        Raises
        ------
        SourceError
            slurmctld does not answer in time, or what it says is no state of a cluster.
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

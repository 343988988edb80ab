"""A real Slurm on loopback: slurmctld and a slurmd per host, without root daemons or munge.

Needs Debian's `slurmctld`, `slurmd` and `slurm-client`, and nothing of the machine's own Slurm.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import NamedTuple, Self

from benchmarks.ports import Ports
from benchmarks.slurm_configuration import (
    CLUSTER,
    WHOLE,
    Size,
    host_names,
    write_configuration,
)

__all__ = ["PATIENCE_S", "Lab", "LabJob", "Size"]

PATIENCE_S = 120
"""How long anything may take on a busy machine before the lab gives up."""

CTLD, SLURMD = "/usr/sbin/slurmctld", "/usr/sbin/slurmd"

DUMP = {
    "jobs.json": "squeue --json",
    "nodes.json": "sinfo --json",
    "topology.txt": "scontrol show topology",
    "reservations.txt": "scontrol show reservation",
    "licences.txt": "scontrol show licenses",
    "partitions.txt": "scontrol show partition",
    "config.txt": "scontrol show config",
}
DUMP_OF_ACCOUNTS = {
    "associations.txt": "sacctmgr -P show assoc "
    "format=Cluster,Account,User,ParentName,GrpTRES,GrpJobs,MaxJobs,QOS",
    "qos.txt": "sacctmgr -P show qos",
}
"""Files of a dump by the commands of Slurm 22.05 that print them."""


class LabJob(NamedTuple):
    """What `squeue` says of a job: its number, state, reason and hosts."""

    job: int
    state: str
    reason: str
    hosts: tuple[str, ...]


class Lab:
    """A Slurm cluster of a folder, up between `with` and its end.

    All daemons are in one process group, in which the first slurmd leads. They end with the
    thread that started them, whatever ends that.

    Parameters
    ----------
    folder
        Where configuration, state and logs go.
    size
        How many hosts and switches.
    more
        Further lines of slurm.conf.
    """

    def __init__(self, folder: Path, size: Size = WHOLE, more: str = "") -> None:
        self.folder, self.size = folder, size
        self.names = host_names(size)
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._more = more
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._controller: subprocess.Popen[bytes] | None = None
        self._ports: Ports | None = None
        self._up = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            spool = Path(stack.enter_context(TemporaryDirectory(prefix="lab-")))
            stack.callback(self._kill)
            self._ports = Ports()
            write_configuration(self.folder, spool, self.size, self._ports.first, self._more)
            if "AccountingStorageHost" in self._more:
                self._wait(self._is_registered, "slurmdbd does not answer")
            for name in self.names:
                self._daemons.append(self._daemon(SLURMD, "-D", "-N", name))
            self.start_controller("-c")
            self._wait_for_hosts()
            self._up = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._controller is not None and self._controller.poll() is None:
                self.cancel_all()
        finally:
            self._up.close()

    def run(self, *words: str, text: str | None = None) -> str:
        """Run a command of Slurm, or a shell on `text`, and return what it prints."""
        done = subprocess.run(
            words, env=self.environment, input=text, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def submit(self, *options: str, command: str = "exec sleep 1000000") -> int:
        """Submit a batch job, which sleeps unless told otherwise; return its number."""
        fixed = ("--parsable", "--output=/dev/null", "--wrap", command)
        return int(self.run("sbatch", *options, *fixed).split(";")[0])

    def jobs(self) -> dict[int, LabJob]:
        """Return all jobs that pend, run or end."""
        found = {}
        for line in self.run("squeue", "-h", "-o", "%A|%T|%r|%N").splitlines():
            number, state, reason, hosts = line.split("|")
            named = self.expand(hosts) if hosts else ()
            found[int(number)] = LabJob(int(number), state, reason, named)
        return found

    def expand(self, hosts: str) -> tuple[str, ...]:
        """Return the hosts of a host list, by Slurm itself."""
        return tuple(self.run("scontrol", "show", "hostnames", hosts).split())

    def settle(self, *, quiet_s: float = 6.0, jobs: Iterable[int] = ()) -> dict[int, LabJob]:
        """Wait until nothing has changed for several backfill passes; return the jobs.

        With `jobs`, do not wait on once these run.
        """
        wanted = set(jobs)
        deadline = time.monotonic() + PATIENCE_S
        before, since = self.jobs(), time.monotonic()
        while time.monotonic() < deadline:
            now = self.jobs()
            if wanted and all(
                number in now and now[number].state == "RUNNING" for number in wanted
            ):
                return now
            if now != before or any(job.state in _PASSING for job in now.values()):
                before, since = now, time.monotonic()
            elif time.monotonic() - since >= quiet_s:
                return now
            time.sleep(0.3)
        raise TimeoutError("Slurm did not settle")

    def dump(self, folder: Path) -> Path:
        """Write the dump that `placewright convert slurm` reads, as the how-to says."""
        folder.mkdir(parents=True, exist_ok=True)
        accounts = "AccountingStorageType=" in self._more
        for name, command in {**DUMP, **(DUMP_OF_ACCOUNTS if accounts else {})}.items():
            (folder / name).write_text(self.run(*command.split()))
        return folder

    def cancel(self, *numbers: int) -> None:
        """Cancel jobs and wait until they are gone."""
        if numbers:
            self.run("scancel", *map(str, numbers))
        self._wait(lambda: not set(numbers) & set(self.jobs()), "jobs do not end")

    def cancel_all(self) -> None:
        """Cancel all jobs and wait until none is left: else their processes outlive the lab."""

        def none_left() -> bool:
            left = [str(number) for number, job in self.jobs().items() if job.state != "COMPLETING"]
            if left:
                with suppress(RuntimeError):  # one that has just ended
                    self.run("scancel", *left)
            return not self.jobs()

        self._wait(none_left, "jobs do not end")

    def start_controller(self, *options: str) -> None:
        """Start slurmctld; without `-c` it goes on from the state that it saved."""
        self._controller = self._daemon(CTLD, "-D", *options)
        self._wait(self._answers, "slurmctld does not answer")

    def stop_controller(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop slurmctld, which saves its state first unless it is killed."""
        if self._controller is not None:
            self._controller.send_signal(number)
            self._controller.wait(PATIENCE_S)
            self._controller = None

    def _answers(self) -> bool:
        if self._controller is None or self._controller.poll() is not None:
            log = (self.folder / "log" / "slurmctld.log").read_text().splitlines()
            raise RuntimeError(f"slurmctld ended: {' / '.join(log[-3:])}")
        with suppress(RuntimeError):  # what `ping` ends with while nobody answers
            return "UP" in self.run("scontrol", "ping")
        return False

    def _is_registered(self) -> bool:
        """Register the cluster, for which slurmdbd makes tables, before slurmctld waits for it."""
        with suppress(RuntimeError):  # what there is already is not added again
            self.run("sacctmgr", "-i", "add", "cluster", CLUSTER)
        with suppress(RuntimeError):
            return CLUSTER in self.run("sacctmgr", "-n", "-P", "list", "cluster", "format=cluster")
        return False

    def _wait_for_hosts(self) -> None:
        def idle() -> bool:
            return self.run("sinfo", "-h", "-o", "%T").split() == ["idle"]

        self._wait(idle, "hosts do not come up")

    @staticmethod
    def _wait(true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} within {PATIENCE_S} s")
            time.sleep(0.2)

    def _daemon(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log" / "output.log").open("ab") as log:
            return subprocess.Popen(
                ("setpriv", "--pdeathsig", "KILL", *words),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=self._daemons[0].pid if self._daemons else 0,
            )

    def _kill(self) -> None:
        self.stop_controller(signal.SIGKILL)
        if self._daemons:
            with suppress(ProcessLookupError):
                os.killpg(self._daemons[0].pid, signal.SIGKILL)
        for daemon in self._daemons:
            daemon.wait(PATIENCE_S)
        self._daemons.clear()
        if self._ports is not None:
            self._ports.close()


_PASSING = frozenset({"CONFIGURING", "COMPLETING"})

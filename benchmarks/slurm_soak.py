"""`python -m benchmarks.slurm_soak`: `watch slurm --apply` on a real Slurm, whatever is killed.

Jobs of all forms arrive and end all the time; slurmctld is restarted, the watch killed (SIGKILL)
and a node drained now and then. Afterwards each job has to have started exactly once, as large as
it was asked for, and to have ended, and none may be left. Then Slurm alone gets the same jobs,
restarts and drains at the same seconds, and a table has the waits and the GPUs used of both.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeAlias

from benchmarks.slurm_lab import Lab, Size
from benchmarks.slurm_queue import GPUS_PER_HOST
from placewright.instances.derived.slurm_marks import HELD

__all__ = ["Soak", "Soaked", "alone"]

DRAIN_S = 600.0
BEGIN_S = 6
LICENCES = "Licenses=matlab:2"


class Form(NamedTuple):
    """What `sbatch` is told of each component, what the first gets, and the GPUs of the others."""

    words: tuple[str, ...]
    gpus: int
    hosts: tuple[int, ...] = (1,)
    others: int = 0

    @property
    def is_gang(self) -> bool:
        """Whether it has several hosts."""
        return self.hosts[-1] > 1 or self.others > 0


FORMS = (
    *(Form((f"--nodes=1 --gpus-per-node={gpus}",), gpus) for gpus in (2, 4, 8)),
    *(Form((f"--nodes={hosts} --gpus-per-node=8",), 8, (hosts,)) for hosts in (2, 3)),
    Form(("--nodes=1-2 --gpus-per-node=8",), 8, (1, 2)),
    Form(("--nodes=1 --gpus=4",), 4),
    Form(("--ntasks=4 --gpus-per-task=1 --nodes=1",), 4),
    Form(("--nodes=1 --gres=gpu:h100:2 --exclusive",), 8),
    Form((f"--nodes=1 --gpus-per-node=2 --begin=now+{BEGIN_S}",), 2),
    Form(("--nodes=1 --gpus-per-node=2 --licenses=matlab:2",), 2),
    Form(("--nodes=1 --gpus-per-node=4 --dependency=afterany:{last}",), 4),
    Form(("--nodes=1 --gpus-per-node=8", "--nodes=1 --gpus-per-node=4"), 8, others=4),
)
"""`{last}` is the number of the job before."""

_ROUND = re.compile(r"^\d\d:\d\d:\d\d slurm: ", re.MULTILINE)


class Job(NamedTuple):
    """A job of the script: what it asks for, and how many seconds it runs."""

    form: Form
    seconds: int


Event: TypeAlias = Job | tuple[str, ...]
"""A job that comes, a node and the state it is set to, or nothing: slurmctld is restarted."""

Script: TypeAlias = list[tuple[float, Event]]
"""What happens on the cluster, whoever decides, by the seconds since it began."""


class Ran(NamedTuple):
    """A job as it ran: what it is, when it could have started, started and ended, its hosts."""

    job: Job
    ready: float
    started: float
    ended: float
    hosts: int

    @property
    def gpus(self) -> int:
        """GPUs of all components."""
        return self.hosts * self.job.form.gpus + self.job.form.others


@dataclass
class Soaked:
    """What came of it; `wrong` has a line for each job that did not run exactly as asked, once."""

    rounds: int = 0
    restarts: int = 0
    kills: int = 0
    drains: int = 0
    undecided: int = 0
    undone: int = 0
    jobs: int = 0
    ran: list[Ran] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Say it in a line."""
        return (
            f"{self.rounds} rounds, {self.jobs} jobs, slurmctld restarted {self.restarts} times, "
            f"watch killed {self.kills} times, nodes drained {self.drains} times; "
            f"{self.undecided} looks without an answer, "
            f"{self.undone} steps not done since their job had changed; "
            f"{len(self.wrong)} jobs lost, started twice, held or changed"
        )

    def figures(self, hosts: int) -> str:
        """Say waits and the GPUs used as cells of a table."""
        waits = [job.started - job.ready for job in self.ran]
        gangs = [job.started - job.ready for job in self.ran if job.job.form.is_gang]
        span = max(job.ended for job in self.ran) - min(job.ready for job in self.ran)
        used = sum(job.gpus * (job.ended - job.started) for job in self.ran)
        share = 100 * used / (hosts * GPUS_PER_HOST * span)
        return (
            f"{len(self.ran)} | {fmean(waits):.1f} | {max(waits):.0f} | {fmean(gangs):.1f} | "
            f"{max(gangs):.0f} | {share:.1f} | {span:.0f}"
        )


HEADER = "decided by | jobs | mean wait, s | longest | of gangs | longest | GPUs used % | last end"


class _Cluster:
    """Jobs that come to a cluster, and what they noted when they ran."""

    def __init__(self, lab: Lab, folder: Path, *options: str) -> None:
        self.lab = lab
        self._notes = folder / "runs"
        self._notes.mkdir(parents=True)
        self._options = options
        self._jobs: dict[int, tuple[Job, float]] = {}

    def happens(self, event: Event) -> None:
        """Let a job come, a node change its state, or slurmctld restart."""
        if isinstance(event, Job):
            self._submit(event)
        elif event:
            words = (f"nodename={event[0]}", f"state={event[1]}", "reason=soak")
            try:
                self.lab.run("scontrol", "update", *words)
            except RuntimeError:
                if event[1] != "resume":  # slurmctld forgets a drain just before a restart
                    raise
        else:
            self.lab.stop_controller()
            time.sleep(2)
            self.lab.start_controller()

    def wait(self) -> None:
        """Wait until no job is left, as long as they go on being placed."""
        end = time.monotonic() + DRAIN_S
        while self.lab.jobs() and time.monotonic() < end:
            time.sleep(1)

    def result(self, made: Soaked) -> Soaked:
        """Add how the jobs ran, and which did not run exactly as asked, once."""
        made.jobs, ends = len(self._jobs), 0.0
        left = self.lab.jobs()
        made.wrong = [f"{job}: {left[job].state} {left[job].reason}" for job in left]
        for number in (number for number in self._jobs if number not in left):
            job, ready = self._jobs[number]
            note = self._notes / str(number)
            seen = [line.split() for line in note.read_text().splitlines()] if note.exists() else []
            if [line[0] for line in seen] != ["start", "end"]:
                made.wrong.append(f"{number}: noted {' '.join(map(' '.join, seen)) or 'nothing'}")
                continue
            (_, started, hosts, *gpus), (_, ended) = seen  # no GPUs: Slurm has just restarted
            if gpus not in ([], [str(job.form.gpus)]) or int(hosts) not in job.form.hosts:
                asked = " : ".join(job.form.words)
                made.wrong.append(f"{number}: {hosts} hosts of {gpus} GPUs, asked {asked}")
            last = ends if "{last}" in job.form.words[0] else 0.0
            ran = Ran(job, max(ready, last), float(started), float(ended), int(hosts))
            made.ran.append(ran)
            ends = ran.ended
        return made

    def _submit(self, job: Job) -> None:
        note = self._notes / "$SLURM_JOB_ID"
        got = "$SLURM_JOB_NUM_NODES $SLURM_GPUS_ON_NODE"
        command = (
            f'echo start $(date +%s.%N) "{got}" >> {note}; sleep {job.seconds}; '
            f"echo end $(date +%s.%N) >> {note}"
        )
        last = str(max(self._jobs, default=1))
        words = ["sbatch", "--parsable"]
        for part in job.form.words:
            words += [":"] * (part is not job.form.words[0])
            words += [*self._options, "--time=1", "--output=/dev/null"]
            words += part.replace("{last}", last).split()
        with suppress(RuntimeError):  # slurmctld is down, or the job before has ended
            ready = time.time() + BEGIN_S * ("--begin" in job.form.words[0])
            number = int(self.lab.run(*words, "--wrap", command).split(";")[0])
            self._jobs[number] = job, ready
            if self._options:
                self._mark(number)

    def _mark(self, number: int) -> None:
        for _ in range(20):
            try:
                self.lab.run("scontrol", "update", f"jobid={number}", f"AdminComment={HELD}")
            except RuntimeError:
                time.sleep(1)
            else:
                return


class Soak:
    """A watch on a cluster on which things happen.

    Parameters
    ----------
    lab
        The cluster.
    folder
        Where jobs note when they run, and the watch writes.
    seed
        Of what happens.
    """

    def __init__(self, lab: Lab, folder: Path, seed: int) -> None:
        self.lab, self.folder = lab, folder
        self.script: Script = []
        self._rng = random.Random(seed)
        self._log = folder / "watch.log"
        self._cluster = _Cluster(lab, folder, "--hold")
        self._watch: subprocess.Popen[bytes] | None = None
        self._drained = ""
        self._began = 0.0

    def run(self, rounds: int, restarts: int, kills: int, drains: int = 0) -> Soaked:
        """Play so many rounds, restart, kill and drain nodes on the way, and let it end."""
        made = Soaked(restarts=restarts, kills=kills, drains=drains)
        events: list[Callable[[], None]] = [
            *[partial(self._happens, ())] * restarts,
            *[self._kill] * kills,
            *[self._drain_a_node] * drains,
        ]
        self._rng.shuffle(events)
        due = {round((i + 1) * rounds / (len(events) + 1)): e for i, e in enumerate(events)}
        self._start()
        self._began, jobs = time.monotonic(), 0
        try:
            while (done := self._rounds()) < rounds:
                self._happens(Job(FORMS[jobs % len(FORMS)], self._rng.randint(2, 8)))
                jobs += 1
                for at in [at for at in due if at <= done]:
                    due.pop(at)()
                time.sleep(self._rng.uniform(0.5, 2.5))
            for event in due.values():
                event()
            self._resume()
            self._cluster.wait()
        finally:
            self._stop()
        log = self._log.read_text(errors="replace")
        made.rounds = self._rounds()
        made.undecided, made.undone = log.count("nothing was decided"), log.count("not done: ")
        return self._cluster.result(made)

    def _happens(self, event: Event) -> None:
        self.script.append((time.monotonic() - self._began, event))
        self._cluster.happens(event)

    def _drain_a_node(self) -> None:
        """Drain a node, and resume the one before."""
        self._resume()
        self._drained = self._rng.choice(self.lab.names)
        self._happens((self._drained, "drain"))

    def _resume(self) -> None:
        if self._drained:
            self._happens((self._drained, "resume"))

    def _kill(self) -> None:
        if self._watch is not None:
            self._watch.send_signal(signal.SIGKILL)
            self._watch.wait()
        time.sleep(self._rng.uniform(0, 2))
        self._start()

    def _start(self) -> None:
        words = (sys.executable, "-m", "placewright.cli.app", "watch", "slurm", "--apply")
        options = ("-o", str(self.folder / "out"), "--every", "1", "--time-limit", "5")
        with self._log.open("ab") as log:
            self._watch = subprocess.Popen(
                (*words, *options, "--timeout", "10"), env=self.lab.environment, stderr=log
            )

    def _stop(self) -> None:
        if self._watch is not None:
            self._watch.terminate()
            self._watch.wait(60)

    def _rounds(self) -> int:
        return len(_ROUND.findall(self._log.read_text(errors="replace")))


def alone(lab: Lab, folder: Path, script: Script) -> Soaked:
    """Let Slurm alone decide what happened to a watch."""
    cluster = _Cluster(lab, folder)
    began = time.monotonic()
    for at, event in script:
        time.sleep(max(0.0, began + at - time.monotonic()))
        cluster.happens(event)
    cluster.wait()
    return cluster.result(Soaked())


def main(arguments: Sequence[str] | None = None) -> int:
    """Play; return 1 if a job was lost, started twice, changed, or is still held."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slurm_soak", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--restarts", type=int, default=5, help="of slurmctld")
    parser.add_argument("--kills", type=int, default=10, help="of the watch")
    parser.add_argument("--drains", type=int, default=10, help="of nodes")
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, help="a copy of what the watch says")
    asked = parser.parse_args(arguments)

    def on_a_cluster(play: Callable[[Lab, Path], Soaked]) -> Soaked:
        with (
            TemporaryDirectory() as name,
            Lab(Path(name) / "lab", Size(hosts=asked.hosts), LICENCES) as lab,
        ):
            return play(lab, Path(name))

    script: Script = []

    def watched(lab: Lab, folder: Path) -> Soaked:
        soak = Soak(lab, folder, asked.seed)
        try:
            return soak.run(asked.rounds, asked.restarts, asked.kills, asked.drains)
        finally:
            script.extend(soak.script)
            if asked.log is not None:
                asked.log.write_text((folder / "watch.log").read_text(errors="replace"))

    made = on_a_cluster(watched)
    print("\n".join((made.line(), *made.wrong, HEADER)), flush=True)
    print("watch", made.figures(asked.hosts), sep=" | ", flush=True)
    beside = on_a_cluster(lambda lab, folder: alone(lab, folder, script))
    print("Slurm alone", beside.figures(asked.hosts), sep=" | ")
    for line in beside.wrong:
        print("Slurm alone:", line)
    return int(bool(made.wrong))


if __name__ == "__main__":
    sys.exit(main())

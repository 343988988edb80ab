"""`python -m benchmarks.slurm_soak`: `watch slurm --apply` on a real Slurm, whatever is killed.

Jobs of all forms arrive and end all the time; slurmctld is restarted, the watch killed (SIGKILL)
and a node drained now and then. Afterwards each job has to have started exactly once and to have
ended, and none may be left.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.slurm_lab import Lab, Size
from placewright.instances.derived.slurm_marks import HELD

__all__ = ["Soak", "Soaked"]

DRAIN_S = 300.0
LICENCES = "Licenses=matlab:2"
FORMS: tuple[tuple[tuple[str, ...], ...], ...] = (
    *((("--nodes=1", f"--gpus-per-node={gpus}"),) for gpus in (2, 4, 8)),
    *((("--nodes=2", "--gpus-per-node=8"),), (("--nodes=3", "--gpus-per-node=8"),)),
    (("--nodes=1", "--gpus=4"),),
    (("--ntasks=4", "--gpus-per-task=1", "--nodes=1"),),
    (("--nodes=1", "--gres=gpu:h100:2", "--exclusive"),),
    (("--nodes=1", "--gpus-per-node=2", "--begin=now+6"),),
    (("--nodes=1", "--gpus-per-node=2", "--licenses=matlab:2"),),
    (("--nodes=1", "--gpus-per-node=4", "--dependency=afterany:{last}"),),
    (("--nodes=1", "--gpus-per-node=8"), ("--nodes=1", "--gpus-per-node=4")),
)
"""What jobs ask for, of each component; `{last}` is the number of the job before."""

_ROUND = re.compile(r"^\d\d:\d\d:\d\d slurm: ", re.MULTILINE)


@dataclass
class Soaked:
    """What came of it; `wrong` has a line for each job that did not run exactly once."""

    rounds: int = 0
    jobs: int = 0
    restarts: int = 0
    kills: int = 0
    undecided: int = 0
    undone: int = 0
    wrong: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Say it in a line."""
        return (
            f"{self.rounds} rounds, {self.jobs} jobs, slurmctld restarted {self.restarts} times, "
            f"watch killed {self.kills} times; {self.undecided} looks without an answer, "
            f"{self.undone} steps not done since their job had changed; "
            f"{len(self.wrong)} jobs lost, started twice or held"
        )


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
        self._rng = random.Random(seed)
        self._log = folder / "watch.log"
        self._notes = folder / "runs"
        self._notes.mkdir()
        self._submitted: list[int] = []
        self._watch: subprocess.Popen[bytes] | None = None
        self._drained = ""

    def run(self, rounds: int, restarts: int, kills: int, drains: int = 0) -> Soaked:
        """Play so many rounds, restart, kill and drain nodes on the way, and let it end."""
        made = Soaked()
        events = [*["restart"] * restarts, *["kill"] * kills, *["drain"] * drains]
        self._rng.shuffle(events)
        due = {round((i + 1) * rounds / (len(events) + 1)): e for i, e in enumerate(events)}
        self._start()
        try:
            while (done := self._rounds()) < rounds:
                self._submit()
                for at in [at for at in due if at <= done]:
                    self._happens(due.pop(at), made)
                time.sleep(self._rng.uniform(0.5, 2.5))
            self._drain_a_node("")
            self._drain()
        finally:
            self._stop()
        log = self._log.read_text(errors="replace")
        made.rounds, made.jobs = self._rounds(), len(self._submitted)
        made.undecided, made.undone = log.count("nothing was decided"), log.count("not done: ")
        made.wrong = self._wrong()
        return made

    def _submit(self) -> None:
        form = FORMS[len(self._submitted) % len(FORMS)]
        seconds = self._rng.randint(2, 8)
        note = self._notes / "$SLURM_JOB_ID"
        command = f"echo start >> {note}; sleep {seconds}; echo end >> {note}"
        last = str(self._submitted[-1]) if self._submitted else "1"
        words = ["sbatch", "--parsable"]
        for part in form:
            asked = (one.replace("{last}", last) for one in part)
            words += [":"] * (part is not form[0])
            words += ["--hold", "--time=1", "--output=/dev/null", *asked]
        with suppress(RuntimeError):  # slurmctld is down, or the job before has ended
            number = int(self.lab.run(*words, "--wrap", command).split(";")[0])
            self._submitted.append(number)
            for _ in range(20):
                try:
                    self.lab.run("scontrol", "update", f"jobid={number}", f"AdminComment={HELD}")
                except RuntimeError:
                    time.sleep(1)
                else:
                    return

    def _happens(self, event: str, made: Soaked) -> None:
        if event == "restart":
            made.restarts += 1
            self.lab.stop_controller()
            time.sleep(self._rng.uniform(0.5, 4))
            self.lab.start_controller()
        elif event == "drain":
            self._drain_a_node(self._rng.choice(self.lab.names))
        else:
            made.kills += 1
            if self._watch is not None:
                self._watch.send_signal(signal.SIGKILL)
                self._watch.wait()
            time.sleep(self._rng.uniform(0, 2))
            self._start()

    def _drain_a_node(self, name: str) -> None:
        """Drain a node, if one is named, and resume the one before."""
        for node, state in ((self._drained, "resume"), (name, "drain")):
            if node:
                words = (f"nodename={node}", f"state={state}", "reason=soak")
                self.lab.run("scontrol", "update", *words)
        self._drained = name

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

    def _drain(self) -> None:
        """Wait until no job is left, as long as the watch goes on placing them."""
        end = time.monotonic() + DRAIN_S
        while self.lab.jobs() and time.monotonic() < end:
            time.sleep(1)

    def _wrong(self) -> list[str]:
        left = self.lab.jobs()
        wrong = [f"{job}: {left[job].state} {left[job].reason}" for job in left]
        for job in self._submitted:
            note = self._notes / str(job)
            seen = Counter(note.read_text().split()) if note.exists() else Counter()
            if job not in left and (seen["start"], seen["end"]) != (1, 1):
                wrong.append(f"{job}: started {seen['start']} times, ended {seen['end']} times")
        return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Play; return 1 if a job was lost, started twice, or is still held."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slurm_soak", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--restarts", type=int, default=5, help="of slurmctld")
    parser.add_argument("--kills", type=int, default=10, help="of the watch")
    parser.add_argument("--drains", type=int, default=10, help="of nodes")
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    size = Size(hosts=asked.hosts)
    with TemporaryDirectory() as name, Lab(Path(name) / "lab", size, LICENCES) as lab:
        soak = Soak(lab, Path(name), asked.seed)
        made = soak.run(asked.rounds, asked.restarts, asked.kills, asked.drains)
    print(made.line())
    for line in made.wrong:
        print(line)
    return int(bool(made.wrong))


if __name__ == "__main__":
    sys.exit(main())

"""`python -m fuzz.dumps READER [READER ...] [--inputs N] [--first SEED]`, from the root."""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import FrameType

from fuzz.dumps import kubernetes, ray, slurm
from fuzz.dumps.consumers import use
from placewright.instances.converters.support.live import LiveConversion

READERS: dict[str, Callable[[int, Path], LiveConversion | str]] = {
    "slurm": slurm.convert,
    "kubernetes": kubernetes.convert,
    "ray": ray.convert,
}
HANGS_AFTER_S = 20
USES = 10
"""Verbs that use a round."""

MAX_MIB = 1024
TOLD_EVERY = 10_000


class HangError(Exception):
    """A reader took too long."""


def main(arguments: list[str] | None = None) -> int:
    """Read mutated dumps; return 1 if anything but a round or one clear line came of one.

    That is a traceback, an error of several lines or with characters that a terminal obeys, an
    object that is not counted, more than `HANGS_AFTER_S` seconds or `MAX_MIB` of memory.
    """
    parser = argparse.ArgumentParser(prog="python -m fuzz.dumps", description=__doc__)
    parser.add_argument("readers", nargs="+", choices=list(READERS), metavar="READER")
    parser.add_argument("--inputs", type=int, default=1000, help="how many a reader")
    parser.add_argument("--use", action="store_true", help="also explain, report and export")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    asked = parser.parse_args(arguments)
    signal.signal(signal.SIGALRM, _hangs)
    return max([_run(name, asked.first, asked.inputs, asked.use) for name in asked.readers])


def _run(name: str, first: int, inputs: int, used: bool) -> int:
    rounds = failures = 0
    began, longest = time.process_time(), 0.0
    for seed in range(first, first + inputs):
        started = time.process_time()
        failure = attempt(name, seed, used=used)
        longest = max(longest, time.process_time() - started)
        rounds += failure is None
        if failure is not None and not failure.is_clear:
            failures += 1
            print(f"{name} --first {seed} --inputs 1: {failure.text}", flush=True)
        if (seed - first + 1) % TOLD_EVERY == 0:
            print(f"{name}: {seed - first + 1} inputs, {failures} failures", flush=True)
    peak = _peak_mib()
    print(
        f"{name}: {inputs} inputs from seed {first}: {rounds} rounds, "
        f"{inputs - rounds - failures} errors of one line, {failures} failures; "
        f"longest {longest:.2f} CPU s, peak {peak:.0f} MiB, "
        f"{1000 * (time.process_time() - began) / max(inputs, 1):.0f} ms an input",
        flush=True,
    )
    return int(failures > 0 or peak > MAX_MIB)


def _peak_mib() -> float:
    """Return the most memory of this process, without that of the one which started it."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no line VmHWM; expected that of Linux")


class Told:
    """What came of an input that is no round: an error, and whether it is one clear line."""

    def __init__(self, text: str, *, is_clear: bool) -> None:
        self.text = text
        self.is_clear = is_clear


def attempt(name: str, seed: int, *, used: bool) -> Told | None:
    """Read the mutated dump of a seed; return None if it became a round, which is used then."""
    with TemporaryDirectory() as folder:
        signal.alarm(HANGS_AFTER_S * (USES if used else 1))
        try:
            made = READERS[name](seed, Path(folder))
            if used and isinstance(made, LiveConversion):
                use(made, Path(folder), Random(seed))
        except Exception:  # noqa: BLE001  # whatever a reader raises is what is looked for
            return Told(traceback.format_exc(), is_clear=False)
        finally:
            signal.alarm(0)
    return Told(made, is_clear=made.isprintable()) if isinstance(made, str) else None


def _hangs(_signal: int, _frame: FrameType | None) -> None:
    raise HangError(f"still reading after {HANGS_AFTER_S} s")


if __name__ == "__main__":
    sys.exit(main())

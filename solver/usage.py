"""What a process and its children use, read from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Usage", "usage"]

_TICKS = os.sysconf("SC_CLK_TCK")
_USER_TIME = 11
"""Index in /proc/<pid>/stat behind the command's name of utime, stime, cutime and cstime."""


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds, resident memory now and at its peak, in MiB."""

    cpu_seconds: float
    resident_mib: float
    peak_mib: float


def usage(process: int) -> Usage:
    """Add up a process and its living children; a process that has ended counts nothing."""
    cpu = resident = peak = 0.0
    for member in _tree(process):
        folder = Path("/proc", str(member))
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            memory = dict(
                line.split(":", 1) for line in (folder / "status").read_text().splitlines()
            )
        except OSError:
            continue
        cpu += sum(int(ticks) for ticks in stat[_USER_TIME : _USER_TIME + 4]) / _TICKS
        resident += _mib(memory.get("VmRSS"))
        peak += _mib(memory.get("VmHWM"))
    return Usage(cpu, resident, peak)


def _tree(process: int) -> Iterator[int]:
    yield process
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _tree(int(child))


def _mib(line: str | None) -> float:
    return int(line.split()[0]) / 1024 if line else 0.0

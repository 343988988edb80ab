"""`live`: a dump of a large Kubernetes or Slurm cluster becomes a round.

docs/benchmarks/results.md has what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.live_dumps import write_kubernetes, write_slurm
from benchmarks.measure import RunError, measured
from benchmarks.report import ERROR, Row
from placewright.instances.converters import LiveConversion, read_kubernetes, read_slurm

__all__ = ["Case", "cases", "run"]


@dataclass(frozen=True, slots=True)
class Case:
    """A dump: how many nodes it has, and how many pods or jobs, a third of which waits."""

    name: str
    nodes: int
    tasks: int
    write: Callable[[int, int, Path], None]
    read: Callable[[Path], LiveConversion]


def cases(*, quick: bool) -> list[Case]:
    """Return all cases; quick ones are a tenth of the size."""
    part = 10 if quick else 1
    nodes, tasks = 5000 // part, 20_000 // part
    return [
        Case(f"kubernetes-{nodes}-{tasks}", nodes, tasks, write_kubernetes, _read_kubernetes),
        Case(f"slurm-{nodes}-{tasks}", nodes, tasks, write_slurm, _read_slurm),
    ]


def run(chosen: Iterable[Case], *, quick: bool) -> Iterator[Row]:  # noqa: ARG001
    """Yield a row per dump: what reading it costs, in a fresh process."""
    for case in chosen:
        with TemporaryDirectory() as name:
            folder = Path(name)
            case.write(case.nodes, case.tasks, folder)
            size = sum(file.stat().st_size for file in folder.iterdir())
            try:
                (made,) = measured(partial(_as_is, folder), partial(_counts, case.read), repeats=1)
            except RunError as error:
                yield Row(case.name, "convert", None, ERROR, note=str(error))
                continue
        hosts, jobs, running = made.result
        yield Row(
            case.name,
            "convert",
            None,
            "read",
            seconds=made.seconds,
            cpu_seconds=made.cpu_seconds,
            peak_mib=made.peak_mib,
            figures={
                "hosts": hosts,
                "jobs": jobs,
                "running": running,
                "MB": round(size / 1e6, 1),
            },
        )


def _as_is(folder: Path) -> Path:
    return folder


def _counts(read: Callable[[Path], LiveConversion], folder: Path) -> tuple[int, int, int]:
    made = read(folder).round
    running = sum(job.running is not None for job in made.jobs)
    return len(made.cluster.hosts), len(made.jobs), running


def _read_kubernetes(folder: Path) -> LiveConversion:
    return read_kubernetes(sorted(folder.iterdir()))


def _read_slurm(folder: Path) -> LiveConversion:
    return read_slurm([folder])

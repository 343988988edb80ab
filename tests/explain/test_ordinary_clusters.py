"""Corrections on what real schedulers and bundled rounds have, beside hosts of other kinds.

`python -m tests.explain.test_ordinary_clusters` explains every waiting job of every one of them;
the test here a sample of the jobs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from placewright.explain.explain_job import explain_job
from placewright.instances.checks.round import check_round
from placewright.instances.converters import read_kubernetes, read_ray, read_slurm
from placewright.instances.documents.cluster import HostEntry
from placewright.instances.documents.round import Round
from placewright.instances.io.files import load_round

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "instances" / "library"
DATA = ROOT / "tests" / "data"
LIVE = ROOT.parent / "shared" / "data" / "live"
SECONDS = 2.0
"""Of an explanation: what is not known by then fails just as well."""


def dumps() -> Iterator[tuple[str, Callable[[], Round]]]:
    """Every captured dump, by name, and what reads it."""
    for folder in sorted([*(DATA / "slurm").glob("*/"), *LIVE.glob("slurm/*/")]):
        if (folder / "jobs.json").exists():
            yield folder.name, lambda f=folder: read_slurm([f]).round
        for jobs in sorted(folder.glob("jobs.v*.json")):
            version = jobs.name.removeprefix("jobs.")
            files = [one for one in folder.glob(f"*.{version}") if "partitions" not in one.name]
            files += folder.glob("topology.txt")
            yield f"{folder.name} {version}", lambda f=files: read_slurm(f).round
    for folder in sorted([DATA / "kubernetes", *LIVE.glob("kubernetes/captured/*/")]):
        files = sorted(folder.glob("*.json"))
        yield folder.name, lambda f=files: read_kubernetes(f).round
    rays = sorted((DATA / "ray").glob("*.json")), sorted(LIVE.glob("ray/*.json"))
    for i, files in enumerate(rays):
        if files:
            yield f"ray {i}", lambda f=files: read_ray(f).round


def bundled() -> Iterator[tuple[str, Callable[[], Round]]]:
    """Every bundled round."""
    for file in sorted(LIBRARY.glob("*.yaml")):
        yield file.stem, lambda f=file: load_round(f)


def with_other_hosts(round_: Round) -> Round:
    """A round with a host without GPUs, and one with GPUs of another model.

    With one like the first where cells of a tenant are of the only model.
    """
    first = round_.cluster.hosts[0]
    sizes = {"parent": first.parent, "cpu": 64, "memory": "512Gi"}
    of_any = any(one.gpu_model is None for tenant in round_.tenants for one in tenant.cells)
    others = [
        {"name": "other-without-gpus", "gpus": 0, **sizes},
        {"name": "other-model", "gpus": 8, "gpu_model": "OTHER", **sizes},
    ]
    added = [HostEntry.model_validate(one) for one in others[: 1 if of_any else 2]]
    if of_any:
        added.append(first.model_copy(update={"name": "other"}))
    cluster = round_.cluster.model_copy(update={"hosts": (*round_.cluster.hosts, *added)})
    return round_.model_copy(update={"cluster": cluster})


def waiting(round_: Round) -> list[str]:
    """The jobs that wait and make sense."""
    return [
        one.name for one in round_.jobs if one.running is None and one.name not in round_.invalid
    ]


def choosy(round_: Round) -> set[str]:
    """The jobs that ask for GPU models."""
    groups = ((one.name, group) for one in round_.jobs for o in one.options for group in o.groups)
    return {name for name, group in groups if group.gpu_models is not None}


def left_out(round_: Round, job: str) -> tuple[str, ...]:
    """What could not be tried of the changes for a job."""
    found = explain_job(
        round_, None, job, corrections=3, time_limit=SECONDS, isolation="none"
    ).corrections
    return () if found is None else found.left_out


SAMPLE = [*islice(dumps(), None, None, 4), *islice(bundled(), None, None, 2)]


@pytest.mark.nightly(after=4)
@pytest.mark.parametrize("read", [pytest.param(read, id=name) for name, read in SAMPLE])
def test_no_change_is_left_out(read: Callable[[], Round]) -> None:
    round_ = with_other_hosts(read())
    check_round(round_)
    # One that asks for GPU models has the most to be told.
    for job in sorted(waiting(round_), key=lambda name: name not in choosy(round_))[:1]:
        assert left_out(round_, job) == ()


if __name__ == "__main__":
    for name, read in [*dumps(), *bundled()]:
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        began, told = time.process_time(), 0
        as_it_is = read()
        for one in (as_it_is, with_other_hosts(as_it_is)):
            check_round(one)
            for waits in waiting(one):
                told += 1
                if lacks := left_out(one, waits):
                    sys.stdout.write(f"{name}, {waits}: {lacks}\n")
        sys.stdout.write(f"{name}: {told} jobs, {time.process_time() - began:.0f} CPU s\n")
        sys.stdout.flush()

"""Gavel: speed per GPU model, on one host or spread over several.

Source: Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning
Workloads", OSDI'20: section 3 (throughput matrix; jobs that are sensitive to placement have speeds
of their own for consolidated and unconsolidated workers), section 4.1 (speeds relative to an equal
share). The tables are those of its artifact, `simulation_throughputs.json`: per GPU model (with the
suffix `_unconsolidated` for tasks on several hosts) and per job type and GPUs, steps per second;
alone under "null".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models.amounts import SCALE, positive, whole

SPREAD = "_unconsolidated"
ALONE = "null"

Table = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""GPU model, then job type with GPUs as `('ResNet-18 (batch size 16)', 2)`, then who runs along."""


def speed(table: Table, model: str, job: str, gpus: int) -> float | None:
    """Return steps per second of a job that is alone on its GPUs; None if it was not measured.

    `model`: a GPU model of the table, with the suffix `SPREAD` for tasks on several hosts.
    """
    measured = table.get(model, {}).get(f"({job!r}, {gpus})", {}).get(ALONE)
    return float(measured) if measured else None


def equal_share(table: Table, job: str, gpus: int, owned: Mapping[str, int]) -> float:
    """Return a job's speed if it had each GPU model for as long as the cluster has of it.

    `owned`: GPUs of the cluster per GPU model; a model on which the job cannot run counts as speed
    0. Raises InvalidInputError if that is 0; the path is `job`.
    """
    total = sum((speed(table, m, job, gpus) or 0.0) * n for m, n in owned.items())
    if not total:
        raise InvalidInputError("runs on no GPU model of the cluster", ("job",), job)
    return total / sum(owned.values())


def options(
    table: Table,
    job: str,
    gpus: int,
    models: Mapping[str, str],
    *,
    per: float,
    level: str = "host",
    scale: int = SCALE,
) -> tuple[Option, ...]:
    """Return an option per GPU model and placement, worth its speed.

    A job of several GPUs is consolidated (all tasks in one domain of `level`) or anywhere. The
    former is left out where it was measured to be no faster, since a job that may run anywhere may
    run there, too.

    `job`, `gpus`: job type of the table, and how many GPUs it runs on. `models`: the GPU models of
    the table that the cluster has, and what the cluster calls them. `per`: speed that is worth
    `scale`: `equal_share` for Gavel's normalisation. `level`: the level that a consolidated
    placement stays in. `scale`: what a job is worth at the speed `per`; all values are whole
    numbers. Raises InvalidInputError if `per` is not above 0.
    """
    positive(per, ("per",))
    found: list[Option] = []
    for known, model in models.items():
        together = speed(table, known, job, gpus)
        spread = speed(table, known + SPREAD, job, gpus) if gpus > 1 else None
        if gpus == 1:
            together, spread = None, together
        if together is not None and (spread is None or together > spread):
            found.append(_option(model, gpus, together / per * scale, level))
        if spread is not None:
            found.append(_option(model, gpus, spread / per * scale, None))
    return tuple(found)


def _option(model: str, gpus: int, value: float, level: str | None) -> Option:
    group = TaskGroup(count=gpus, gpu=1, gpu_models=(model,), required=level)
    name = model if gpus == 1 else f"{model}-{'spread' if level is None else level}"
    return Option(name=name, groups=(group,), value=whole(value, ("table", model)))

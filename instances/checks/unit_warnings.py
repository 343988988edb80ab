"""Warnings of quantities that look like a number of another unit: valid, but hardly meant."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.quantities import whole_units
from placewright.instances.documents.round import Round
from placewright.instances.errors import path_text
from placewright.topology.units import WHOLE_GPU

LEAST_GPU = 50
"""Milli-GPU of a task: less is rather a number of another unit."""

MOST_CORES = 1024
"""Of a host."""

_MILLI = 1000


def unit_warnings(document: Round | ClusterDocument) -> Iterator[str]:
    """Yield a line for each quantity that looks like a number of another unit.

    A task of less than 0.05 of a GPU, a quota or guarantee below one GPU, a host of more than
    1,024 cores.
    """
    if isinstance(document, ClusterDocument):
        yield from _hosts(document, ())
        return
    yield from _hosts(document.cluster, ("cluster",))
    for t, tenant in enumerate(document.tenants):
        for field in ("quota", "guarantee"):
            gpus = getattr(tenant, field).get("gpu", 0)
            if 0 < gpus < WHOLE_GPU:
                yield _line(("tenants", t, field, "gpu"), gpus, "less than one GPU")
    for j, job in enumerate(document.jobs):
        for o, option in enumerate(job.options):
            for g, group in enumerate(option.groups):
                if 0 < group.gpu < LEAST_GPU:
                    path = ("jobs", j, "options", o, "groups", g, "gpu")
                    yield _line(path, group.gpu, f"less than {LEAST_GPU / WHOLE_GPU} of a GPU")


def _hosts(cluster: ClusterDocument, at: tuple[str, ...]) -> Iterator[str]:
    for h, host in enumerate(cluster.hosts):
        if (host.cpu or 0) > MOST_CORES * _MILLI:
            yield _line((*at, "hosts", h, "cpu"), host.cpu or 0, f"more than {MOST_CORES:,} cores")


def _line(path: tuple[str | int, ...], thousandths: int, what: str) -> str:
    return f"{path_text(path)}: {whole_units(thousandths)}: {what}; is the unit meant?"

"""The plan sections `reads`, `replicas` and `flows`: their form, and the names in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from placewright.instances.documents.base import Document
from placewright.instances.documents.plan_data import FlowSection, ReadsSection, ReplicaSection
from placewright.instances.errors import Path
from placewright.instances.verify.policies import Section, document_form, first_of, one_section
from placewright.instances.verify.reading import Data, Reading, read_geo
from placewright.instances.verify.result import Finding, rules

Form = Callable[[Reading, Mapping[str, Any], Path], Iterator[Finding]]

_DOCUMENTS: dict[str, type[Document]] = {
    "reads": ReadsSection,
    "replicas": ReplicaSection,
    "flows": FlowSection,
}


def form(reading: Reading, entry: Mapping[str, Any], path: Path, *, kind: str) -> Iterator[Finding]:
    """Require the fields of a section; `sections.section` applies it."""
    if reading.data is not None and reading.data.paths.get(kind) == path:
        return
    yield from document_form(_DOCUMENTS[kind], entry, path)


FORMS: dict[str, Form] = {kind: partial(form, kind=kind) for kind in _DOCUMENTS}


def with_data(reading: Reading) -> Reading:
    """Return a reading with what its plan says of data.

    Entries that name no dataset or region of the round are left out of what the rules look up, and
    of those that are given twice the first counts; rules report both.
    """
    facts = read_geo(reading.round, reading.cluster)
    paths: dict[str, Path] = {}
    reads = _read(reading, ReadsSection(), paths)
    replicas = _read(reading, ReplicaSection(), paths)
    flows = _read(reading, FlowSection(flows=()), paths)
    complete: dict[tuple[str, int], int] = {}
    gone: dict[tuple[str, int], int] = {}
    final = {}
    for name, dataset in facts.datasets.items():
        final[name] = dataset.now
        for region in dataset.arriving:
            final[name] |= 1 << region
    for create in replicas.creates:
        if create.dataset in final and create.region in facts.number:
            region = facts.number[create.region]
            complete.setdefault((create.dataset, region), create.ready)
            final[create.dataset] |= 1 << region
    for drop in replicas.drops:
        if drop.dataset in final and drop.region in facts.number:
            region = facts.number[drop.region]
            gone.setdefault((drop.dataset, region), drop.at)
            final[drop.dataset] &= ~(1 << region)
    readable = {name: held | facts.served(name, held) for name, held in final.items()}
    runs = {
        placed.job.name: facts.region_of(placed.tasks[0].host)
        for placed in reading.placed
        if placed.tasks
    }
    missing = tuple(
        (name, read)
        for name, region in runs.items()
        for read in reading.jobs[name].reads
        if not facts.datasets[read.dataset].now >> region & 1
    )
    data = Data(
        facts, paths, reads, replicas, flows, complete, gone, final, readable, runs, missing
    )
    return replace(reading, data=data)


def _read(reading: Reading, empty: Section, paths: dict[str, Path]) -> Section:
    """Return the first section of a kind, or the empty one; note where it stands if it is read."""
    kind = next(kind for kind, document in _DOCUMENTS.items() if isinstance(empty, document))
    found = first_of(reading, kind, type(empty))
    if found is None:
        return empty
    paths[kind], section = found
    return section


def data_sections(reading: Reading) -> Iterator[Finding]:
    """Require the section that the policy always has, and each at most once.

    Where the policy places jobs, the section `replicas` has new replicas only: none is dropped, and
    no job has a home.
    """
    policy = reading.round.policy
    for kind in policy.spec.plan_sections:
        required = kind in policy.spec.required_sections
        yield from one_section(reading, kind, f"section {kind!r} is missing" * required)
    data = reading.geo
    if policy.spec.places_jobs:
        for field, listed in (("drops", data.replicas.drops), ("homes", data.replicas.homes)):
            if listed:
                yield Finding(
                    (*data.paths["replicas"], field),
                    f"{len(listed)} {field} under policy {policy.formulation!r}; expected none",
                )


def known_data(reading: Reading) -> Iterator[Finding]:
    """Require that the sections name jobs, datasets, regions and GPU models of the round."""
    data = reading.geo
    facts = data.facts
    known: Mapping[str, tuple[Any, str]] = {
        "job": (reading.jobs, "jobs"),
        "dataset": (facts.datasets, "datasets"),
        "region": (facts.number, "regions"),
        "source": (facts.number, "regions"),
        "gpu_model": (facts.models, "GPU models"),
    }
    for path, field, name in _names(data):
        names, what = known[field]
        if name not in names:
            word = what.removesuffix("s")
            yield Finding(path, f"{word} {name!r} is not in the round; expected one of its {what}")


def _names(data: Data) -> Iterator[tuple[Path, str, str]]:
    """Yield every name in the sections: where it stands, its field, and the name itself."""
    reads = data.paths.get("reads", ())
    for number, reader in enumerate(data.reads.readers):
        path: Path = (*reads, "readers", number)
        yield (*path, "job"), "job", reader.job
        for k, read in enumerate(reader.reads):
            yield (*path, "reads", k, "dataset"), "dataset", read.dataset
            yield (*path, "reads", k, "source"), "source", read.source
    for number, waits in enumerate(data.reads.waiting):
        yield (*reads, "waiting", number, "job"), "job", waits.job
        yield (*reads, "waiting", number, "region"), "region", waits.region
    replicas = data.paths.get("replicas", ())
    for field in ("creates", "drops"):
        for number, entry in enumerate(getattr(data.replicas, field)):
            yield (*replicas, field, number, "dataset"), "dataset", entry.dataset
            yield (*replicas, field, number, "region"), "region", entry.region
    for number, home in enumerate(data.replicas.homes):
        path = (*replicas, "homes", number)
        yield (*path, "job"), "job", home.job
        yield (*path, "region"), "region", home.region
        yield (*path, "gpu_model"), "gpu_model", home.gpu_model
    for number, flow in enumerate(data.flows.flows):
        path = (*data.paths.get("flows", ()), "flows", number)
        yield (*path, "dataset"), "dataset", flow.dataset
        for k, region in enumerate(flow.path):
            yield (*path, "path", k), "region", region


RULES_OF_SECTIONS_OF_REGIONS = rules(data_sections, known_data)

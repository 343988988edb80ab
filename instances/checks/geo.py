"""Checks of the section `geo`, and of the reads and regions of jobs.

What is wrong is an `InvalidInputError` with its path in the Round document.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from placewright.instances.checks.policies import PolicyChecks
from placewright.instances.derived import ranges
from placewright.instances.derived.hardware import Hardware
from placewright.instances.derived.names import check_known, check_unique
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.geo import MAX_REGIONS, Dataset, Geo
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.errors import Errors, InvalidInputError, Path

MAX_CELLS = 20_000_000
"""Jobs and datasets, times regions; each of these may be in any of those."""
MAX_READS = 2_000_000
MAX_COST = 10**15
"""Micro-dollars: whatever a plan costs, it can be counted in whole numbers."""


def check_data(round_: Round) -> None:
    """Refuse reads and regions of jobs that name what the round does not have."""
    regions = _regions(round_.cluster, round_.geo)
    region_of = _region_of_hosts(round_, regions)
    datasets = {dataset.name for dataset in round_.geo.datasets}
    errors = Errors()
    for i, job in enumerate(round_.jobs):
        errors.note(_check_names, job.regions or (), regions, ("jobs", i, "regions"))
        errors.note(
            check_unique,
            (read.dataset for read in job.reads),
            "dataset",
            ("jobs", i, "reads"),
            ("dataset",),
        )
        for k, read in enumerate(job.reads):
            errors.note(
                check_known, read.dataset, datasets, "dataset", ("jobs", i, "reads", k, "dataset")
            )
        errors.note(_check_one_region, job, region_of, ("jobs", i, "running", "tasks"))
    errors.refuse()


def check_geo(round_: Round, hosts: Mapping[str, Hardware]) -> None:
    """Refuse regions, links and datasets that are unknown, given twice, or too many.

    Data that nobody holds, links that carry nothing, regions without GPUs, and jobs that may be
    nowhere are legal: the plan says who waits for that.
    """
    geo = round_.geo
    regions = _regions(round_.cluster, geo)
    _check_size(round_, regions)
    errors = Errors()
    errors.note(_check_entries, round_, regions, hosts)
    errors.note(_check_links, geo, regions)
    errors.note(
        check_unique, (dataset.name for dataset in geo.datasets), "dataset", ("geo", "datasets")
    )
    for i, dataset in enumerate(geo.datasets):
        errors.note(_check_dataset, dataset, regions, ("geo", "datasets", i))
    errors.note(_check_copying, geo, regions)
    errors.note(_check_costs, round_, hosts)
    errors.refuse()


def _regions(cluster: ClusterDocument, geo: Geo) -> frozenset[str]:
    """Return the names of the regions."""
    path = ("geo", "level")
    check_known(geo.level, cluster.levels, "level", path)
    regions = frozenset(domain.name for domain in cluster.domains if domain.level == geo.level)
    if len(regions) > MAX_REGIONS:
        raise InvalidInputError(
            f"has {len(regions):,} domains; expected at most {MAX_REGIONS} regions", path, geo.level
        )
    return regions


def _region_of_hosts(round_: Round, regions: Collection[str]) -> Mapping[str, str]:
    """Return the region of each host on which a job runs."""
    cluster = round_.cluster
    needed = {task.host for job in round_.jobs if job.running for task in job.running.tasks}
    parents = {domain.name: domain.parent for domain in cluster.domains}
    found: dict[str, str] = {}
    for entry in cluster.hosts if needed else ():
        above = entry.parent
        while above is not None and above not in regions:
            above = parents[above]
        if above is not None:
            names = (name for name in ranges.expand(entry.name) if name in needed)
            found.update(dict.fromkeys(names, above))
    return found


def _check_names(names: Sequence[str], regions: Collection[str], path: Path) -> None:
    """Refuse a list of regions with an unknown one, or one twice."""
    errors = Errors()
    errors.note(check_unique, names, "region", path, ())
    for k, name in enumerate(names):
        errors.note(check_known, name, regions, "region", (*path, k))
    errors.refuse()


def _check_one_region(job: Job, region_of: Mapping[str, str], path: Path) -> None:
    if job.running is None:
        return
    first = region_of[job.running.tasks[0].host]
    for k, task in enumerate(job.running.tasks):
        if region_of[task.host] != first:
            raise InvalidInputError(
                f"lies in region {region_of[task.host]}, and the first task in {first}; expected "
                "all tasks of a job in one region",
                (*path, k, "host"),
                task.host,
            )


def _check_size(round_: Round, regions: Collection[str]) -> None:
    count = len(round_.jobs) + len(round_.geo.datasets)
    if count * len(regions) > MAX_CELLS:
        raise InvalidInputError(
            f"{count:,} jobs and datasets times {len(regions)} regions; "
            f"expected at most {MAX_CELLS:,} together",
            ("geo",),
        )
    reads = sum(len(job.reads) for job in round_.jobs)
    if reads > MAX_READS:
        raise InvalidInputError(
            f"{reads:,} reads of all jobs together; expected at most {MAX_READS:,}", ("jobs",)
        )


def _check_entries(round_: Round, regions: Collection[str], hosts: Mapping[str, Hardware]) -> None:
    entries = round_.geo.regions
    errors = Errors()
    errors.note(check_unique, (entry.name for entry in entries), "region", ("geo", "regions"))
    models = {one.gpu_model for one in hosts.values() if one.gpu_model is not None}
    tenants = {tenant.name for tenant in round_.tenants}
    for i, entry in enumerate(entries):
        path: Path = ("geo", "regions", i)
        errors.note(check_known, entry.name, regions, "region", (*path, "name"))
        for model in entry.prices:
            errors.note(check_known, model, models, "GPU model", (*path, "prices", model))
        for tenant in entry.quotas:
            errors.note(check_known, tenant, tenants, "tenant", (*path, "quotas", tenant))
    errors.refuse()


def _check_links(geo: Geo, regions: Collection[str]) -> None:
    seen: set[tuple[str, str]] = set()
    errors = Errors()
    for i, link in enumerate(geo.links):
        path: Path = ("geo", "links", i)
        errors.note(check_known, link.source, regions, "region", (*path, "source"))
        errors.note(check_known, link.target, regions, "region", (*path, "target"))
        if link.source == link.target:
            problem = "is where the link starts, too; expected another region"
        elif (link.source, link.target) in seen:
            problem = f"linked from {link.source} already; expected each direction once"
        else:
            seen.add((link.source, link.target))
            continue
        errors.add(InvalidInputError(problem, (*path, "target"), link.target))
    errors.refuse()


def _check_dataset(dataset: Dataset, regions: Collection[str], path: Path) -> None:
    errors = Errors()
    errors.note(_check_names, dataset.replicas, regions, (*path, "replicas"))
    if dataset.regions is not None:
        errors.note(_check_names, dataset.regions, regions, (*path, "regions"))
    errors.refuse()
    for k, name in enumerate(dataset.replicas):
        errors.note(_check_residency, name, dataset, (*path, "replicas", k))
    errors.refuse()


def _check_residency(region: str, dataset: Dataset, path: Path) -> None:
    """Refuse a region that may not hold a dataset."""
    if dataset.regions is not None and region not in dataset.regions:
        raise InvalidInputError(
            f"may not hold dataset {dataset.name}; expected one of its regions", path, region
        )


def _check_copying(geo: Geo, regions: Collection[str]) -> None:
    datasets = {dataset.name: dataset for dataset in geo.datasets}
    seen: set[tuple[str, str]] = set()
    for i, copy in enumerate(geo.copying):
        path: Path = ("geo", "copying", i)
        check_known(copy.dataset, datasets, "dataset", (*path, "dataset"))
        check_known(copy.region, regions, "region", (*path, "region"))
        if copy.region in datasets[copy.dataset].replicas:
            problem = f"holds dataset {copy.dataset} already; expected regions without a replica"
        elif (copy.dataset, copy.region) in seen:
            problem = f"gets dataset {copy.dataset} already; expected each copy once"
        else:
            seen.add((copy.dataset, copy.region))
            _check_residency(copy.region, datasets[copy.dataset], (*path, "region"))
            continue
        raise InvalidInputError(problem, (*path, "region"), copy.region)


def _check_costs(round_: Round, hosts: Mapping[str, Hardware]) -> None:
    """Refuse prices at which the round costs more than can be counted."""
    gib = sum(read.gib for job in round_.jobs for read in job.reads)
    _check_prices(
        ((("geo", "links", i, "egress"), link.egress) for i, link in enumerate(round_.geo.links)),
        gib,
        f"times the {gib:,} GiB that all jobs read",
    )
    gpus = sum(has.gpus for has in hosts.values())
    _check_prices(
        (
            (("geo", "regions", i, "prices", model), price)
            for i, entry in enumerate(round_.geo.regions)
            for model, price in entry.prices.items()
        ),
        gpus,
        f"times the {gpus:,} GPUs of the cluster",
    )


def _check_prices(prices: Iterable[tuple[Path, int]], times: int, what: str) -> None:
    for path, price in prices:
        if price * times > MAX_COST:
            raise InvalidInputError(
                f"{what}; expected at most {MAX_COST:,} micro-dollars in all", path, price
            )


CHECKS = PolicyChecks(check_data, check_geo)
"""What the policies `geo` and `replicas` refuse."""

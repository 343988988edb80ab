"""Why a dataset has no replica in a region: the facts that keep one from coming there.

A replica can come if a job that reads the data nowhere else could have a home in the region. So
that GPUs play no part the job asks for a model of its own, which a host of its own there has.
"""

from __future__ import annotations

from typing import Unpack

from placewright.explain.explain_job import explain_job
from placewright.explain.explanation import Explanation
from placewright.explain.search import SearchOptions
from placewright.instances.checks.round import checked
from placewright.instances.derived.names import check_known
from placewright.instances.documents.cluster import ClusterDocument, DomainEntry, HostEntry
from placewright.instances.documents.geo import Read
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.policies import REPLICAS

PROBE = "replica"
"""Begins the names of the job, its host and its GPU model."""


def explain_missing_replica(
    round_: Round,
    dataset: str,
    region: str,
    **search: Unpack[SearchOptions],
) -> Explanation:
    """Explain why no plan brings a replica of a dataset to a region, or say that one could.

    Parameters
    ----------
    round_
        A round of policy `replicas`.
    dataset, region
        Names; the region has neither a replica nor a copy under way.
    search
        As of `explain_job`.

    Raises
    ------
    InvalidInputError
        If the round has another policy, a name is unknown, or the replica exists or comes.
    """
    asked, name = probing(checked(round_), dataset, region)
    return explain_job(
        asked,
        None,
        name,
        **search,
    )


def probing(round_: Round, dataset: str, region: str) -> tuple[Round, str]:
    """Return the round whose one job has a home only if the replica comes, and the job's name.

    Raises
    ------
    InvalidInputError
        As of `explain_missing_replica`.
    """
    if round_.policy.spec is not REPLICAS:
        problem = f"expected policy {REPLICAS.name}"
        raise InvalidInputError(problem, path=("policy",), value=round_.policy.formulation)
    data = {one.name: one for one in round_.geo.datasets}
    check_known(dataset, data, "dataset", ("dataset",))
    regions = {one.name for one in round_.cluster.domains if one.level == round_.geo.level}
    check_known(region, regions, "region", ("region",))
    comes = {(one.dataset, one.region) for one in round_.geo.copying}
    if region in data[dataset].replicas or (dataset, region) in comes:
        problem = f"has {dataset}, or gets it; expected a region without"
        raise InvalidInputError(problem, path=("region",), value=region)
    name = _new_name(round_)
    job = Job(
        name=name,
        options=(Option(groups=(TaskGroup(gpu=1000, gpu_models=(name,)),)),),
        reads=(Read(dataset=dataset, gib=1, remote=False),),
        regions=(region,),
    )
    cluster = _with_host(round_.cluster, name, region, round_.geo.level)
    asked = round_.model_copy(update={"cluster": cluster, "jobs": (job,)}).with_invalid({})
    return asked, name


def _with_host(cluster: ClusterDocument, name: str, region: str, level: str) -> ClusterDocument:
    """Return the cluster with a host of one GPU in a region, in domains of its own below that."""
    domains, parent = [], region
    for inner in cluster.levels[cluster.levels.index(level) + 1 :]:
        domains.append(DomainEntry(name=f"{name}-{inner}", level=inner, parent=parent))
        parent = f"{name}-{inner}"
    host = HostEntry(name=name, parent=parent, gpus=1, gpu_model=name)
    added = {"domains": (*cluster.domains, *domains), "hosts": (*cluster.hosts, host)}
    return cluster.model_copy(update=added)


def _new_name(round_: Round) -> str:
    """Return a name that begins none of a job, host, domain or GPU model."""
    cluster = round_.cluster
    taken = [job.name for job in round_.jobs] + [domain.name for domain in cluster.domains]
    taken += [one.name for one in cluster.hosts]
    taken += [one.gpu_model for one in cluster.hosts if one.gpu_model is not None]
    name = PROBE
    while any(one.startswith(name) for one in taken):
        name += "-"
    return name

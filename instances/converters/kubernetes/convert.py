"""A dump of Kubernetes becomes a round: its nodes, the pods on them, and what waits."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from placewright.collection import no_collection
from placewright.instances.checks.round import check_round
from placewright.instances.converters.bookkeeping import NO_TIME, Bookkeeping
from placewright.instances.converters.kubernetes import kueue
from placewright.instances.converters.kubernetes.dump import PODS, Dump, read_dump
from placewright.instances.converters.kubernetes.eligibility import (
    Eligibility,
    State,
    asked_by,
    passes_cordons,
    requests,
    state_of,
)
from placewright.instances.converters.kubernetes.gangs import PodJobs, gangs_of
from placewright.instances.converters.kubernetes.groups import KUEUE, Gang, Workload, other_names
from placewright.instances.converters.kubernetes.jobs import Maker, Workloads
from placewright.instances.converters.kubernetes.namespaces import NamespaceQuotas
from placewright.instances.converters.kubernetes.nodes import (
    NO_ACCELERATORS,
    Amounts,
    Levels,
    away,
    counting,
    crowded,
    gpus_of,
    hosts,
    idle_resources,
    label_keys,
    over_full,
    read_levels,
)
from placewright.instances.converters.kubernetes.quotas import (
    GroupQueueCaps,
    KueueQuotas,
    measures_of,
    reserved_quota,
)
from placewright.instances.converters.kubernetes.records import Pod
from placewright.instances.converters.kubernetes.sources import (
    NODE,
    Kind,
    Source,
    read_sources,
    sources_of,
)
from placewright.instances.converters.support.live import LeftOutError, LiveConversion, summary_of
from placewright.instances.derived.phrases import count
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.job import Job
from placewright.instances.documents.policy import Policy, Tenant
from placewright.instances.documents.round import Reservation, Round
from placewright.instances.documents.source_keys import (
    BOOKKEEPING,
    KUBERNETES_KIND,
    KUBERNETES_LEVELS,
    KUBERNETES_NAME,
    KUBERNETES_NAMESPACE,
    KUBERNETES_TENANTS,
    SOURCE,
)
from placewright.instances.errors import InvalidInputError

MAX_KINDS = 5
"""Kinds of objects that are named where there are no nodes."""


@no_collection()
def read_kubernetes(
    files: Sequence[str | os.PathLike[str]],
    *,
    levels: Sequence[str] = (),
    movable: bool = False,
    accelerators: Mapping[str, str] = NO_ACCELERATORS,
) -> LiveConversion:
    """Turn a dump of a Kubernetes cluster into a round.

    Parameters
    ----------
    files
        What `kubectl get nodes,pods -o json` prints, and, as far as they are there, Kueue's objects
        and pod groups; in one file or several.
    levels
        Label keys of the layers above the nodes, outermost first; by default those of a Topology
        in the dump, or of the first known vendor.
    movable
        Running pods that are made anew when they are stopped can be moved; else all are pinned.
    accelerators
        Resources that count as GPUs beside the known ones, each with the node label that tells its
        model. GPUs of different names are never the same.

    Raises
    ------
    InvalidInputError
        A file cannot be read, or has a value that Kubernetes would not have: file, field, value,
        and what was expected.
    """
    where = " ".join(os.fspath(file) for file in files)
    with counting(accelerators):
        book = Bookkeeping(notes=[NO_TIME])
        return _converted(read_sources(files), where, levels, book, 0, movable=movable)


def convert_kubernetes(
    objects: Iterable[Mapping[str, Any]],
    where: str,
    *,
    levels: Sequence[str] = (),
    movable: bool = False,
    accelerators: Mapping[str, str] = NO_ACCELERATORS,
    now: int = 0,
) -> LiveConversion:
    """Turn objects of a Kubernetes cluster, as its API server has them, into a round.

    Objects that cannot be read are left out and counted.

    Parameters
    ----------
    objects
        Each with its `apiVersion` and `kind`.
    where
        What errors call the place that they are from.
    levels, movable, accelerators
        As for `read_kubernetes`.
    now
        When they were read, in seconds since 1970.

    Raises
    ------
    InvalidInputError
        As `read_kubernetes` does.
    """
    book = Bookkeeping(lenient=True)
    with counting(accelerators):
        return _converted(
            sources_of(list(objects), where), where, levels, book, now, movable=movable
        )


def _converted(
    sources: Mapping[Kind, Sequence[Source]],
    where: str,
    levels: Sequence[str],
    book: Bookkeeping,
    now: int,
    *,
    movable: bool,
) -> LiveConversion:
    if not sources.get(NODE):
        raise InvalidInputError(_without_nodes(sources), file=where, show_value=False)
    dump = replace(read_dump(sources, book), taken=now)
    del sources  # more than half of the memory that all this takes
    if not dump.nodes:
        raise InvalidInputError(
            "has no node that can be a host; expected at least one", file=where, show_value=False
        )
    listed = list(dump.nodes.values())
    topologies = [one.keys for one in dump.topologies] or [tuple(dump.tiers)]
    keys = label_keys(listed, levels, topologies)
    aliases = {alias: key for one in dump.topologies for alias, key in one.aliases.items()}
    found = read_levels(listed, keys, aliases)
    for name in found.unlabelled:
        book.cannot_say("where a node without a label of each level is", name)
    try:
        made = _round(dump, found, book, movable=movable)
        check_round(made)
    except InvalidInputError as error:
        raise error.inside(where) from None
    return LiveConversion(made, summary_of(made), book)


def _without_nodes(sources: Mapping[Kind, Sequence[Source]]) -> str:
    counts = Counter({kind.name: len(found) for kind, found in sources.items()})
    there = ", ".join(f"{name} ({count:,})" for name, count in counts.most_common(MAX_KINDS))
    known = {"JobSet", "LeaderWorkerSet"}.intersection(counts)
    also = f"; `placewright convert manifest` reads a {min(known)} alone" if known else ""
    only = f", only {there}" if there else ""
    return f"has no nodes{only}; expected also what `kubectl get nodes -o json` prints{also}"


def _round(dump: Dump, levels: Levels, book: Bookkeeping, *, movable: bool) -> Round:
    now, known = dump.now, dict[Hashable, Amounts]()
    asked = {pod.key: asked_by(pod, known) for pod in dump.pods}
    specs = [pod.spec for pod in dump.pods if asked[pod.key].gpus and pod.spec.nodeName is None]
    specs += [one.template.spec for w in dump.workloads.values() for one in w.spec.podSets]
    cordons = any(passes_cordons(spec.tolerations) for spec in specs)
    eligibility = Eligibility(dump.nodes, gpus_of(dump.nodes), _idle(dump, asked), cordons)
    kinds = {one.accelerator for one in asked.values() if one.gpus}
    counted = {
        name: [one for one in dict.fromkeys(measures_of(name, kinds)) if one != "gpu"]
        for name in (kinds if dump.group_queues else ())
    }
    maker = Maker(dump.nodes, levels, eligibility, counted)
    workloads = Workloads(
        dump.workloads, dump.queues, levels, eligibility, now, dump.caveats, dump.parents
    )
    more = {
        requests(one.template.spec).accelerator
        for workload in (dump.workloads.values() if dump.spaces else ())
        for one in workload.spec.podSets
    }
    spaces = NamespaceQuotas(dump.spaces, dump.pods, asked, {*kinds, *more} - {""})
    jobs = PodJobs(dump, workloads, maker, book, movable, asked, spaces)
    _add_jobs(dump, workloads, jobs)
    for name, node in dump.nodes.items():
        maker.add_away(name, away(node))
    for name in over_full(dump.nodes, maker.held, jobs.background):
        book.cannot_say("cores or memory of which pods hold more than the node has", name)
    for name in crowded(dump.nodes, jobs.background, maker.asked):
        maker.add_beside(name, jobs.background.pop(name))
    reserved = reserved_quota(dump.queues, _used_by_workloads(maker.jobs))
    maker.jobs = [_granted(dump, job) for job in maker.jobs]
    for name in reserved.keys() & dump.queues.cluster.keys():
        uses = {key.name: key.small(held) for key, held in reserved[name].items()}
        maker.add_reserved(name, uses, min(dump.nodes), tenant=name)
    active = frozenset(job.tenant or "" for job in maker.jobs)
    caps = KueueQuotas(dump.queues, reserved, active, reserved_quota(dump.queues, {}))
    above = GroupQueueCaps(dump.group_queues, jobs.in_queues, jobs.firm, kinds)
    counted_in, number = above.with_caps(maker.jobs, caps), len(maker.jobs)
    for name, uses in spaces.held(maker.jobs, jobs.unmade).items():
        maker.add_reserved(name, uses, min(dump.nodes), tenant=None)
    with_caps = tuple(
        spaces.with_caps(job, counts=job.running is not None or job.name in jobs.unmade)
        for job in (*counted_in, *maker.jobs[number:])
    )
    for job in with_caps:
        if caps.unsaid_of(job.tenant):
            book.cannot_say("lending limits of so many queues of its cohort", job.name)
    for name in above.unsaid():
        book.cannot_say("limits of a queue that others are in", name)
    for name in above.half_said():
        book.cannot_say("a capability of pods or disk of a queue", name)
    tenants = _tenants(dump, caps, above, with_caps)
    made = hosts(dump.nodes, levels, maker.held, jobs.background, maker.extended)
    boards = Counter(host.gpu_links for host in made if host.gpu_links is not None)
    for model, number in sorted(boards.items()):
        book.notes.append(
            f"links between GPUs of {count(number, 'node')}: as {model}, the one board of so many"
        )
    cordoned = {n for n, node in dump.nodes.items() if node.spec.unschedulable and not cordons}
    return Round(
        name="kubernetes",
        now=now,
        cluster=ClusterDocument(
            name="kubernetes",
            levels=levels.names,
            domains=levels.domains,
            hosts=tuple(
                host.model_copy(update={"annotations": {**host.annotations, **told}})
                for host in made
                for told in [dump.caveats.of_node(dump.nodes[host.name])]
            ),
        ),
        host_sets=eligibility.host_sets.used_by(with_caps),
        jobs=tuple(sorted(with_caps, key=_order)),
        tenants=tenants,
        caps=above.used_by(with_caps) | caps.used_by(with_caps) | spaces.caps(),
        reservations=tuple(Reservation(host=host) for host in sorted(cordoned | jobs.closed)),
        policy=Policy(spread_weights=levels.weights) if levels.names else Policy(),
        annotations={
            SOURCE: "kubernetes",
            KUBERNETES_LEVELS: ",".join(levels.level_of),
            **({KUBERNETES_TENANTS: "kueue"} if dump.queues.cluster else {}),
            BOOKKEEPING: book.annotation(),
        },
    )


def _idle(dump: Dump, asked: Mapping[tuple[str, str], Amounts]) -> frozenset[str]:
    """Return the resources of every node of which there is enough, whoever comes."""
    held: defaultdict[str, Amounts] = defaultdict(Amounts)
    wanted = [
        (requests(one.template.spec), one.count)
        for workload in dump.workloads.values()
        for one in workload.spec.podSets
    ]
    for pod in dump.pods:
        if state_of(pod) in (State.ENDED, State.DELETED):
            continue
        one, host = asked[pod.key], pod.spec.nodeName
        stays = not one.gpus and not one.beside and host is not None
        wanted.append((one, 0 if stays else 1))
        if stays:
            held[host or ""].add(one)
    beside = sum(count for one, count in wanted if not one.gpus)
    idle = idle_resources(dump.nodes, held, [one for one, _ in wanted], beside)
    limited = [name for queue in dump.group_queues for name in queue.spec.capability]
    return idle.difference(limited, *(quota.keys for quota in dump.spaces))


def _add_jobs(dump: Dump, workloads: Workloads, jobs: PodJobs) -> None:
    """Add what runs and what waits: bound pods first, then workloads of which not all are.

    GPUs of a node are given out in this order.
    """
    gangs = gangs_of(dump, workloads, jobs.book)
    unbound: dict[tuple[str, str], list[Pod]] = {}
    for key, workload in dump.workloads.items():
        gang = Gang(KUEUE, *key)
        members = gangs.get(gang, [])
        if not workload.has("Finished") and not _said_by_pods(workload, members):
            unbound[key] = members
            gangs.pop(gang, None)
    stand_ins = {
        key: workloads.stand_ins(dump.workloads[key], members) for key, members in unbound.items()
    }
    jobs.know(gangs.values(), stand_ins.values())

    def leave(workload: Workload, why: str) -> None:
        jobs.book.leave(kueue.KIND, why, workload.name)
        jobs.book.also[workload.name] = (workload.metadata.uid, *other_names([workload]))

    for gang in sorted(gangs, key=lambda gang: (_waits(gangs[gang]), gang)):
        before = len(jobs.maker.jobs)
        jobs.add(gang, gangs[gang])
        one = dump.workloads.get((gang.namespace, gang.name)) if gang.by == KUEUE else None
        if one is not None and not one.has("Finished"):
            if len(jobs.maker.jobs) > before:
                jobs.book.take(kueue.KIND)
            else:
                leave(one, "none of its pods is in the round")
    for key, workload in dump.workloads.items():
        if workload.has("Finished"):
            leave(workload, "has finished")
        elif key in unbound:
            try:
                jobs.add_workload(workload, unbound[key], stand_ins[key])
                if unbound[key]:
                    jobs.book.take(PODS, len(unbound[key]))
            except LeftOutError as error:
                leave(workload, str(error))
                if error.more:
                    jobs.book.why[workload.name] = error.more
                jobs.leave(unbound[key], f"its workload {error}", error.more)


def _said_by_pods(workload: Workload, members: Sequence[Pod]) -> bool:
    """Whether the pods of a workload say where it runs; else its pod sets and assignment do."""
    bound = sum(state_of(pod) is State.BOUND for pod in members)
    admission = workload.status.admission
    assigned = admission is not None and any(
        one.topologyAssignment is not None for one in admission.podSetAssignments
    )
    wanted = sum(one.count for one in workload.spec.podSets) if assigned else 1
    return bound >= max(1, wanted)


def _waits(members: Sequence[Pod]) -> bool:
    return all(pod.spec.nodeName is None for pod in members)


def _workload_of(job: Job) -> tuple[str, str]:
    """Return the key of the workload of a job; of none if it has no workload."""
    ids = job.annotations
    of_kueue = ids.get(KUBERNETES_KIND) == "Workload"
    return (
        (ids.get(KUBERNETES_NAMESPACE, ""), ids.get(KUBERNETES_NAME, "")) if of_kueue else ("", "")
    )


def _used_by_workloads(jobs: Iterable[Job]) -> dict[str, Mapping[str, int]]:
    """Return what running jobs of workloads use of flavors, by the name of the workload."""
    return {
        "/".join(_workload_of(job)): job.options[job.running.option].uses
        for job in jobs
        if job.running is not None
    }


def _granted(dump: Dump, job: Job) -> Job:
    """Return a job that waits for nodes with the quota that it has; that of nobody is counted."""
    workload = dump.workloads.get(_workload_of(job))
    if job.running is not None or workload is None or workload.status.admission is None:
        return job
    options = [option.model_copy(update={"uses": {}}) for option in job.options]
    update = {"tenant": None, "preempts": (), "options": tuple(options)}
    return job if job.held else job.model_copy(update=update)


def _tenants(
    dump: Dump, caps: KueueQuotas, above: GroupQueueCaps, jobs: Sequence[Job]
) -> tuple[Tenant, ...]:
    """Return the queues that jobs are in, and all of Kueue, with what they may hold."""
    queues = dump.queues
    weighed = any(queue.spec.fairSharing is not None for queue in queues.cluster.values())
    found = {
        name: kueue.tenant_of(queues, name, caps.quota(name), weighed=weighed)
        for name in queues.cluster
    }
    for queue in dump.group_queues:
        found.setdefault(queue.metadata.name, above.tenant(queue))
    for job in jobs:
        if job.tenant is not None and job.tenant not in found:
            found[job.tenant] = Tenant(name=job.tenant)
    return tuple(found[name] for name in sorted(found))


def _order(job: Job) -> tuple[int, int, str]:
    """Jobs of higher priority first, then the oldest, as queues go through them."""
    return -job.priority, 0 if job.submitted is None else job.submitted, job.name

"""One line about a document: how large it is."""

from __future__ import annotations

from placewright.cli.views.gang.facts import Occupancy, occupancy_of
from placewright.cli.views.policies import VIEWS
from placewright.instances.derived.phrases import count
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.edits import Edits
from placewright.instances.documents.plan import DecisionKind, Plan, Reason
from placewright.instances.documents.plan_data import ReadsSection, ReplicaSection
from placewright.instances.documents.round import Round
from placewright.report.facts.jobs import MOVES, OUTCOMES
from placewright.report.facts.promises import promised_in
from placewright.report.facts.regions import section_of
from placewright.report.text import gpus


def document_text(document: Round | ClusterDocument | Plan | Edits) -> str:
    """Count what a document holds."""
    if isinstance(document, Edits):
        return count(len(document.edits), "edit")
    if isinstance(document, Plan):
        return plan_text(document)
    if isinstance(document, ClusterDocument):
        return capacity_text(occupancy_of(Round(cluster=document)))
    occupancy = occupancy_of(document)
    pending = [job for job in document.jobs if job.running is None]
    special = VIEWS[document.policy.formulation].round_text(document)
    asked = sum(max(option.milli_gpu for option in job.options) for job in pending)
    return (
        f"{capacity_text(occupancy)}, {gpus(int(occupancy.free.sum()))} free; "
        f"{count(len(document.jobs) - len(pending), 'job')} running, {len(pending):,} pending "
        f"asking {gpus(asked)}" + (f"; {special}" if special else "")
    )


def plan_text(plan: Plan) -> str:
    """Count the jobs by what the plan decides, and its promises if it makes some."""
    kinds = [decision.decision for decision in plan.decisions]
    if any(decision.reason is Reason.NOT_ASKED for decision in plan.decisions):
        shown = [DecisionKind.KEEP]  # where only data is decided nobody starts, and nobody waits
    else:
        shown = [kind for kind in OUTCOMES if kind in kinds or kind not in MOVES]
    section = promised_in(plan)
    promises = (
        []
        if section is None
        else [
            count(len(section.jobs), "promise"),
            *([f"{len(section.broken):,} BROKEN"] if section.broken else []),
            f"{len(section.refused):,} refused",
        ]
    )
    return ", ".join(
        [
            count(len(plan.decisions), "job"),
            *(f"{kinds.count(kind):,} {OUTCOMES[kind]}" for kind in shown),
            *promises,
            *_changes_text(plan),
        ]
    )


def _changes_text(plan: Plan) -> list[str]:
    """Count the replicas that a plan creates and drops, and who waits for data."""
    replicas, reads = section_of(plan, ReplicaSection), section_of(plan, ReadsSection)
    return [
        *([f"{count(len(replicas.creates), 'replica')} created"] if replicas.creates else []),
        *([f"{len(replicas.drops):,} dropped"] if replicas.drops else []),
        *([f"{len(reads.waiting):,} waiting for data"] if reads.waiting else []),
    ]


def capacity_text(occupancy: Occupancy) -> str:
    """Count GPUs by model, hosts, and hosts that cannot be used."""
    cluster = occupancy.cluster
    by_model = [
        f"{int(cluster.gpu_count[cluster.gpu_model == index].sum()):,} {model}"
        for index, model in enumerate(cluster.gpu_models)
    ]
    models = f" ({', '.join(by_model)})" if by_model else ""
    unusable = [
        f"{int((occupancy.host_condition == condition).sum()):,} {condition.word}"
        for condition in occupancy.conditions
        if condition in occupancy.host_condition
    ]
    hosts = f"{count(cluster.num_gpus, 'GPU')}{models} on {count(cluster.num_hosts, 'host')}"
    return ", ".join([hosts, *unusable])

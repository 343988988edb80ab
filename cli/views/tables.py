"""The tables of a plan, of a document, and of protected checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from placewright.cli.format.console import MAX_ROWS, print_more, print_rest, print_table, table
from placewright.cli.views.gang.facts import Occupancy, occupancy_of
from placewright.cli.views.gang.tables import (
    DEFAULT,
    Selection,
    certificate_line,
    gpu_table,
    outcome_table,
    print_collectives,
    print_jobs,
    print_moves,
    print_pools,
    print_selected,
    print_tenants,
    print_uplinks,
    print_waiting,
    tenant_table,
    terms_table,
    waiting_table,
)
from placewright.cli.views.policies import VIEWS
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.doubts import told_lines
from placewright.instances.derived.joined_tasks import links_of_jobs
from placewright.instances.derived.phrases import count
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.plan import DecisionKind, Plan, Reason
from placewright.instances.documents.plan_data import ReadsSection, ReplicaSection
from placewright.instances.documents.quantities import memory_in_gi
from placewright.instances.documents.round import Round
from placewright.report.facts.jobs import MOVES, OUTCOMES, milli_gpu_of, moves_of
from placewright.report.facts.promises import promised_in
from placewright.report.facts.usage import gpu_usage, pool_usage, tenant_usage, uplink_usage
from placewright.report.text import gpus

if TYPE_CHECKING:
    from placewright.instances.documents.edits import Edits
    from placewright.instances.documents.plan import Decision
    from placewright.rounds.protection import Chance, ProtectedJob, Protection


PLACED = (DecisionKind.START, DecisionKind.KEEP)
"""Decisions of which the place is listed; those of running jobs that move or stop are moves."""


def print_plan(console: Console, round_: Round, plan: Plan, selection: Selection = DEFAULT) -> None:
    """Print a valid plan of this round: terms, usage, moves, waiting jobs, then the others."""
    jobs = {job.name: job for job in round_.jobs}
    milli = milli_gpu_of(jobs, plan)
    console.print(f"Plan for round {round_.name}")
    console.print()
    waiting = [d for d in plan.decisions if d.decision is DecisionKind.WAIT]
    if selection.jobs:
        print_selected(console, round_, plan, milli, selection.jobs)
    elif selection.waiting:
        _print_waiting(console, round_, waiting, milli, selection)
    else:
        _print_all(console, round_, plan, milli, selection)
    for line in told_lines(round_) if not selection.jobs else ():
        console.print(line, soft_wrap=True)
    if plan.certificate is not None:
        console.print(certificate_line(plan.certificate), soft_wrap=True)


def _print_all(
    console: Console, round_: Round, plan: Plan, milli: Mapping[str, int], selection: Selection
) -> None:
    jobs = {job.name: job for job in round_.jobs}
    views = VIEWS[round_.policy.formulation]
    places_jobs = round_.policy.spec.places_jobs
    # What policies show is about jobs that could be decided.
    decided = round_.valid_part(), plan.without_jobs(round_.invalid)
    views.plan_alert(console, *decided)
    if places_jobs:
        print_table(console, outcome_table(plan, milli))
    if plan.certificate is not None:
        print_table(console, terms_table(plan.certificate.terms))
    if places_jobs:
        _print_usage(console, round_, plan, selection)
    views.plan_tables(console, *decided)
    moves = moves_of(jobs, plan)
    if moves:
        print_moves(console, moves, selection.rows)
    print_collectives(console, jobs, plan, selection.rows)
    print_tenants(console, plan, selection.rows)
    if places_jobs:
        waiting = [d for d in plan.decisions if d.decision is DecisionKind.WAIT]
        _print_waiting(console, round_, waiting, milli, selection)
        placed = [d for d in plan.decisions if d.decision in PLACED]
        if placed:
            links = links_of_jobs(round_, plan)
            print_jobs(console, jobs, placed, milli, selection.rows, links)


def _print_usage(console: Console, round_: Round, plan: Plan, selection: Selection) -> None:
    """Print GPUs by model, tenants, pools and uplinks, before and after."""
    cluster = build_cluster(round_.cluster)
    models = gpu_usage(round_, plan, cluster)
    if models:
        print_table(console, gpu_table(models))
    tenants = tenant_usage(round_, plan, cluster)
    if tenants:
        print_table(console, tenant_table(tenants[: selection.rows]))
        print_rest(console, len(tenants), "more row", selection.rows)
    print_pools(console, pool_usage(round_, cluster, plan), selection.rows)
    print_uplinks(console, uplink_usage(round_, cluster, plan), selection.rows)


def _print_waiting(
    console: Console,
    round_: Round,
    waiting: Sequence[Decision],
    milli: Mapping[str, int],
    selection: Selection,
) -> None:
    """Print each waiting job; of many, first how many wait for which reason."""
    if waiting:
        if len(waiting) > MAX_ROWS:
            print_table(console, waiting_table(waiting, milli))
        print_waiting(console, round_, waiting, milli, selection.waiting_rows)
    elif selection.waiting:
        console.print("No job waits.")
        console.print()


def document_text(document: Round | ClusterDocument | Plan | Edits) -> str:
    """Count what a document holds."""
    if isinstance(document, Plan):
        return plan_text(document)
    if isinstance(document, ClusterDocument):
        return capacity_text(occupancy_of(Round(cluster=document)))
    if not isinstance(document, Round):
        return count(len(document.edits), "edit")
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
    from placewright.report.facts.regions import section_of

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


MOST_NAMES = 8


def print_protection(console: Console, found: Protection) -> None:
    """Print, for each job, its teams, their ranks, and what they survive."""
    for job in found.jobs:
        _print_job(console, job, memory_in_gi(found.memory_mib))
    most = "" if found.most_apart is None else f"; no plan has more than {found.most_apart}"
    console.print(f"{count(found.apart, 'team')} in different domains{most}")


def _print_job(console: Console, job: ProtectedJob, memory: str) -> None:
    title = f"{job.job}: {count(len(job.hosts), 'host')}"
    made = table(title, "keepers", "checkpoints of", "ranks", "domains")
    for one in job.sets[:MAX_ROWS]:
        made.add_row(
            Text(" ".join(one.hosts)),
            "all" if one.owners == one.hosts else Text(" ".join(one.owners)),
            _cliques(["-".join(map(str, ranks)) for ranks in one.ranks]),
            "different" if one.is_apart else "shared",
        )
    if job.sets:
        print_table(console, made)
    else:
        console.print(Text(title))
    print_more(console, len(job.sets) - MAX_ROWS, "set")
    console.print(
        "failed hosts that lose nothing: "
        + ", ".join(f"{k}: {_percent(chance)}" for k, chance in enumerate(job.chances, 1))
    )
    safe = len(job.domains) - len(job.fatal)
    fatal = Text(f"domains whose failure loses nothing: {safe} of {len(job.domains)}")
    if job.fatal:
        fatal.append(f"; not {_short(job.fatal)}")
    console.print(fatal)
    if job.unprotected:
        names = _short(job.unprotected)
        console.print(Text(f"without a copy elsewhere: {names}; who keeps one needs {memory} free"))
    console.print()


def _cliques(texts: list[str]) -> str:
    return ", ".join(texts if len(texts) <= 3 else [*texts[:2], "...", texts[-1]])


def _percent(chance: Chance) -> str:
    error = f" ± {100 * chance.error:.2f}" if chance.error else ""
    return f"{100 * chance.value:.2f}{error} %"


def _short(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return " ".join(names[:MOST_NAMES]) + (f" ... and {more} more" if more > 0 else "")

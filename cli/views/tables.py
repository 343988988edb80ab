"""The tables of a plan, of all policies, in the order in which `solve` prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from placewright.cli.format.table import MAX_ROWS, print_rest, print_table
from placewright.cli.views.gang.selected import (
    DEFAULT,
    Selection,
    print_selected,
    print_waiting,
)
from placewright.cli.views.gang.tables import (
    certificate_line,
    outcome_table,
    print_collectives,
    print_jobs,
    print_moves,
    print_tenants,
    terms_table,
    waiting_table,
)
from placewright.cli.views.gang.usage_tables import (
    gpu_table,
    print_pools,
    print_uplinks,
    tenant_table,
)
from placewright.cli.views.policies import VIEWS
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.doubts import told_lines
from placewright.instances.documents.plan import DecisionKind
from placewright.report.facts.jobs import milli_gpu_of, moves_of
from placewright.report.facts.usage import gpu_usage, pool_usage, tenant_usage, uplink_usage

if TYPE_CHECKING:
    from placewright.instances.documents.plan import Decision, Plan
    from placewright.instances.documents.round import Round

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
            print_jobs(console, jobs, placed, milli, selection.rows)


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

"""The tables of a plan, of all policies, in the order in which `solve` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from placewright.cli.format.table import print_table
from placewright.cli.views.gang.move_tables import moves_of
from placewright.cli.views.gang.tables import (
    certificate_line,
    milli_gpu_of,
    outcome_table,
    print_collectives,
    print_jobs,
    print_moves,
    print_tenants,
    terms_table,
    waiting_table,
)
from placewright.cli.views.policies import VIEWS
from placewright.instances.documents.plan import DecisionKind

if TYPE_CHECKING:
    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round


def print_plan(console: Console, round_: Round, plan: Plan) -> None:
    """Print a valid plan of this round: counts, terms, moves, waiting jobs, and single jobs."""
    jobs = {job.name: job for job in round_.jobs}
    milli = milli_gpu_of(jobs, plan)
    console.print(f"Plan for round {round_.name}")
    console.print()
    views = VIEWS[round_.policy.formulation]
    views.plan_alert(console, round_, plan)
    print_table(console, outcome_table(plan, milli))
    if plan.certificate is not None:
        print_table(console, terms_table(plan.certificate.terms))
    views.plan_tables(console, round_, plan)
    moves = moves_of(jobs, plan)
    if moves:
        print_moves(console, moves)
    print_collectives(console, jobs, plan)
    print_tenants(console, plan)
    waiting = [d for d in plan.decisions if d.decision is DecisionKind.WAIT]
    if waiting:
        print_table(console, waiting_table(waiting, milli))
    if round_.policy.spec.places_jobs:
        print_jobs(console, jobs, plan, milli)
    if plan.certificate is not None:
        console.print(certificate_line(plan.certificate), soft_wrap=True)

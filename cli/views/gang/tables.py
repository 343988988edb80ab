"""Tables of a plan: decisions, objective terms, moves, and why jobs wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from placewright.cli.format.table import print_rest, print_table, table
from placewright.cli.views.gang.collective_tables import collectives_of, options_of, row_of
from placewright.instances.derived.reason_text import MEANINGS
from placewright.instances.documents.plan import Reason
from placewright.report.facts.jobs import MOVES, OUTCOMES, Move
from placewright.report.facts.usage import cells_of, shares_of
from placewright.report.text import NONE, gpus, number, percent, place, term_name, term_text

if TYPE_CHECKING:
    from placewright.instances.documents.job import Job
    from placewright.instances.documents.plan import Certificate, Decision, Plan, TermResult


def outcome_table(plan: Plan, milli: Mapping[str, int]) -> Table:
    """Count jobs and GPUs by decision; `milli` as `milli_gpu_of` has it."""
    made = table("Decisions", "decision", "jobs", "GPUs", right=("jobs", "GPUs"))
    for kind, word in OUTCOMES.items():
        chosen = [d for d in plan.decisions if d.decision is kind]
        if kind in MOVES and not chosen:
            continue
        made.add_row(word, number(len(chosen)), gpus(sum(milli[d.job] for d in chosen)))
    return made


def terms_table(
    terms: Iterable[TermResult], title: str = "Objective, most important first"
) -> Table:
    """Show each objective term with its bound, gap and proof, in order of importance."""
    made = table(
        title,
        "term",
        "sense",
        "value",
        "bound",
        "gap",
        "proof",
        "status",
        right=("value", "bound", "gap"),
    )
    for term in terms:
        proof = term.proof or NONE
        made.add_row(
            term_name(term),
            term.sense,
            term_text(term.name, term.value),
            term_text(term.name, term.bound),
            percent(term.gap),
            f"{proof}, conditional" if term.conditional else proof,
            (term.status or NONE).replace("_", " "),
        )
    return made


def waiting_table(waiting: Iterable[Decision], milli: Mapping[str, int]) -> Table:
    """Count the waiting jobs and what they ask by reason, in the order of the reasons."""
    number_of: Counter[Reason | None] = Counter()
    milli_of: Counter[Reason | None] = Counter()
    for decision in waiting:
        number_of[decision.reason] += 1
        milli_of[decision.reason] += milli[decision.job]
    made = table("Why jobs wait", "reason", "jobs", "GPUs", "meaning", right=("jobs", "GPUs"))
    for reason in (*MEANINGS, None):
        if number_of[reason]:
            made.add_row(
                reason or NONE,
                number(number_of[reason]),
                gpus(milli_of[reason]),
                MEANINGS[reason] if reason else "the plan gives no reason",
            )
    return made


def certificate_line(certificate: Certificate) -> str:
    """Describe in one line how the plan was found, and at what cost."""
    versions = [f"{name} {v}" for name, v in certificate.versions.items() if name != "placewright"]
    parts = [
        f"status {certificate.status}",
        f"backend {certificate.backend}" + (f" ({', '.join(versions)})" if versions else ""),
        f"seed {certificate.seed}",
    ]
    if certificate.deterministic:
        parts.append("repeatable" if certificate.repeatable else "not repeatable")
    if certificate.run is not None:
        run = certificate.run
        parts += [
            f"{run.wall_s:.2f} s",
            f"{run.cpu_s:.2f} CPU s",
            f"peak {run.peak_mib:,.0f} MiB",
        ]
    return ", ".join(parts)


def print_moves(console: Console, moves: Sequence[Move], limit: int | None) -> None:
    """Print the first moves in their order, and how many more there are."""
    spare = sum(move.spare for move in moves)
    title = "Moves, in this order"
    made = table(
        f"{title}; {spare:,} of {len(moves):,} by a spare place" if spare else title,
        "step",
        "job",
        "decision",
        "GPUs",
        "from",
        "to, or why",
        right=("step", "GPUs"),
    )
    for step, move in enumerate(moves[:limit], 1):
        made.add_row(
            number(step),
            move.job,
            f"{OUTCOMES[move.kind]}, by a spare" if move.spare else OUTCOMES[move.kind],
            gpus(move.milli_gpu),
            move.source,
            move.target,
        )
    print_table(console, made)
    print_rest(console, len(moves), "more move", limit)


def print_collectives(
    console: Console, jobs: Mapping[str, Job], plan: Plan, limit: int | None
) -> None:
    """Print the slowest collectives of the jobs that were placed, and how many more there are."""
    found, options = collectives_of(plan), options_of(plan)
    if not found:
        return
    made = table(
        "Collectives, slowest first",
        "job",
        "group",
        "pattern",
        "bottleneck",
        "time",
        right=("bottleneck", "time"),
    )
    for collective in found[:limit]:
        made.add_row(*row_of(jobs, options, collective))
    print_table(console, made)
    print_rest(console, len(found), "more collective", limit)


def print_tenants(console: Console, plan: Plan, limit: int | None) -> None:
    """Print tenants' shares of the cluster and the cells in use, where the plan has them."""
    for rows, noun, made in (
        (
            shares_of(plan),
            "more tenant",
            table("Dominant shares", "tenant", "share by weight", "of"),
        ),
        (cells_of(plan), "more cell", table("Cells in use", "tenant", "cell", "where", "jobs")),
    ):
        for row in rows[:limit]:
            made.add_row(*row)
        if rows:
            print_table(console, made)
            print_rest(console, len(rows), noun, limit)


def print_jobs(
    console: Console,
    jobs: Mapping[str, Job],
    placed: Sequence[Decision],
    milli: Mapping[str, int],
    limit: int | None,
) -> None:
    """Print the largest started and kept jobs, and how many more there are."""
    order = {kind: number for number, kind in enumerate(OUTCOMES)}
    largest = sorted(placed, key=lambda d: (order[d.decision], -milli[d.job]))
    made = table(
        "Started and kept jobs", "job", "decision", "GPUs", "option", "where", right=("GPUs",)
    )
    for decision in largest[:limit]:
        job = jobs[decision.job]
        made.add_row(
            job.name,
            OUTCOMES[decision.decision],
            gpus(milli[job.name]),
            NONE if decision.option is None else job.options[decision.option].name,
            place(decision.tasks) if decision.tasks else NONE,
        )
    print_table(console, made)
    print_rest(console, len(largest), "more job", limit)

"""The verbs that check: `verify` a plan against its round, `validate` a single file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.format.output import (
    STANDARD,
    note,
    out,
    warn_of_invalid_jobs,
    warn_of_quantities,
)
from placewright.cli.interrupts import ExitCode
from placewright.cli.verbs.options import SOLVING_TIME, Format, Lenient, MoveCount, OutputFormat

if TYPE_CHECKING:
    from rich.console import Console

    from placewright.explain.move_curve import MovePoint, WithinMoves
    from placewright.instances.documents.plan import Plan, TermResult
    from placewright.instances.documents.round import Round
    from placewright.instances.verify import Verification

MAX_VIOLATIONS = 20
SHOWN_DIGITS = 12


def verify(
    round_file: Annotated[str, typer.Argument(metavar="ROUND", help="The round; - is stdin.")],
    plan_file: Annotated[str, typer.Argument(metavar="PLAN", help="Its plan; - is stdin.")],
    bound: Annotated[
        bool, typer.Option("--bound", help="Also prove bounds afresh: how good is this plan?")
    ] = False,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="TIME",
            parser=SOLVING_TIME,
            help="Of --bound, --moves: 90, 2m; else the round's.",
        ),
    ] = None,
    moves: MoveCount = None,
    verbose: Annotated[
        bool,
        typer.Option("-v", "--verbose", help="Also list the rules, and each term as recomputed."),
    ] = False,
    output_format: OutputFormat = Format.TEXT,
    lenient: Lenient = False,
) -> None:
    """Check a plan independently of what made it, rule by rule (exit 7 if it breaks one).

    Where only what the plan says is wrong (reasons, certificate ...), the exit code is 12.
    Every objective term is computed again and compared with the plan's own certificate.

    Example: placewright verify round.yaml plan.json --bound
    """
    check_one_stdin(round_file, plan_file)
    if verbose and output_format is Format.JSON:
        raise typer.BadParameter("expected with --format text only", param_hint="--verbose")
    from placewright.instances.io.files import load_plan, load_round
    from placewright.instances.verify import verify as check

    round_, plan = load_round(round_file, lenient=lenient), load_plan(plan_file)
    check_pair(round_, plan, round_file, plan_file)
    if moves is not None:
        check_moves(round_)
    verification = check(round_, plan)
    bounds = within = None
    if bound and verification.placement_ok:
        from placewright.rounds import prove_bounds

        bounds = prove_bounds(round_, plan, time_limit=time_limit)
    if moves is not None and verification.placement_ok:
        from placewright.explain.move_curve import Moves

        whole = plan.completed(round_.names)
        within = Moves(round_, whole, time_limit=time_limit).within(moves)
    if output_format is Format.JSON:
        made = verdict_object(plan, verification, bounds)
        if within is not None:
            made["within"] = within_object(within)
        typer.echo(json.dumps(made, indent=2))
    else:
        print_verdict(out(round_), plan_file, round_, verification, verbose)
        if verbose:
            _print_rules(out(), plan, verification)
        if bounds is not None:
            from placewright.cli.format.console import print_table
            from placewright.cli.views.gang.tables import terms_table

            out().print()
            print_table(out(), terms_table(bounds, "Bounds, proven now"))
        if within is not None:
            from placewright.cli.views.gang.audit_tables import print_within

            out().print()
            print_within(out(), within)
    if not verification.ok:
        raise typer.Exit(report_violations(verification, plan_file))


def validate(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Round, cluster, plan or edits; - is stdin.")
    ],
    lenient: Lenient = False,
) -> None:
    """Check a file against its schema and its own references, and say what it holds.

    Example: placewright validate round.yaml
    """
    from placewright.cli.views.tables import document_text
    from placewright.instances.documents.cluster import ClusterDocument
    from placewright.instances.documents.round import Round
    from placewright.instances.io.files import load

    document = load(file, lenient=lenient)
    if isinstance(document, Round):
        warn_of_invalid_jobs(document)
    if isinstance(document, Round | ClusterDocument):
        warn_of_quantities(document)
    out().print(f"{file}: valid {document.kind}, {document_text(document)}", soft_wrap=True)


def check_pair(round_: Round, plan: Plan, round_file: str, plan_file: str) -> None:
    """Make sure that a plan was made for this round; one that names no round passes.

    Raises
    ------
    InvalidInputError
        If the plan is for another round.
    """
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io.digest import round_digest

    if plan.round is not None and plan.round != (digest := round_digest(round_)):
        raise InvalidInputError(
            f"is another round; expected {digest[:SHOWN_DIGITS]}..., the sha256 of {round_file}",
            file=plan_file,
            path=("round",),
            value=f"{plan.round[:SHOWN_DIGITS]}...",
        )


def check_one_stdin(*files: str | None) -> None:
    """Refuse to read two documents from one stream.

    Raises
    ------
    typer.BadParameter
        If more than one file is stdin.
    """
    if files.count(STANDARD) > 1:
        raise typer.BadParameter("- is given twice; expected at most one document from stdin")


def check_moves(round_: Round) -> None:
    """Refuse to look for moves in a round whose plans cannot be cut into stages.

    Raises
    ------
    typer.BadParameter
        If the round has another policy than `gang`, cells, or backfilling.
    """
    from placewright.explain.move_curve import has_moves

    if not has_moves(round_):
        raise typer.BadParameter(
            f"the round has policy {round_.policy.formulation!r}, cells or backfilling; "
            "expected policy 'gang' without these",
            param_hint="--moves",
        )


def point_object(point: MovePoint) -> dict[str, object]:
    """Return a point of the curve of moves, without its plan."""
    return {
        "moves": point.moves,
        "stops": point.stops,
        "starts": point.starts,
        "milli_gpu": point.milli_gpu,
        "terms": dict(point.terms),
    }


def within_object(within: WithinMoves) -> dict[str, object]:
    """Return the best plan with so many moves, and what bounds all such plans."""
    return {
        "allowed": within.allowed,
        **point_object(within.point),
        "bounds": [term.model_dump() for term in within.terms],
        "plan": within.point.plan.model_dump(mode="json", exclude_none=True),
    }


def verdict_object(
    plan: Plan, verification: Verification, bounds: Sequence[TermResult] | None
) -> dict[str, object]:
    """Return what `--format json` prints (docs/cli.md)."""
    from placewright.instances.verify import unverified

    return {
        "valid": verification.ok,
        "placement_valid": verification.placement_ok,
        "violations": [
            {"rule": found.rule, "path": found.where, "message": found.message}
            for found in verification.violations
        ],
        "unverified": list(unverified(plan)),
        "terms": verification.terms,
        **({} if bounds is None else {"bounds": [term.model_dump() for term in bounds]}),
    }


def print_verdict(
    console: Console,
    plan_file: str,
    round_: Round,
    verification: Verification,
    verbose: bool = False,
) -> None:
    """Say in one line that a plan is valid, or list what it breaks."""
    from placewright.instances.derived.phrases import count

    if verification.ok:
        console.print(f"{plan_file}: valid, a plan for round {round_.name}", soft_wrap=True)
        return
    violations = verification.violations
    found = count(len(violations), "violation")
    if verification.placement_ok:
        found = f"a valid placement for round {round_.name}, but {found} in what it says"
    else:
        found = f"not valid, {found}"
    console.print(f"{plan_file}: {found}", soft_wrap=True)
    shown = violations if verbose else violations[:MAX_VIOLATIONS]
    for violation in shown:
        console.print(str(violation), soft_wrap=True)
    if len(violations) > len(shown):
        more = count(len(violations) - len(shown), "more violation")
        console.print(f"... and {more}; --verbose lists all of them")


def _print_rules(console: Console, plan: Plan, verification: Verification) -> None:
    """List each rule, and each term as it was recomputed beside what the plan claims of it."""
    from placewright.cli.format.console import print_table, table
    from placewright.instances.derived.phrases import count
    from placewright.instances.verify import rule_ids
    from placewright.report.text import number, percent

    console.print()
    broken = Counter(violation.rule for violation in verification.violations)
    rules = table("Rules", "rule", "result")
    for rule in rule_ids():
        if plan.certificate is not None or not rule.startswith("certificate_"):
            rules.add_row(rule, count(broken[rule], "violation") if broken[rule] else "holds")
    print_table(console, rules)
    claimed = {term.name: term for term in plan.certificate.terms} if plan.certificate else {}
    terms = table(
        "Objective terms",
        "term",
        "recomputed",
        "claimed",
        "claimed bound",
        "claimed gap",
        right=("recomputed", "claimed", "claimed bound", "claimed gap"),
    )
    for name, value in verification.terms.items():
        claim = claimed.get(name)
        terms.add_row(
            name,
            number(value),
            number(claim.value if claim else None),
            number(claim.bound if claim else None),
            percent(claim.gap if claim else None),
        )
    print_table(console, terms)


def valid_plan(round_: Round, round_file: str, plan_file: str) -> Plan:
    """Read a plan that has to be valid for its round."""
    from placewright.instances.io.files import load_plan
    from placewright.instances.verify import verify

    plan = load_plan(plan_file)
    check_pair(round_, plan, round_file, plan_file)
    found = verify(round_, plan)
    if not found.ok:
        raise typer.Exit(report_violations(found, plan_file))
    return plan.completed(round_.names)


def report_violations(verification: Verification, plan_file: str) -> int:
    """Say on stderr which rules a plan breaks, and return the exit code."""
    rules = dict.fromkeys(violation.rule for violation in verification.violations)
    note(
        f"placewright: {plan_file} breaks {', '.join(rules)}; expected a plan that keeps all rules"
    )
    return ExitCode.STATEMENTS if verification.placement_ok else ExitCode.VIOLATIONS

"""The verb `audit`: how good anybody's placement is, and what moves would buy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.format.output import (
    check_output,
    note,
    note_written,
    out,
    warn_of_invalid_jobs,
)
from placewright.cli.interrupts import interrupts
from placewright.cli.verbs.options import SOLVING_TIME, Format, Lenient, MoveCount, OutputFormat
from placewright.cli.verbs.verify import (
    check_moves,
    check_one_stdin,
    check_pair,
    point_object,
    print_verdict,
    report_violations,
    verdict_object,
    within_object,
)

if TYPE_CHECKING:
    from placewright.explain.audit import Audit
    from placewright.explain.gpu_links import LinkAudit
    from placewright.explain.move_curve import MoveCurve
    from placewright.explain.places import Fragmentation
    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round


def audit(
    round_file: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="The round, or a dump of a Slurm or Kubernetes cluster."
        ),
    ],
    plan_file: Annotated[
        str | None,
        typer.Argument(metavar="[PLAN]", help="A placement of its jobs; else what runs now."),
    ] = None,
    moves: MoveCount = None,
    picture: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Also draw what moves buy, as .png or .svg."
        ),
    ] = None,
    plans: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="Also write the round after the placement, and a plan per point."
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="TIME", parser=SOLVING_TIME, help="Of each search: 90, 2m; else the round's."
        ),
    ] = None,
    output_format: OutputFormat = Format.TEXT,
    lenient: Lenient = False,
) -> None:
    """Judge a placement, whoever made it: rules, distance from the bounds, what moves would buy.

    A placement that breaks a rule is not judged further (exit 7). Without a plan, what runs is
    judged as if it were decided anew, but for what is pinned, or cannot start where it is.

    Example: placewright audit round.yaml plan.json --moves 10 -o audit.svg
    """
    check_one_stdin(round_file, plan_file)
    if picture is not None:
        from placewright.cli.views.picture import check_picture

        check_picture(picture)
        check_output(picture, round_file, *(() if plan_file is None else (plan_file,)))
    if plans is not None:
        _make_folder(plans)
    from placewright.explain.audit import audit as judge

    if plan_file is None:
        round_, plan = _current(round_file, lenient=lenient)
        plan_file = round_file
    else:
        from placewright.instances.io.files import load_plan, load_round

        round_, plan = load_round(round_file, lenient=lenient), load_plan(plan_file)
        check_pair(round_, plan, round_file, plan_file)
    warn_of_invalid_jobs(round_)
    if moves is not None:
        check_moves(round_)
    found = judge(round_, plan, moves=moves, time_limit=time_limit)
    if output_format is Format.JSON:
        typer.echo(json.dumps(_object(plan, found), indent=2))
    else:
        print_verdict(out(round_), plan_file, round_, found.verification)
        if found.ok:
            _print(round_, found)
    if not found.ok:
        raise typer.Exit(report_violations(found.verification, plan_file))
    if picture is not None:
        _draw(found, round_, picture)
    if plans is not None and found.curve is not None:
        _write_plans(found.curve, plans)


def _current(source: str, *, lenient: bool) -> tuple[Round, Plan]:
    """Read a round or a dump; return what runs there as a plan, and the round that it is for."""
    from placewright.explain.current_placement import current_placement
    from placewright.instances.converters import is_dump, read_live
    from placewright.instances.io.files import load_round

    if not is_dump(source):
        round_ = load_round(source, lenient=lenient)
        running = [job.running for job in round_.jobs if job.running is not None]
        if running and all(one.pinned for one in running):
            note("placewright: all that runs is pinned, and stays; give the dump to judge that")
        return current_placement(round_)
    made = read_live(source, movable=True)
    for line in made.book.lines():
        note(line)
    note(made.summary)
    return current_placement(made.round)


def _print(round_: Round, found: Audit) -> None:
    from placewright.cli.format.console import print_table
    from placewright.cli.views.gang.audit_tables import (
        fragmentation_table,
        print_curve,
        print_links,
        verdict_text,
    )
    from placewright.cli.views.gang.tables import terms_table
    from placewright.instances.derived.doubts import told_lines

    console = out(round_)
    console.print(verdict_text(round_, found.terms, found.curve), soft_wrap=True)
    for line in told_lines(round_):
        console.print(line, soft_wrap=True)
    console.print()
    print_table(console, terms_table(found.terms, "Distance from the proven bounds"))
    moves = 0
    if found.curve is not None:
        print_curve(console, found.terms, found.curve, found.within)
        moves = found.curve.points[-1].moves
    if found.placed is not None:
        print_table(console, fragmentation_table(found.placed, found.moved, moves))
    if found.links is not None:
        print_links(console, found.links)


def _draw(found: Audit, round_: Round, path: str) -> None:
    """Draw the curve; where moves buy nothing there is no picture."""
    if found.curve is None or found.curve.term is None:
        note("placewright: moves buy nothing that could be drawn; no picture was written")
        return
    from placewright.cli.views.gang.audit_tables import draw_curve
    from placewright.cli.views.picture import save_figure

    title = f"What moves buy in round {round_.name}"
    save_figure(draw_curve(found.curve, found.within, title), path, title)
    note_written(path)


def _make_folder(path: str) -> None:
    """Make a folder before time is spent on what goes into it.

    Raises
    ------
    typer.BadParameter
        If there is none and none can be made.
    """
    from pathlib import Path

    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(
            f"{path} is no folder ({error.strerror}); expected one, or a place to make it",
            param_hint="--plans",
        ) from error


def _write_plans(curve: MoveCurve, folder: str) -> None:
    """Write the round that the placement leads to, and the plan of each point by its moves."""
    from placewright.instances.io.files import write

    with interrupts.writing(folder):
        write(curve.round, f"{folder}/round.json")
        for point in curve.points[1:]:
            write(point.plan, f"{folder}/moves-{point.moves:04}.json")
    note_written(folder)


def _object(plan: Plan, found: Audit) -> dict[str, object]:
    """Return what `--format json` prints (docs/cli.md)."""
    made = verdict_object(plan, found.verification, found.terms if found.ok else None)
    if found.curve is not None:
        made["moves"] = _curve_object(found.curve)
    if found.within is not None:
        made["within"] = within_object(found.within)
    if found.placed is not None:
        made["fragmentation"] = {
            name: _fragmentation_object(state)
            for name, state in (("placed", found.placed), ("moved", found.moved))
            if state is not None
        }
    if found.links is not None:
        made["gpu_links"] = _links_object(found.links)
    return made


def _links_object(found: LinkAudit) -> dict[str, object]:
    from dataclasses import asdict

    repaired = None if found.repaired is None else asdict(found.repaired)
    return {"placed": asdict(found.placed), "repaired": repaired, "moves": found.moved}


def _curve_object(curve: MoveCurve) -> dict[str, object]:
    from placewright.explain.move_curve import SHARES

    jobs = curve.round.jobs
    decisions = curve.points[-1].plan.decisions
    return {
        "term": curve.term,
        "bounds": [term.model_dump() for term in curve.results],
        "distance": curve.distance,
        "points": [point_object(point) | {"gain": curve.gain(point)} for point in curve.points],
        "shares": [
            {"share": share, "moves": curve.first_with(share).moves}
            for share in (SHARES if curve.term is not None else ())
        ],
        "order": [
            {
                "moves": [
                    {"job": jobs[j].name, "decision": decisions[j].decision} for j in stage.moves
                ],
                "starts": [jobs[j].name for j in stage.starts],
            }
            for stage in curve.stages
        ],
    }


def _fragmentation_object(state: Fragmentation) -> dict[str, object]:
    from dataclasses import asdict

    return asdict(state)

"""Verbs that compare: `whatif` with its edits, `diff` of plans, `compare` of replays."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placewright.cli.format.output import (
    STANDARD,
    check_output,
    note_written,
    out,
    seconds,
    suggestion,
    warn_of_invalid_jobs,
    warn_of_quantities,
)
from placewright.cli.interrupts import interrupts
from placewright.cli.verbs.options import (
    SOLVING_TIME,
    AllDifferences,
    BeforeAfterPicture,
    Format,
    Lenient,
    OutputFormat,
)
from placewright.cli.verbs.solve import BackendName
from placewright.cli.verbs.verify import check_one_stdin, valid_plan

if TYPE_CHECKING:
    from placewright.instances.documents.edits import Edits
    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round


NO = "none"
IN_REGION = ".gpu@"


@dataclass(frozen=True, slots=True)
class GivenEdits:
    """Edits, and the option that each of them comes from, None for those of the file."""

    edits: Edits
    file: str | None
    options: tuple[str | None, ...]

    def applied(self, round_: Round) -> Round:
        """Return the round with the edits.

        Raises
        ------
        InvalidInputError
            An edit of the file makes no sense.
        typer.BadParameter
            One of an option makes none.
        """
        from placewright.instances.edits.apply import apply_edits
        from placewright.instances.errors import InvalidInputError

        try:
            return apply_edits(round_, self.edits)
        except InvalidInputError as error:
            raise self.blamed(error) from None

    def blamed(self, error: Exception) -> Exception:
        """Return an error as one of the file, or of the option that it comes from."""
        return _blamed(error, self.options, self.file)


def read_edits(file: str | None, given: Mapping[str, Sequence[str] | None]) -> GivenEdits:
    """Return the edits of a file, then those of options, by their names, in this order.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or is not valid.
    typer.BadParameter
        An option is not valid.
    """
    from placewright.instances.documents.edits import Edits
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io.files import load_edits, parse_edits

    first = Edits() if file is None else load_edits(file)
    pairs = list(_raw_edits(given))
    options = (*(None for _ in first.edits), *(option for option, _ in pairs))
    try:
        more = parse_edits({"edits": [raw for _, raw in pairs]})
    except InvalidInputError as error:
        raise _blamed(error, options[len(first.edits) :], None) from None
    return GivenEdits(Edits(edits=(*first.edits, *more.edits)), file, options)


def _blamed(error: Any, options: Sequence[str | None], file: str | None) -> Exception:
    path = error.path
    option = options[int(path[1])] if path[:1] == ("edits",) and len(path) > 1 else None
    if option is None:
        return error if file is None else error.inside(file)  # type: ignore[no-any-return]
    # Without the number of the edit, its verb and the place in a list, which the user never wrote.
    inside = tuple(path[3:])
    while inside and isinstance(inside[0], int):
        inside = inside[1:]
    return typer.BadParameter(error.at(inside).text(place=False), param_hint=option)


def _raw_edits(
    given: Mapping[str, Sequence[str] | None],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of an option and the edit that it stands for."""
    read = {"add": _add, "quota": _quota, "set": _job}
    for option, texts in given.items():
        if option in read:
            for text in texts or ():
                yield f"--{option}", read[option](text)
        elif texts:
            yield f"--{option}", {option: list(texts)}


def _add(text: str) -> dict[str, Any]:
    """Return the edit of `LIKE` or `LIKE=COUNT`."""
    name, found, count = text.rpartition("=")
    return {"add": {"like": name, "count": _value(count)} if found else {"like": text}}


def _quota(text: str) -> dict[str, Any]:
    """Return the edit of `TENANT.RESOURCE=AMOUNT`, `=+AMOUNT`, `=-AMOUNT` or `=none`.

    `TENANT.gpu@REGION=AMOUNT` are all GPUs that it may hold in a region.
    """
    name, _, value = text.rpartition("=")
    if not name or not value:
        raise _wrong(text, "--quota", "TENANT.RESOURCE=AMOUNT")
    tenant, found, region = name.partition(IN_REGION)
    if found:
        if not tenant or not region or value == NO or value[0] in "+-":
            raise _wrong(text, "--quota", "TENANT.gpu@REGION=AMOUNT, all that it may hold there")
        return {"quota": {tenant: {"in_regions": {region: _value(value)}}}}
    tenant, found, resource = name.rpartition(".")
    if not found:
        raise _wrong(text, "--quota", "TENANT.RESOURCE=AMOUNT")
    if value == NO:
        return {"quota": {tenant: {"without": [resource]}}}
    field = {"+": "more", "-": "less"}.get(value[0], "to")
    return {"quota": {tenant: {field: {resource: _value(value.lstrip("+-"))}}}}


def _job(text: str) -> dict[str, Any]:
    """Return the edit of `JOB.FIELD=VALUE`, or `=none` for a job without it."""
    from placewright.instances.documents.edits import JobEdit
    from placewright.topology.gpu_links import LINK_KINDS

    fields = list(JobEdit.model_fields)
    found = re.fullmatch(rf"(.+)\.({'|'.join(fields)})=(.+)", text, re.DOTALL)
    if found is None:
        name = text.partition("=")[0].rpartition(".")[2]
        raise typer.BadParameter(
            f"{text}: expected JOB.FIELD=VALUE with a field of jobs{suggestion(name, fields)}",
            param_hint="--set",
        )
    job, field, value = found.groups()
    if value == NO:
        return {"job": {job: {"without": [field]}}}
    if value[0] in "+-" and field == "due":
        span = seconds(value[1:])
        if span is None or not span.is_integer():
            raise _wrong(text, "--set", "JOB.due=+TIME, later, or -TIME, earlier")
        return {"job": {job: {"due_later_s": int(span) * (1 if value[0] == "+" else -1)}}}
    if field == "expected_runtime_s" and (span := seconds(value)) is not None:
        return {"job": {job: {field: int(span) if span.is_integer() else span}}}
    if numbers := re.fullmatch(r"(\d+)(?:-(\d+))?", value) if field == "num_hosts" else None:
        least, most = numbers[1], numbers[2] or numbers[1]
        return {"job": {job: {field: {"min": int(least), "max": int(most)}}}}
    if field == "gpu_links" and value in LINK_KINDS:
        return {"job": {job: {field: {"required": value}}}}
    if value[0] == "-" and field == "host_sets":
        return {"job": {job: {"drop_host_sets": _names(value[1:])}}}
    if value[0] == "+" and field in ("gpu_models", "regions"):
        return {"job": {job: {f"add_{field}": _names(value[1:])}}}
    if field in ("gpu_models", "regions", "hosts", "host_sets") and value[0] != "[":
        return {"job": {job: {field: _names(value)}}}
    return {"job": {job: {field: _value(value)}}}


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _value(text: str) -> Any:
    """Return a value as YAML has it."""
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io.yaml_json import parse_yaml

    try:
        return parse_yaml(text)
    except InvalidInputError:
        return text


def _wrong(text: str, option: str, form: str) -> typer.BadParameter:
    return typer.BadParameter(f"{text}: expected {form}", param_hint=option)


Hosts = list[str] | None


def whatif(
    round_file: Annotated[
        str, typer.Argument(metavar="ROUND", help="Round as it is, YAML or JSON; - is stdin.")
    ],
    edits_file: Annotated[
        str | None,
        typer.Option("-e", "--edits", metavar="FILE", help="Edits of any kind, or jobs to submit."),
    ] = None,
    drain: Annotated[
        Hosts, typer.Option(metavar="HOST", help="Empty a host or range h[0-3]; may be repeated.")
    ] = None,
    fail: Annotated[
        Hosts, typer.Option(metavar="HOST", help="Hosts fail; who runs there has to start anew.")
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(metavar="LIKE[=N]", help="Add N copies of a rack, another domain or a host."),
    ] = None,
    quota: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TENANT.RESOURCE[@REGION]=AMOUNT",
            help="A quota: 64, +16, -16 or none; in a region, T.gpu@R=64.",
        ),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="JOB.FIELD=VALUE", help="What a job asks: train.count=4, or =none."
        ),
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option(metavar="JOB", help="Jobs that had never been.")
    ] = None,
    plan_file: Annotated[
        str | None, typer.Option("--plan", metavar="PLAN", help="Plan of the round as it is.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the plan of the edited round."),
    ] = None,
    edited_file: Annotated[
        str | None, typer.Option("--edited", metavar="FILE", help="Write the edited round.")
    ] = None,
    picture: BeforeAfterPicture = None,
    output_format: OutputFormat = Format.TEXT,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="TIME", parser=SOLVING_TIME, help="Of each plan; else the round's."),
    ] = None,
    gap: Annotated[
        float | None,
        typer.Option(metavar="G", min=0, max=1, help="Stop at this gap of the first term."),
    ] = None,
    backend: Annotated[BackendName, typer.Option(help="Solver to use.")] = BackendName.AUTO,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, max=2**31 - 1, help="Seed of both searches.")
    ] = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Work limits, not the clock.")
    ] = False,
    everything: AllDifferences = False,
    lenient: Lenient = False,
) -> None:
    """Change a round, plan it before and after, and say what differs, and what of that is proven.

    Edits are made in the order of the options here, those of --edits first. The second search
    begins with the first plan.

    Example: placewright whatif round.yaml --add rack3 --quota research.gpu=+64
    """
    from placewright.cli.verbs.verify import check_one_stdin, check_pair, report_violations

    check_one_stdin(round_file, edits_file, plan_file)
    inputs = tuple(file for file in (round_file, edits_file, plan_file) if file is not None)
    for file in (output, edited_file, picture):
        check_output(file, *inputs)
    if output_format is Format.JSON and STANDARD in (output, edited_file):
        raise typer.BadParameter("expected a file beside --format json", param_hint="-o")
    if picture is not None:
        from placewright.cli.views.picture import check_picture

        check_picture(picture, "--picture")
    given = read_edits(
        edits_file,
        {
            "drain": drain,
            "fail": fail,
            "add": add,
            "quota": quota,
            "set": change,
            "remove": remove,
        },
    )
    from placewright.explain.whatif import UnfinishedError
    from placewright.explain.whatif import whatif as ask
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io.files import load_plan, load_round, write
    from placewright.instances.verify import verify

    round_ = load_round(round_file, lenient=lenient)
    warn_of_quantities(round_)
    warn_of_invalid_jobs(round_)
    if picture is not None:
        from placewright.cli.views.picture import check_has_gpus

        check_has_gpus(round_, round_file)
    plan = None
    if plan_file is not None:
        plan = load_plan(plan_file)
        check_pair(round_, plan, round_file, plan_file)
        found = verify(round_, plan)
        if not found.ok:
            raise typer.Exit(report_violations(found, plan_file))
    try:
        with interrupts.stopping():
            try:
                answer = ask(
                    round_,
                    given.edits,
                    plan=plan,
                    time_limit=time_limit,
                    gap=gap,
                    backend=backend.value,
                    seed=seed,
                    deterministic=deterministic or None,
                )
            except UnfinishedError as unfinished:
                as_json = output_format is Format.JSON
                _print_unfinished(round_, unfinished.before, given.edits, as_json=as_json)
                raise typer.Exit(interrupts.exit_code) from None
    except InvalidInputError as error:
        raise given.blamed(error) from None
    for document, file in ((answer.after, output), (answer.round_after, edited_file)):
        if file is not None:
            with interrupts.writing(file):
                write(document, file)
            note_written(file)
    if picture is not None:
        from placewright.cli.views.picture import draw_difference

        draw_difference(answer.round, answer.before, answer.round_after, answer.after, picture)
        note_written(picture)
    if STANDARD not in (output, edited_file):
        from placewright.cli.views.comparison import print_whatif, whatif_object
        from placewright.cli.views.gang.tables import Selection

        if output_format is Format.JSON:
            typer.echo(json.dumps(whatif_object(answer, given.edits), indent=2))
        else:
            print_whatif(out(answer.round), answer, given.edits, Selection(everything))
    if interrupts.raised:
        raise typer.Exit(interrupts.exit_code)


def _print_unfinished(round_: Round, first: Plan, edits: Edits, *, as_json: bool) -> None:
    """Print what there is if the second search was interrupted before it had a plan."""
    from placewright.cli.views.comparison import print_unfinished, unfinished_object

    if as_json:
        typer.echo(json.dumps(unfinished_object(first, edits), indent=2))
    else:
        print_unfinished(out(round_), round_, first, edits)


def diff(
    round_file: Annotated[
        str, typer.Argument(metavar="ROUND", help="Round of the plans; - is stdin.")
    ],
    before_file: Annotated[str, typer.Argument(metavar="BEFORE", help="The first plan.")],
    after_file: Annotated[str, typer.Argument(metavar="AFTER", help="The second plan.")],
    round_after_file: Annotated[
        str | None,
        typer.Option("--round-after", metavar="ROUND", help="Round of AFTER, if it is another."),
    ] = None,
    picture: BeforeAfterPicture = None,
    output_format: OutputFormat = Format.TEXT,
    everything: AllDifferences = False,
    lenient: Lenient = False,
) -> None:
    """Compare two plans: who starts, moves or stops in one only, and which terms are better.

    Both have to be valid (else exit 7). A difference is proven if it holds between the best plans
    of the two rounds.

    Example: placewright diff round.yaml today.json tomorrow.json
    """
    check_one_stdin(round_file, before_file, after_file, round_after_file)
    if picture is not None:
        from placewright.cli.views.picture import check_picture

        check_picture(picture, "--picture")
        check_output(picture, round_file, before_file, after_file)
    from placewright.explain.comparison import compare
    from placewright.instances.io.files import load_round

    round_ = load_round(round_file, lenient=lenient)
    warn_of_invalid_jobs(round_)
    round_after = round_
    if round_after_file is not None:
        round_after = load_round(round_after_file, lenient=lenient)
        warn_of_invalid_jobs(round_after)
    before = valid_plan(round_, round_file, before_file)
    after = valid_plan(round_after, round_after_file or round_file, after_file)
    comparison = compare(round_, before, round_after, after)
    if picture is not None:
        from placewright.cli.views.picture import check_has_gpus, draw_difference

        check_has_gpus(round_after, round_after_file or round_file)
        draw_difference(round_, before, round_after, after, picture)
        note_written(picture)
    from placewright.cli.views.comparison import comparison_object, print_comparison
    from placewright.cli.views.gang.tables import Selection
    from placewright.instances.derived.source_words import words_of

    if output_format is Format.JSON:
        typer.echo(json.dumps(comparison_object(comparison, words_of(round_)), indent=2))
    else:
        print_comparison(
            out(round_), comparison, round_after.now, Selection(everything), words_of(round_)
        )


def compare(
    folders: Annotated[
        list[str], typer.Argument(metavar="DIR...", help="Folders that replay -o wrote.")
    ],
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE.html", help="Write one page with charts."),
    ] = None,
    any_card: Annotated[
        bool, typer.Option("--any-card", help="Compare replays of different assumptions, too.")
    ] = False,
    output_format: OutputFormat = Format.TEXT,
) -> None:
    """Compare replays: completion times, waiting, preemptions, with the best marked.

    Replays that differ in their seed alone become one column, with a 95 % interval. What differs
    in other assumptions than the policy is refused.

    Example: placewright compare srsf fifo -o policies.html
    """
    check_output(output)
    from placewright.cli.views.replay import print_replays, replays_object
    from placewright.rounds.replay.files import compare as compared
    from placewright.rounds.replay.files import read_outputs

    comparison = compared([read_outputs(folder) for folder in folders], any_card=any_card)
    if output is not None:
        from placewright.instances.io import streams
        from placewright.report.replays import render_replays

        page = render_replays(comparison)
        with interrupts.writing(output):
            streams.write(output, page.encode())
        note_written(output)
    if output_format is Format.JSON:
        typer.echo(json.dumps(replays_object(comparison), indent=2))
    elif output != "-":
        print_replays(out(), comparison)

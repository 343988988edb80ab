"""The verb `replay`: policies over a trace."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.format.output import (
    STANDARD,
    err,
    note,
    note_written,
    out,
    read_seconds,
    read_whole_seconds,
    wrong_argument,
)
from placewright.cli.verbs.options import Format, OutputFormat

if TYPE_CHECKING:
    from placewright.instances.traces.trace import Trace
    from placewright.rounds.replay.loop import Outage
    from placewright.rounds.replay.policy_lists import Quota
    from placewright.rounds.replay.spec import ReplaySpec


_HOSTS = re.compile(r"([0-9]{1,6})x(?:([A-Za-z0-9_.-]{1,40}):)?([0-9]{1,4})")
_QUOTA = re.compile(r"(.+)=([0-9]{1,6})x([0-9]{1,4})", re.DOTALL)
MAX_HOSTS = 200_000
HEAD = 4_096
"""Bytes of a JSON file that say whether it is a round."""
OF_ROUNDS = ("trace_file", "policy", "apart", "output_format")
"""Arguments that replays of rounds have."""

SECONDS = 1.0
"""The limit of a round that pipelines are played by."""


def quotas_of(texts: list[str]) -> tuple[Quota, ...]:
    """Read quotas such as vision=2x4."""
    from placewright.rounds.replay.policy_lists import Quota

    quotas = []
    for text in texts:
        match = _QUOTA.fullmatch(text)
        if match is None or not int(match[2]) or not int(match[3]):
            raise typer.BadParameter(f"{text}: expected TENANT=NxG", param_hint="--quota")
        quotas.append(Quota(match[1], int(match[2]), int(match[3])))
    return tuple(quotas)


def hosts_of(text: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Read hosts such as 16x8, 4x8,2x4 or 2xV100:4,4xK80:8: GPUs of each, and models if named."""
    sizes: list[int] = []
    models: list[str] = []
    for part in text.split(","):
        match = _HOSTS.fullmatch(part.strip())
        number, gpus = (int(match[1]), int(match[3])) if match else (0, 0)
        if match is None or not number or not gpus or len(sizes) + number > MAX_HOSTS:
            raise typer.BadParameter(
                f"{text}: expected NxG or NxMODEL:G, at most {MAX_HOSTS} hosts",
                param_hint="--hosts",
            )
        sizes += [gpus] * number
        models += [match[2] or ""] * number
    if "" in models and any(models):
        raise typer.BadParameter(
            f"{text}: expected a GPU model of all hosts or of none", param_hint="--hosts"
        )
    return tuple(sizes), tuple(models) if any(models) else ()


_OVERHEAD = read_seconds(0, 31_536_000)
_EVERY = read_seconds(1, 31_536_000)
_ROUND = read_whole_seconds(1, 31_536_000)


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds of every start, or of those from some number of GPUs on."""

    seconds: float = 0.0
    by_gpus: tuple[tuple[int, float], ...] = ()


def _start_of(given: object) -> Start:
    """Read a time, or times by GPUs such as 1:30s,8:45s, ascending from 1."""
    text = str(given)
    if ":" not in text:
        return Start(_OVERHEAD(text))
    parts = [part.partition(":") for part in text.split(",")]
    gpus = [int(number) if number.isdigit() and len(number) < 7 else 0 for number, _, _ in parts]
    if gpus[0] != 1 or any(a >= b for a, b in pairwise(gpus)):
        raise typer.BadParameter(f"{text}: expected times by GPUs as 1:30s,8:45s, ascending from 1")
    rows = zip(gpus, parts, strict=True)
    return Start(by_gpus=tuple((number, _OVERHEAD(part[2])) for number, part in rows))


class Placer(StrEnum):
    """Where a job goes."""

    FIRST_FIT = "first-fit"
    BEST_FIT = "best-fit"
    COUNTING = "counting"


class Places(StrEnum):
    """Whether running jobs keep their places."""

    KEPT = "kept"
    FREE = "free"


class Charge(StrEnum):
    """When the overhead of a start is paid."""

    START = "start"
    EVENT = "event"


class Predictions(StrEnum):
    """Where predicted running times come from."""

    TRACE = "trace"
    HELIOS = "helios"


class StartTable(StrEnum):
    """Tables of starts by model and GPUs."""

    MURI = "muri"


def replay(
    context: typer.Context,
    trace_file: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            help="Jobs over time: CSV, JSON or .swf; - is stdin. Or stages, a round.",
        ),
    ],
    policy: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="A policy; file.py:name is your own, which is executed. Several: a sweep.",
        ),
    ],
    hosts: Annotated[
        str | None,
        typer.Option(metavar="NxG", help="N hosts of G GPUs, or NxMODEL:G; several with commas."),
    ] = None,
    apart: Annotated[
        int | None,
        typer.Option(
            metavar="TIME", parser=_ROUND, help="Of a round: pipelines come so far apart."
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="DIR", help="Folder for the records.")
    ] = None,
    placer: Annotated[Placer, typer.Option(help="Which host a job gets.")] = Placer.FIRST_FIT,
    places: Annotated[
        Places, typer.Option(help="Whether running jobs stay where they are.")
    ] = Places.KEPT,
    every: Annotated[
        int | None,
        typer.Option(metavar="TIME", parser=_ROUND, help="Decide in rounds of this length."),
    ] = None,
    at_most_every: Annotated[
        int | None,
        typer.Option(
            metavar="TIME", parser=_ROUND, help="Decide at events, but no sooner than this."
        ),
    ] = None,
    lease: Annotated[
        int | None,
        typer.Option(
            metavar="TIME",
            parser=_ROUND,
            help="Stop and move jobs at ends of leases only; between, jobs start on free GPUs.",
        ),
    ] = None,
    start: Annotated[
        Start | None,
        typer.Option(
            metavar="TIME", parser=_start_of, help="Overhead of each start; 1:30s,8:45s by GPUs."
        ),
    ] = None,
    start_table: Annotated[
        StartTable | None, typer.Option(help="Overheads of starts by model and GPUs.")
    ] = None,
    stop: Annotated[
        float, typer.Option(metavar="TIME", parser=_OVERHEAD, help="Overhead of a preemption.")
    ] = 0.0,
    move: Annotated[
        float, typer.Option(metavar="TIME", parser=_OVERHEAD, help="Overhead of a migration.")
    ] = 0.0,
    checkpoint: Annotated[
        float | None,
        typer.Option(
            metavar="TIME", parser=_EVERY, help="A failure loses work since a checkpoint each TIME."
        ),
    ] = None,
    outages: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="When hosts are away: host, begin_s, end_s as CSV."),
    ] = None,
    mtbf: Annotated[
        float | None,
        typer.Option(metavar="TIME", parser=_EVERY, help="Mean time between failures of a host."),
    ] = None,
    repair: Annotated[
        float, typer.Option(metavar="TIME", parser=_EVERY, help="Mean time of a repair.")
    ] = 3600.0,
    charge: Annotated[
        Charge, typer.Option(help="When a start is paid; event is as Muri's simulator does.")
    ] = Charge.START,
    quota: Annotated[
        list[str] | None,
        typer.Option(metavar="TENANT=NxG", help="The tenant owns N cells of G GPUs; repeatable."),
    ] = None,
    load: Annotated[
        list[float] | None,
        typer.Option(
            metavar="X", min=0.001, max=1000, help="Compress arrivals by X; several: a sweep."
        ),
    ] = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(
            metavar="S", min=0, help="Deal jobs anew to arrivals by S; 0: not. Several: a sweep."
        ),
    ] = None,
    predictions: Annotated[
        Predictions,
        typer.Option(help="Running times as predicted; helios has the errors of its predictor."),
    ] = Predictions.TRACE,
    warm_up: Annotated[
        float, typer.Option(metavar="TIME", parser=_OVERHEAD, help="Measure no job before it.")
    ] = 0.0,
    until: Annotated[
        float | None,
        typer.Option(metavar="TIME", parser=_OVERHEAD, help="Measure no job from it on."),
    ] = None,
    executor: Annotated[
        str, typer.Option(metavar="WHERE", help="Of a sweep: local, local:N or dask://HOST:PORT.")
    ] = "local",
    output_format: OutputFormat = Format.TEXT,
) -> None:
    """Play a policy over a trace: completion times, waiting, stops, use of the cluster.

    A round of policy stages is played by fifo, fair, shortest, critical-path, or rounds.

    Example: placewright replay trace.csv --policy srsf --hosts 8x8 -o srsf
    """
    if _is_round(trace_file):
        _refuse_options_of_traces(context)
        _play_pipelines(trace_file, policy, apart or 0, output_format)
        return
    if hosts is None or apart is not None:
        raise typer.BadParameter("expected --hosts of a trace, no --apart", param_hint="--hosts")
    times = [time for time in (every, at_most_every, lease) if time is not None]
    if len(times) > 1:
        raise typer.BadParameter(
            "expected one of --every, --at-most-every, --lease", param_hint="--every"
        )
    sizes, models = hosts_of(hosts)
    if output is not None and Path(output).is_file():
        raise typer.BadParameter(f"{output}: expected a folder", param_hint="-o")
    from placewright.instances.errors import InvalidInputError
    from placewright.rounds.policies.named import policy_named
    from placewright.rounds.replay.loop import read_outages
    from placewright.rounds.replay.spec import ReplaySpec

    try:
        for name in policy:
            policy_named(name)
    except InvalidInputError as error:
        raise wrong_argument(error, "--policy") from error
    away: tuple[Outage, ...] = ()
    if outages is not None:
        away = read_outages(outages, len(sizes))
    loads, seeds = load or [1.0], seed or [0]
    spec = ReplaySpec(
        policy=policy[0],
        hosts=sizes,
        gpu_models=models,
        placer=placer.value,
        places=places.value,
        every_s=times[0] if times else None,
        at_most_every=at_most_every is not None,
        leases=lease is not None,
        start_s=(start or Start()).seconds,
        start_by_gpus=(start or Start()).by_gpus,
        start_table=None if start_table is None else start_table.value,
        stop_s=stop,
        move_s=move,
        checkpoint_s=checkpoint,
        charge=charge.value,
        outages=away,
        mtbf_s=mtbf,
        repair_s=repair,
        quotas=quotas_of(quota or []),
        load=loads[0],
        seed=seeds[0],
        predictions=predictions.value,
        warm_up_s=warm_up,
        until_s=until,
    )
    if len(policy) * len(loads) * len(seeds) == 1:
        _play_one(trace_file, spec, output, output_format)
        return
    if output is None or trace_file == STANDARD:
        raise typer.BadParameter("expected a file and a folder for a sweep", param_hint="-o")
    from placewright.rounds.replay.files import specs_of

    _play_sweep(trace_file, specs_of(spec, policy, loads, seeds), output, executor, output_format)


def _refuse_options_of_traces(context: typer.Context) -> None:
    """Refuse what would have no effect on pipelines."""
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name not in OF_ROUNDS and source is not None and source.name == "COMMANDLINE":
            problem = "not of a round, which is played by --policy and --apart alone"
            raise typer.BadParameter(problem, param_hint=option.opts[-1])


def _is_round(file: str) -> bool:
    """Whether a file is a document of a round, by its name, or as JSON by how it begins."""
    from placewright.instances.io.streams import opened

    if Path(file).suffix != ".json":
        return Path(file).suffix in (".yaml", ".yml")
    with opened(file) as stream:
        return re.search(rb'"kind"\s*:\s*"Round"', stream.read(HEAD)) is not None


def _play_pipelines(file: str, policies: list[str], apart_s: int, output_format: Format) -> None:
    """Play the pipelines of a round by each of some rules, or by rounds."""
    from placewright.cli.views.replay import print_pipelines
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io.files import load_round
    from placewright.instances.policies import STAGES
    from placewright.rounds import solve_round
    from placewright.rounds.replay.pipelines import RULES, Pipelines

    known = [rule.replace("_", "-") for rule in RULES] + ["rounds"]
    for name in policies:
        if name not in known:
            problem = f"{name}: of a round expected {', '.join(known)}"
            raise typer.BadParameter(problem, param_hint="--policy")
    round_ = load_round(file)
    if round_.policy.spec is not STAGES:
        problem = f"expected policy {STAGES.name}"
        raise InvalidInputError(problem, ("policy", "formulation"), round_.policy.formulation)
    pipelines, decide = Pipelines(round_), partial(solve_round, time_limit=SECONDS)
    came, found = pipelines.arrivals(apart_s), {}
    for name in policies:
        how = decide if name == "rounds" else name.replace("-", "_")
        found[name] = pipelines.measured(pipelines.play(how, came), came)
    if output_format is Format.JSON:
        document = {"kind": "Pipelines", "round": round_.name, "apart_s": apart_s}
        typer.echo(json.dumps(document | {"policies": found}, indent=2))
    else:
        print_pipelines(out(), found)


def _play_one(trace_file: str, spec: ReplaySpec, output: str | None, output_format: Format) -> None:
    from placewright.cli.views.replay import print_summary, replay_progress
    from placewright.instances.traces.read import read_trace
    from placewright.rounds.replay.files import play_file, summary_of
    from placewright.rounds.replay.spec import play

    look = partial(_note_unused, specs=[spec])
    with replay_progress(err()) as watch:
        if output is None:
            trace = read_trace(trace_file)
            look(trace)
            result = play(trace, spec, watch=watch)
            summary = summary_of(result, spec, Path(trace_file).name)
        else:
            summary = play_file(trace_file, spec, output, watch=watch, look=look)
            note_written(output)
    if output_format is Format.JSON:
        typer.echo(json.dumps(summary, indent=2))
    else:
        print_summary(out(), summary)


def _note_unused(trace: Trace, specs: Iterable[ReplaySpec]) -> None:
    """Say on stderr how many jobs of the file are not played, and which columns nobody reads."""
    from placewright.instances.traces.trace import told
    from placewright.rounds.policies.named import policy_named

    if trace.left_out:
        note(told(trace.left_out))
    seen = {column for spec in specs for column in policy_named(spec.policy).sees}
    if unread := [column for column in trace.unread if column not in seen]:
        note(f"columns that nobody reads: {', '.join(unread)}")


def _play_sweep(
    trace_file: str,
    specs: dict[str, ReplaySpec],
    output: str,
    executor: str,
    output_format: Format,
) -> None:
    from placewright.cli.views.replay import print_sweep, sweep_progress
    from placewright.instances.errors import InvalidInputError
    from placewright.rounds.regions.executors import open_executor
    from placewright.rounds.replay.files import SUMMARY, play_all

    folder = Path(output)
    with ExitStack() as open_:
        try:
            workers = open_.enter_context(open_executor(executor))
        except InvalidInputError as error:
            raise wrong_argument(error, "--executor") from error
        done = open_.enter_context(sweep_progress(err(), len(specs)))
        look = partial(_note_unused, specs=specs.values())
        for name in play_all(trace_file, specs, folder, workers, look=look):
            done(name)
    note_written(output)
    summaries = {name: json.loads((folder / name / SUMMARY).read_text()) for name in specs}
    if output_format is Format.JSON:
        typer.echo(json.dumps(summaries, indent=2))
    else:
        print_sweep(out(), summaries)

"""The verbs that make documents: `generate`, `convert` and `schema`."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.streams import STANDARD, check_output, note, wrong_argument

if TYPE_CHECKING:
    from placewright.instances.converters import Conversion

generate = typer.Typer(
    name="generate", help="Make a cluster or a round from a seed.", no_args_is_help=True
)
convert = typer.Typer(
    name="convert", help="Turn a published trace into a round.", no_args_is_help=True
)


class Mix(StrEnum):
    """The generator's mixes of jobs."""

    EASY = "easy"
    HARD = "hard"
    TIGHT = "tight"


class Kind(StrEnum):
    """The kinds of documents."""

    ROUND = "Round"
    PLAN = "Plan"
    CLUSTER = "Cluster"


Gpus = Annotated[int, typer.Option(metavar="N", help="GPUs of the cluster, a multiple of 8.")]
Seed = Annotated[int, typer.Option(metavar="S", min=0, help="Same seed, same document.")]
Output = Annotated[
    str, typer.Option("-o", "--output", metavar="FILE", help="Where to write it; - is stdout.")
]


@generate.command("cluster")
def generate_cluster(gpus: Gpus, seed: Seed = 0, output: Output = STANDARD) -> None:
    """Make an empty cluster of 8-GPU hosts in racks, blocks and datacenters.

    Example: placewright generate cluster --gpus 4096 -o cluster.yaml
    """
    check_output(output)
    from placewright.cli.summary import document_text
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.files import write
    from placewright.instances.generator import generate_cluster as make_cluster

    try:
        cluster = make_cluster(gpus, seed=seed)
    except InvalidInputError as error:
        raise wrong_argument(error, f"--{error.path[0]}") from error
    write(cluster, output)
    note(f"made cluster {cluster.name}: {document_text(cluster)}")


@generate.command("round")
def generate_round(
    gpus: Gpus,
    jobs: Annotated[int, typer.Option(metavar="M", min=0, help="Pending jobs.")],
    mix: Annotated[Mix, typer.Option(help="Which shares of sizes, cores and memory.")] = Mix.EASY,
    seed: Seed = 0,
    output: Output = STANDARD,
) -> None:
    """Make a round: a partly used cluster and pending jobs of a mix.

    Example: placewright generate round --gpus 4096 --jobs 1000 --mix hard --seed 1 -o round.json
    """
    check_output(output)
    from placewright.cli.summary import document_text
    from placewright.instances.demand import load_of
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.files import write
    from placewright.instances.generator import generate_round as make_round

    try:
        round_ = make_round(gpus, jobs, mix=mix.value, seed=seed)
    except InvalidInputError as error:
        raise wrong_argument(error, f"--{error.path[0]}") from error
    write(round_, output)
    note(f"made round {round_.name}: {document_text(round_)}, load {load_of(round_):.2f}")


@convert.command("openb")
def convert_openb(
    nodes: Annotated[str, typer.Argument(metavar="NODES", help="CSV of the trace's nodes.")],
    pods: Annotated[str, typer.Argument(metavar="PODS", help="CSV of the trace's pods.")],
    output: Output,
    all_pending: Annotated[
        bool, typer.Option("--all-pending", help="Every pod waits; the cluster is empty (default).")
    ] = False,
    at: Annotated[
        int | None, typer.Option(metavar="T", help="The pods alive at this second of the trace.")
    ] = None,
    running: Annotated[
        float | None,
        typer.Option(
            metavar="F", min=0, max=1, help="This fraction of the demand runs, by best fit."
        ),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Turn Alibaba's openb trace (GPU pods on GPU nodes) into a round.

    The trace records no host, so --running and --at place what runs by best fit, in file order.

    Example: placewright convert openb nodes.csv pods.csv --running 0.7 -o openb.json
    """
    if sum((all_pending, at is not None, running is not None)) > 1:
        raise typer.BadParameter("--all-pending, --at and --running exclude one another; give one")
    check_output(output, nodes, pods)
    from placewright.instances.converters import read_openb
    from placewright.instances.files import write

    made = read_openb(nodes, pods, running=running, at=at, seed=seed)
    write(made.round, output)
    note(made.summary)


@convert.command("muri")
def convert_muri(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="CSV of the jobs.")],
    output: Output,
    nodes: Annotated[
        str | None, typer.Argument(metavar="NODES", help="CSV of the cluster.")
    ] = None,
    at: Annotated[
        int | None, typer.Option(metavar="T", help="The jobs alive at this second of the trace.")
    ] = None,
    first: Annotated[
        int | None, typer.Option(metavar="N", help="The first jobs of the trace.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="So many jobs, drawn with --seed.")
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Hosts of 8 GPUs instead of NODES; without either a quarter of what jobs ask.",
        ),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Turn a trace of Muri (jobs with the stage times of an iteration) into a round.

    All jobs of the trace wait, or those that --at, --first or --jobs name.

    Example: placewright convert muri trace1.csv n8g8.csv --at 3855623 -o muri.json
    """
    inputs = (trace,) if nodes is None else (trace, nodes)
    check_output(output, *inputs)
    from placewright.instances.converters import read_muri

    _convert(
        lambda: read_muri(trace, nodes, at=at, first=first, jobs=jobs, gpus=gpus, seed=seed), output
    )


@convert.command("synergy")
def convert_synergy(
    profiles: Annotated[str, typer.Argument(metavar="PROFILES", help="JSON of the matrices.")],
    output: Output,
    servers: Annotated[
        int, typer.Option(metavar="N", help="Hosts of 8 GPUs, 24 cores and 500 GB.")
    ] = 16,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="Jobs; by default enough to ask for all GPUs.")
    ] = None,
    split: Annotated[
        str, typer.Option(metavar="I,L,S", help="Parts of image, language and speech models.")
    ] = "20,70,10",
    gpus: Annotated[
        str, typer.Option(metavar="N,...", help="Numbers of GPUs of jobs, each as likely.")
    ] = "1",
    seed: Seed = 0,
) -> None:
    """Draw jobs from Synergy's models (speed by cores and memory) into a round.

    Example: placewright convert synergy synergy_profiles.json --servers 64 -o synergy.json
    """
    check_output(output, profiles)
    from placewright.instances.converters import read_synergy

    _convert(
        lambda: read_synergy(
            profiles,
            servers=servers,
            jobs=jobs,
            split=_whole_numbers(split, "--split"),
            gpus=_whole_numbers(gpus, "--gpus"),
            seed=seed,
        ),
        output,
    )


Asked = Annotated[int, typer.Option("--gpus", metavar="N", help="GPUs, on hosts of 8.")]
Drawn = Annotated[
    int | None, typer.Option("--jobs", metavar="N", help="So many jobs, drawn with --seed.")
]
Lease = Annotated[int, typer.Option("--lease", metavar="S", help="Seconds of a lease.")]
Slack = Annotated[
    float, typer.Option(metavar="F", help="Part by which jobs run longer than recorded.")
]


@convert.command("chronus")
def convert_chronus(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="CSV of the jobs.")],
    output: Output,
    gpus: Asked,
    at: Annotated[
        int | None, typer.Option(metavar="T", help="The jobs alive at this minute of the trace.")
    ] = None,
    ahead: Annotated[
        int, typer.Option(metavar="T", help="Also those submitted in so many minutes after --at.")
    ] = 0,
    jobs: Drawn = None,
    seed: Seed = 0,
    lease: Lease = 1200,
    slack: Slack = 0.0,
    locality: Annotated[
        str | None, typer.Option(metavar="FILE", help="JSON of speeds on several hosts.")
    ] = None,
) -> None:
    """Turn a trace of Chronus (jobs with hard and soft deadlines) into a deadline round.

    All jobs of the trace, each ready when it is submitted, or those that --at or --jobs name.

    Example: placewright convert chronus trace.csv --gpus 120 --at 2000 -o chronus.json
    """
    check_output(output, *((trace,) if locality is None else (trace, locality)))
    from placewright.instances.converters import read_chronus

    _convert(
        lambda: read_chronus(
            trace,
            gpus=gpus,
            at=at,
            ahead=ahead,
            jobs=jobs,
            seed=seed,
            lease_s=lease,
            slack=slack,
            locality=locality,
        ),
        output,
    )


@convert.command("elasticflow")
def convert_elasticflow(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="CSV of the jobs.")],
    output: Output,
    gpus: Asked,
    at: Annotated[
        int | None, typer.Option(metavar="T", help="The jobs alive at this second of the trace.")
    ] = None,
    ahead: Annotated[
        int, typer.Option(metavar="T", help="Also those submitted in so many seconds after --at.")
    ] = 0,
    jobs: Drawn = None,
    seed: Seed = 0,
    lease: Lease = 1200,
    slack: Slack = 0.0,
    elastic: Annotated[
        int | None, typer.Option(metavar="N", help="Jobs may have 1, 2, 4 ... up to N GPUs.")
    ] = None,
    profiles: Annotated[
        str | None, typer.Option(metavar="FILE", help="CSV of iterations by model and GPUs.")
    ] = None,
) -> None:
    """Turn a deadline trace of ElasticFlow into a deadline round.

    All jobs of the trace, each ready when it is submitted, or those that --at or --jobs name. With
    --elastic a job may have more GPUs than it asks, and is faster by --profiles or Amdahl's law.

    Example: placewright convert elasticflow cluster10.csv --gpus 64 --elastic 16 -o round.json
    """
    check_output(output, *((trace,) if profiles is None else (trace, profiles)))
    from placewright.instances.converters import read_elasticflow

    _convert(
        lambda: read_elasticflow(
            trace,
            gpus=gpus,
            at=at,
            ahead=ahead,
            jobs=jobs,
            seed=seed,
            lease_s=lease,
            slack=slack,
            elastic=elastic,
            profiles=profiles,
        ),
        output,
    )


def _convert(read: Callable[[], Conversion], output: str) -> None:
    """Write the round of a trace; an argument out of its range is told by its option."""
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.files import write

    try:
        made = read()
    except InvalidInputError as error:
        if error.file is not None or not error.path:
            raise
        option = str(error.path[0]).removesuffix("_s")  # options do not name their unit
        raise wrong_argument(error, f"--{option}") from error
    write(made.round, output)
    note(made.summary)


def _whole_numbers(text: str, option: str) -> list[int]:
    """Return the whole numbers of a list with commas."""
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise typer.BadParameter(
            f"{text!r}: expected whole numbers with commas between", param_hint=option
        )
    return [int(part) for part in parts]


def schema(
    kind: Annotated[Kind, typer.Argument(metavar="[Round|Plan|Cluster]")] = Kind.ROUND,
) -> None:
    """Print the JSON Schema of a kind of document.

    Example: placewright schema Plan > plan.schema.json
    """
    from placewright.instances.schema import json_schema

    typer.echo(json.dumps(json_schema(kind.value), indent=2))

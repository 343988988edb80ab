"""The verbs `generate`, `init`, `examples` and `schema`: documents from options alone."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from placewright.cli.format.output import STANDARD, check_output, note_written, wrong_argument
from placewright.cli.interrupts import interrupts
from placewright.cli.verbs.options import Gpus, Output, RegionPolicy, Seed

if TYPE_CHECKING:
    from placewright.instances.generators.gang import MixName
    from placewright.instances.generators.geo import MixName as RegionMix
    from placewright.instances.generators.geo import PolicyName

generate = typer.Typer(
    name="generate", help="Make a cluster or a round from a seed.", no_args_is_help=True
)


class Mix(StrEnum):
    """The generator's mixes of jobs; the last two are of rounds of regions."""

    EASY = "easy"
    HARD = "hard"
    TIGHT = "tight"
    SHARED = "shared"
    SPARE = "spare"
    SCARCE = "scarce"


class Kind(StrEnum):
    """The kinds of documents."""

    ROUND = "Round"
    PLAN = "Plan"
    CLUSTER = "Cluster"
    EDITS = "Edits"


class Starter(StrEnum):
    """What `init` writes."""

    ROUND = "round"
    POLICY = "policy"


class Fabric(StrEnum):
    """The networks of clusters."""

    FAT_TREE = "fat-tree"
    RAIL = "rail"
    DRAGONFLY = "dragonfly"


@generate.command("cluster")
def generate_cluster(
    gpus: Gpus,
    seed: Seed = 0,
    output: Output = STANDARD,
    fabric: Annotated[
        Fabric | None,
        typer.Option(help="Hosts on a network of a published rule: fat-tree, rail, dragonfly."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="With --fabric: host model, by default dgx-h100."),
    ] = None,
    radix: Annotated[
        int | None,
        typer.Option(metavar="K", help="With --fabric: ports of a switch, by default 64."),
    ] = None,
    oversubscription: Annotated[
        float | None,
        typer.Option(
            metavar="F", help="With --fabric: what is below uplinks over these, by default 1."
        ),
    ] = None,
) -> None:
    """Make an empty cluster of 8-GPU hosts in racks, blocks and datacenters, or on a network.

    Example: placewright generate cluster --gpus 4096 -o cluster.yaml

    Example: placewright generate cluster --gpus 4096 --fabric rail -o superpod.yaml
    """
    check_output(output)
    from placewright.cli.views.tables import document_text
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.generators.fabrics import generate_fabric
    from placewright.instances.generators.gang import generate_cluster as make_cluster
    from placewright.instances.io.files import write

    asked = {"model": model, "radix": radix, "oversubscription": oversubscription}
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if given and fabric is None:
        name, value = next(iter(given.items()))
        raise typer.BadParameter(f"{value}: expected it with --fabric", param_hint=f"--{name}")
    try:
        cluster = (
            make_cluster(gpus, seed=seed)
            if fabric is None
            else generate_fabric(fabric.value, gpus, **given)
        )
    except InvalidInputError as error:
        raise wrong_argument(error, f"--{error.path[0]}") from error
    with interrupts.writing(output):
        write(cluster, output)
    note_written(output, f"made cluster {cluster.name}: {document_text(cluster)}")


@generate.command("round")
def generate_round(
    gpus: Gpus,
    jobs: Annotated[int, typer.Option(metavar="M", min=0, help="Pending jobs; with --policy all.")],
    mix: Annotated[
        Mix | None,
        typer.Option(
            help="easy (default), hard, tight, shared; with --policy spare (default), scarce."
        ),
    ] = None,
    seed: Seed = 0,
    tenants: Annotated[
        int | None,
        typer.Option(metavar="N", help="Tenants with quotas that bind, by default none."),
    ] = None,
    output: Output = STANDARD,
    policy: Annotated[
        RegionPolicy | None,
        typer.Option(help="Regions with data: which runs which job, or where data lives."),
    ] = None,
    regions: Annotated[
        int | None, typer.Option(metavar="N", help="With --policy: regions, by default 10.")
    ] = None,
    datasets: Annotated[
        int | None, typer.Option(metavar="N", help="With --policy: datasets, by default 100.")
    ] = None,
    wan: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="With --policy: measured links, as convert wan reads."),
    ] = None,
) -> None:
    """Make a round: a partly used cluster and pending jobs of a mix; with --policy one of regions.

    Example: placewright generate round --gpus 4096 --jobs 1000 --mix hard --seed 1 -o round.json

    Example: placewright generate round --gpus 512 --jobs 300 --mix shared --tenants 8 -o round.json

    Example: placewright generate round --policy replicas --gpus 8000 --jobs 1000 -o round.json
    """
    check_output(output)
    from placewright.cli.views.tables import document_text
    from placewright.instances.derived.arrays import load_of
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.generators.gang import generate_round as make_round
    from placewright.instances.io.files import write

    chosen = None if mix is None else mix.value
    if policy is not None:
        if tenants is not None:
            raise typer.BadParameter(
                f"{tenants!r}: expected it without --policy", param_hint="--tenants"
            )
        made = _regions(gpus, jobs, chosen, seed, output, policy.value, regions, datasets, wan)
        note_written(output, made)
        return
    for name, value in (("regions", regions), ("datasets", datasets), ("wan", wan)):
        if value is not None:
            raise typer.BadParameter(
                f"{value!r}: expected it with --policy", param_hint=f"--{name}"
            )
    try:
        name = cast("MixName", chosen or "easy")
        round_ = make_round(gpus, jobs, mix=name, seed=seed, tenants=tenants or 0)
    except InvalidInputError as error:
        raise wrong_argument(error, f"--{error.path[0]}") from error
    with interrupts.writing(output):
        write(round_, output)
    made = f"made round {round_.name}: {document_text(round_)}, load {load_of(round_):.2f}"
    note_written(output, made)


def _regions(
    gpus: int,
    jobs: int,
    mix: str | None,
    seed: int,
    output: str,
    policy: str,
    regions: int | None,
    datasets: int | None,
    wan: str | None,
) -> str:
    """Write a round of regions, and return what it is like."""
    from placewright.instances.converters.traces.wan import read_folder
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.generators.geo import facts_of, generate
    from placewright.instances.io.files import write

    measured = None if wan is None else read_folder(wan)
    try:
        round_ = generate(
            regions=10 if regions is None else regions,
            datasets=100 if datasets is None else datasets,
            jobs=jobs,
            gpus=gpus,
            mix=cast("RegionMix", mix or "spare"),
            seed=seed,
            policy=cast("PolicyName", policy),
            grid=None if measured is None else measured.grid,
        )
    except InvalidInputError as error:
        raise wrong_argument(error, f"--{error.path[0]}") from error
    with interrupts.writing(output):
        write(round_, output)
    return f"made round {round_.name}: {facts_of(round_)}"


def schema(
    kind: Annotated[
        Kind,
        typer.Argument(metavar="KIND", case_sensitive=False, help="Round, Plan, Cluster or Edits."),
    ] = Kind.ROUND,
) -> None:
    """Print the JSON Schema of a kind of document.

    Example: placewright schema Plan > plan.schema.json
    """
    from placewright.instances.io.schema import json_schema

    typer.echo(json.dumps(json_schema(kind.value), indent=2))


def init(
    kind: Annotated[
        Starter, typer.Argument(metavar="round|policy", help="What to begin with.")
    ] = Starter.ROUND,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Where to write it; else KIND.yaml."),
    ] = None,
) -> None:
    """Write a round, or fields of a policy, with comments, to begin from.

    Example: placewright init round -o my-round.yaml
    """
    from placewright.instances.io import streams
    from placewright.instances.io.library import STARTERS

    target = output or f"{kind}.yaml"
    if target != STANDARD and Path(target).exists():
        raise typer.BadParameter(f"{target}: exists; expected a new file", param_hint="--output")
    text = (STARTERS / f"{kind}.yaml").read_text(encoding="utf-8")
    if target == STANDARD:
        typer.echo(text, nl=False)
        return
    check_output(target)
    with interrupts.writing(target):
        streams.write(target, text.encode())
    note_written(target)


def examples(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Print this one, as a file to solve.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="POLICY", help="Those of this policy alone.")
    ] = None,
) -> None:
    """List the bundled rounds by what they show, or print one.

    Example: placewright examples quickstart > round.yaml
    """
    from placewright.instances.io import library

    found = [each for each in library.examples() if policy in (None, each.policy)]
    if name is None:
        for each in found:
            typer.echo(f"{each.path.stem}  [{each.policy}]  {each.source}")
        return
    named = {each.path.stem: each.path for each in found}
    if name not in named:
        raise typer.BadParameter(f"{name}: no such round; `placewright examples` lists them")
    typer.echo(named[name].read_text(encoding="utf-8"), nl=False)

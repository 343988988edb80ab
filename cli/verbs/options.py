"""Shared options of the verbs that make documents, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.format.output import note, note_written, read_seconds, wrong_argument
from placewright.cli.interrupts import interrupts

if TYPE_CHECKING:
    from placewright.instances.converters import Conversion, LiveConversion
    from placewright.instances.documents.base import Document

SOLVING_TIME = read_seconds(0, 86_400)
Gpus = Annotated[int, typer.Option(metavar="N", help="GPUs of the cluster, a multiple of 8.")]
Seed = Annotated[int, typer.Option(metavar="S", min=0, help="Same seed, same document.")]
Output = Annotated[
    str, typer.Option("-o", "--output", metavar="FILE", help="Where to write it; - is stdout.")
]


Lenient = Annotated[
    bool,
    typer.Option("--lenient", help="Pending jobs that make no sense wait, as invalid."),
]


Accelerators = Annotated[
    list[str] | None,
    typer.Option(
        "--accelerator",
        metavar="NAME=LABEL",
        help="A resource that counts as GPUs, too, and the label that tells its model. Repeatable.",
    ),
]


def labels_of_accelerators(asked: list[str] | None) -> dict[str, str]:
    """Return the label of each resource that is to count as GPUs."""
    pairs = [one.partition("=") for one in asked or ()]
    for name, sign, label in pairs:
        if not (name and sign and label):
            raise typer.BadParameter(
                f"{name}{sign}{label}; expected NAME=LABEL, such as example.com/npu=npu-model",
                param_hint="--accelerator",
            )
    return {name.strip(): label.strip() for name, _, label in pairs}


MoveCount = Annotated[
    int | None,
    typer.Option(
        "--moves", metavar="K", min=0, help="Also find the best plan that moves K jobs or fewer."
    ),
]


class Format(StrEnum):
    """What is printed to stdout: text for people, or JSON."""

    TEXT = "text"
    JSON = "json"


OutputFormat = Annotated[
    Format, typer.Option("--format", help="What to print: text, or an object as JSON.")
]


class RegionPolicy(StrEnum):
    """The policies of rounds of regions."""

    GEO = "geo"
    REPLICAS = "replicas"


def write_conversion(read: Callable[[], Conversion], output: str) -> None:
    """Write the round of a trace; an argument out of range is reported by its option."""
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io.files import write

    try:
        made = read()
    except InvalidInputError as error:
        if error.file is not None or not error.path:
            raise
        option = str(error.path[0]).removesuffix("_s")  # options do not name their unit
        raise wrong_argument(error, f"--{option}") from error
    with interrupts.writing(output):
        write(made.round, output)
    note_written(output, made.summary)


PolicyFile = Annotated[
    str | None,
    typer.Option(
        "--policy", metavar="FILE", help="Fields of a policy in place of the scheduler's own."
    ),
]


def write_dump(made: LiveConversion, output: str, policy: str | None = None) -> None:
    """Write the round of a dump, and say on stderr what of the dump is not in it."""
    from placewright.instances.converters.support.live import GivenPolicy

    made = made if policy is None else GivenPolicy(policy).of(made)
    notes = list(made.book.lines())
    if made.ignored:
        notes.append(f"files without what is read: {', '.join(made.ignored)}")
    write_noted(made.round, output, notes, made.summary)


def write_noted(document: Document, output: str, notes: Iterable[str], summary: str) -> None:
    """Write a document, and say on stderr what of its source is not in it, or is guessed."""
    from placewright.instances.io.files import write

    with interrupts.writing(output):
        write(document, output)
    for line in notes:
        note(line)
    note_written(output, summary)


BeforeAfterPicture = Annotated[
    str | None, typer.Option(metavar="FILE", help="Draw before and after as .png or .svg.")
]
AllDifferences = Annotated[
    bool, typer.Option("--all", help="Print every job that differs, also only in place.")
]


def _mib(given: object) -> int:
    from placewright.instances.documents.quantities import read_mib

    try:
        return read_mib(str(given))
    except ValueError as error:
        raise typer.BadParameter(f"{given}: {error}") from None


Copies = Annotated[
    int, typer.Option(metavar="M", help="Hosts that keep a checkpoint, its own included.")
]
FailureLevel = Annotated[
    str, typer.Option(metavar="LEVEL", help="Of the failure domains: rack, block, ...")
]
CheckpointMemory = Annotated[
    int,
    typer.Option(metavar="MIB", parser=_mib, help="Checkpoint of one host in MiB, or as 64Gi."),
]

Despite = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RULE", help="Act on jobs with this rule that is not obeyed; may be repeated."
    ),
]

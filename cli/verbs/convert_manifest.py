"""The verb `convert manifest`: a JobSet or a LeaderWorkerSet as jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from placewright.cli.format.output import check_output, note, note_written
from placewright.cli.interrupts import interrupts


def convert_manifest(
    manifest: Annotated[
        str, typer.Argument(metavar="MANIFEST", help="A JobSet or a LeaderWorkerSet, in YAML.")
    ],
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="FILE", help="Where to write it; - is stdout."),
    ],
    level: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=LEVEL", help="The level that an exclusive topology means."),
    ] = None,
) -> None:
    """Turn a manifest of a JobSet or a LeaderWorkerSet into jobs, for whatif -e.

    What jobs cannot say is counted on stderr.

    Example: placewright convert manifest jobset.yaml -o job.yaml
    """
    check_output(output, manifest)
    levels: dict[str, str] = {}
    for text in level or ():
        key, _, name = text.partition("=")
        if not key or not name:
            raise typer.BadParameter(f"{text}: expected KEY=LEVEL", param_hint="--level")
        levels[key] = name
    from placewright.instances.converters import read_manifest
    from placewright.instances.derived.phrases import count
    from placewright.instances.io import streams, yaml_json

    made = read_manifest(manifest, levels=levels)
    jobs = [job.model_dump(mode="json", exclude_defaults=True) for job in made.jobs]
    with interrupts.writing(output):
        streams.write(output, yaml_json.dump_yaml({"jobs": jobs}).encode())
    for line in made.book.lines():
        note(line)
    note_written(output, f"manifest: {count(len(jobs), 'job')}")

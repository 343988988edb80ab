"""The verb `convert skypilot`: a task as a job."""

from __future__ import annotations

from typing import Annotated

import typer

from placewright.cli.format.output import check_output, note_written
from placewright.cli.interrupts import interrupts


def convert_skypilot(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task of SkyPilot, in YAML.")],
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="FILE", help="Where to write it; - is stdout."),
    ],
) -> None:
    """Turn a task of SkyPilot into a job, each of its alternatives an option, for whatif -e.

    Example: placewright convert skypilot task.yaml -o job.yaml
    """
    check_output(output, task)
    from placewright.instances.converters import read_skypilot
    from placewright.instances.derived.phrases import count
    from placewright.instances.io import streams, yaml_json

    job = read_skypilot(task)
    text = yaml_json.dump_yaml(job.model_dump(mode="json", exclude_defaults=True))
    with interrupts.writing(output):
        streams.write(output, text.encode())
    note_written(output, f"skypilot: job {job.name} with {count(len(job.options), 'option')}")

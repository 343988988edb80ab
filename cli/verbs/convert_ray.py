"""The verb `convert ray`: a dump of a Ray cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from placewright.cli.format.output import check_output, wrong_argument
from placewright.cli.verbs.options import Output, write_dump


def convert_ray(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="What ray list ... --detail prints.")
    ],
    output: Output,
    levels: Annotated[
        str | None,
        typer.Option(metavar="KEY,...", help="Label keys of the topology, outermost first."),
    ] = None,
) -> None:
    """Turn a dump of a Ray cluster (ray list nodes, placement-groups, as JSON) into a round.

    Placement groups that have their nodes stay there. What is not in the round is counted by the
    reason why not, on stderr.

    Example: placewright convert ray nodes.json placement-groups.json -o round.json
    """
    check_output(output, *files)
    from placewright.instances.converters import read_ray
    from placewright.instances.errors import InvalidInputError

    keys = tuple(key.strip() for key in levels.split(",")) if levels is not None else ()
    try:
        made = read_ray(files, levels=keys)
    except InvalidInputError as error:
        if error.file is None:
            raise wrong_argument(error, "--levels") from None
        raise
    write_dump(made, output)

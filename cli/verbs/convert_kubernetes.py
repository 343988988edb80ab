"""The verb `convert kubernetes`: a dump of a live cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from placewright.cli.format.output import check_output, wrong_argument
from placewright.cli.verbs.options import (
    Accelerators,
    Output,
    PolicyFile,
    labels_of_accelerators,
    write_dump,
)


def convert_kubernetes(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="What kubectl get ... -o json (or yaml) prints; folders of it."
        ),
    ],
    output: Output,
    levels: Annotated[
        str | None,
        typer.Option(
            metavar="KEY,...", help="Label keys of the topology, outermost first; else known ones."
        ),
    ] = None,
    movable: Annotated[
        bool,
        typer.Option(
            "--movable", help="Running pods that are made anew when stopped can be moved."
        ),
    ] = False,
    accelerator: Accelerators = None,
    policy: PolicyFile = None,
) -> None:
    """Turn a dump of a Kubernetes cluster (kubectl get ... -o json) into a round.

    Running pods stay where they are unless --movable. What is not in the round is counted by the
    reason why not, on stderr.

    Example: placewright convert kubernetes nodes-pods.json queues.json -o round.json
    """
    check_output(output, *files, *([policy] if policy else []))
    from placewright.instances.converters import read_kubernetes
    from placewright.instances.errors import InvalidInputError

    keys = tuple(key.strip() for key in levels.split(",")) if levels is not None else ()
    also = labels_of_accelerators(accelerator)
    try:
        made = read_kubernetes(files, levels=keys, movable=movable, accelerators=also)
    except InvalidInputError as error:
        if error.file is None:
            raise wrong_argument(error, "--levels") from None
        raise
    write_dump(made, output, policy)

"""The verb `convert slurm`: a dump of a live cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from placewright.cli.format.output import check_output
from placewright.cli.verbs.options import Output, PolicyFile, write_dump


def convert_slurm(
    sources: Annotated[
        list[str], typer.Argument(metavar="DIR|FILE...", help="What squeue and scontrol print.")
    ],
    output: Output,
    movable: Annotated[
        bool, typer.Option("--movable", help="Running jobs that may be requeued can be moved.")
    ] = False,
    policy: PolicyFile = None,
) -> None:
    """Turn a dump of a Slurm cluster (squeue and scontrol as JSON) into a round.

    The queue, its reservations and who may be preempted are Slurm's own unless --policy says
    otherwise. Running jobs stay where they are unless --movable. What is not in the round is
    counted by the reason why not, on stderr.

    Example: placewright convert slurm dump -o round.json
    """
    check_output(output, *sources, *([policy] if policy else []))
    from placewright.instances.converters import read_slurm

    made = read_slurm(sources, movable=movable)
    write_dump(made, output, policy)

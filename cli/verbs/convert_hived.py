"""The verb `convert hived`: the configuration of HiveD as a round."""

from __future__ import annotations

from typing import Annotated

import typer

from placewright.cli.format.output import check_output
from placewright.cli.verbs.options import Output, write_dump


def convert_hived(
    config: Annotated[
        str, typer.Argument(metavar="CONFIG", help="HiveD's scheduler configuration, in YAML.")
    ],
    output: Output,
) -> None:
    """Turn the configuration of HiveD into a round: a cluster, and tenants that own cells of it.

    What a round cannot say is counted on stderr.

    Example: placewright convert hived hivedscheduler.yaml -o round.yaml
    """
    check_output(output, config)
    from placewright.instances.converters import read_hived

    made = read_hived(config)
    write_dump(made, output)

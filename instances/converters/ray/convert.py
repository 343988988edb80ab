"""A dump of Ray becomes a round: nodes are hosts, placement groups are gangs of bundles."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

from pydantic import ValidationError

from placewright.instances.checks.round import check_round
from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.accessor import Record
from placewright.instances.converters.kubernetes.sources import Source, refused
from placewright.instances.converters.ray.groups import NS, jobs_of
from placewright.instances.converters.ray.hosts import Hosts
from placewright.instances.converters.ray.records import PlacementGroup, RayNode
from placewright.instances.converters.support.live import LiveConversion
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.round import Reservation, Round
from placewright.instances.documents.source_keys import BOOKKEEPING, SOURCE
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_values

_R = TypeVar("_R", bound=Record)


def read_ray(
    files: Sequence[str | os.PathLike[str]], *, levels: Sequence[str] = ()
) -> LiveConversion:
    """Turn a dump of a Ray cluster into a round.

    Ray cannot move placement groups, so those that have their nodes are pinned.

    Parameters
    ----------
    files
        What `ray list nodes` and `ray list placement-groups` print with `--format json --detail`.
    levels
        Label keys of the layers above the nodes, outermost first; none by default.

    Raises
    ------
    InvalidInputError
        A file cannot be read, or has a value that Ray would not print.
    """
    where = " ".join(os.fspath(file) for file in files)
    book = Bookkeeping()
    nodes: list[RayNode] = []
    groups: list[PlacementGroup] = []
    for file in files:
        _read(os.fspath(file), nodes, groups)
    hosts = Hosts.of(nodes, levels, book)
    if not hosts.by_id:
        raise InvalidInputError(
            "has no node that is alive; expected also what `ray list nodes --format json --detail` "
            "prints",
            file=where,
            show_value=False,
        )
    jobs = jobs_of(groups, hosts, book)
    book.cannot_say("what actors and tasks hold outside of placement groups")
    if groups:
        book.cannot_say("the strategy of placement groups, which `ray list` does not print")
    try:
        made = Round(
            name="ray",
            now=max((one.stats.creation_request_received_ns // NS for one in groups), default=0),
            cluster=ClusterDocument(
                levels=hosts.levels.names, domains=hosts.levels.domains, hosts=hosts.entries(book)
            ),
            jobs=jobs,
            reservations=tuple(Reservation(host=name) for name in sorted(hosts.closed)),
            policy=Policy(spread_weights=hosts.levels.weights) if hosts.levels.names else Policy(),
            annotations={SOURCE: "ray", BOOKKEEPING: book.annotation()},
        )
        check_round(made)
    except InvalidInputError as error:
        raise error.inside(where) from None
    gpus = sum(entry.gpus or 0 for entry in made.cluster.hosts)
    running = sum(job.running is not None for job in jobs)
    summary = (
        f"ray: {len(made.cluster.hosts):,} hosts, {gpus:,} GPUs; {running:,} placement groups have "
        f"their nodes, {len(jobs) - running:,} wait"
    )
    return LiveConversion(made, summary, book)


def _read(file: str, nodes: list[RayNode], groups: list[PlacementGroup]) -> None:
    values = load_values(file)
    if not isinstance(values, list):
        raise InvalidInputError(
            "expected a list, as `ray list ... --format json --detail` prints it",
            file=file,
            value=values,
        )
    for i, raw in enumerate(values):
        if isinstance(raw, dict) and "placement_group_id" in raw:
            groups.append(_record(PlacementGroup, Source(file, (i,), raw)))
        elif isinstance(raw, dict) and "node_id" in raw:
            nodes.append(_record(RayNode, Source(file, (i,), raw)))
        else:
            raise InvalidInputError(
                "expected a node or a placement group of Ray", file=file, path=(i,), value=raw
            )


def _record(kind: type[_R], source: Source) -> _R:
    try:
        return kind.model_validate(source.raw)
    except ValidationError as error:
        raise refused(error, source) from None

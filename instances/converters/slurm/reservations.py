"""Slurm's reservations, as JSON or as `scontrol show reservation` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.ledger import Rule
from placewright.instances.converters.slurm.caveats import Caveats
from placewright.instances.converters.slurm.nodes import Nodes
from placewright.instances.converters.slurm.reading import read_list, read_records
from placewright.instances.converters.slurm.records import SlurmReservation
from placewright.instances.converters.slurm.sources import Part
from placewright.instances.converters.slurm.text import blocks
from placewright.instances.documents.quantities import small_number
from placewright.instances.errors import InvalidInputError

PART = "that a part of its nodes alone is reserved: all of them are kept for it"
RESERVED_PART = Rule("reserved-part", "that a part of it alone is reserved is not read", hard=False)
_NO_TIME = ("", "(null)", "Unknown", "None", "N/A")


def read_reservations(part: Part | None, book: Bookkeeping) -> tuple[SlurmReservation, ...]:
    """Return the reservations of a dump; times of a text are local, as scontrol prints them.

    Raises
    ------
    InvalidInputError
        A value is not what Slurm writes.
    """
    if part is None:
        return ()
    if part.text is None:
        return read_list(SlurmReservation, part, "reservations", book)
    found = []
    for i, row in enumerate(blocks(part.text, "ReservationName")):
        try:
            found.append(_of_row(row, i, part.file))
        except InvalidInputError as error:
            book.refuse(error)
            book.leave(
                "reservations", f"cannot be read: {error.expectation}", row["ReservationName"]
            )
    return tuple(found)


def _of_row(row: dict[str, str], index: int, file: str) -> SlurmReservation:
    return read_records(
        SlurmReservation,
        Part(
            file,
            raw={
                "name": row["ReservationName"],
                "node_list": row.get("Nodes"),
                "start_time": _moment(row.get("StartTime", ""), file, index, "StartTime"),
                "end_time": _moment(row.get("EndTime", ""), file, index, "EndTime"),
                "flags": row.get("Flags"),
                "core_count": small_number(row.get("CoreCnt", "")),
                "tres": row.get("TRES"),
            },
        ),
        "reservations",
        index,
    )


def _moment(text: str, file: str, index: int, field: str) -> int | None:
    if text in _NO_TIME:
        return None
    try:
        return max(0, int(datetime.fromisoformat(text).timestamp()))
    except (ValueError, OverflowError, OSError):
        raise InvalidInputError(
            "expected a time such as 2026-11-24T22:50:24",
            file=file,
            path=("reservations", index, field),
            value=text,
        ) from None


class Share(NamedTuple):
    """What a reservation has of its nodes together: GPUs (0: none for it alone) and CPUs."""

    gpus: int
    cpus: int


def share_of(reservation: SlurmReservation, nodes: Nodes) -> Share | None:
    """Return what a reservation has of its nodes, None if that is all of them."""
    own = [nodes.by_name[name] for name in reservation.node_list if name in nodes.by_name]
    if len(own) < len(reservation.node_list):
        return None
    cores, gpus = reservation.core_count or 0, reservation.tres.gpus.total
    threads = max((node.threads or 1 for node in own), default=1)
    part = 0 < cores * threads < sum(node.cpus or 0 for node in own)
    part = part or 0 < gpus < sum(node.gres.total for node in own)
    return Share(gpus, cores * threads) if part else None


def tell_part(reservation: SlurmReservation, caveats: Caveats, book: Bookkeeping) -> None:
    """Tell that all nodes are kept for a reservation which has a part of them."""
    book.cannot_say(PART, reservation.name)
    for name in reservation.node_list:
        caveats.add(name, RESERVED_PART.caveat())


def overlapping(
    reservations: Sequence[SlurmReservation], now: int
) -> tuple[list[SlurmReservation], list[SlurmReservation]]:
    """Return the reservations that hold now, and those that begin later; others are over."""
    active: list[SlurmReservation] = []
    later: list[SlurmReservation] = []
    for one in reservations:
        if one.end_time is not None and one.end_time <= max(now, one.start_time or 0):
            continue
        (later if (one.start_time or 0) > now else active).append(one)
    return active, later

"""The plan section `reservations`: which jobs start in their turn, and what is reserved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placewright.instances.documents.round import Round
from placewright.rounds.backfill.profile import NEVER, Reservation
from placewright.rounds.backfill.reserve import Reserved

KIND = "reservations"


def reservation_section(
    round_: Round, hosts: tuple[str, ...], reserved: Reserved
) -> dict[str, Any]:
    """Return the section; jobs are in the order of the queue."""

    def entry(reservation: Reservation) -> dict[str, Any]:
        last: dict[str, Any] = {} if reservation.was is None else {"was": reservation.was}
        if reservation.cause is not None:
            last["cause"] = reservation.cause
        return last | {
            "job": round_.jobs[reservation.job].name,
            "option": reservation.option,
            "at": reservation.at,
            "end": None if reservation.end == NEVER else reservation.end,
            "tasks": [
                {"group": group, "host": hosts[host], "tasks": number}
                for group, host, number in reservation.tasks
            ],
        }

    return {
        "kind": KIND,
        "starts": [round_.jobs[job].name for job in reserved.starts.starts],
        "jobs": [entry(reservation) for reservation in reserved.reservations],
    }


def in_turn(sections: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the names of the jobs that start in their turn by a plan's sections."""
    return {
        name
        for section in sections
        if section["kind"] == KIND
        for name in section.get("starts", ())
    }


def reservations_of(sections: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the reservations of a plan's sections, by the name of the job."""
    return {
        entry["job"]: entry
        for section in sections
        if section["kind"] == KIND
        for entry in section.get("jobs", ())
    }


def without_reservations(round_: Round) -> Round:
    """Return a round that asks no plan for reservations of jobs that wait."""
    policy = round_.policy.model_copy(update={"backfill": None})
    return round_.model_copy(update={"policy": policy})

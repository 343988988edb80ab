"""Checks of hosts that task groups name, in lists and by host sets."""

from __future__ import annotations

from collections.abc import Collection

from placewright.instances.derived import ranges
from placewright.instances.derived.host_sets import is_anywhere
from placewright.instances.derived.names import check_known, known_hosts
from placewright.instances.documents.round import Round
from placewright.instances.errors import Errors, InvalidInputError, Path

MAX_MEMBERS = 20_000_000
"""Of all host sets together."""


def check_host_sets(round_: Round, hosts: Collection[str]) -> None:
    """Refuse host sets of which not all hosts are in the cluster, or that are too large together.

    Raises
    ------
    InvalidInputError
        All errors, with their paths in the Round document.
    """
    members = sum(ranges.size(name) for names in round_.host_sets.values() for name in names)
    if members > MAX_MEMBERS:
        raise InvalidInputError(
            f"stand for {members:,} hosts; expected at most {MAX_MEMBERS:,} in all sets",
            path=("host_sets",),
            show_value=False,
        )
    errors = Errors()
    for name, entries in round_.host_sets.items():
        for m, entry in enumerate(entries):
            if entry not in hosts:  # a range, or unknown
                with errors:
                    known_hosts(entry, hosts, ("host_sets", name, m))
    errors.refuse()


def check_allowed_hosts(round_: Round, hosts: Collection[str]) -> None:
    """Refuse task groups that name hosts or host sets that the round does not have.

    Raises
    ------
    InvalidInputError
        All errors, with their paths in the Round document.
    """
    errors = Errors()
    seen: set[str] = set()  # jobs that share a list are many, and a range is long
    for i, job in enumerate(round_.jobs):
        for j, option in enumerate(job.options):
            for k, group in enumerate(option.groups):
                if is_anywhere(group):
                    continue
                path: Path = ("jobs", i, "options", j, "groups", k)
                for m, name in enumerate(group.hosts or ()):
                    if name not in seen:
                        with errors:
                            known_hosts(name, hosts, (*path, "hosts", m))
                            seen.add(name)
                for m, name in enumerate(group.host_sets):
                    if name not in round_.host_sets:
                        with errors:
                            check_known(name, round_.host_sets, "host set", (*path, "host_sets", m))
    errors.refuse()

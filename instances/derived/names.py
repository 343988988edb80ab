"""Names that must be known, or given only once; names and ranges of hosts."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from placewright.instances.derived import ranges
from placewright.instances.errors import InvalidInputError, Path, merged

MAX_SHOWN = 5


def check_unique(names: Iterable[str], what: str, path: Path, last: Path = ("name",)) -> None:
    """Refuse a name given twice in the list at `path`, whose entries have it at `last`.

    Raises
    ------
    InvalidInputError
        For each further use of a name.
    """
    seen: set[str] = set()
    errors: list[InvalidInputError] = []
    for i, name in enumerate(names):
        if name in seen:
            errors.append(
                InvalidInputError(
                    f"{what} given twice; expected each name once",
                    path=(*path, i, *last),
                    value=name,
                )
            )
        seen.add(name)
    if errors:
        raise merged(errors)


def check_known(name: str, known: Collection[str], what: str, path: Path) -> None:
    """Refuse a name that is not among the known ones.

    Raises
    ------
    InvalidInputError
        With some of the known names.
    """
    if name in known:
        return
    shown = sorted(known)[:MAX_SHOWN]
    more = ", ..." if len(known) > len(shown) else ""
    expected = f"expected {' or '.join(shown)}{more}" if shown else "expected none: there are none"
    raise InvalidInputError(
        f"unknown {what}; {expected}", path=path, value=name, unknown=(name, known)
    )


def known_hosts(name: str, hosts: Collection[str], path: Path) -> list[str]:
    """Return the hosts that the name or range at `path` stands for.

    Raises
    ------
    InvalidInputError
        If one of them is not among `hosts`.
    """
    size = ranges.size(name)
    if size < 1:
        problem = "range runs backwards; expected its first number to be the smaller"
    elif size > len(hosts):
        problem = (
            f"stands for {size:,} hosts; expected hosts of the cluster, which has {len(hosts):,}"
        )
    else:
        expanded = ranges.expand(name)
        unknown = next((one for one in expanded if one not in hosts), None)
        if unknown is None:
            return expanded
        raise InvalidInputError(
            f"unknown host {unknown}; expected hosts of the cluster",
            path=path,
            value=name,
            unknown=(unknown, hosts),
        )
    raise InvalidInputError(problem, path=path, value=name)

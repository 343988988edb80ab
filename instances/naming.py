"""Names that must be known, or given only once."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from placewright.instances.errors import InvalidInputError, Path

MAX_SHOWN = 5


def check_unique(names: Iterable[str], what: str, path: Path, last: Path = ("name",)) -> None:
    """Refuse a name given twice in the list at `path`, whose entries have it at `last`.

    Raises
    ------
    InvalidInputError
        For the second use of a name.
    """
    seen: set[str] = set()
    for i, name in enumerate(names):
        if name in seen:
            raise InvalidInputError(
                f"{what} given twice; expected each name once", path=(*path, i, *last), value=name
            )
        seen.add(name)


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
    raise InvalidInputError(f"unknown {what}; {expected}", path=path, value=name)

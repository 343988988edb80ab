"""Names that must be known, or given only once; and the hosts that lists and sets stand for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from placewright.instances.derived import ranges
from placewright.instances.derived.ranges import expand_all
from placewright.instances.documents.option import TaskGroup
from placewright.instances.errors import InvalidInputError, Path, merged

# Names that must be known, or given only once; names and ranges of hosts.


MAX_SHOWN = 5


def refuse_text(names: Sequence[str], what: str, path: Path) -> None:
    """Refuse one name where a list of names is expected, which would be read letter by letter."""
    if isinstance(names, str):
        raise InvalidInputError(f"expected a list of {what}", path, names)


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
                    f"{what} given twice; expected each name once", (*path, i, *last), name
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
    raise InvalidInputError(f"unknown {what}; {expected}", path, name, unknown=(name, known))


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
            path,
            name,
            unknown=(unknown, hosts),
        )
    raise InvalidInputError(problem, path, name)


# Allowed hosts: what the lists and named sets of task groups stand for.


class AllowedHosts:
    """The hosts that task groups of a round allow by name; each set is expanded once.

    Parameters
    ----------
    sets
        The host sets of the round, checked: names and ranges of hosts.
    """

    def __init__(self, sets: Mapping[str, Sequence[str]]) -> None:
        self._sets = sets
        self._expanded: dict[str, frozenset[str]] = {}
        self._known: dict[tuple[tuple[str, ...] | None, tuple[str, ...]], frozenset[str]] = {}

    def of(self, group: TaskGroup) -> frozenset[str] | None:
        """Return the hosts that are in the list of a group and in all of its sets; None: any."""
        if is_anywhere(group):
            return None
        key = group.hosts, group.host_sets
        if key not in self._known:
            parts = [self.of_set(name) for name in group.host_sets]
            if group.hosts is not None:
                parts.append(_expanded(group.hosts))
            self._known[key] = frozenset.intersection(*parts)
        return self._known[key]

    def of_set(self, name: str) -> frozenset[str]:
        """Return the hosts of a set."""
        if name not in self._expanded:
            self._expanded[name] = _expanded(self._sets[name])
        return self._expanded[name]


def is_anywhere(group: TaskGroup) -> bool:
    """Whether a group allows all hosts, as far as their names go."""
    return group.hosts is None and not group.host_sets


def _expanded(names: Sequence[str]) -> frozenset[str]:
    return frozenset(expand_all(names))

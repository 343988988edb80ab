"""Numbers of things, lists of names and times as phrases of a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from placewright.instances.documents.arrangement import GpuLinkRequest, HostCount
    from placewright.topology.gpu_links import LinkKind

# Numbers of things and lists of names as phrases of a sentence.


MAX_NAMES = 4
"""Names of a sentence that are written out; of the others, how many."""

_IRREGULAR = {"leaf": "leaves", "shelf": "shelves", "half": "halves", "chassis": "chassis"}
_OR = " or "
_HISSING = ("s", "x", "z", "ch", "sh")


def plural(noun: str) -> str:
    """Return the plural of a noun, such as the name of a level: `racks`, `leaves`, `switches`."""
    if _OR in noun:
        return _OR.join(map(plural, noun.split(_OR)))
    for one, many in _IRREGULAR.items():
        if noun.endswith(one):
            return noun.removesuffix(one) + many
    if noun.endswith(_HISSING):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in {*"aeiou"}:
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def count(amount: int, noun: str) -> str:
    """Write a number of things: `1 host`, `1,213 hosts`."""
    return f"{amount:,} {noun if amount == 1 else plural(noun)}"


def several(
    names: Sequence[str], most: int = MAX_NAMES, conjunction: Literal["and", "or"] = "and"
) -> str:
    """Write the first names, and how many there are more: `a, b and 3 more`; of none, a dash.

    A single name more is written out, too.
    """
    if not names:
        return "-"
    shown = [*names[: most if len(names) > most + 1 else most + 1]]
    if len(names) > len(shown):
        shown.append(f"{len(names) - len(shown):,} more")
    *first, last = shown
    return f"{', '.join(first)} {conjunction} {last}" if first else last


def counted(names: Sequence[str], noun: str, most: int = MAX_NAMES) -> str:
    """Write how many things there are, and the first names: `job old`, `2 jobs (a and b)`."""
    if len(names) == 1:
        return f"{noun} {names[0]}"
    return f"{count(len(names), noun)} ({several(names, most)})"


def of_hosts(number: HostCount) -> str:
    """Write on how many hosts tasks are: `exactly 2 hosts`, `2 to 4 hosts`."""
    if number.max is None:
        return f"at least {count(number.min, 'host')}"
    if number.min == number.max:
        return f"exactly {count(number.min, 'host')}"
    most = count(number.max, "host")
    return f"at most {most}" if number.min == 1 else f"{number.min:,} to {most}"


LINKS: Mapping[LinkKind, str] = {
    "system": "any link",
    "numa": "links of a NUMA node or better",
    "pcie": "PCIe switches or better",
    "xgmi": "xGMI or better",
    "nvlink": "NVLink",
}
_SHAPES = {"all": "", "ring": " in a ring", "path": " in a path"}


def linked(field: str, value: Any) -> str:
    """Write what one field asks of links: `PCIe switches or better between GPUs`."""
    if field == "joined":
        return f"GPUs joined{_SHAPES[value] or ' each to each'}"
    if field == "at_least_mbps":
        width = "any bandwidth" if value is None else f"{value:,} Mbit/s or more"
        return f"links of {width} between GPUs"
    if field == "required":
        return f"{LINKS[value] if value else 'links of any kind, or none,'} between GPUs"
    return f"{value} of GPUs to count"


def joined_by(asked: GpuLinkRequest) -> str:
    """Write how GPUs are joined: `joined by NVLink`, `joined in a ring by any link of ...`."""
    if not asked.is_required:
        return "joined as well as can be"
    width = "" if asked.at_least_mbps is None else f" of {asked.at_least_mbps:,} Mbit/s or more"
    return f"joined{_SHAPES[asked.joined]} by {LINKS[asked.required or 'system']}{width}"


# Times in seconds as short text.


MINUTE, HOUR, DAY, TEN_DAYS = 60, 3600, 86_400, 864_000


def duration(seconds: int) -> str:
    """Write a time in whole units (`unit_of`): `45s`, `12m30`, `2h20`, `3d04h20`, `30d15h`."""
    hours, minutes = seconds // HOUR, seconds % HOUR // MINUTE
    if seconds < MINUTE:
        return f"{seconds}s"
    if seconds < HOUR:
        return f"{minutes}m" + (f"{seconds % MINUTE:02}" if seconds % MINUTE else "")
    if seconds < DAY:
        return f"{hours}h{minutes:02}"
    rest = "" if unit_of(seconds) == HOUR else f"{minutes:02}"
    return f"{hours // 24}d{hours % 24:02}h{rest}"


def span(seconds: int) -> str:
    """Write a time as `duration` does if nothing is lost by that, else in seconds: `4,830 s`."""
    return f"{seconds:,} s" if seconds % unit_of(seconds) else duration(seconds)


def unit_of(seconds: int) -> int:
    """Return the unit to which a time is written: a second, minute, or from ten days on an hour."""
    if seconds < HOUR:
        return 1
    return MINUTE if seconds < TEN_DAYS else HOUR

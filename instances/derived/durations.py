"""Times in seconds as short text."""

from __future__ import annotations

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

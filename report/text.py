"""Numbers and names as short text, the same in every table and picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from placewright.instances.derived.phrases import HOUR, count, duration
from placewright.instances.documents.plan import Precedence, Task, TermResult
from placewright.instances.documents.quantities import memory_in_gi
from placewright.instances.policies import term_of
from placewright.topology.units import MILLION, WHOLE_GPU

NONE = "-"
KIBI = 1024
MAX_NAME = 40
SMALL_FRACTION, MANY_TIMES = 1e-5, 9.99
SEPARATORS = tuple("-._:/")


def gpus(milli: float) -> str:
    """Write milli-GPU as GPUs: 8000 is `8`, 250 is `0.25`."""
    return _decimal(milli / WHOLE_GPU)


def count_gpus(milli: float) -> str:
    """Write milli-GPU with their noun: `1 GPU`, `0.25 GPUs`."""
    return f"{gpus(milli)} GPU{'' if milli == WHOLE_GPU else 's'}"


def gpu_time(milli: float) -> str:
    """Write milli-GPU-seconds: 250 is `0.25 GPU-s`; an hour and more, `2.5 GPU-h`."""
    seconds = milli / WHOLE_GPU
    if abs(seconds) < HOUR:
        return f"{_decimal(seconds)} GPU-s"
    return f"{_decimal(seconds / HOUR)} GPU-h"


def milliseconds(microseconds: float) -> str:
    """Write microseconds as milliseconds: 780459 is `780.459 ms`."""
    return f"{_decimal(microseconds / 1000)} ms"


def megabits(amount: float) -> str:
    """Write Mbit/s: 12500 is `12,500 Mbit/s`."""
    return f"{_decimal(amount)} Mbit/s"


def gib(amount: float) -> str:
    """Write GiB in the largest unit that they fill: `512 GiB`, `1.5 TiB`, `2.34 PiB`."""
    for unit in ("GiB", "TiB"):
        if abs(amount) < KIBI:
            return f"{_short(amount)} {unit}"
        amount /= KIBI
    return f"{_short(amount)} PiB"


def money(micro: float) -> str:
    """Write micro-dollars as dollars: 1234560000 is `$1,234.56`."""
    return f"${micro / MILLION:,.2f}"


def load(asked: float, there: float) -> str:
    """Write what is asked over what is there, to two decimals: `0.95`, `2.63`."""
    if there:
        return f"{asked / there:.2f}"
    return "no GPUs" if asked else NONE


def thousandths(value: float) -> str:
    """Write thousandths as what they are parts of, to three decimals: 2630 is `2.630`."""
    return f"{value / WHOLE_GPU:.3f}"


def after(at: int, now: int) -> str:
    """Write a time on the round's clock by its distance from now: `+2h20`, `now`, `-35m`."""
    if at == now:
        return "now"
    return f"+{duration(at - now)}" if at > now else f"-{duration(now - at)}"


def intervals(pairs: Sequence[tuple[int, int]], limit: int) -> str:
    """Write half-open intervals of leases: (0, 4), (6, 7) is `0-3,6`; after `limit`, how many."""
    parts = [f"{a}" if b == a + 1 else f"{a}-{b - 1}" for a, b in pairs[:limit]]
    more = len(pairs) - limit
    return ",".join(parts) + (f" and {more:,} more" if more > 0 else "")


def millionths(value: float) -> str:
    """Write millionths as what they are parts of: 26900000 is `26.9`."""
    return _decimal(value / MILLION)


def number(value: float | None) -> str:
    """Write a value or a bound, with decimals only where it has some."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def term_text(name: str, value: float | None) -> str:
    """Write the value or bound of a term in the unit that people read."""
    unit = UNITS.get(term_of(name), number)
    return number(value) if value is None else unit(value)


def term_name(term: TermResult) -> str:
    """Write the name of a term, of a priority class with its priorities."""
    if not term.precedences:
        return term.name
    return f"{term.name} ({priorities(term.precedences)})"


def priorities(precedences: Sequence[Precedence]) -> str:
    """Write the precedences of a priority class: `priority 5`, `priority 1, 0 borrowed`."""
    levels = (
        f"{one.priority}{' cells' if one.cells else '' if one.entitled else ' borrowed'}"
        for one in precedences
    )
    return f"priority {', '.join(levels)}"


def resource_text(resource: str, amount: float) -> str:
    """Write an amount of a resource: GPUs and cores, memory in Gi; others in their own unit."""
    return AMOUNTS.get(resource, number)(amount)


def percent(fraction: float | None) -> str:
    """Write a fraction as a percentage of three significant digits: 0.00012 is `0.012 %`."""
    if fraction is None:
        return NONE
    if 0 < fraction < SMALL_FRACTION:
        return "< 0.001 %"
    return f"{100 * fraction:.3g} %" if fraction < MANY_TIMES else f"{100 * fraction:,.0f} %"


def spans(indices: Iterable[int]) -> str:
    """Write indices as spans: 0, 1, 2, 5 is `0-2,5`."""
    parts: list[list[int]] = []
    for index in sorted(indices):
        if parts and index == parts[-1][-1] + 1:
            parts[-1][1:] = [index]
        else:
            parts.append([index])
    return ",".join("-".join(str(end) for end in part) for part in parts)


def place(tasks: Sequence[Task]) -> str:
    """Say where a job is: its first host, its GPUs there, and how many hosts more.

    A MIG slice is `h:0@4`: GPU 0, from memory slice 4.
    """
    host = tasks[0].host
    others = len({task.host for task in tasks}) - 1
    held = {gpu for task in tasks if task.host == host for gpu in task.gpus}
    where = f"{host}:{spans(held)}" if held else host
    slots = sorted((t.gpus, t.slot) for t in tasks if t.host == host and t.slot is not None)
    if slots:
        where = f"{host}:" + ",".join(f"{spans(gpus)}@{slot}" for gpus, slot in slots)
    return f"{where} and {count(others, 'more host')}" if others else where


def shortened(name: str, most: int = MAX_NAME) -> str:
    """Leave out the middle of a long name, for a picture: `experiment...-3`."""
    if len(name) <= most:
        return name
    tail = (most - 3) // 2
    return f"{name[: most - 3 - tail]}...{name[len(name) - tail :]}"


def short(name: str, holder: str) -> str:
    """Drop the holder's name from the front of a name: `b0-r1-h3` in `b0-r1` is `h3`."""
    rest = name.removeprefix(holder)
    return rest[1:] if holder and rest[:1] in SEPARATORS and rest[1:] else name


UNITS: Mapping[str, Callable[[float], str]] = {
    "disruption": gpu_time,
    "freed": gpu_time,
    "remaining": count_gpus,
    "bottleneck": milliseconds,
    "contention": megabits,
    "gpu_links": megabits,
    "throughput": millionths,
    "weighted_throughput": millionths,
    "efficiency": millionths,
    "best_effort": millionths,
    "early": count_gpus,
    "remote_reads": gib,
    "egress_cost": money,
    "gpu_cost": money,
    "overload": count_gpus,
    "copies": gib,
    "imbalance": gib,
    "hottest": thousandths,
}

AMOUNTS: Mapping[str, Callable[[float], str]] = {
    "gpu": gpus,
    "cpu": gpus,
    "memory": memory_in_gi,
}


def _decimal(value: float) -> str:
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def _short(amount: float) -> str:
    """Write an amount below 1024 to three digits or more."""
    return f"{amount:,.0f}" if float(amount).is_integer() or amount >= 100 else f"{amount:.3g}"

"""What the command line shows of protected checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from placewright.cli.format.table import MAX_ROWS, print_more, print_table, table
from placewright.instances.derived.phrases import count
from placewright.instances.documents.quantities import memory_in_gi

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from placewright.rounds.protection import Chance, ProtectedJob, Protection

MOST_NAMES = 8


def print_protection(console: Console, found: Protection) -> None:
    """Print, for each job, its teams, their ranks, and what they survive."""
    for job in found.jobs:
        _print_job(console, job, memory_in_gi(found.memory_mib))
    most = "" if found.most_apart is None else f"; no plan has more than {found.most_apart}"
    console.print(f"{count(found.apart, 'team')} in different domains{most}")


def _print_job(console: Console, job: ProtectedJob, memory: str) -> None:
    title = f"{job.job}: {count(len(job.hosts), 'host')}"
    made = table(title, "keepers", "checkpoints of", "ranks", "domains")
    for one in job.sets[:MAX_ROWS]:
        made.add_row(
            Text(" ".join(one.hosts)),
            "all" if one.owners == one.hosts else Text(" ".join(one.owners)),
            _cliques(["-".join(map(str, ranks)) for ranks in one.ranks]),
            "different" if one.is_apart else "shared",
        )
    if job.sets:
        print_table(console, made)
    else:
        console.print(Text(title))
    print_more(console, len(job.sets) - MAX_ROWS, "set")
    console.print(
        "failed hosts that lose nothing: "
        + ", ".join(f"{k}: {_percent(chance)}" for k, chance in enumerate(job.chances, 1))
    )
    safe = len(job.domains) - len(job.fatal)
    fatal = Text(f"domains whose failure loses nothing: {safe} of {len(job.domains)}")
    if job.fatal:
        fatal.append(f"; not {_short(job.fatal)}")
    console.print(fatal)
    if job.unprotected:
        names = _short(job.unprotected)
        console.print(Text(f"without a copy elsewhere: {names}; who keeps one needs {memory} free"))
    console.print()


def _cliques(texts: list[str]) -> str:
    return ", ".join(texts if len(texts) <= 3 else [*texts[:2], "...", texts[-1]])


def _percent(chance: Chance) -> str:
    error = f" ± {100 * chance.error:.2f}" if chance.error else ""
    return f"{100 * chance.value:.2f}{error} %"


def _short(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return " ".join(names[:MOST_NAMES]) + (f" ... and {more} more" if more > 0 else "")

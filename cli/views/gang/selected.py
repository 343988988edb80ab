"""Which of a plan's jobs are printed, and single jobs in full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from placewright.cli.format.table import MAX_ROWS, print_table, table
from placewright.instances.derived.doubts import doubts_of, why_waits
from placewright.instances.derived.phrases import count, several
from placewright.instances.documents.plan import DecisionKind
from placewright.report.facts.jobs import OUTCOMES
from placewright.report.text import NONE, after, gpus, number, spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from placewright.instances.documents.job import Job
    from placewright.instances.documents.plan import Decision, Plan
    from placewright.instances.documents.round import Round

MAX_WAITING = 100


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs of a plan to print.

    Parameters
    ----------
    everything
        No table of jobs, moves or tenants is cut.
    waiting
        The waiting jobs alone, all of them.
    jobs
        These jobs alone, in full; empty: no such choice.
    """

    everything: bool = False
    waiting: bool = False
    jobs: tuple[str, ...] = ()

    @property
    def rows(self) -> int | None:
        """How many rows a table has at most; None is no limit."""
        return None if self.everything else MAX_ROWS

    @property
    def waiting_rows(self) -> int | None:
        """How many waiting jobs are listed at most; None is no limit."""
        return None if self.everything or self.waiting else MAX_WAITING


DEFAULT = Selection()


def print_waiting(
    console: Console,
    round_: Round,
    waiting: Sequence[Decision],
    milli: Mapping[str, int],
    limit: int | None,
) -> None:
    """List the waiting jobs, those of the highest priority and then the largest first.

    A table that leaves some out says so, and how to see them.
    """
    jobs = {job.name: job for job in round_.jobs}
    tenants = any(jobs[decision.job].tenant for decision in waiting)
    priorities = len({jobs[decision.job].priority for decision in waiting}) > 1
    made = table(
        "Waiting jobs",
        "job",
        *(("tenant",) if tenants else ()),
        *(("priority",) if priorities else ()),
        "GPUs",
        "why",
        right=("priority", "GPUs"),
    )
    order = sorted(waiting, key=lambda d: (-jobs[d.job].priority, -milli[d.job]))
    for decision in order[:limit]:
        job = jobs[decision.job]
        made.add_row(
            job.name,
            *((job.tenant or NONE,) if tenants else ()),
            *((number(job.priority),) if priorities else ()),
            gpus(milli[job.name]),
            _why(round_, job, decision) or "the plan gives no reason",
        )
    print_table(console, made)
    if limit is not None and len(order) > limit:
        more = count(len(order) - limit, "more waiting job")
        console.print(f"... and {more}; --waiting lists all of them")
        console.print()


def print_selected(
    console: Console,
    round_: Round,
    plan: Plan,
    milli: Mapping[str, int],
    names: Sequence[str],
) -> None:
    """Print single jobs: the decision and why, and the place of each task."""
    jobs = {job.name: job for job in round_.jobs}
    decisions = {decision.job: decision for decision in plan.decisions}
    for name in dict.fromkeys(names):
        print_table(console, _job_table(round_, jobs[name], decisions[name], milli[name]))
        if decisions[name].tasks:
            print_table(console, _task_table(jobs[name], decisions[name]))


def _why(round_: Round, job: Job, decision: Decision) -> str | None:
    """Return the reason for which a job waits, with what is known of it."""
    if decision.reason is None:
        return None

    def when(at: int) -> str:
        return f"at {after(at, round_.now)}"

    return f"{decision.reason}: {why_waits(round_, job, decision, when)}"


def _job_table(round_: Round, job: Job, decision: Decision, milli: int) -> Table:
    made = table(f"Job {job.name}", "what", "value")
    rows = {
        "decision": OUTCOMES[decision.decision],
        "why": _why(round_, job, decision),
        "not obeyed": several(doubts) if (doubts := doubts_of(round_, job)) else None,
        "displaced by": ", ".join(decision.displaced_by) or None,
        "GPUs": gpus(milli),
        "option": None if decision.option is None else job.options[decision.option].name,
        "tenant": job.tenant,
        "priority": number(job.priority),
        "weight": number(job.weight),
    }
    for what, value in rows.items():
        if value is not None:
            made.add_row(what, value)
    return made


def _task_table(job: Job, decision: Decision) -> Table:
    """Show where each task is; a migrated one's place before stands beside it."""
    before = {}
    if decision.decision is DecisionKind.MIGRATE and job.running is not None:
        before = {(task.group, task.index): task for task in job.running.tasks}
    moved = ("from",) if before else ()
    made = table("Tasks", "group", "task", "host", "GPUs", *moved, right=("task",))
    groups = job.options[decision.option or 0].groups
    for task in decision.tasks:
        old = before.get((task.group, task.index))
        slot = "" if task.slot is None else f"@{task.slot}"
        made.add_row(
            groups[task.group].name,
            number(task.index),
            task.host,
            f"{spans(task.gpus)}{slot}" or NONE,
            *((NONE if old is None else f"{old.host}:{spans(old.gpus)}",) if moved else ()),
        )
    return made

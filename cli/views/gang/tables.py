"""The tables of gangs: jobs, decisions, usage, collectives."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from placewright.cli.format.console import MAX_ROWS, print_rest, print_table, table
from placewright.instances.derived.doubts import doubts_of, why_waits
from placewright.instances.derived.joined_tasks import joined_tasks
from placewright.instances.derived.phrases import count, joined_by, of_hosts, several
from placewright.instances.derived.reason_text import MEANINGS
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Plan, Reason
from placewright.instances.documents.quantities import amount_text, memory_in_gi
from placewright.instances.documents.round import Round
from placewright.report.facts.jobs import MOVES, OUTCOMES, Move
from placewright.report.facts.usage import (
    GPU,
    ModelUsage,
    PoolUsage,
    TenantUsage,
    UplinkUsage,
    cells_of,
    fullest,
    shares_of,
)
from placewright.report.text import (
    NONE,
    after,
    gpus,
    megabits,
    milliseconds,
    number,
    percent,
    place,
    resource_text,
    spans,
    term_name,
    term_text,
)
from placewright.topology.units import WHOLE_GPU

if TYPE_CHECKING:
    from placewright.instances.documents.plan import Certificate, Decision, TermResult


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
            print_table(console, _task_table(round_, jobs[name], decisions[name]))


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


def _task_table(round_: Round, job: Job, decision: Decision) -> Table:
    """Show where each task is; a migrated one's place before stands beside it."""
    alone = Plan(decisions=(decision,))
    rings = {
        (one.task.group, one.task.index): megabits(one.mbps)
        for one in joined_tasks(round_, alone)
        if one.group.gpu_links is not None
    }
    before = {}
    if decision.decision.moves and job.running is not None:
        before = {(task.group, task.index): task for task in job.running.tasks}
    moved = ("from",) if before else ()
    joined = ("ring of GPUs",) if rings else ()
    made = table("Tasks", "group", "task", "host", "GPUs", *joined, *moved, right=("task", *joined))
    groups = job.options[decision.option or 0].groups
    for task in decision.tasks:
        old = before.get((task.group, task.index))
        slot = "" if task.slot is None else f"@{task.slot}"
        made.add_row(
            groups[task.group].name,
            number(task.index),
            task.host,
            f"{spans(task.gpus)}{slot}" or NONE,
            *((rings.get((task.group, task.index), NONE),) if rings else ()),
            *((NONE if old is None else f"{old.host}:{spans(old.gpus)}",) if moved else ()),
        )
    return made


def print_jobs_of_round(console: Console, round_: Round) -> None:
    """Print the jobs of a round: counts by size, then the first ones, pending before running."""
    print_table(console, _size_table(round_))
    pooled = {pool.resource for pool in round_.cluster.pools}
    jobs = sorted(round_.jobs, key=lambda job: job.running is not None)
    made = table(
        "Jobs",
        "job",
        "tenant",
        "priority",
        "weight",
        "asks",
        "runs on",
        right=("priority", "weight"),
    )
    for job in jobs[:MAX_ROWS]:
        made.add_row(
            job.name,
            job.tenant or NONE,
            number(job.priority),
            number(job.weight),
            _asks(job, pooled),
            _where(job.running) if job.running else NONE,
        )
    print_table(console, made)
    if len(jobs) > MAX_ROWS:
        console.print(f"... and {count(len(jobs) - MAX_ROWS, 'more job')}")


def _size_table(round_: Round) -> Table:
    """Count pending and running jobs by their GPUs; shares of a GPU are one size."""
    counts: dict[bool, dict[int, int]] = {False: defaultdict(int), True: defaultdict(int)}
    milli: dict[int, int] = defaultdict(int)
    for job in round_.jobs:
        if job.running is not None:
            size = job.options[job.running.option].milli_gpu
        else:
            size = max(option.milli_gpu for option in job.options)
        key = 0 if size < WHOLE_GPU else size
        counts[job.running is not None][key] += 1
        milli[key] += size
    made = table(
        "Jobs by size",
        "GPUs each",
        "pending",
        "running",
        "GPUs together",
        right=("GPUs each", "pending", "running", "GPUs together"),
    )
    for key in sorted(milli):
        made.add_row(
            gpus(key) if key else "below 1",
            number(counts[False][key]),
            number(counts[True][key]),
            gpus(milli[key]),
        )
    return made


def _where(running: Running) -> str:
    """Say where a job runs, and whether it has to stay there."""
    where = place(running.tasks)
    if running.pinned:
        return f"{where}, pinned"
    return f"{where}, pinned to its place" if running.pin == "place" else where


def _asks(job: Job, pooled: Collection[str]) -> str:
    """Say what a job asks: its first option, and how many more there are."""
    first, *others = job.options
    text = _option(first, pooled)
    return f"{text} (or {count(len(others), 'other option')})" if others else text


def _option(option: Option, pooled: Collection[str]) -> str:
    """Say what an option asks; of resources those that hosts share."""
    groups = " + ".join(_group(group, pooled) for group in option.groups)
    level = f", all in one {option.required}" if option.required else ""
    level += f", on {of_hosts(option.hosts)}" if option.hosts else ""
    used = [amount_text(name, amount) for name, amount in option.uses.items() if amount]
    return f"{groups}{level}{f', uses {several(used)}' if used else ''}"


def _group(group: TaskGroup, pooled: Collection[str]) -> str:
    times = f"{group.count} x " if group.count > 1 else ""
    models = f" {'|'.join(group.gpu_models)}" if group.gpu_models else ""
    models += f" on {'|'.join(group.hosts)}" if group.hosts else ""
    models += f" in {' and '.join(group.host_sets)}" if group.host_sets else ""
    level = f" in one {group.required}" if group.required else ""
    if group.apart:
        level += f", at most {group.apart.most} per {group.apart.level}"
    if group.num_hosts:
        level += f", on {of_hosts(group.num_hosts)}"
    if group.gpu_links:
        level += f", {joined_by(group.gpu_links)}"
    size = group.mig or gpus(group.gpu)
    takes = [memory_in_gi(group.gpu_memory)] if group.gpu_memory else []
    takes += [amount_text(n, amount) for n, amount in group.resources.items() if n in pooled]
    return f"{times}{size}{f' with {several(takes)}' if takes else ''}{models}{level}"


GBIT = 1000
Row = tuple[str, str, str, str, str]


def collectives_of(plan: Plan) -> list[Mapping[str, Any]]:
    """Return what a valid plan says of collectives, the slowest first."""
    groups = [
        group
        for section in plan.sections
        if section["kind"] == "communication"
        for group in section["groups"]
    ]
    return sorted(groups, key=lambda group: -group["time_us"])


def row_of(jobs: Mapping[str, Job], options: Mapping[str, int], found: Mapping[str, Any]) -> Row:
    """Return job, group, pattern with data, bottleneck and time of a collective as text."""
    group = jobs[found["job"]].options[options[found["job"]]].groups[found["group"]]
    asked, mbit = group.communication, found["bottleneck_mbit"]
    return (
        found["job"],
        group.name,
        NONE if asked is None else f"{asked.pattern} of {asked.data_mib or 0:,} MiB",
        NONE if mbit is None else f"{number(mbit / GBIT)} Gbit/s",
        milliseconds(found["time_us"]),
    )


def options_of(plan: Plan) -> dict[str, int]:
    """Return the option of each job that holds something."""
    decisions: Sequence[Any] = plan.decisions
    return {d.job: d.option for d in decisions if d.option is not None}


def gpu_table(models: Sequence[ModelUsage]) -> Table:
    """Show the GPUs of healthy hosts by model, and how many are in use before and after."""
    columns = ("GPUs", "before", "after", "share")
    made = table("GPUs in use", "model", *columns, right=columns)
    rows = list(models)
    if len(rows) > 1:
        totals = (sum(amounts) for amounts in zip(*(row[1:] for row in rows), strict=True))
        rows.append(ModelUsage(f"all {len(rows)}", *totals))
    for model, of_model, was, will in rows:
        share = percent(will / (of_model * WHOLE_GPU)) if of_model else NONE
        made.add_row(model, number(of_model), gpus(was), gpus(will), share)
    return made


def tenant_table(tenants: Sequence[TenantUsage]) -> Table:
    """Show what tenants hold, may hold and wait for; resources only where a quota names others."""
    columns = ("before", "after", "quota", "share", "waiting")
    named = any(usage.resource != GPU for usage in tenants)
    first = ("tenant", "resource") if named else ("tenant",)
    title = "Tenants" if named else "Tenants, in GPUs"
    made = table(title, *first, *columns, right=columns)
    for usage in tenants:
        made.add_row(
            usage.tenant or NONE,
            *((usage.resource,) if named else ()),
            resource_text(usage.resource, usage.before),
            resource_text(usage.resource, usage.after),
            NONE if usage.limit is None else resource_text(usage.resource, usage.limit),
            percent(usage.after / usage.capacity) if usage.capacity else NONE,
            resource_text(usage.resource, usage.waiting),
        )
    return made


def print_pools(
    console: Console,
    pools: Sequence[PoolUsage],
    limit: int | None = MAX_ROWS,
    *,
    planned: bool = True,
) -> None:
    """Print how full the fullest domains of pools are, and how many more there are.

    `planned`: before and after a plan; else now.
    """
    if not pools:
        return
    columns = ("capacity", *(("before", "after") if planned else ("in use",)), "share")
    title = "Pools" if len(pools) == 1 else "Pools, fullest first"
    made = table(title, "resource", "where", *columns, right=columns)
    for usage in fullest(pools, limit):
        amounts = (usage.capacity, *((usage.before,) if planned else ()), usage.after)
        made.add_row(
            usage.resource,
            usage.where,
            *(resource_text(usage.resource, amount) for amount in amounts),
            percent(usage.share),
        )
    print_table(console, made)
    print_rest(console, len(pools), "more domain", limit)


def print_uplinks(
    console: Console,
    uplinks: Sequence[UplinkUsage],
    limit: int | None = MAX_ROWS,
    *,
    planned: bool = True,
) -> None:
    """Print how full the fullest uplinks are, and how many more there are.

    `planned`: before and after a plan; else now.
    """
    if not uplinks:
        return
    columns = ("bandwidth", *(("before", "after") if planned else ("in use",)), "share")
    made = table("Uplinks, fullest first", "where", *columns, right=columns)
    for usage in uplinks[:limit]:
        amounts = (usage.bandwidth, *((usage.before,) if planned else ()), usage.after)
        made.add_row(usage.where, *map(megabits, amounts), percent(usage.share))
    print_table(console, made)
    print_rest(console, len(uplinks), "more link", limit)


def outcome_table(plan: Plan, milli: Mapping[str, int]) -> Table:
    """Count jobs and GPUs by decision; `milli` as `milli_gpu_of` has it."""
    made = table("Decisions", "decision", "jobs", "GPUs", right=("jobs", "GPUs"))
    for kind, word in OUTCOMES.items():
        chosen = [d for d in plan.decisions if d.decision is kind]
        if kind in MOVES and not chosen:
            continue
        made.add_row(word, number(len(chosen)), gpus(sum(milli[d.job] for d in chosen)))
    return made


def terms_table(
    terms: Iterable[TermResult], title: str = "Objective, most important first"
) -> Table:
    """Show each objective term with its bound, gap and proof, in order of importance."""
    made = table(
        title,
        "term",
        "sense",
        "value",
        "bound",
        "gap",
        "proof",
        "status",
        right=("value", "bound", "gap"),
    )
    for term in terms:
        proof = term.proof or NONE
        made.add_row(
            term_name(term),
            term.sense,
            term_text(term.name, term.value),
            term_text(term.name, term.bound),
            percent(term.gap),
            f"{proof}, conditional" if term.conditional else proof,
            (term.status or NONE).replace("_", " "),
        )
    return made


def waiting_table(waiting: Iterable[Decision], milli: Mapping[str, int]) -> Table:
    """Count the waiting jobs and what they ask by reason, in the order of the reasons."""
    number_of: Counter[Reason | None] = Counter()
    milli_of: Counter[Reason | None] = Counter()
    for decision in waiting:
        number_of[decision.reason] += 1
        milli_of[decision.reason] += milli[decision.job]
    made = table("Why jobs wait", "reason", "jobs", "GPUs", "meaning", right=("jobs", "GPUs"))
    for reason in (*MEANINGS, None):
        if number_of[reason]:
            made.add_row(
                reason or NONE,
                number(number_of[reason]),
                gpus(milli_of[reason]),
                MEANINGS[reason] if reason else "the plan gives no reason",
            )
    return made


def certificate_line(certificate: Certificate) -> str:
    """Describe in one line how the plan was found, and at what cost."""
    versions = [f"{name} {v}" for name, v in certificate.versions.items() if name != "placewright"]
    parts = [
        f"status {certificate.status}",
        f"backend {certificate.backend}" + (f" ({', '.join(versions)})" if versions else ""),
        f"seed {certificate.seed}",
    ]
    if certificate.deterministic:
        parts.append("repeatable" if certificate.repeatable else "not repeatable")
    if certificate.run is not None:
        run = certificate.run
        parts += [
            f"{run.wall_s:.2f} s",
            f"{run.cpu_s:.2f} CPU s",
            f"peak {run.peak_mib:,.0f} MiB",
        ]
    return ", ".join(parts)


def print_moves(console: Console, moves: Sequence[Move], limit: int | None) -> None:
    """Print the first moves in their order, and how many more there are."""
    spare = sum(move.spare for move in moves)
    title = "Moves, in this order"
    made = table(
        f"{title}; {spare:,} of {len(moves):,} by a spare place" if spare else title,
        "step",
        "job",
        "decision",
        "GPUs",
        "from",
        "to, or why",
        right=("step", "GPUs"),
    )
    for step, move in enumerate(moves[:limit], 1):
        made.add_row(
            number(step),
            move.job,
            f"{OUTCOMES[move.kind]}, by a spare" if move.spare else OUTCOMES[move.kind],
            gpus(move.milli_gpu),
            move.source,
            move.target,
        )
    print_table(console, made)
    print_rest(console, len(moves), "more move", limit)


def print_collectives(
    console: Console, jobs: Mapping[str, Job], plan: Plan, limit: int | None
) -> None:
    """Print the slowest collectives of the jobs that were placed, and how many more there are."""
    found, options = collectives_of(plan), options_of(plan)
    if not found:
        return
    made = table(
        "Collectives, slowest first",
        "job",
        "group",
        "pattern",
        "bottleneck",
        "time",
        right=("bottleneck", "time"),
    )
    for collective in found[:limit]:
        made.add_row(*row_of(jobs, options, collective))
    print_table(console, made)
    print_rest(console, len(found), "more collective", limit)


def print_tenants(console: Console, plan: Plan, limit: int | None) -> None:
    """Print tenants' shares of the cluster and the cells in use, where the plan has them."""
    for rows, noun, made in (
        (
            shares_of(plan),
            "more tenant",
            table("Dominant shares", "tenant", "share by weight", "of"),
        ),
        (cells_of(plan), "more cell", table("Cells in use", "tenant", "cell", "where", "jobs")),
    ):
        for row in rows[:limit]:
            made.add_row(*row)
        if rows:
            print_table(console, made)
            print_rest(console, len(rows), noun, limit)


def print_jobs(
    console: Console,
    jobs: Mapping[str, Job],
    placed: Sequence[Decision],
    milli: Mapping[str, int],
    limit: int | None,
    links: Mapping[str, int],
) -> None:
    """Print the largest started and kept jobs, and how many more there are.

    `links` is how well the GPUs of jobs are joined that ask for it, in Mbit/s.
    """
    order = {kind: number for number, kind in enumerate(OUTCOMES)}
    largest = sorted(placed, key=lambda d: (order[d.decision], -milli[d.job]))
    made = table(
        "Started and kept jobs",
        "job",
        "decision",
        "GPUs",
        "option",
        "where",
        *(("ring of GPUs",) if links else ()),
        right=("GPUs", "ring of GPUs"),
    )
    for decision in largest[:limit]:
        job = jobs[decision.job]
        made.add_row(
            job.name,
            OUTCOMES[decision.decision],
            gpus(milli[job.name]),
            NONE if decision.option is None else job.options[decision.option].name,
            place(decision.tasks) if decision.tasks else NONE,
            *((megabits(links[job.name]) if job.name in links else NONE,) if links else ()),
        )
    print_table(console, made)
    print_rest(console, len(largest), "more job", limit)

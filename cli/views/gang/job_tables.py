"""The tables of a round's jobs: how many of which size, and the first of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from rich.console import Console
from rich.table import Table

from placewright.cli.format.table import MAX_ROWS, print_table, table
from placewright.instances.derived.phrases import count, of_hosts, several
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.quantities import amount_text, memory_in_gi
from placewright.instances.documents.round import Round
from placewright.report.text import NONE, gpus, number, place
from placewright.topology.units import WHOLE_GPU


def print_jobs(console: Console, round_: Round) -> None:
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
    return f"{where}, pinned" if running.pinned else where


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
    size = group.mig or gpus(group.gpu)
    takes = [memory_in_gi(group.gpu_memory)] if group.gpu_memory else []
    takes += [amount_text(n, amount) for n, amount in group.resources.items() if n in pooled]
    return f"{times}{size}{f' with {several(takes)}' if takes else ''}{models}{level}"

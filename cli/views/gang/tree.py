"""The containment tree of a cluster for the terminal, with counts per domain."""

from __future__ import annotations

import numpy as np
from rich.text import Text
from rich.tree import Tree

from placewright.cli.views.gang.facts import Occupancy
from placewright.cli.views.gang.styles import CONDITIONS
from placewright.instances.derived.phrases import count
from placewright.report.facts.jobs import Condition
from placewright.report.text import gpus, short

MAX_DOMAINS = 64


def cluster_tree(occupancy: Occupancy) -> Tree:
    """Draw a cluster level by level, as deep as `MAX_DOMAINS` lines reach.

    Each domain's line counts hosts, GPUs by model, free GPUs, and hosts by why nothing may arrive.
    """
    cluster = occupancy.cluster
    root = Tree(Text(cluster.name, style="bold"), guide_style="dim")
    branches = {0: root}
    lines = 0
    for depth, level in enumerate(cluster.levels):
        names = cluster.names[depth]
        lines += len(names)
        if lines > MAX_DOMAINS:
            hidden = [
                count(len(cluster.names[deeper]), name)
                for deeper, name in enumerate(cluster.levels[depth:], depth)
            ]
            root.add(Text(f"not drawn: {', '.join(hidden)}", style="dim"))
            break
        facts = _facts(occupancy, depth)
        above, branches = branches, {}
        for index, name in enumerate(names):
            holder = int(cluster.parent[depth][index])
            holder_name = cluster.names[depth - 1][holder] if depth else ""
            line = Text.assemble(
                (f"{level} ", "dim"), (short(name, holder_name), "bold"), "  ", facts[index]
            )
            branches[index] = above[holder].add(line)
    return root


def _facts(occupancy: Occupancy, depth: int) -> list[Text]:
    """Say what each domain of a level holds."""
    cluster = occupancy.cluster
    domain = cluster.domain[depth]
    size = len(cluster.names[depth])
    of_gpu = np.repeat(domain, cluster.gpu_count)
    free = np.bincount(of_gpu, weights=occupancy.free, minlength=size).astype(np.int64)
    hosts = np.bincount(domain, minlength=size)
    in_part = (occupancy.gpu_condition == Condition.RESERVED) & np.repeat(
        occupancy.host_condition == Condition.AVAILABLE, cluster.gpu_count
    )
    reserved = np.bincount(of_gpu[in_part], minlength=size)
    unusable = {
        condition: np.bincount(domain[occupancy.host_condition == condition], minlength=size)
        for condition in occupancy.conditions
    }
    by_model = [
        np.bincount(
            domain[cluster.gpu_model == model],
            weights=cluster.gpu_count[cluster.gpu_model == model],
            minlength=size,
        ).astype(np.int64)
        for model in range(len(cluster.gpu_models))
    ]
    facts = []
    for index in range(size):
        parts = [
            f"{amounts[index]:,} {model}"
            for model, amounts in zip(cluster.gpu_models, by_model, strict=True)
            if amounts[index]
        ] or ["no GPUs"]
        line = Text()
        if depth < len(cluster.levels) - 1:
            line.append(f"{count(int(hosts[index]), 'host')}, ")
        line.append(f"{' + '.join(parts)}, ").append(f"{gpus(int(free[index]))} free", "green")
        if reserved[index]:
            line.append(f", {count(int(reserved[index]), 'GPU')} reserved", "yellow")
        for condition, number in unusable.items():
            if number[index]:
                # Of a host itself the count would only say "1".
                here = depth == len(cluster.levels) - 1
                word = (
                    condition.word
                    if here
                    else f"{count(int(number[index]), 'host')} {condition.word}"
                )
                line.append(f", {word}", CONDITIONS[condition].terminal)
        facts.append(line)
    return facts

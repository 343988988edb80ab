"""Placements of a round by rules that take its jobs one by one, as schedulers without a plan do."""

from __future__ import annotations

from collections import Counter

import numpy as np

from benchmarks.packing_pods import Pods
from placewright import Plan, Round
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.plan import Decision, DecisionKind, Task
from placewright.rounds.benchmark.packing_rules import RULES, Kind, Ledger

__all__ = ["placed_by", "pods_of"]


def pods_of(round_: Round) -> Pods:
    """Return the jobs of a round as pods, in their order; each is one task, and pends.

    Raises
    ------
    ValueError
        If a job has more than one task, or runs.
    """
    kinds: list[Kind] = []
    for job in round_.jobs:
        groups = job.options[0].groups
        if job.running is not None or len(groups) != 1 or groups[0].count != 1:
            raise ValueError(f"job {job.name} is no pending pod; expected one task that waits")
        group = groups[0]
        kinds.append(Kind(group.gpu, group.cpu, group.memory, group.gpu_models))
    counts = Counter(kinds)
    number = {kind: i for i, kind in enumerate(counts)}
    built = build_cluster(round_.cluster)
    models = np.array([built.gpu_models[i] for i in built.gpu_model])
    every = np.ones(len(models), dtype=np.bool_)
    return Pods(
        cluster=round_.cluster,
        kinds=tuple(counts),
        counts=np.array(list(counts.values()), dtype=np.int64),
        kind_of=np.array([number[kind] for kind in kinds], dtype=np.int64),
        gpus=built.gpu_count.astype(np.int64),
        capacity=built.capacity[:, :2],
        allowed=np.array(
            [every if kind.models is None else np.isin(models, kind.models) for kind in counts]
        ),
    )


def placed_by(round_: Round, rule: str) -> Plan:
    """Return the plan of a rule of `packing_rules.RULES` that takes the jobs in their order."""
    pods = pods_of(round_)
    hosts = build_cluster(round_.cluster).hosts
    ledger, choose = Ledger(pods), RULES[rule](pods)
    decisions: list[Decision] = []
    for job, kind in zip(round_.jobs, pods.kind_of.tolist(), strict=True):
        place = choose(ledger, kind)
        if place is None:
            decisions.append(Decision(job=job.name, decision=DecisionKind.WAIT))
            continue
        ledger.take(kind, place)
        task = Task(host=hosts[place[0]], gpus=place[1])
        decisions.append(
            Decision(job=job.name, decision=DecisionKind.START, option=0, tasks=(task,))
        )
    return Plan(decisions=tuple(decisions))

"""The plan of a rule that says where data lives: its copies are carried as placewright carries."""

from __future__ import annotations

import numpy as np

from benchmarks.replica_rules import Planner, at_home
from placewright import Plan, Round
from placewright.formulations.common.wan.arrays import NONE, compile_wan
from placewright.formulations.common.wan.routing import schedule
from placewright.formulations.plan_messages import DataPlan
from placewright.formulations.replicas.problem.compile import compile_problem
from placewright.formulations.replicas.problem.problem import Layout
from placewright.instances.documents.plan import Decision
from placewright.rounds.sections.sections import flow_section, replica_section

__all__ = ["plan_of"]


def plan_of(planner: Planner, round_: Round) -> Plan:
    """Return the plan of a rule, without a certificate.

    Where a copy cannot be made in time, jobs choose their homes again without it.
    """
    problem = compile_problem(compile_wan(round_))
    wan, layout = problem.wan, planner(problem)
    creates = np.argwhere(layout.creates(wan)).tolist()
    drops = np.argwhere(layout.drops(wan)).tolist()
    made = schedule(wan, [(d, r) for d, r in creates], [(d, r) for d, r in drops])
    if made.refused or len(made.drops) < len(drops):
        replicas = wan.holds | wan.arriving
        for d, r, _ in made.creates:
            replicas[d, r] = True
        for d, r, _ in made.drops:
            replicas[d, r] = False
        layout = Layout(replicas, at_home(problem, replicas))
    homes = {j: (int(r), int(m)) for j, (r, m) in enumerate(layout.homes) if r != NONE}
    data = DataPlan(homes=homes, creates=made.creates, drops=made.drops, flows=made.flows)
    decisions = [
        {"job": job.name, "decision": "wait", "reason": "not_asked" if j in homes else "no_region"}
        if job.running is None
        else {
            "job": job.name,
            "decision": "keep",
            "option": job.running.option,
            "tasks": job.running.tasks,
        }
        for j, job in enumerate(round_.jobs)
    ]
    sections = [replica_section(wan, data)]
    if data.flows:
        sections.append(flow_section(wan, data))
    return Plan(
        decisions=tuple(Decision.model_validate(decision) for decision in decisions),
        sections=tuple(sections),
    )

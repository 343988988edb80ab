"""A plan for Ray: label selectors by which a placement group is put where the plan says."""

from __future__ import annotations

from typing import Any

from placewright.instances.checks.round import checked
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.quantities import small_number
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import RAY_BUNDLES, RAY_GROUP, RAY_NODE

NODE_ID = "ray.io/node-id"


def bundle_selectors(round_: Round, plan: Plan) -> list[dict[str, Any]]:
    """Return what to hand to `ray.util.placement_group` for each group that starts.

    Returns
    -------
    Its job, its id in Ray, `bundles`, and `bundle_label_selector`, one entry per bundle in the
    order of the bundles. A group that is pending keeps its own selectors: make it anew with these.
    """
    round_ = checked(round_)
    ids = {host.name: host.annotations.get(RAY_NODE, host.name) for host in round_.cluster.hosts}
    jobs = {job.name: job for job in round_.jobs}
    found = []
    for decision in plan.decisions:
        if decision.decision is not DecisionKind.START:
            continue
        job = jobs[decision.job]
        option = job.options[decision.option or 0]
        places: dict[int, tuple[dict[str, float], dict[str, str]]] = {}
        for at, task in enumerate(decision.tasks):
            given = job.annotations.get(f"{RAY_BUNDLES}{task.group}", "").split(",")
            text = given[task.index] if task.index < len(given) else ""
            number = small_number(text)
            index = at if number is None else number
            group = option.groups[task.group]
            bundle = {
                "GPU": group.gpu / 1000,
                "CPU": group.cpu / 1000,
                "memory": float(group.memory * 2**20),
            }
            asked = {name: amount for name, amount in bundle.items() if amount}
            places[index] = asked, {NODE_ID: ids.get(task.host, task.host)}
        found.append(
            {
                "job": job.name,
                "placement_group_id": job.annotations.get(RAY_GROUP),
                "bundles": [places[i][0] for i in sorted(places)],
                "bundle_label_selector": [places[i][1] for i in sorted(places)],
            }
        )
    return found

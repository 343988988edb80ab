"""Each single corruption of a valid plan is rejected, by exactly the rules that it breaks."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrupting import Corruption, Edit, Raw, assert_broken, broken_alone, set_in
from examples import examples
from placewright.instances.checks.round import trusted
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.policy import Freeing, Policy
from placewright.instances.documents.round import Round
from placewright.instances.io.digest import round_digest
from placewright.instances.verify import Verification, certificate, rule_ids, verify
from placewright.instances.verify.result import Finding
from placewright.instances.verify.rules.cells import RULES_OF_CELLS, RULES_OF_REASONS_OF_CELLS
from placewright.instances.verify.rules.deadline.leases import RULES_OF_LEASES
from placewright.instances.verify.rules.deadline.promises import (
    RULES_OF_PROMISES,
    RULES_OF_REFUSALS,
)
from placewright.instances.verify.rules.gang.collectives import RULES_OF_COLLECTIVES
from placewright.instances.verify.rules.gang.limits import RULES_OF_POOLS
from placewright.instances.verify.rules.gang.places import RULES_OF_ARRANGEMENT, RULES_OF_GPU_PARTS
from placewright.instances.verify.rules.geo.copies import RULES_OF_COPIES, RULES_OF_FLOWS
from placewright.instances.verify.rules.geo.jobs import (
    RULES_OF_HOMES,
    RULES_OF_READS,
    RULES_OF_REGIONS_OF_JOBS,
)
from placewright.instances.verify.rules.geo.sections import RULES_OF_SECTIONS_OF_REGIONS
from placewright.instances.verify.rules.interleaving import (
    RULES_OF_CONFLICTS,
    RULES_OF_GROUPS,
    RULES_OF_TURNS,
)
from placewright.instances.verify.rules.stages import POLICY as STAGES
from tests.instances.verify import test_disruption_corruptions


def job_on(name: str, *places: tuple[str, list[int]], **fields: Any) -> Raw:
    """A running job, one task of whole GPUs per place."""
    tasks = [{"index": i, "host": host, "gpus": gpus} for i, (host, gpus) in enumerate(places)]
    group = {"count": len(places), "gpu": len(places[0][1]), "required": "rack"}
    running = {"tasks": tasks, **fields}
    return {"name": name, "options": [{"groups": [group]}] * 2, "running": running}


HOST = {"gpus": 4, "gpu_model": "A100", "cpu": 16, "memory": "64Gi", "resources": {"nic": 2}}
ROUND = Round.model_validate(
    {
        "cluster": {
            "levels": ["rack"],
            "domains": [{"name": name, "level": "rack"} for name in ("k0", "k1", "k2", "k3")],
            "hosts": [
                {**HOST, "name": "k0-h[0-2]", "parent": "k0"},
                {**HOST, "name": "k1-h[0-1]", "parent": "k1"},
                {**HOST, "name": "k1-h2", "parent": "k1", "healthy": False},
                {**HOST, "name": "k2-h0", "parent": "k2", "gpu_model": "V100"},
                {**HOST, "name": "k3-h[0-4]", "parent": "k3"},
            ],
        },
        "now": 100,
        "policy": {
            "terms": ["value", "disruption", "remaining", "spread", "opened"],
            "vacate": ["k3-h3"],
        },
        "reservations": [{"host": "k3-h2", "gpus": [2]}, {"host": "k3-h4"}],
        "caps": {"few": {"jobs": 0}},
        "tenants": [{"name": "red", "quota": {"gpu": 2, "cpu": 100}}],
        "jobs": [
            {
                "name": "run",
                "tenant": "red",
                "options": [{"groups": [{"gpu": 1, "cpu": 4}]}, {"groups": [{"gpu": 1}]}],
                "running": {"tasks": [{"host": "k0-h0", "gpus": [0]}]},
            },
            {
                "name": "gang",
                "options": [
                    {
                        "groups": [
                            {
                                "count": 2,
                                "gpu": 4,
                                "cpu": 8,
                                "required": "rack",
                                "gpu_models": ["A100"],
                            }
                        ]
                    }
                ],
            },
            {
                "name": "half",
                "options": [
                    {"groups": [{"gpu": 0.5, "cpu": 4, "memory": "20Gi", "gpu_models": ["A100"]}]}
                ],
            },
            {
                "name": "other",
                "options": [{"groups": [{"gpu": 0.5, "cpu": 4, "hosts": ["k0-h[0-1]", "k3-h0"]}]}],
            },
            {
                "name": "menu",
                "tenant": "red",
                "options": [
                    {"groups": [{"gpu": 2}]},
                    {"groups": [{"gpu": 1, "cpu": 8, "resources": {"nic": 2}}]},
                ],
            },
            {
                "name": "team",
                "options": [
                    {
                        "groups": [
                            {"gpu": 0, "cpu": 1, "resources": {"nic": 1}},
                            {"count": 2, "gpu": 1, "cpu": 1, "memory": "24Gi"},
                        ]
                    }
                ],
            },
            {"name": "lone", "options": [{"groups": [{"gpu": 4}]}]},
            job_on("low", ("k3-h0", [0, 1, 2, 3]), checkpoint=40, restart_s=10, migrate_cost=1),
            {
                "name": "urgent",
                "priority": 1,
                "weight": 4,
                "options": [{"groups": [{"gpu": 2}]}],
            },
            job_on("mover", ("k3-h1", [0]), ("k3-h1", [1]), restart_s=9, migrate_cost=7),
            job_on("chain", ("k3-h2", [0]), restart_s=5, preempt_cost=1),
            job_on("left", ("k3-h1", [2])),
            job_on("right", ("k3-h1", [3])),
            job_on("pinned", ("k3-h2", [1]), pinned=True),
            job_on("leaving", ("k3-h3", [0])),
            {"name": "extra", "caps": ["few"], "options": [{"groups": [{"gpu": 1}]}]},
        ],
    }
)
RUN, GANG, HALF, OTHER, MENU, TEAM, LONE = range(7)
LOW, URGENT, MOVER, CHAIN, LEFT, RIGHT, PINNED, LEAVING, EXTRA = range(7, 16)


def started(job: str, option: int, *tasks: Raw) -> Raw:
    return {"job": job, "decision": "start", "option": option, "tasks": list(tasks)}


def on(kind: str, job: str, *places: tuple[str, list[int]]) -> Raw:
    """A running job that is kept or migrated, one task per place."""
    tasks = [
        {"group": 0, "index": i, "host": host, "gpus": gpus}
        for i, (host, gpus) in enumerate(places)
    ]
    return {"job": job, "decision": kind, "option": 0, "tasks": tasks}


PLAN: Raw = {
    "decisions": [
        {
            "job": "run",
            "decision": "keep",
            "option": 0,
            "tasks": [{"group": 0, "index": 0, "host": "k0-h0", "gpus": [0]}],
        },
        started(
            "gang",
            0,
            {"group": 0, "index": 0, "host": "k1-h0", "gpus": [0, 1, 2, 3]},
            {"group": 0, "index": 1, "host": "k1-h1", "gpus": [0, 1, 2, 3]},
        ),
        started("half", 0, {"group": 0, "index": 0, "host": "k0-h0", "gpus": [1]}),
        started("other", 0, {"group": 0, "index": 0, "host": "k0-h0", "gpus": [1]}),
        started("menu", 1, {"group": 0, "index": 0, "host": "k0-h1", "gpus": [0]}),
        started(
            "team",
            0,
            {"group": 0, "index": 0, "host": "k0-h0", "gpus": []},
            {"group": 1, "index": 0, "host": "k0-h1", "gpus": [2]},
            {"group": 1, "index": 1, "host": "k0-h1", "gpus": [3]},
        ),
        {"job": "lone", "decision": "wait", "reason": "not_chosen"},
        {"job": "low", "decision": "preempt", "displaced_by": "urgent"},
        started("urgent", 0, {"group": 0, "index": 0, "host": "k3-h0", "gpus": [0, 1]}),
        on("migrate", "mover", ("k3-h1", [0]), ("k3-h2", [0])),
        on("migrate", "chain", ("k3-h2", [3])),
        on("migrate", "left", ("k3-h1", [3])),
        on("migrate", "right", ("k3-h1", [2])),
        on("keep", "pinned", ("k3-h2", [1])),
        on("keep", "leaving", ("k3-h3", [0])),
        {"job": "extra", "decision": "wait", "reason": "quota"},
    ],
    "sections": [
        {"kind": "moves", "steps": ["low", "chain", "mover", "left"], "needs_spare": ["right"]}
    ],
}
TERMS = {
    "value_1": 8000,
    "value_2": 500 + 500 + 1000 + 2000 + 4 * 2000 - 4000,
    "disruption": (4000 * (60 + 10) + 4000) + (7 + 1000) + (1000 * 5 + 1000) + 1000 + 1000,
    "remaining": 1000,
    "spread": 0,
    "opened": 3,
}


def check(edit: Edit) -> Verification:
    corrupted = copy.deepcopy(PLAN)
    edit(corrupted)
    return verify(ROUND, Plan.model_validate(corrupted))


def set_task(job: int, task: int = 0, /, **fields: Any) -> Edit:
    return lambda raw: raw["decisions"][job]["tasks"][task].update(fields)


def set_decision(job: int, /, **fields: Any) -> Edit:
    return lambda raw: raw["decisions"][job].update(fields)


def add_decision(decision: Raw) -> Edit:
    return lambda raw: raw["decisions"].append(decision)


def drop(job: int, task: int) -> Edit:
    return lambda raw: raw["decisions"][job]["tasks"].pop(task)


def repeat_task(raw: Raw) -> None:
    tasks = raw["decisions"][GANG]["tasks"]
    tasks.append(copy.deepcopy(tasks[1]))


def add_section(section: Raw) -> Edit:
    return lambda raw: raw["sections"].append(section)


def repeat_shares(raw: Raw) -> None:
    raw["sections"] += [{"kind": "shares", "tenants": []}] * 2


def set_moves(*steps: str, needs_spare: tuple[str, ...] = ("right",)) -> Edit:
    section = {"kind": "moves", "steps": list(steps), "needs_spare": list(needs_spare)}
    return set_in("sections", to=[section])


WAIT = {"job": "lone", "decision": "wait"}

CORRUPTIONS: dict[str, Corruption] = {
    **{
        f"a job that fits and waits for {why}": (
            set_decision(LONE, reason=why),
            {"gang_reason"},
            "decisions[6].reason",
        )
        for why in ("never_fits", "quota", "capacity")
    },
    "a task dropped": (drop(GANG, 1), {"gang"}, "decisions[1].tasks"),
    "all tasks dropped": (set_decision(GANG, tasks=[]), {"gang"}, "decisions[1].tasks"),
    "a task twice": (repeat_task, {"gang", "gpu_capacity"}, "decisions[1].tasks[2]"),
    "one task in place of another": (set_task(GANG, 1, index=0), {"gang"}, "decisions[1].tasks[1]"),
    "a task beyond the count": (
        set_task(GANG, 1, index=2),
        {"gang"},
        "decisions[1].tasks[1].index",
    ),
    "a group that is not there": (
        set_task(GANG, 1, group=1),
        {"gang"},
        "decisions[1].tasks[1].group",
    ),
    "an unknown host": (
        set_task(HALF, host="k9-h0"),
        {"known_host"},
        "decisions[2].tasks[0].host",
    ),
    "an unhealthy host": (set_task(HALF, host="k1-h2"), {"healthy"}, "decisions[2].tasks[0].host"),
    "a wrong GPU model": (
        set_task(HALF, host="k2-h0"),
        {"gpu_model"},
        "decisions[2].tasks[0].host",
    ),
    "a host that the group does not list": (
        set_task(OTHER, host="k0-h2", gpus=[0]),
        {"allowed_host"},
        "decisions[3].tasks[0].host",
    ),
    "a GPU out of range": (set_task(HALF, gpus=[4]), {"gpus"}, "decisions[2].tasks[0].gpus"),
    "a share of two GPUs": (set_task(HALF, gpus=[1, 2]), {"gpus"}, "decisions[2].tasks[0].gpus"),
    "a share of no GPU": (set_task(HALF, gpus=[]), {"gpus"}, "decisions[2].tasks[0].gpus"),
    "too few GPUs": (set_task(GANG, gpus=[0, 1, 2]), {"gpus"}, "decisions[1].tasks[0].gpus"),
    "a GPU twice in a task": (
        set_task(GANG, gpus=[0, 1, 2, 2]),
        {"gpus", "gpu_capacity"},
        "decisions[1].tasks[0].gpus",
    ),
    "a GPU that was not asked": (set_task(TEAM, gpus=[2]), {"gpus"}, "decisions[5].tasks[0].gpus"),
    "a GPU of two jobs": (set_task(MENU, gpus=[2]), {"gpu_capacity"}, "decisions[5].tasks[1].gpus"),
    "shares above one GPU": (
        set_task(OTHER, gpus=[0]),
        {"gpu_capacity"},
        "decisions[3].tasks[0].gpus",
    ),
    "CPU exceeded": (
        set_task(MENU, host="k0-h0", gpus=[2]),
        {"host_capacity"},
        "decisions[5].tasks[0]",
    ),
    "memory exceeded": (
        set_task(HALF, host="k0-h1"),
        {"host_capacity"},
        "decisions[5].tasks[2]",
    ),
    "a named resource exceeded": (
        set_task(TEAM, host="k0-h1"),
        {"host_capacity"},
        "decisions[5].tasks[0]",
    ),
    "a required level broken": (
        set_task(GANG, 1, host="k0-h2"),
        {"required_level"},
        "decisions[1].tasks",
    ),
    "a quota exceeded": (
        lambda raw: (set_decision(MENU, option=0)(raw), set_task(MENU, gpus=[0, 1])(raw)),
        {"quota"},
        "decisions[4]",
    ),
    "a cap exceeded": (
        lambda raw: raw["decisions"].__setitem__(
            EXTRA, started("extra", 0, {"group": 0, "index": 0, "host": "k2-h0", "gpus": [0]})
        ),
        {"cap"},
        "decisions[15]",
    ),
    "an option out of range": (set_decision(MENU, option=2), {"option"}, "decisions[4].option"),
    "a start without option": (set_decision(MENU, option=None), {"option"}, "decisions[4].option"),
    "a wait with option": (set_decision(LONE, option=0), {"option"}, "decisions[6].option"),
    "the tasks of another option": (
        set_decision(MENU, option=0),
        {"gpus", "quota"},
        "decisions[4].tasks[0].gpus",
    ),
    "an unknown job": (
        add_decision({"job": "ghost", "decision": "wait"}),
        {"known_job"},
        "decisions[16].job",
    ),
    "a job renamed": (
        set_decision(LONE, job="ghost"),
        {"known_job"},
        "decisions[6].job",
    ),
    "a job twice": (add_decision(WAIT), {"one_decision"}, "decisions[16].job"),
    "a running job missing": (
        lambda raw: raw["decisions"].pop(RUN),
        {"one_decision"},
        "decisions",
    ),
    "no decision at all": (set_in("decisions", to=[]), {"one_decision", "moves"}, "decisions"),
    "a kept job moved to another host": (
        set_task(RUN, host="k0-h2"),
        {"kept_in_place"},
        "decisions[0].tasks",
    ),
    "a kept job moved to another GPU": (
        set_task(RUN, gpus=[2]),
        {"kept_in_place"},
        "decisions[0].tasks",
    ),
    "a kept job without tasks": (
        set_decision(RUN, tasks=[]),
        {"kept_in_place"},
        "decisions[0].tasks",
    ),
    "a kept job with another option": (
        set_decision(RUN, option=1),
        {"kept_in_place"},
        "decisions[0].option",
    ),
    "a running job that waits": (
        lambda raw: raw["decisions"].__setitem__(RUN, {"job": "run", "decision": "wait"}),
        {"legal_decision"},
        "decisions[0].decision",
    ),
    "a running job started": (
        set_decision(RUN, decision="start"),
        {"legal_decision", "quota"},
        "decisions[0].decision",
    ),
    "a pending job kept": (
        set_decision(HALF, decision="keep"),
        {"legal_decision"},
        "decisions[2].decision",
    ),
    "a waiting job with tasks": (
        set_decision(LONE, tasks=[{"host": "k2-h0", "gpus": [0, 1, 2, 3]}]),
        {"holds_nothing"},
        "decisions[6].tasks",
    ),
    "a valid job that waits as invalid": (
        set_decision(LONE, reason="invalid"),
        {"invalid_reason"},
        "decisions[6].reason",
    ),
    "a started job with a reason": (
        set_decision(HALF, reason="capacity"),
        {"reason"},
        "decisions[2].reason",
    ),
    "another round's plan": (set_in("round", to="0" * 64), {"same_round"}, "round"),
    "an unknown section": (add_section({"kind": "geo"}), {"section"}, "sections[1].kind"),
    "shares twice": (repeat_shares, {"shares"}, "sections[2]"),
    "a section without kind": (add_section({}), {"section"}, "sections[1].kind"),
    "a section of a strange kind": (
        add_section({"kind": ["groups"]}),
        {"section"},
        "sections[1].kind",
    ),
    "a pending job migrated": (
        set_decision(HALF, decision="migrate"),
        {"legal_decision"},
        "decisions[2].decision",
    ),
    "a pending job preempted": (
        lambda raw: raw["decisions"].__setitem__(
            LONE, {"job": "lone", "decision": "preempt", "displaced_by": "urgent"}
        ),
        {"legal_decision"},
        "decisions[6].decision",
    ),
    "a pinned job migrated": (
        lambda raw: (
            set_decision(PINNED, decision="migrate")(raw),
            set_task(PINNED, host="k3-h1", gpus=[1])(raw),
            raw["sections"][0]["steps"].append("pinned"),
        ),
        {"legal_decision"},
        "decisions[13].decision",
    ),
    "a pinned job preempted": (
        lambda raw: (
            set_decision(PINNED, decision="preempt", option=None, tasks=[])(raw),
            set_decision(PINNED, displaced_by="urgent")(raw),
            set_task(URGENT, host="k3-h2", gpus=[0, 1])(raw),
        ),
        {"legal_decision", "displaced_by", "preemption", "gpu_capacity", "moves"},
        "decisions[13].decision",
    ),
    "a migrated job with another option": (
        set_decision(MOVER, option=1),
        {"migrated"},
        "decisions[9].option",
    ),
    "a migrated job in place": (
        set_task(MOVER, 1, host="k3-h1", gpus=[1]),
        {"migrated"},
        "decisions[9].tasks",
    ),
    "a migrated job without option": (
        set_decision(LEFT, option=None),
        {"option", "moves"},
        "decisions[11].option",
    ),
    "a task of a migrated job dropped": (drop(MOVER, 1), {"gang"}, "decisions[9].tasks"),
    "a migration to an unknown host": (
        set_task(CHAIN, host="k9-h0"),
        {"known_host"},
        "decisions[10].tasks[0].host",
    ),
    "a migration to too many GPUs": (
        set_task(MOVER, 1, host="k3-h0", gpus=[2, 3]),
        {"gpus", "preemption", "displaced_by"},
        "decisions[9].tasks[1].gpus",
    ),
    "a migration to an unhealthy host": (
        set_task(RIGHT, host="k1-h2"),
        {"healthy"},
        "decisions[12].tasks[0].host",
    ),
    "a migration to another rack": (
        set_task(MOVER, 1, host="k0-h2"),
        {"required_level"},
        "decisions[9].tasks",
    ),
    "a migration to a host of a GPU taken": (
        set_task(CHAIN, gpus=[1]),
        {"gpu_capacity", "move_order"},
        "decisions[10].tasks[0].gpus",
    ),
    "a start on a reserved host": (
        set_task(HALF, host="k3-h4"),
        {"reserved"},
        "decisions[2].tasks[0].host",
    ),
    "a migration to a reserved GPU": (
        set_task(CHAIN, gpus=[2]),
        {"reserved"},
        "decisions[10].tasks[0].gpus",
    ),
    "a start on a host to vacate": (
        set_task(HALF, host="k3-h3"),
        {"vacated"},
        "decisions[2].tasks[0].host",
    ),
    "a migration to a host to vacate": (
        set_task(CHAIN, host="k3-h3"),
        {"vacated"},
        "decisions[10].tasks[0].host",
    ),
    "a preempted job with tasks": (
        set_decision(LOW, tasks=[{"host": "k3-h0", "gpus": [0, 1, 2, 3]}]),
        {"holds_nothing"},
        "decisions[7].tasks",
    ),
    "a preempted job with option": (set_decision(LOW, option=0), {"option"}, "decisions[7].option"),
    "a preempted job with a reason": (
        set_decision(LOW, reason="capacity"),
        {"reason"},
        "decisions[7].reason",
    ),
    "a preemption for no job": (
        set_decision(LOW, displaced_by=None),
        {"displaced_by"},
        "decisions[7].displaced_by",
    ),
    "a preemption for an unknown job": (
        set_decision(LOW, displaced_by="ghost"),
        {"displaced_by"},
        "decisions[7].displaced_by",
    ),
    "a preemption for a job elsewhere": (
        set_decision(LOW, displaced_by="gang"),
        {"displaced_by"},
        "decisions[7].displaced_by",
    ),
    "a preemption that no arrival needs": (
        set_task(URGENT, host="k2-h0"),
        {"displaced_by", "preemption"},
        "decisions[7].displaced_by",
    ),
    "a kept job displaced": (
        set_decision(RUN, displaced_by="urgent"),
        {"displaced_by"},
        "decisions[0].displaced_by",
    ),
    "a preemption that serves its own priority": (
        set_task(HALF, host="k3-h0", gpus=[2]),
        {"displaced_by", "preemption"},
        "decisions[7]",
    ),
    "a preemption that serves a migrated job of its priority": (
        set_task(LEFT, host="k3-h0"),
        {"displaced_by", "preemption"},
        "decisions[7]",
    ),
    "a preemption for its own priority": (
        lambda raw: (
            set_task(HALF, host="k3-h0", gpus=[2])(raw),
            set_decision(LOW, displaced_by="half")(raw),
        ),
        {"preemption", "displaced_by"},
        "decisions[7].displaced_by",
    ),
    "moves without their section": (set_in("sections", to=[]), {"moves"}, "sections"),
    "moves twice": (
        lambda raw: raw["sections"].append(raw["sections"][0]),
        {"moves"},
        "sections[1]",
    ),
    "a preempted job not named": (set_moves("chain", "mover", "left"), {"moves"}, "sections[0]"),
    "a migrated job not named": (set_moves("low", "chain", "mover"), {"moves"}, "sections[0]"),
    "a job named twice": (
        set_moves("low", "chain", "mover", "left", "chain"),
        {"moves"},
        "sections[0].steps[4]",
    ),
    "a kept job named": (
        set_moves("low", "pinned", "chain", "mover", "left"),
        {"moves"},
        "sections[0].steps[1]",
    ),
    "a preempted job after a migration": (
        set_moves("chain", "low", "mover", "left"),
        {"moves"},
        "sections[0].steps[1]",
    ),
    "a preempted job that needs a spare place": (
        set_moves("chain", "mover", "left", needs_spare=("low", "right")),
        {"moves"},
        "sections[0].needs_spare[0]",
    ),
    "a place taken before it is left": (
        set_moves("low", "mover", "chain", "left"),
        {"move_order"},
        "sections[0].steps[1]",
    ),
    "a swap without a spare place": (
        set_moves("low", "chain", "mover", "left", "right", needs_spare=()),
        {"move_order"},
        "sections[0].steps[3]",
    ),
    "steps that are no list": (
        set_in("sections", 0, "steps", to="low"),
        {"section"},
        "sections[0].steps",
    ),
    "steps that are no names": (
        set_in("sections", 0, "steps", to=["low", 3]),
        {"section"},
        "sections[0].steps",
    ),
    "a list left out": (
        lambda raw: raw["sections"][0].pop("needs_spare"),
        {"section"},
        "sections[0].needs_spare",
    ),
    "a field too much": (
        set_in("sections", 0, "time", to=3),
        {"section"},
        "sections[0].time",
    ),
}


def test_the_plan_is_valid_before_it_is_corrupted() -> None:
    assert check(lambda raw: None) == Verification((), TERMS)
    assert check(lambda raw: None).ok


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corrupted_plan_is_rejected(name: str) -> None:
    edit, rules, where = CORRUPTIONS[name]
    assert_broken(check(edit), rules, where)


def test_every_rule_is_broken_alone_by_some_corruption() -> None:
    beside = test_disruption_corruptions.CORRUPTIONS
    alone = broken_alone([*CORRUPTIONS.values(), *beside.values()])
    # Files of their own beside this one have the others.
    others = (RULES_OF_GPU_PARTS, RULES_OF_ARRANGEMENT, RULES_OF_CELLS, RULES_OF_REASONS_OF_CELLS)
    others += (RULES_OF_COLLECTIVES, RULES_OF_CONFLICTS, RULES_OF_GROUPS, RULES_OF_TURNS)
    others += (RULES_OF_LEASES, RULES_OF_PROMISES, RULES_OF_REFUSALS, RULES_OF_POOLS)
    others += (RULES_OF_COPIES, RULES_OF_FLOWS, RULES_OF_HOMES, RULES_OF_REGIONS_OF_JOBS)
    others += (RULES_OF_READS, RULES_OF_SECTIONS_OF_REGIONS)
    ours = set(rule_ids()) - {rule.id for other in others for rule in other}
    ours.remove("invalid_job")  # by rounds that are read leniently
    ours -= {rule.id for rule in STAGES.rules}  # test_stage_corruptions.py
    ours.remove("resized")  # test_resize_corruptions.py
    ours.remove("gpu_links")  # tests/formulations/gang/test_gpu_links.py
    assert alone == {rule for rule in ours if not rule.startswith("certificate_")}
    assert len(set(rule_ids())) == len(rule_ids())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "CPU exceeded",
            "tasks on host 'k0-h0' ask 21 cores together; expected at most 16 cores",
        ),
        (
            "memory exceeded",
            "tasks on host 'k0-h1' ask 68Gi of memory together; expected at most 64Gi of memory",
        ),
        (
            "a quota exceeded",
            (
                "jobs of tenant 'red' hold 3 GPUs together; "
                "expected at most 2 GPUs (quota 2 GPUs, held before the round 1 GPU)"
            ),
        ),
        (
            "shares above one GPU",
            "tasks on GPU 0 of host 'k0-h0' take 1.5 GPUs together; expected at most 1",
        ),
        (
            "a required level broken",
            (
                "group 0 of job 'gang' is in 2 domains of level 'rack', 'k0' and 'k1' among them; "
                "expected one"
            ),
        ),
        (
            "a preemption that serves its own priority",
            (
                "without jobs of higher precedence, and with all preempted jobs of priority 0 and "
                "above in their places, tasks on GPU 2 of host 'k3-h0' take 1.5 GPUs "
                "together; expected at most 1; expected that preemption of 'low' serves no job "
                "of its precedence or lower"
            ),
        ),
        (
            "a place taken before it is left",
            (
                "job 'mover' makes 2 GPUs of GPU 0 held on host 'k3-h2' in its turn; "
                "expected at most 1 GPU of GPU 0"
            ),
        ),
    ],
)
def test_messages_name_job_host_and_amount(name: str, message: str) -> None:
    assert message in [violation.message for violation in check(CORRUPTIONS[name][0]).violations]


def test_a_violation_reads_as_one_line() -> None:
    (violation,) = check(set_task(HALF, host="k9-h0")).violations
    assert str(violation) == (
        "decisions[2].tasks[0].host: host 'k9-h0' of job 'half' is not in the cluster; "
        "expected one of its hosts [known_host]"
    )


def test_a_plan_that_names_its_round_is_accepted() -> None:
    assert check(set_in("round", to=round_digest(ROUND))).ok


def test_gpus_and_tasks_may_come_in_any_order() -> None:
    def reverse(raw: Raw) -> None:
        for decision in raw["decisions"]:
            decision.get("tasks", []).reverse()
        raw["decisions"][GANG]["tasks"][0]["gpus"].reverse()
        raw["decisions"].reverse()

    assert check(reverse) == Verification((), TERMS)


def test_running_jobs_above_their_quota_leave_nothing_but_are_kept() -> None:
    raw = ROUND.model_dump(mode="json")
    raw["tenants"] = [{"name": "red", "quota": {"gpu": 0.5}}]
    lowered = Round.model_validate(raw)
    assert [v.rule for v in verify(lowered, Plan.model_validate(PLAN)).violations] == ["quota"]
    waiting = copy.deepcopy(PLAN)
    waiting["decisions"][MENU] = {"job": "menu", "decision": "wait", "reason": "quota"}
    assert verify(lowered, Plan.model_validate(waiting)).ok


@pytest.mark.parametrize(
    ("resource", "limit", "ok"),
    [
        ("cpu", 12, True),
        ("cpu", 11.999, False),
        ("nic", 2, True),
        ("nic", 1, False),
        ("memory", 0, True),
    ],
)
def test_a_quota_may_cap_any_resource(resource: str, limit: float, ok: bool) -> None:
    raw = ROUND.model_dump(mode="json")
    raw["tenants"] = [{"name": "red", "quota": {resource: limit}}]
    assert verify(Round.model_validate(raw), Plan.model_validate(PLAN)).ok is ok


def test_a_job_is_kept_on_an_unhealthy_host() -> None:
    raw = ROUND.model_dump(mode="json")
    raw["cluster"]["hosts"][0] |= {"name": "k0-h0", "healthy": False}
    raw["cluster"]["hosts"] += [{**HOST, "name": "k0-h[1-2]", "parent": "k0"}]
    found = verify(Round.model_validate(raw), Plan.model_validate(PLAN))
    assert {(v.rule, v.where) for v in found.violations} == {
        ("healthy", f"decisions[{job}].tasks[0].host") for job in (HALF, OTHER, TEAM)
    }


def test_a_registered_section_is_checked_by_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    def owner(reading: object, entry: Any, path: tuple[str | int, ...]) -> list[Finding]:
        return [] if entry["good"] else [Finding((*path, "good"), "bad section; expected good")]

    monkeypatch.setitem(certificate.SECTIONS, "leases", owner)
    good = {"kind": "leases", "good": True}
    assert check(add_section(good)).ok
    (violation,) = check(add_section({**good, "good": False})).violations
    assert (violation.rule, violation.where) == ("section", "sections[1].good")


task_noise = st.fixed_dictionaries(
    {
        "group": st.integers(0, 2),
        "index": st.integers(0, 3),
        "host": st.sampled_from(["k0-h0", "k0-h1", "k1-h2", "k2-h0", "k3-h1", "nowhere"]),
        "gpus": st.lists(st.integers(0, 5), max_size=5),
    }
)
job_noise = st.sampled_from([*(job.name for job in ROUND.jobs), "ghost"])
decision_noise = st.fixed_dictionaries(
    {
        "job": job_noise,
        "decision": st.sampled_from(["start", "keep", "migrate", "preempt", "wait"]),
        "option": st.none() | st.integers(0, 2),
        "reason": st.none() | st.just("quota"),
        "displaced_by": st.none() | job_noise | st.just("ghost"),
        "tasks": st.lists(task_noise, max_size=4),
    }
)


names_noise = st.lists(job_noise, max_size=6)
section_noise = st.dictionaries(
    st.sampled_from(["kind", "steps", "needs_spare", "other"]),
    names_noise | st.sampled_from(["moves", "groups", None, 3, ["low", 1], [["low"]], {"low": 1}]),
) | st.fixed_dictionaries(
    {"kind": st.just("moves"), "steps": names_noise, "needs_spare": names_noise}
)


@settings(max_examples=examples(day=50, nightly=300))
@given(noise=st.lists(decision_noise, max_size=8), sections_=st.lists(section_noise, max_size=2))
def test_no_plan_makes_the_verifier_stumble(noise: list[Raw], sections_: list[Raw]) -> None:
    freeing = Freeing(level="rack", gpu_worth_s=1)
    for terms in ((*Policy().terms, "remaining", "freed"), ("proximity", "leftover")):
        classes = ("value_1", "value_2") if "value" in terms else ()
        expected = (*classes, *(term for term in terms if term != "value"))
        policy = ROUND.policy.model_copy(update={"terms": terms, "freeing": freeing})
        round_ = trusted(ROUND.model_copy(update={"policy": policy}))
        plan = Plan.model_validate({"decisions": noise, "sections": sections_})
        assert tuple(verify(round_, plan).terms) == expected
        # The same section beside the decisions that it could be about.
        beside = Plan.model_validate({**PLAN, "sections": sections_})
        assert tuple(verify(round_, beside).terms) == expected

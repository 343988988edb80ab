"""The policy `replicas`: where data is to be, and so where each job is to run.

All replicas that there may be in the end are enumerated, each with one schedule of copies and
deletions (`fuzz.data.carrying`), since no term sees when and over which links data goes. All homes
are enumerated for each, on all GPU models. The sample of invalid plans has homes where none may be,
missing ones, wrong reasons, and schedules of which something was changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from random import Random
from typing import Any
from unittest.mock import patch

from fuzz.data.carrying import Carried
from fuzz.data.changing import changed
from fuzz.data.drawing import MODELS, draw_reads, draw_world, enlarge, some
from fuzz.data.homes import Home, Layout, homes_of, layouts, models_of, values_of
from fuzz.data.replay import broken
from fuzz.data.world import WHOLE, World, read_world
from fuzz.policy import Judged, Policy, Raw, Setting, TooManyPlansError
from placewright.formulations.replicas import parameters

TERMS = ("overload", "remote_reads", "copies", "imbalance", "hottest")
MOST_PLANS = 3_000
INVALID, CHANGED = 8, 12
"""Invalid plans about homes, and schedules with a change, per round."""


def draw(rng: Random) -> Raw:
    """Draw a round."""
    drawn = draw_world(rng, "replicas")
    drawn["jobs"] = []
    for i in range(rng.choices((0, 1, 2, 3, 4, 5), (1, 4, 9, 8, 4, 1))[0]):
        drawn["jobs"].append(_job(rng, f"j{i}", drawn))
    if rng.random() < 0.6:
        others = list(TERMS[1:])
        rng.shuffle(others)
        drawn["policy"]["terms"] = [TERMS[0], *others[: rng.randint(0, 4)]]
    _reserve(rng, drawn)
    enlarge(rng, drawn)
    return drawn


def plans(round_: Raw, rng: Random) -> Iterator[Judged]:
    """Yield the plans."""
    world = read_world(round_)
    every = list(layouts(world))
    count = 0
    for layout in every:
        homes = [homes_of(world, job, layout.final) for job in round_["jobs"]]
        ways: list[Sequence[Home | None]] = [mine or (None,) for mine in homes]
        if layout.broken:
            yield _judged(round_, world, layout, [rng.choice(mine) for mine in ways])
            continue
        count += prod(map(len, ways))
        if count > MOST_PLANS:
            raise TooManyPlansError
        for chosen in product(*ways):
            yield _judged(round_, world, layout, chosen)
    whole = [layout for layout in every if not layout.broken]
    for _ in range(INVALID if round_["jobs"] else 0):
        yield _wrong(round_, world, rng.choice(whole), rng)
    moving = [layout for layout in whole if any(layout.carried)]
    for _ in range(CHANGED if moving else 0):
        yield _changed(round_, world, rng.choice(moving), rng)


def judge(round_: Raw, plan: Raw) -> Judged:
    """Judge data and homes of a plan: its schedule may be one that `fuzz.data.carrying` misses."""
    world = read_world(round_)
    sections = {section["kind"]: section for section in plan["sections"]}
    data, flows = sections["replicas"], sections.get("flows", {"flows": []})["flows"]
    layout = _layout(world, Carried(data["creates"], data["drops"], flows))
    at = {home["job"]: (home["region"], home["gpu_model"]) for home in data["homes"]}
    homes = [at.get(job["name"]) for job in round_["jobs"]]
    faults = [
        _fault_of_home(world, job, home, homes_of(world, job, layout.final))
        for job, home in zip(round_["jobs"], homes, strict=True)
    ]
    return _judged(round_, world, layout, homes, next(filter(None, faults), ""))


@contextmanager
def _with(**values: Any) -> Iterator[None]:
    """Solve with other parameters, as if rounds of other sizes were small or large."""
    others = replace(parameters.PARAMETERS, **values)
    with patch.object(parameters, "PARAMETERS", others):
        yield


_LARGE = partial(_with, exact_max_columns=-1)
SETTINGS = (
    Setting("exact", 16),
    Setting("hurried", 2, seconds=0.02),
    Setting("groups of data", 2, partial(_with, ungrouped_datasets=0)),
    Setting("whole replicas", 2, partial(_with, branch_and_bound_max_copies=0)),
    Setting(
        "annealed", 1, partial(_LARGE, branch_and_bound_max_copies=0, ungrouped_datasets=0), 1.0
    ),
    Setting("by region", 1, partial(_LARGE, branch_and_bound_max_copies=0, mip_max_copies=0), 1.0),
    Setting(
        "largest data",
        1,
        partial(
            _LARGE,
            branch_and_bound_max_copies=0,
            mip_max_copies=0,
            relaxation_max_copies=0,
            restricted_datasets=1,
        ),
        1.0,
    ),
)
POLICY = Policy("replicas", draw, plans, SETTINGS, judge=judge)


def _job(rng: Random, name: str, drawn: Raw) -> Raw:
    models = sorted({h["gpu_model"] for h in drawn["cluster"]["hosts"] if "gpu_model" in h})
    options = [
        {"groups": [_group(rng, models) for _ in range(rng.choices((1, 2), (6, 1))[0])]}
        for _ in range(rng.choices((1, 2), (6, 1))[0])
    ]
    job: Raw = {"name": name, "options": options, "reads": draw_reads(rng, drawn)}
    if rng.random() < 0.15:
        job["regions"] = some(
            rng,
            [d["name"] for d in drawn["cluster"]["domains"] if d["level"] == drawn["geo"]["level"]],
        )
    _run(rng, job, drawn)
    return job


def _group(rng: Random, models: list[str]) -> Raw:
    group: Raw = {"gpu": rng.choice((250, 1000, 1000, 1000, 2000, 3000))}
    if rng.random() < 0.2:
        group["count"] = 2
    if models and rng.random() < 0.3:
        group["gpu_models"] = some(rng, models)
    return group


def _run(rng: Random, job: Raw, drawn: Raw) -> None:
    """Let a job of one task run on a host that nobody else is on, now and then."""
    groups = job["options"][0]["groups"]
    if rng.random() > 0.3 or len(groups) > 1 or "count" in groups[0]:
        return
    gpus = -(-groups[0]["gpu"] // WHOLE)
    busy = {t["host"] for j in drawn["jobs"] for t in j.get("running", {}).get("tasks", ())}
    fit = [h for h in drawn["cluster"]["hosts"] if h["gpus"] >= gpus and h["name"] not in busy]
    allowed = groups[0].get("gpu_models", MODELS)
    fit = [h for h in fit if h["gpu_model"] in allowed]
    if fit:
        host = rng.choice(fit)["name"]
        job["running"] = {"tasks": [{"host": host, "gpus": list(range(gpus))}]}


def _reserve(rng: Random, drawn: Raw) -> None:
    """Keep a host or a GPU out of the round, now and then."""
    host = rng.choice(drawn["cluster"]["hosts"])
    if rng.random() < 0.08:
        drawn["reservations"] = [{"host": host["name"]}]
    elif host["gpus"] and rng.random() < 0.08:
        drawn["reservations"] = [{"host": host["name"], "gpus": [rng.randrange(host["gpus"])]}]


def _any(rng: Random, homes: list[Home]) -> Home | None:
    return rng.choice(homes) if homes else None


def _judged(
    round_: Raw, world: World, layout: Layout, homes: Sequence[Home | None], fault: str = ""
) -> Judged:
    """Return a plan with the values of its terms."""
    values = values_of(round_, world, layout, homes)
    terms = {name: values[name] for name in round_["policy"].get("terms", TERMS)}
    document = partial(_document, round_, layout.carried, homes)
    return Judged(document, terms, layout.broken or fault)


def _wrong(round_: Raw, world: World, layout: Layout, rng: Random) -> Judged:
    """Return a plan in which something about one job is, most likely, against a rule."""
    jobs = round_["jobs"]
    can = [homes_of(world, job, layout.final) for job in jobs]
    homes = [_any(rng, mine) for mine in can]
    number = rng.randrange(len(jobs))
    job, mine = jobs[number], can[number]
    match rng.randrange(5):
        case 0:
            homes[number] = None
            return _judged(round_, world, layout, homes, "homes" if mine else "")
        case 1:
            models = {h["gpu_model"] for h in round_["cluster"]["hosts"] if "gpu_model" in h}
            if models:
                homes[number] = rng.choice(world.regions), rng.choice(sorted(models))
            fault = _fault_of_home(world, job, homes[number], mine)
            return _judged(round_, world, layout, homes, fault)
        case 2:
            reason = rng.choice(("capacity", "no_region", "not_asked", "data"))
            fault = "" if reason == ("not_asked" if mine else "no_region") else "data_reason"
            judged = _judged(round_, world, layout, homes, "reason" if "running" in job else fault)
            change: Raw = {"reason": reason}
        case 3:
            judged = _judged(round_, world, layout, homes, "homes" if mine else "")
            return judged._replace(document=partial(_twice_at_home, judged.document, job["name"]))
        case _:
            judged = _judged(round_, world, layout, homes, "data_only")
            change = {"decision": "preempt" if "running" in job else "start", "option": 0}
    return judged._replace(document=partial(_decided, judged.document, number, change))


def _fault_of_home(world: World, job: Raw, home: Home | None, can: list[Home]) -> str:
    if home is None:
        return "homes" if can else ""
    if home in can:
        return ""
    region, model = home
    known = region in world.allowed(job) and model in models_of(world, job)
    return "home_data" if known and home in world.supply else "home"


def _twice_at_home(document: Callable[[], Raw], job: str) -> Raw:
    plan = document()
    homes = plan["sections"][0]["homes"]
    homes += [dict(home) for home in homes if home["job"] == job]
    return plan


def _decided(document: Callable[[], Raw], number: int, change: Raw) -> Raw:
    plan = document()
    plan["decisions"][number] |= change
    return plan


def _changed(round_: Raw, world: World, layout: Layout, rng: Random) -> Judged:
    """Return a plan with something changed about copies and deletions."""
    other = _layout(world, changed(rng, world, layout.carried))
    homes = [_any(rng, homes_of(world, job, other.final)) for job in round_["jobs"]]
    return _judged(round_, world, other, homes)


def _layout(world: World, carried: Carried) -> Layout:
    """Return what a schedule leads to, and the rule that it breaks."""
    creates = {(one["dataset"], one["region"]) for one in carried.creates}
    drops = {(one["dataset"], one["region"]) for one in carried.drops}
    final = (world.held | world.coming.keys() | creates) - drops
    return Layout(final, carried, broken(world, *carried, dropping=True))


def _document(
    round_: Raw, carried: Carried, homes: Sequence[Home | None], reasons: Sequence[str] = ()
) -> Raw:
    """Return the plan; without reasons given, jobs wait for the right ones."""
    decisions = []
    for number, (job, home) in enumerate(zip(round_["jobs"], homes, strict=True)):
        if "running" in job:
            decisions.append(
                {
                    "job": job["name"],
                    "decision": "keep",
                    "option": job["running"].get("option", 0),
                    "tasks": job["running"]["tasks"],
                }
            )
            continue
        reason = "no_region" if home is None else "not_asked"
        if reasons:
            reason = reasons[number]
        decisions.append({"job": job["name"], "decision": "wait", "reason": reason})
    sections: list[Raw] = [
        {
            "kind": "replicas",
            "creates": carried.creates,
            "drops": carried.drops,
            "homes": [
                {"job": job["name"], "region": home[0], "gpu_model": home[1]}
                for job, home in zip(round_["jobs"], homes, strict=True)
                if home is not None
            ],
        }
    ]
    if carried.flows:
        sections.append({"kind": "flows", "flows": carried.flows})
    return {
        "decisions": decisions,
        "sections": sections,
    }

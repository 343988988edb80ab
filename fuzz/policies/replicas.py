"""The policy `replicas`: where data is to be, and so where each job is to run.

All replicas that there may be in the end are enumerated, each with one schedule of copies and
deletions (`fuzz.data.carrying`), since no term sees when and over which links data goes. All homes
are enumerated for each, on all GPU models. The sample of invalid plans has homes where none may be,
missing ones, wrong reasons, and schedules of which something was changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import combinations, product
from math import prod
from random import Random
from types import ModuleType
from typing import NamedTuple, TypeAlias
from unittest.mock import patch

from fuzz.data.carrying import Carried, carry
from fuzz.data.changing import changed
from fuzz.data.drawing import MODELS, draw_reads, draw_world, enlarge, some
from fuzz.data.replay import broken
from fuzz.data.world import WHOLE, Replica, World, read_world
from fuzz.policy import Judged, Policy, Raw, Setting, TooManyPlansError
from placewright.formulations.replicas import bounds, question, run
from placewright.formulations.replicas import compile as grouping

TERMS = ("overload", "remote_reads", "copies", "imbalance", "hottest")
MOST_LAYOUTS, MOST_PLANS = 256, 3_000
INVALID, CHANGED = 8, 12
"""Invalid plans about homes, and schedules with a change, per round."""

HOMELESS = 3
Home: TypeAlias = tuple[str, str]
"""Region and GPU model."""


class Layout(NamedTuple):
    """Replicas in the end, and how they come and go."""

    final: frozenset[Replica]
    carried: Carried
    broken: str


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
    layouts = list(_layouts(world))
    count = 0
    for layout in layouts:
        homes = [_homes(world, job, layout.final) for job in round_["jobs"]]
        ways: list[Sequence[Home | None]] = [mine or (None,) for mine in homes]
        if layout.broken:
            yield _judged(round_, world, layout, [rng.choice(mine) for mine in ways])
            continue
        count += prod(map(len, ways))
        if count > MOST_PLANS:
            raise TooManyPlansError
        for chosen in product(*ways):
            yield _judged(round_, world, layout, chosen)
    whole = [layout for layout in layouts if not layout.broken]
    for _ in range(INVALID if round_["jobs"] else 0):
        yield _wrong(round_, world, rng.choice(whole), rng)
    moving = [layout for layout in whole if any(layout.carried)]
    for _ in range(CHANGED if moving else 0):
        yield _changed(round_, world, rng.choice(moving), rng)


_WHERE: Mapping[str, tuple[ModuleType, ...]] = {
    "is_small": (run,),
    "FEW": (grouping,),
    "FEW_COPIES": (bounds, question),
    "MOST_COPIES": (run, question),
    "MANY_COPIES": (question,),
    "FEW_DATASETS": (bounds,),
}
"""The modules that know what makes a round large."""


@contextmanager
def _as_if(**sizes: object) -> Iterator[None]:
    """Solve as if rounds of other sizes were small or large."""
    with ExitStack() as stack:
        for name, size in sizes.items():
            for module in _WHERE[name]:
                stack.enter_context(patch.object(module, name, size))
        yield


_LARGE = partial(_as_if, is_small=lambda _: False)
SETTINGS = (
    Setting("exact", 16),
    Setting("hurried", 2, seconds=0.02),
    Setting("groups of data", 2, partial(_as_if, FEW=0)),
    Setting("whole replicas", 2, partial(_as_if, FEW_COPIES=0)),
    Setting("annealed", 1, partial(_LARGE, FEW_COPIES=0, FEW=0), 1.0),
    Setting("by region", 1, partial(_LARGE, FEW_COPIES=0, MOST_COPIES=0), 1.0),
    Setting(
        "largest data",
        1,
        partial(_LARGE, FEW_COPIES=0, MOST_COPIES=0, MANY_COPIES=0, FEW_DATASETS=1),
        1.0,
    ),
)
POLICY = Policy("replicas", draw, plans, SETTINGS)


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


def _layouts(world: World) -> Iterator[Layout]:
    """Yield all that may be replicated in the end, each with a schedule."""
    free = [
        (dataset, region)
        for dataset in world.size
        for region in world.regions
        if (dataset, region) in world.held
        or (region in world.may[dataset] and (dataset, region) not in world.coming)
    ]
    if 2 ** len(free) > MOST_LAYOUTS:
        raise TooManyPlansError
    before = world.held | world.coming.keys()
    for number in range(len(free) + 1):
        for chosen in combinations(free, number):
            creates, drops = set(chosen) - world.held, set(chosen) & world.held
            carried = carry(world, creates, drops)
            if carried is None:
                carried = _naive(world, creates, drops)
            fault = broken(world, *carried, dropping=True)
            yield Layout((before | creates) - drops, carried, fault)


def _naive(world: World, creates: set[Replica], drops: set[Replica]) -> Carried:
    """Return copies all at once, straight from some region: mostly against a rule."""
    flows = []
    for dataset, region in sorted(creates):
        sources = [r for r in world.regions if r != region and (dataset, r) in world.held]
        if sources:
            path = [sources[0], region]
            flows.append(
                {
                    "dataset": dataset,
                    "path": path,
                    "gib": world.size[dataset],
                    "start": world.now,
                    "end": world.end,
                }
            )
    return Carried(
        [{"dataset": d, "region": r, "ready": world.end} for d, r in sorted(creates)],
        [{"dataset": d, "region": r, "at": world.end} for d, r in sorted(drops)],
        flows,
    )


def _models(world: World, job: Raw) -> list[str]:
    """Return the GPU models that the first option of a job allows for all its tasks."""
    models = {model for _, model in world.supply}
    for group in job["options"][0]["groups"]:
        models &= set(group.get("gpu_models", models))
    return sorted(models)


def _homes(world: World, job: Raw, final: frozenset[Replica]) -> list[Home]:
    """Return where a job may be at home once data is where it is to be."""
    return [
        (region, model)
        for region in world.allowed(job)
        if all(
            (read["dataset"], region) in final
            or (read.get("remote", True) and world.sources(read["dataset"], region, final))
            for read in job.get("reads", ())
        )
        for model in _models(world, job)
        if (region, model) in world.supply
    ]


def _any(rng: Random, homes: list[Home]) -> Home | None:
    return rng.choice(homes) if homes else None


def _judged(
    round_: Raw, world: World, layout: Layout, homes: Sequence[Home | None], fault: str = ""
) -> Judged:
    """Return a plan with the values of its terms."""
    values = _values(round_, world, layout, homes)
    terms = {name: values[name] for name in round_["policy"].get("terms", TERMS)}
    document = partial(_document, round_, layout.carried, homes)
    return Judged(document, terms, layout.broken or fault)


def _wrong(round_: Raw, world: World, layout: Layout, rng: Random) -> Judged:
    """Return a plan in which something about one job is, most likely, against a rule."""
    jobs = round_["jobs"]
    can = [_homes(world, job, layout.final) for job in jobs]
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
    known = region in world.allowed(job) and model in _models(world, job)
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
    carried = changed(rng, world, layout.carried)
    creates = {(one["dataset"], one["region"]) for one in carried.creates}
    drops = {(one["dataset"], one["region"]) for one in carried.drops}
    final = (world.held | world.coming.keys() | creates) - drops
    fault = broken(world, *carried, dropping=True)
    homes = [_any(rng, _homes(world, job, final)) for job in round_["jobs"]]
    return _judged(round_, world, Layout(final, carried, fault), homes)


def _asks(job: Raw) -> int:
    return sum(group["gpu"] * group.get("count", 1) for group in job["options"][0]["groups"])


def _values(
    round_: Raw, world: World, layout: Layout, homes: Sequence[Home | None]
) -> dict[str, int]:
    demand: Counter[Home] = Counter()
    overload = remote = 0
    for job, home in zip(round_["jobs"], homes, strict=True):
        asks = _asks(job)
        if home is None:
            overload += HOMELESS * asks
        else:
            demand[home] += asks
        remote += sum(
            read["gib"]
            for read in job.get("reads", ())
            if home is None or (read["dataset"], home[0]) not in layout.final
        )
    for where, asks in demand.items():
        has = world.supply.get(where, 0)
        overload += max(0, asks - has) + max(0, -((6 * has - 5 * asks) // 5))
    used = world.used(layout.final)
    stored, limits = sum(used[r] for r in world.storage), sum(world.storage.values())
    heat = 0
    for region in world.regions:
        asks = sum(amount for (where, _), amount in demand.items() if where == region)
        has = sum(amount for (where, _), amount in world.supply.items() if where == region)
        heat = max(heat, -(-1000 * asks // (has or WHOLE)))
    return {
        "overload": overload,
        "remote_reads": remote,
        "copies": sum(world.size[one["dataset"]] for one in layout.carried.creates),
        "imbalance": sum(
            max(0, used[region] - (stored * limit // limits if limits else 0))
            for region, limit in world.storage.items()
        ),
        "hottest": heat,
    }


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

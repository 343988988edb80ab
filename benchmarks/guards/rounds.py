"""The rounds of the guards: bundled, tiny and golden ones, and those whose values are compared.

A round whose file begins with `value` is solved against the clock; all others are deterministic.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeAlias, cast

from benchmarks import (
    deadline,
    elastic_deadlines,
    geo,
    interleaving,
    lease_loops,
    lease_rounds,
    network_rounds,
    pools_power,
    pools_storage,
    presets,
    shapes,
    speeds,
)
from benchmarks.guards.solve import VALUE
from fuzz.policies import POLICIES
from fuzz.small_units import as_document
from placewright import (
    InvalidInputError,
    Round,
    defragment,
    drain,
    load_round,
    minimal_victims,
    write,
)
from placewright.instances import parse_round
from placewright.instances.converters import convert_openb
from placewright.instances.documents.policy import DisruptionLimits, PolicyLimits
from placewright.instances.generators.gang import generate_round
from placewright.rounds.replay.lease_decider import decide_leases

__all__ = ["Named", "tiny_document", "write_rounds"]

Make: TypeAlias = Callable[[], Round]

LIBRARY = Path(__file__).parents[2] / "instances" / "library"
TINY = 10
"""Tiny rounds of each policy."""


def _gang(gpus: int, jobs: int, mix: str, seed: int = 0, tenants: int = 0) -> Make:
    arguments: dict[str, Any] = {"mix": mix, "seed": seed, "tenants": tenants}
    return partial(generate_round, gpus, jobs, **arguments)


def _defragment(make: Make) -> Round:
    return defragment(make(), "rack", 3600)


def _drain(make: Make) -> Round:
    """Drain the first host that somebody runs on."""
    round_ = make()
    hosts = [job.running.tasks[0].host for job in round_.jobs if job.running is not None]
    return drain(round_, hosts[:1])


def _minimal_victims(make: Make) -> Round:
    """Start the last job, which is pending."""
    round_ = make()
    return minimal_victims(round_, round_.jobs[-1].name)


def _with_policy(round_: Round, **changes: Any) -> Round:
    return round_.model_copy(update={"policy": round_.policy.model_copy(update=changes)})


def _stranded(jobs: int) -> Round:
    """Keep so many jobs of openb, all pending, beside the term `stranded`."""
    round_ = convert_openb(*presets.Case("", presets.LISTS[1]).files)
    few = round_.model_copy(update={"jobs": round_.jobs[-jobs:]})
    return _with_policy(few, terms=("value", "stranded"))


def _storage(hosts: int) -> Round:
    jobs = pools_storage.drawn(hosts, 0)
    return pools_storage.round_of(hosts, jobs, pools_storage.BITS, pools_storage.store_mbps(jobs))


def _network(kind: network_rounds.Kind) -> Round:
    jobs = network_rounds.drawn(kind, 64, 0)
    return network_rounds.round_of(kind.rack, 64, jobs, ("value", "spread", "contention"))


class _Reached(Exception):  # noqa: N818 (no error: the round that was asked for)
    """A lease of a loop."""


def _lease(number: int) -> Round:
    """Return the round at a boundary of Chronus's sample on 72 GPUs, lease by lease."""
    left = count(1 - number)

    def watch(round_: Round, _: object) -> None:
        if not next(left):
            raise _Reached(round_)

    try:
        decide_leases(lease_loops.Loop(lease_loops.SAMPLE, 72).make(), time_limit=1, watch=watch)
    except _Reached as reached:
        (found,) = reached.args
        return cast(Round, found)
    raise ValueError(f"expected a loop of {number} leases")


def _classes(make: Make) -> Round:
    """Give jobs three priorities, which decide class by class."""
    round_ = make()
    jobs = [job.model_copy(update={"priority": i % 3}) for i, job in enumerate(round_.jobs)]
    changed = round_.model_copy(update={"jobs": tuple(jobs)})
    return _with_policy(changed, priority="strict")


def _budget(make: Make) -> Round:
    """Let few running jobs stop, and little work be lost."""
    limits = PolicyLimits(disruption=DisruptionLimits(preempted_jobs=8, lost_gpu_s=50_000))
    return _with_policy(make(), limits=limits)


GOLDEN: Mapping[str, Make] = {
    "easy-512": _gang(512, 400, "easy"),
    "hard-1024": _gang(1024, 500, "hard", 1),
    "easy-4096": _gang(4096, 1000, "easy"),
    "shared-512": _gang(512, 300, "shared"),
    "easy-512-tenants": _gang(512, 400, "easy", 2, 8),
    "defragment-512": partial(_defragment, _gang(512, 0, "easy")),
    "deadline-100": deadline.Case("tight", 100, 250, 0).make,
    "deadline-promised": deadline.Case("promised", 400, 250, 0).make,
    "interleaving-100": interleaving.Case("trace1", 100, 0).make,
    "interleaving-jittered": interleaving.Case("trace1", 100, 0, "jittered").make,
    "geo-200": geo.Case("fast", 5, 40, 200, 1000, "scarce", 0, 0.0).make,
    "replicas-60": geo.Case("slow", 3, 12, 60, 320, "scarce", 0, 0.0).make,
}

VALUES: Mapping[str, Make] = {
    **{
        f"{mix}-{gpus}": _gang(gpus, jobs, mix, 1)
        for mix in ("easy", "hard", "tight")
        for gpus, jobs in ((512, 400), (4096, 1000))
    },
    "easy-512-tenants": _gang(512, 400, "easy", 0, 5),
    "tight-512-tenants": _gang(512, 400, "tight", 0, 8),
    "hard-2048-tenants": _gang(2048, 600, "hard", 0, 8),
    "tight-4096-tenants": _gang(4096, 1000, "tight", 0, 8),
    "shared-512": _gang(512, 400, "shared", 1),
    "shared-2048": _gang(2048, 800, "shared"),
    "shared-1024-tenants": _gang(1024, 400, "shared", 0, 6),
    "shared-4096": _gang(4096, 1000, "shared", 2),
    "defragment-1024": partial(_defragment, _gang(1024, 0, "hard")),
    "drain-1024": partial(_drain, _gang(1024, 100, "hard")),
    "victims-512": partial(_minimal_victims, _gang(512, 3, "tight")),
    "deadline-tight": deadline.Case("tight", 100, 250, 1).make,
    "deadline-loose": deadline.Case("loose", 400, 250, 0).make,
    "deadline-maintained": deadline.Case("maintained", 400, 250, 0).make,
    "deadline-promised": deadline.Case("promised", 400, 250, 1).make,
    "deadline-few": deadline.Case("few", 140, 360, 0).make,
    "interleaving-64": interleaving.Case("trace1", 64, 0).make,
    "interleaving-200": interleaving.Case("trace3", 200, 0).make,
    "interleaving-weighted": interleaving.Case("trace1", 100, 1, "weighted").make,
    "interleaving-jittered": interleaving.Case("trace1", 100, 1, "jittered").make,
    "geo-spare": geo.Case("fast", 10, 100, 1000, 5000, "spare", 0, 0.0).make,
    "geo-scarce": geo.Case("fast", 10, 100, 1000, 5000, "scarce", 1, 0.0).make,
    "replicas-spare": geo.Case("slow", 10, 100, 1000, 5000, "spare", 0, 0.0).make,
    "replicas-scarce": geo.Case("slow", 10, 100, 1000, 5000, "scarce", 1, 0.0).make,
}

GAINS: Mapping[str, Make] = {
    **{
        f"openb-{pods}": partial(convert_openb, *presets.Case("", pods).files, running=0.7)
        for pods in presets.LISTS
    },
    "openb-stranded": partial(_stranded, 600),
    **{
        f"preset-{preset}": presets.Case(preset, presets.LISTS[1]).make
        for preset in presets.PRESETS
    },
    "engine-hard": _gang(1024, 500, "hard", 1),
    "engine-shared": _gang(512, 300, "shared"),
    "engine-tenants": _gang(512, 400, "easy", 2, 8),
    "pools-power": lambda: pools_power.round_of(64, pools_power.drawn(64, 0), "pools"),
    "pools-storage": partial(_storage, 64),
    "network-loose": partial(_network, network_rounds.LOOSE),
    "network-full": partial(_network, network_rounds.FULL),
    "shapes-256": shapes.Case(256, 0).make,
    "shapes-2048": shapes.Case(2048, 0).make,
    "classes-512": partial(_classes, _gang(512, 400, "tight", 1)),
    "classes-shared": partial(_classes, _gang(512, 300, "shared", 1)),
    "budget-512": partial(_budget, _gang(512, 400, "tight", 1)),
    **{f"lease-{number}": partial(_lease, number) for number in (20, 60)},
    "elastic-10": partial(elastic_deadlines.Elastic("10", 16, 50, 7).make, elastic=True),
}


NEEDS: Mapping[str, Path] = {
    "deadline": lease_rounds.TRACE,
    "interleaving": interleaving.TRACES,
    "openb": presets.TRACE,
    "preset": presets.TRACE,
    "shapes": speeds.FILES[0],
    "lease": lease_loops.FOLDER,
    "elastic": elastic_deadlines.TRACES,
}
"""What golden rounds and those with values are drawn from, by the first word of their name."""


class Named(NamedTuple):
    """A round by its name, and what is missing without which it cannot be written."""

    name: str
    missing: Path | None = None


def tiny_document(policy: str, seed: int) -> dict[str, Any]:
    """Draw the document of a tiny round as the fuzzer does; priority is what it was at first.

    The fuzzer reads its rounds leniently. Both versions have to accept these as any other: rounds
    that name what is not there are drawn anew.
    """
    random = Random(f"guard {policy} {seed}")
    while True:
        document = _drawn(policy, random)
        try:
            parse_round(document)
        except InvalidInputError:
            continue
        return document


def _drawn(policy: str, random: Random) -> dict[str, Any]:
    drawn = POLICIES[policy].draw(random)
    head = {"apiVersion": "placewright/v1alpha2", "kind": "Round"}
    drawn["policy"] = {"priority": "preemption", **drawn.get("policy", {})}
    document: dict[str, Any] = as_document({**head, **drawn})
    return document


def write_rounds(folder: Path, pattern: str = "*") -> Iterator[Named]:
    """Write the rounds whose names match into a folder; yield each, also if it is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, missing, write_to in _rounds():
        if fnmatchcase(name, pattern):
            if missing is None:
                write_to(folder / f"{name}.json")
            yield Named(name, missing)


def _rounds() -> Iterator[tuple[str, Path | None, Callable[[Path], None]]]:
    """Yield names, what is missing, and functions that write."""
    for path in sorted(LIBRARY.glob("*.yaml")):
        yield f"bundled-{path.stem}", None, partial(_write, partial(load_round, path))
    for policy in POLICIES:
        for seed in range(TINY):
            yield f"tiny-{policy}-{seed}", None, partial(_write_tiny, policy, seed)
    for prefix, makers in (("golden", GOLDEN), (VALUE, VALUES), ("gain", GAINS)):
        for name, make in makers.items():
            needed = NEEDS.get(name.partition("-")[0])
            missing = None if needed is None or needed.exists() else needed
            yield f"{prefix}-{name}", missing, partial(_write, make)


def _write(make: Make, file: Path) -> None:
    write(make(), file)


def _write_tiny(policy: str, seed: int, file: Path) -> None:
    file.write_text(json.dumps(tiny_document(policy, seed)))

"""Make the index of `instances/benchmark/`: its rounds, and what longer runs find of them.

Usage, from the root of the repository:

    python -m benchmarks.library rounds     # rounds that the index lacks; others stay
    python -m benchmarks.library solve --suite small --seconds 60

`solve` decides rounds (`--new`: those without a plan) and enters better plans and tighter bounds.
Rounds that are drawn from published traces need `../shared/data` (docs/traces.md says where they
are published); who only runs the benchmark needs none of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import deadline, elastic_deadlines, interleaving, network_rounds, presets, shapes
from benchmarks import pools_power as power
from benchmarks import pools_storage as storage
from benchmarks.guards.rounds import GAINS, VALUES
from placewright import InvalidInputError, Round, __version__, solve_round, verify
from placewright.instances.benchmark.index import (
    GENERATORS,
    INDEX,
    Found,
    Instance,
    read_index,
    round_of,
    with_bounds,
    with_plan,
    write_index,
    write_plan,
    write_round,
)
from placewright.instances.checks.round import checked
from placewright.instances.converters import (
    convert_openb,
    read_itp,
    read_kubernetes,
    read_slurm,
    read_synergy,
)
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.plan import Task
from placewright.instances.generators.fabrics import FabricName, generate_fabric
from placewright.instances.generators.gang import generate_round
from placewright.instances.io.digest import round_digest

__all__ = ["main"]

DATA = Path(__file__).parents[2] / "shared" / "data"
OWN, APACHE, MIT = "Apache-2.0", "Apache-2.0", "MIT"
PHILLY = "base data CC-BY-4.0, (c) Microsoft, msr-fiddle/philly-traces"


class Entry(NamedTuple):
    """A round to be: how it is made, and what the index says of it."""

    name: str
    suite: str
    mix: str
    source: str
    licence: str
    make: Callable[[], Round]
    generator: dict[str, Any] | None = None


def _generated(suite: str, name: str, mix: str, kind: str, arguments: dict[str, Any]) -> Entry:
    make = partial(GENERATORS[kind], **arguments)
    return Entry(name, suite, mix, f"generator {kind}", OWN, make, {"kind": kind, **arguments})


def _gang(suite: str, mix: str, gpus: int, jobs: int, seed: int, tenants: int = 0) -> Entry:
    name = f"gang-{mix}-{gpus}" + (f"-{tenants}t" if tenants else "") + f"-{seed}"
    arguments = {"gpus": gpus, "jobs": jobs, "mix": mix, "seed": seed, "tenants": tenants}
    return _generated(suite, name, mix, "gang", arguments)


def _geo(suite: str, policy: str, mix: str, regions: int, jobs: int, gpus: int) -> Entry:
    arguments = {
        "regions": regions,
        "datasets": max(regions, jobs // 10),
        "jobs": jobs,
        "gpus": gpus,
        "mix": mix,
        "seed": 0,
        "policy": policy,
    }
    return _generated(suite, f"{policy}-{mix}-{gpus}", mix, "geo", arguments)


def _network(kind: network_rounds.Kind, hosts: int) -> Round:
    jobs = network_rounds.drawn(kind, hosts, 0)
    return network_rounds.round_of(kind.rack, hosts, jobs, ("value", "spread", "contention"))


def _storage(hosts: int) -> Round:
    jobs = storage.drawn(hosts, 0)
    return storage.round_of(hosts, jobs, storage.BITS, storage.store_mbps(jobs))


def _linked(hosts: int, seed: int) -> Round:
    """Jobs of 1 to 4 GPUs that want NVLink, on hosts with bridges or a cube mesh, half of it held.

    Who runs is on GPUs at random.
    """
    draw = np.random.Generator(np.random.PCG64(seed))
    models = ("a100-pcie-8-bridged", "hgx-v100-8")
    known = [models[host % len(models)] for host in range(hosts)]
    free = {host: draw.permutation(8).tolist() for host in range(hosts)}
    jobs: list[Job] = []
    for number in range(3 * hosts):
        gpus = int(draw.choice((1, 2, 3, 4)))
        group: dict[str, Any] = {"gpu": gpus} if gpus == 1 else {"gpu": gpus, "gpu_links": {}}
        job = Job.model_validate({"name": f"j{number}", "options": [{"groups": [group]}]})
        host = number % hosts
        if number < hosts + hosts // 2 and len(free[host]) >= gpus:
            held = tuple(sorted(free[host].pop() for _ in range(gpus)))
            running = Running(tasks=(Task(host=f"h{host}", gpus=held),), pinned=True)
            job = job.model_copy(update={"running": running})
        jobs.append(job)
    return Round.model_validate(
        {
            "name": f"linked-{hosts}-{seed}",
            "cluster": {"hosts": [{"name": f"h{h}", "model": m} for h, m in enumerate(known)]},
            "jobs": [job.model_dump(exclude_defaults=True, mode="json") for job in jobs],
            "policy": {"terms": ["value", "gpu_links"]},
        }
    )


def _staged(pipelines: int, hosts: int, seed: int, terms: Sequence[str]) -> Round:
    """Pipelines after Acme: training in two sizes, an evaluation in waves, a metric on CPUs."""
    draw = np.random.Generator(np.random.PCG64(seed))
    jobs: list[dict[str, Any]] = []
    for number in range(pipelines):
        train, test, metric = f"p{number}-train", f"p{number}-test", f"p{number}-metric"
        tasks, seconds = int(draw.choice((1, 1, 2, 4))), int(draw.integers(600, 7200))
        sizes = [{"groups": [{"count": n, "gpu": 8}]} for n in (tasks, 2 * tasks)]
        stage: dict[str, Any] = {"task_s": [seconds, seconds * 3 // 5]}
        weight = int(draw.choice((1, 2, 4)))
        evaluations = [{"groups": [{"count": int(draw.integers(4, 40)), "gpu": 1, "cpu": 4}]}]
        waves = {"task_s": int(draw.integers(60, 900)), "after": [train], "gang": False}
        end = {"task_s": int(draw.integers(60, 1800)), "after": [test]}
        counted = [{"groups": [{"gpu": 0, "cpu": 8}]}]
        jobs += [
            {"name": train, "options": sizes, "stage": stage},
            {"name": test, "options": evaluations, "stage": waves},
            {"name": metric, "options": counted, "stage": end, "weight": weight},
        ]
    each = {"gpus": 8, "gpu_model": "A100", "cpu": 96}
    return Round.model_validate(
        {
            "name": f"staged-{pipelines}",
            "cluster": {"hosts": [{"name": f"h[0-{hosts - 1}]", **each}]},
            "jobs": jobs,
            "policy": {"formulation": "stages", "terms": list(terms)},
        }
    )


def _on_fabric(fabric: FabricName, gpus: int, radix: int, jobs: int) -> Round:
    """Gangs of a generated mix on the leaves and spines of a network that is empty."""
    cluster = generate_fabric(fabric, gpus, radix=radix)
    asked = [one for one in generate_round(4096, jobs, mix="easy", seed=1).jobs if not one.running]
    plain = [
        {"name": one.name, "options": [{"groups": [{"count": g.count, "gpu": g.gpu // 1000}]}]}
        for one in asked
        for g in one.options[0].groups
        if g.count * g.gpu <= gpus * 1000
    ]
    names = {"name": f"{fabric}-{gpus}", "policy": {"terms": ["value", "spread", "proximity"]}}
    return Round.model_validate(
        {**names, "cluster": cluster.model_dump(mode="json", exclude_defaults=True), "jobs": plain}
    )


def _files(folder: str, *endings: str) -> list[Path]:
    return [path for path in sorted((DATA / folder).iterdir()) if path.name.endswith(endings or "")]


def _openb(pods: str, running: float, jobs: int | None = None) -> Round:
    made = convert_openb(*presets.Case("", pods).files, running=running)
    return made if jobs is None else made.model_copy(update={"jobs": made.jobs[-jobs:]})


def _entries() -> Iterator[Entry]:
    """Yield the rounds of the library, suite by suite."""
    mixes = ("easy", "hard", "tight", "shared")
    for mix in mixes:
        yield from (_gang("small", mix, gpus, gpus * 2 // 5, gpus) for gpus in (64, 128, 256))
    for mix, gpus, tenants in (("tight", 128, 3), ("easy", 256, 6), ("shared", 128, 3)):
        yield _gang("small", mix, gpus, gpus * 2 // 5, 0, tenants)
    for mix in mixes:
        yield from (_gang("medium", mix, *size, 1) for size in ((512, 400), (4096, 1000)))
        yield _gang("medium", mix, 1024, 300, 0, 6)
    yield from (_gang("large", mix, 16_384, 6000, 0) for mix in mixes)
    yield from (_gang("large", mix, 4096, 2000, 0, 8) for mix in mixes)
    yield from (_gang("large", mix, 100_000, 10_000, 0) for mix in mixes[:2])
    yield _gang("large", "tight", 100_000, 30_000, 0)
    for name in (
        *("quickstart", "why-jobs-wait", "pools", "hived", "drf-100-cpus", "megatron", "sia"),
        *("gpu-pairs-across", "gpu-links-cube-mesh", "backfill-easy", "disruption-budget"),
        *("muri", "muri-running", "chronus", "elasticflow", "mast-regions", "mast-replicas"),
        *("nvidia-mig", "kueue-jobset-slices", "lyra-return", "synergy", "fgd"),
    ):
        yield _generated("small", f"bundled-{name}", "bundled", "bundled", {"name": name})
    for policy in ("geo", "replicas"):
        yield _geo("small", policy, "scarce", 3, 60, 320)
        yield from (_geo("medium", policy, mix, 10, 1000, 5000) for mix in ("spare", "scarce"))
        yield _geo("large", policy, "scarce", 20, 5000, 40_000)
    own = partial(_file, source="benchmarks of this repository", licence=OWN)
    yield own("defragment-512", "small", "preset", lambda: VALUES["defragment-1024"]())
    yield own("drain-1024", "small", "preset", lambda: VALUES["drain-1024"]())
    yield own("victims-512", "small", "preset", lambda: VALUES["victims-512"]())
    yield own("classes-512", "medium", "strict priority", lambda: GAINS["classes-512"]())
    yield own("budget-512", "medium", "disruption budget", lambda: GAINS["budget-512"]())
    suites: tuple[tuple[str, int], ...] = (("small", 64), ("medium", 512), ("large", 4096))
    for suite, hosts in suites:
        for kind, mix in ((network_rounds.LOOSE, "loose"), (network_rounds.FULL, "full")):
            yield own(
                f"network-{mix}-{hosts}", suite, f"uplinks, {mix}", partial(_network, kind, hosts)
            )
        watts = partial(lambda n: power.round_of(n, power.drawn(n, 0), "pools"), hosts)
        yield own(f"power-{hosts}", suite, "power of racks", watts)
        yield own(f"storage-{hosts}", suite, "store of checkpoints", partial(_storage, hosts))
    for suite, hosts in suites[:2]:
        yield own(f"linked-{hosts}", suite, "links between GPUs", partial(_linked, hosts, 0))
    for suite, pipelines, hosts in (("small", 8, 4), ("medium", 60, 16), ("large", 400, 64)):
        for term in ("makespan", "completion"):
            make = partial(_staged, pipelines, hosts, 0, (term, "spread"))
            yield own(f"stages-{term}-{pipelines}", suite, f"pipelines, {term}", make)
    fabrics: tuple[tuple[str, FabricName, int, int, int], ...] = (
        ("small", "fat-tree", 256, 16, 40),
        ("small", "rail", 256, 32, 40),
        ("medium", "fat-tree", 2048, 32, 300),
        ("medium", "dragonfly", 2048, 64, 300),
    )
    for suite, fabric, gpus, radix, jobs in fabrics:
        make = partial(_on_fabric, fabric, gpus, radix, jobs)
        yield own(f"{fabric}-{gpus}", suite, "network by rule", make)
    yield from _of_traces()
    yield from _of_dumps()


def _file(
    name: str, suite: str, mix: str, make: Callable[[], Round], *, source: str, licence: str
) -> Entry:
    return Entry(name, suite, mix, source, licence, make)


def _of_traces() -> Iterator[Entry]:
    openb = partial(_file, source="Alibaba openb 2023 (clusterdata)", licence=APACHE)
    yield openb("openb-300", "small", "shares of GPUs", partial(_openb, "default", 0.9, 300))
    for pods in ("default", "gpuspec10", "multigpu20"):
        yield openb(f"openb-{pods}", "medium", "shares of GPUs", partial(_openb, pods, 0.7))
    yield openb("openb-stranded", "medium", "fragmentation", lambda: GAINS["openb-stranded"]())
    for preset in presets.PRESETS:
        case = presets.Case(preset, presets.LISTS[1])
        yield openb(f"openb-{preset}", "large", "preset", case.make)
    muri = partial(
        _file, source="Muri (SIGCOMM 2022), trace1 and trace3", licence=f"{APACHE}; {PHILLY}"
    )
    yield muri("interleaving-64", "small", "stages", interleaving.Case("trace1", 64, 0).make)
    yield muri("interleaving-200", "medium", "stages", interleaving.Case("trace3", 200, 0).make)
    for variant in ("weighted", "jittered"):
        make = interleaving.Case("trace1", 100, 1, variant).make
        yield muri(f"interleaving-{variant}", "medium", f"stages, {variant}", make)
    yield muri("interleaving-1000", "large", "stages", interleaving.Case("trace1", 1000, 0).make)
    chronus = partial(_file, source="Chronus (SoCC 2021), MIX2", licence=f"{MIT}; {PHILLY}")
    yield chronus("deadline-few", "small", "few", deadline.Case("few", 140, 360, 0).make)
    yield chronus("deadline-100", "small", "tight", deadline.Case("tight", 100, 250, 1).make)
    kinds: tuple[deadline.Kind, ...] = ("tight", "loose", "maintained", "promised")
    for kind in kinds:
        yield chronus(f"deadline-{kind}", "medium", kind, deadline.Case(kind, 400, 250, 1).make)
    for kind in (kinds[0], kinds[3]):
        make = deadline.Case(kind, 2000, 250, 1).make
        yield chronus(f"deadline-{kind}-2000", "large", kind, make)
    yield chronus("lease-20", "small", "leases", lambda: GAINS["lease-20"]())
    yield chronus("lease-60", "medium", "leases", lambda: GAINS["lease-60"]())
    flow = partial(_file, source="ElasticFlow (ASPLOS 2023), Microsoft ITP", licence=MIT)
    for suite, cluster, gpus, day, days in (
        ("small", "10", 16, 50, 7), ("medium", "06", 64, 52, 3), ("large", "03", 128, 50, 3),
    ):  # fmt: skip
        window = elastic_deadlines.Elastic(cluster, gpus, day, days)
        yield flow(f"elastic-{cluster}", suite, "elastic", partial(window.make, elastic=True))
    traces = _files("traces/elasticflow/raw")
    yield flow("itp-geo", "medium", "regions", lambda: read_itp(traces, policy="geo").round)
    yield flow("itp-replicas", "medium", "regions", lambda: read_itp(traces).round)
    synergy = partial(_file, source="Synergy (OSDI 2022), sensitivities", licence=MIT)
    profiles = DATA / "profiles/synergy/cpu_mem_sensitivity_1gpu.json"
    for suite, servers in (("small", 8), ("medium", 64)):
        make = partial(lambda n: read_synergy(profiles, servers=n).round, servers)
        yield synergy(f"synergy-{servers}", suite, "CPU and memory", make)
    gavel = partial(_file, source="Gavel (OSDI 2020), throughputs", licence=MIT)
    for suite, gpus in (("small", 256), ("medium", 2048)):
        yield gavel(f"shapes-{gpus}", suite, "options", shapes.Case(gpus, 0).make)


def _of_dumps() -> Iterator[Entry]:
    slurm = partial(_file, source="dump of a real Slurm 22.05 with fake GPU nodes", licence=OWN)
    for suite, folder in (("small", "mini-22.05"), ("medium", "22.05-64nodes")):
        files = [DATA / "live/slurm" / folder]
        yield slurm(
            f"slurm-{folder}", suite, "queue", partial(lambda f: read_slurm(f).round, files)
        )
    kueue = partial(_file, source="dump of a real Kueue, kube-scheduler 1.36", licence=APACHE)
    for seed in (1, 3, 5):
        files = _files(f"live/kubernetes/captured/kueue-tas-seed{seed}")
        make = partial(lambda f: read_kubernetes(f).round, files)
        yield kueue(f"kueue-tas-{seed}", "small", "queue", make)


def _write_rounds() -> None:
    """Add the rounds that the index lacks."""
    known = read_index() if INDEX.exists() else {}
    made = {}
    for entry in _entries():
        if entry.name in known:
            made[entry.name] = known[entry.name]
            continue
        try:
            round_ = checked(entry.make())
        except (FileNotFoundError, InvalidInputError) as missing:
            print(f"{entry.name}: left out, {missing}", file=sys.stderr, flush=True)
            continue
        cluster = build_cluster(round_.cluster)
        if entry.generator is None:
            write_round(entry.name, round_)
        made[entry.name] = Instance.model_validate(
            {
                "name": entry.name,
                "suite": entry.suite,
                "policy": round_.policy.formulation,
                "hosts": cluster.num_hosts,
                "gpus": int(cluster.gpu_count.sum()),
                "jobs": len(round_.jobs),
                "mix": entry.mix,
                "source": entry.source,
                "licence": entry.licence,
                "digest": round_digest(round_),
                "generator": entry.generator,
            }
        )
        write_index((known | made).values())
        print(entry.name, file=sys.stderr, flush=True)
    write_index(made.values())


def _solve(chosen: argparse.Namespace) -> None:
    index, seconds, backend = read_index(), chosen.seconds, chosen.backend
    found = Found(
        by=f"Placewright {__version__}, {backend}, {seconds:g} s",
        on=datetime.now(UTC).date().isoformat(),
    )
    for name, instance in index.items():
        if not fnmatchcase(name, chosen.pattern) or chosen.suite not in (None, instance.suite):
            continue
        if chosen.new and instance.best:
            continue
        round_ = round_of(instance)
        plan = solve_round(round_, time_limit=seconds, backend=backend, gap=0.0)
        verification = verify(round_, plan)
        if not verification.ok or plan.certificate is None:
            raise ValueError(f"{name}: {verification.violations}")
        now = read_index()  # others may have written meanwhile
        entered = with_plan(now[name], verification.terms, found)
        if entered is not None:
            write_plan(name, plan)
        now[name] = with_bounds(entered or now[name], plan.certificate.terms, found)
        write_index(now.values())
        print(
            name,
            "better" if entered else "no better",
            now[name].best[0],
            file=sys.stderr,
            flush=True,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Make rounds, or solve them; progress to stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.library",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("rounds")
    solve = verbs.add_parser("solve")
    solve.add_argument("pattern", nargs="?", default="*")
    solve.add_argument("--seconds", type=float, default=60.0)
    solve.add_argument("--suite")
    solve.add_argument("--backend", default="auto")
    solve.add_argument("--new", action="store_true")
    chosen = parser.parse_args(arguments)
    if chosen.verb == "rounds":
        _write_rounds()
    else:
        _solve(chosen)


if __name__ == "__main__":
    main()

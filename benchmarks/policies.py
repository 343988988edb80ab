"""Replays of scheduling policies over published traces, beside the figures of their simulators."""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copyfile, copytree
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.report import ERROR, SKIPPED, Row
from placewright.instances.traces.papers import MEASURED, PROFILES, THROUGHPUTS
from placewright.instances.traces.read import read_trace
from placewright.instances.traces.trace import Trace
from placewright.rounds.policies.base import (
    CHANGING,
    ElasticPolicy,
    GroupPolicy,
    ListPolicy,
    RoundPolicy,
)
from placewright.rounds.policies.named import POLICIES, TunedPolicy
from placewright.rounds.replay.book import Placer
from placewright.rounds.replay.measures import Result, measure
from placewright.rounds.replay.spec import ReplaySpec, play

SHARED = Path(__file__).parents[2] / "shared" / "data"
TRACES, ORACLES = SHARED / "traces", SHARED / "oracles"

SPEED_TABLES = Path(__file__).parents[1] / "tests" / "data" / "elasticflow-speeds" / MEASURED

FEW = 1000
"""Jobs of a trace that is short."""

ON_HOSTS = ("srsf", "sia", "elasticflow")
"""Policies that are played on hosts of 8 as well, where sizes are."""

NAMES: dict[str, tuple[str, Placer]] = {
    "FIFO, first fit": ("fifo", "first-fit"),
    "FIFO, best fit": ("fifo", "best-fit"),
    "fit first (FIFO, skipping), first fit": ("fit-first", "first-fit"),
    "SJF, best fit": ("sjf", "best-fit"),
    "QSSF perfect, best fit": ("qssf", "best-fit"),
    "SRTF": ("srtf", "first-fit"),
    "SRSF": ("srsf", "first-fit"),
    "smallest gang first, preemptive": ("smallest", "first-fit"),
    "Tiresias_L": ("2d-las", "first-fit"),
}
"""Policy and placer of what published tables name."""

FAIR = {
    "max_min_fairness_perf": "gavel-max-min",
    "finish_time_fairness_perf": "gavel-finish-time",
    "min_total_duration_perf": "gavel-makespan",
    "max_min_fairness": "max-min-time",
    "finish_time_fairness": "themis",
    "min_total_duration": "open-shop",
    "shockwave": "shockwave",
}
"""Policies of fair shares over time, by what Gavel's and Shockwave's tables name."""

GROUPED = {"Muri_S": ("muri-s", "muri-s-matching"), "Muri_L": ("muri-l", "muri-l-matching")}
"""Policies beside what Muri's table names: groups of ours, and those of its matching."""


@dataclass(frozen=True, slots=True)
class Case:
    """A trace on hosts of one size, with Muri's costs or without costs."""

    trace: str
    file: str
    hosts: tuple[int, ...]
    muri: bool = False
    at_once: bool = False
    jobs: int | None = None

    @property
    def name(self) -> str:
        """What rows call it."""
        return f"{self.trace.replace(' ', '-')}-{len(self.hosts)}x{self.hosts[0]}"

    def read(self) -> Trace:
        """Read the trace; all jobs are submitted at once in Muri's traces that end in `_pr`.

        With `jobs`, its jobs over and over again until there are so many.
        """
        trace = read_trace(TRACES / self.file)
        if not self.at_once:
            return trace
        count = len(trace) if self.jobs is None else self.jobs
        at_once = np.zeros(count, dtype=np.int64)
        return trace.arriving(at_once, np.resize(np.arange(len(trace)), count))

    @property
    def is_there(self) -> bool:
        """Whether the trace and the published figures were found."""
        return (TRACES / self.file).is_file() and ORACLES.is_dir()

    def spec(self, policy: str, placer: Placer) -> ReplaySpec:
        """Return the assumptions that the published simulators make."""
        if self.muri:
            return ReplaySpec(policy, self.hosts, places="free", start_table="muri", charge="event")
        return ReplaySpec(policy, self.hosts, placer=placer, places="free")

    def plays(self, policy: str) -> bool:
        """Return whether a policy ends soon: matchings of hundreds of jobs take long."""
        return self.trace.startswith("trace3") or policy not in (
            "muri-s-matching",
            "muri-l-matching",
        )

    def published(self) -> dict[tuple[str, Placer], float]:
        """Return published mean completion times by policy and placer."""
        found = {}
        table = "muri.csv" if self.muri else "zero_cost.csv"
        cluster = f"{len(self.hosts)}x{self.hosts[0]}"
        # What released code gives where it was run: of Muri-S on trace3 it is not as published.
        columns = (
            "jct_artifact_rerun",
            "jct_published",
            "jct_tiresias_simulator",
            "jct_helios_simulator",
        )
        with (ORACLES / table).open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                cell = next((row[c] for c in columns if row.get(c)), "")
                here = row["trace"] == self.trace and row["cluster"] == cluster
                if here and cell and row["policy"] in NAMES:
                    found[NAMES[row["policy"]]] = float(cell)
                for policy in GROUPED.get(row["policy"], ()) if here and cell else ():
                    found[policy, "first-fit"] = float(cell)
        return found

    def makespans(self) -> dict[str, float]:
        """Return published makespans by policy, where they are compared."""
        return {}


class SynergyCase(Case):
    """Synergy's static trace in rounds of 300 s, each job at speed 1 or with tuned shares."""

    __slots__ = ()

    @property
    def is_there(self) -> bool:
        """Whether the trace, its profiles and the published figures were found."""
        profiles = SHARED / "profiles" / PROFILES
        return all(path.is_file() for path in (ORACLES / self.file, profiles))

    def read(self) -> Trace:
        """Read the trace with its profiles beside it."""
        with TemporaryDirectory() as folder:
            copyfile(SHARED / "profiles" / PROFILES, Path(folder) / PROFILES)
            return read_trace(copyfile(ORACLES / self.file, Path(folder) / "static.csv"))

    def spec(self, policy: str, placer: Placer) -> ReplaySpec:
        """Return the assumptions of Synergy's simulator."""
        return ReplaySpec(policy, self.hosts, placer=placer, places="free", every_s=300)

    def published(self) -> dict[tuple[str, Placer], float]:
        """Return published mean completion times by policy and placer."""
        suffix = {"proportional": "", "tune": "-synergy"}
        with (ORACLES / "synergy.csv").open(encoding="utf-8") as file:
            return {
                (row["policy"].lower() + suffix[row["mode"]], "first-fit"): float(row["avg_jct_s"])
                for row in csv.DictReader(file)
                if row["policy"] != "FTF" and row["mode"] in suffix
            }


class GavelCase(Case):
    """Gavel's trace on GPUs of three models, or Shockwave's on those of one, in rounds, by counts.

    Batches that Shockwave's jobs enlarge as they run stay as they begin, so that most of its jobs
    take longer than in its artifact: its figures have an order in common with ours.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """What rows call it."""
        return f"{self.trace}-{sum(self.hosts)}"

    @property
    def is_there(self) -> bool:
        """Whether the trace, its throughputs and the published figures were found."""
        return all(path.is_file() for path in (ORACLES / self.file, THROUGHPUTS_OF_GAVEL))

    @property
    def is_shockwave(self) -> bool:
        """Whether it is the trace of Shockwave."""
        return "shockwave" in self.file

    def read(self) -> Trace:
        """Read the trace with Gavel's throughputs beside it."""
        with TemporaryDirectory() as folder:
            copyfile(THROUGHPUTS_OF_GAVEL, Path(folder) / THROUGHPUTS)
            return read_trace(copyfile(ORACLES / self.file, Path(folder) / "jobs.trace"))

    def spec(self, policy: str, placer: Placer) -> ReplaySpec:
        """Return the assumptions of the artifacts: rounds of 120 or 360 s, without costs."""
        models = () if self.is_shockwave else ("V100", "P100", "K80")
        every_s = 120 if self.is_shockwave else 360
        return ReplaySpec(policy, self.hosts, models, placer=placer, every_s=every_s)

    def plays(self, policy: str) -> bool:
        """Return whether a policy can play: not each job of Gavel's runs on GPUs of each model."""
        return self.is_shockwave or isinstance(POLICIES[policy], ElasticPolicy)

    def published(self) -> dict[tuple[str, Placer], float]:
        """Return published mean completion times by policy and placer."""
        return {(name, "counting"): float(row["avg_jct_s"]) for name, row in self.rows().items()}

    def makespans(self) -> dict[str, float]:
        """Return published makespans by policy."""
        return {name: float(row["makespan_s"]) for name, row in self.rows().items()}

    def rows(self) -> dict[str, dict[str, str]]:
        """Return the rows of the published figures by policy."""
        name = "shockwave.csv" if self.is_shockwave else "gavel.csv"
        measured = {"trace": "max_min_fairness", "throughputs": THROUGHPUTS}
        with (ORACLES / name).open(encoding="utf-8") as file:
            return {
                FAIR[row["policy"]]: row
                for row in csv.DictReader(file)
                if row["policy"] in FAIR
                and all(row.get(column, value) == value for column, value in measured.items())
            }


FAIR_RHO = 1.05

THROUGHPUTS_OF_GAVEL = SHARED / "profiles/gavel" / THROUGHPUTS


@dataclass(frozen=True, slots=True)
class SizesCase(Case):
    """A trace of ElasticFlow with its measured speeds: policies that choose sizes beside lists.

    Decisions are at events, at most every minute. A start takes 30 s; with `due`, where deadlines
    count, what it takes in ElasticFlow by GPUs. `least`: share of deadlines that `elasticflow` has
    to meet on counts of GPUs, or `most`: mean completion time of `sia` over that of `srsf` with
    fixed sizes.
    """

    due: bool = False
    least: float = 0.0
    most: float = math.inf

    @property
    def name(self) -> str:
        """What rows call it."""
        return f"{'due' if self.due else 'sizes'}-{self.trace}-{sum(self.hosts)}"

    def read(self) -> Trace:
        """Read the trace with the tables of speeds beside it."""
        with TemporaryDirectory() as folder:
            copytree(SPEED_TABLES, Path(folder) / MEASURED)
            return read_trace(copyfile(TRACES / self.file, Path(folder) / "trace.csv"))

    def spec(self, policy: str, placer: Placer) -> ReplaySpec:
        """Return the assumptions."""
        base = 54.0 if sum(self.hosts) >= 256 else 29.0
        moves = placer != "counting" and isinstance(POLICIES[policy], ElasticPolicy)
        starts = tuple((gpus, base + 2 * gpus.bit_length()) for gpus in (1, 2, 4, 8, 16, 32, 64))
        return ReplaySpec(
            policy,
            self.hosts,
            placer=placer,
            places="free" if moves else "kept",
            every_s=60,
            at_most_every=True,
            start_s=30,
            move_s=30,
            start_by_gpus=starts if self.due else (),
        )

    def published(self) -> dict[tuple[str, Placer], float]:
        """Return published shares of deadlines met by policy."""
        names = {"edf": "edf-fastest", "dlas-gpu (Tiresias)": "2d-las", "gandiva": "gandiva"}
        names["ElasticFlow"] = "elasticflow"
        with (ORACLES / "elasticflow_deadlines.csv").open(encoding="utf-8") as file:
            return {
                (names[row["policy"]], "counting"): float(row["met_published"])
                for row in csv.DictReader(file)
                if self.due
                and (row["trace"], int(row["gpus"])) == (self.trace, sum(self.hosts))
                and row["policy"] in names
            }

    def played(self) -> Iterator[Row]:
        """Yield a row per policy by counts of GPUs, some on hosts as well; an error off the bar."""
        trace, published, fixed = self.read(), self.published(), dict[Placer, float]()
        sizes = [
            name
            for name, policy in POLICIES.items()
            if isinstance(policy, ElasticPolicy)
            and policy.sizes
            and "deadline_us" not in policy.sees
        ]
        rounds = [name for name in sizes if _is_rounds(POLICIES[name])]
        due = ["edf", "edf-fastest", "2d-las", "gandiva", "elasticflow"]
        policies = due if self.due else ["srsf", *sizes]
        for policy in policies:
            # Slices of a minute are as many decisions.
            if policy in ("gandiva", *rounds) and len(trace) > FEW:
                continue
            placers: tuple[Placer, ...] = ("counting",) if policy not in rounds else ()
            placers += ("best-fit",) if policy in (*ON_HOSTS, *rounds) else ()
            for placer in placers:
                row = _row(self, trace, policy, placer, None)
                figures = dict(row.figures)
                ratio = figures["JCT s"] / fixed.setdefault(placer, figures["JCT s"])
                figures |= {} if self.due else {"of srsf": ratio}
                if (policy, placer) in published:
                    figures["published met %"] = 100 * published[policy, placer]
                bar = placer == "counting" and policy == ("elasticflow" if self.due else "sia")
                note = ""
                if bar and (figures["met %"] < 100 * self.least or ratio > self.most):
                    note = f"expected {self.least:g} of deadlines and {self.most:g} of srsf"
                status = ERROR if note else row.status
                yield replace(row, figures=figures, status=status, note=note)


def _is_rounds(policy: object) -> bool:
    """Whether rounds decide sizes and hosts."""
    return isinstance(policy, ElasticPolicy) and policy.worth is not None


SYNERGY = SynergyCase("synergy static", "inputs/synergy_static_100.csv", (8,) * 4)
GAVEL = GavelCase("gavel", "inputs/gavel_max_min_fairness.trace", (8, 16, 24))
SHOCKWAVE = GavelCase("shockwave", "inputs/shockwave_120.trace", (32,))


def sizes_cases() -> list[Case]:
    """Return traces with measured speeds: completion times, then deadlines."""
    made: list[Case] = []
    for cluster, gpus, most in (("10", 32, 0.72), ("06", 128, 0.76), ("06", 256, 0.75)):
        made.append(_sizes(cluster, gpus, most=most))
    made.append(_sizes("03", 256, most=0.78))
    met = {("10", 16): 0.80, ("10", 256): 0.985, ("06", 128): 0.777, ("06", 512): 0.836}
    for (cluster, gpus), share in (met | {("03", 256): 0.703, ("03", 512): 0.761}).items():
        made.append(_sizes(cluster, gpus, due=True, least=share - 0.02))
    return made


def _sizes(cluster: str, gpus: int, **bars: Any) -> SizesCase:
    name = f"cluster{cluster}"
    return SizesCase(name, f"elasticflow/deadline/{name}.csv", (8,) * (gpus // 8), **bars)


def cases(*, quick: bool) -> list[Case]:
    """Return all cases, or the smallest of each kind."""
    raw = "elasticflow/raw"
    small = [
        Case("tiresias 60_job", "tiresias/60_job.csv", (4,) * 2),
        Case("elasticflow cluster10", f"{raw}/cluster10.csv", (8,) * 2),
        Case("trace3", "muri/trace3.csv", (8,) * 8, muri=True),
        SYNERGY,
        GAVEL,
        SHOCKWAVE,
        sizes_cases()[0],
    ]
    if quick:
        return small
    return [
        *small,
        Case("elasticflow cluster06", f"{raw}/cluster06.csv", (8,) * 12),
        Case("elasticflow cluster06", f"{raw}/cluster06.csv", (8,) * 16),
        Case("elasticflow cluster03", f"{raw}/cluster03.csv", (8,) * 18),
        Case("trace1", "muri/trace1.csv", (8,) * 8, muri=True),
        Case("trace1_pr", "muri/trace1.csv", (8,) * 8, muri=True, at_once=True),
        Case("trace3_pr", "muri/trace3.csv", (8,) * 8, muri=True, at_once=True),
        Case("trace1_many", "muri/trace1.csv", (8,) * 8, muri=True, at_once=True, jobs=5000),
        *sizes_cases()[1:],
    ]


def run(chosen: Sequence[Case], *, quick: bool) -> Iterator[Row]:
    """Yield a row per case and policy: each policy by first fit, and as it was published."""
    for case in chosen:
        if not case.is_there:
            note = "the trace or the published figures were not found"
            yield Row(case.name, "all", None, SKIPPED, note=note)
            continue
        if isinstance(case, SizesCase):
            yield from case.played()
            continue
        trace, published = case.read(), case.published()
        kinds = ListPolicy | TunedPolicy
        if not quick:
            kinds |= GroupPolicy if case.at_once else GroupPolicy | RoundPolicy
        lists = [
            name
            for name, policy in POLICIES.items()
            if isinstance(policy, kinds)
            and all(map(trace.has, policy.sees - CHANGING))
            and ("tenant" not in policy.sees or len(trace.tenants) > 1)
        ]
        plain: list[tuple[str, Placer]] = [(name, "first-fit") for name in lists if name != "edf"]
        for policy, placer in dict.fromkeys([*published, *plain]):
            if isinstance(POLICIES[policy], kinds | ElasticPolicy) and case.plays(policy):
                yield _row(case, trace, policy, placer, published.get((policy, placer)))


def fairness(result: Result) -> tuple[float, float]:
    """Return the worst finish-time fairness rho of Shockwave's table, and the part that is unfair.

    A job's rho is its completion time over the time that it takes on one of as many parts of the
    cluster as the trace has jobs. Up to `FAIR_RHO` it is fair.
    """
    trace = result.trace
    alone = trace.work_us * max(1.0, len(trace) / result.gpus_total)
    rho = (result.end_us - trace.submit_us) / alone
    return float(rho.max()), float((rho > FAIR_RHO).mean())


def _row(case: Case, trace: Trace, policy: str, placer: Placer, published: float | None) -> Row:
    wall, cpu = time.monotonic(), time.process_time()
    result = play(trace, case.spec(policy, placer))
    found = measure(result)
    figures = {
        "JCT s": found["jct_mean_s"],
        "p99 s": found["jct_p99_s"],
        "makespan s": found["makespan_s"],
        "stops per job": found["stops_per_job"],
        "allocation %": 100 * found["allocation"],
    }
    if "deadlines_met" in found:
        figures["met %"] = 100 * found["deadlines_met"]
    if "resizes_per_job" in found:
        figures["resizes per job"] = found["resizes_per_job"]
        figures["GPU hours"] = (found["useful_gpu_s"] + found["overhead_gpu_s"]) / 3600
    if published is not None:
        figures["published JCT s"] = published
        figures["off by %"] = 100 * (found["jct_mean_s"] / published - 1)
    if policy in case.makespans():
        makespan = case.makespans()[policy]
        figures["published makespan s"] = makespan
        figures["makespan off by %"] = 100 * (found["makespan_s"] / makespan - 1)
        worst, unfair = fairness(result)
        figures |= {"worst rho": worst, "unfair %": 100 * unfair}
    if "gap_mean" in found:
        figures["mean gap %"] = 100 * found["gap_mean"]
    return Row(
        case.name,
        f"{policy}, {placer}",
        None,
        "done",
        seconds=time.monotonic() - wall,
        cpu_seconds=time.process_time() - cpu,
        figures=figures,
    )

"""How fast a training job runs on some GPUs, from published measurements.

Pollux's tables have the seconds of a step, and how many of those synchronise, for three models on
1 to 16 hosts of 4 T4 GPUs; Gavel's say how much faster other GPUs compute. Neither is part of this
repository: `POLLUX` and `GAVEL` say where they are looked for.

The goodput of a job (Qiao et al., *Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized
Deep Learning*, OSDI 2021, section 3) is the samples per second times the statistical efficiency,

    (noise + m0) / (noise + m)      m: samples per step, m0: those that the job began with

and a batch per GPU may be chosen for it.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["FILES", "HOSTS", "Application", "Measurement", "applications"]

DATA = Path(__file__).parents[2] / "shared" / "data" / "profiles"
GAVEL = DATA / "gavel" / "simulation_throughputs.json"
POLLUX = DATA / "pollux"
TABLES = ("placements", "scalability")

HOSTS: Mapping[str, int] = {"k80": 4, "p100": 8, "v100": 8}
"""GPUs of a host, per GPU model of Gavel's tables; the first computes at the speed of Pollux's."""

ALIKE = {
    "cifar10": ("ResNet-18 (batch size 128)", 128),
    "imagenet": ("ResNet-50 (batch size 64)", 200),
    "bert": ("Transformer (batch size 64)", 12),
}
"""Per model of Pollux's tables one of Gavel's, and m0."""

FILES = (GAVEL, *(POLLUX / f"{name}_{table}.csv" for name in ALIKE for table in TABLES))


@dataclass(frozen=True, slots=True)
class Measurement:
    """Seconds of one step at a batch per GPU.

    `compute_s` is on the first GPU model; `inside_s` synchronises 1, 2 and 4 GPUs of a host,
    `across_s` whole hosts, as many as `across` says.
    """

    batch: int
    compute_s: float
    inside_s: tuple[float, ...]
    across: tuple[int, ...]
    across_s: tuple[float, ...]

    def sync_s(self, gpus: int, hosts: int) -> float | None:
        """Return the seconds that so many GPUs synchronise; None for more hosts than measured."""
        if hosts == 1:
            return self.inside_s[min(gpus.bit_length(), len(self.inside_s)) - 1]
        if hosts > self.across[-1]:
            return None
        return float(np.interp(hosts, self.across, self.across_s))


@dataclass(frozen=True, slots=True)
class Application:
    """A model to train: its steps, how much faster each GPU model computes, its first batch."""

    steps: tuple[Measurement, ...]
    faster: Mapping[str, float]
    first_batch: int

    def goodput(self, model: str, gpus: int, noise: float) -> float:
        """Return useful samples per second at the best batch; whole hosts where one is too small.

        Parameters
        ----------
        noise
            Scale of the gradient noise, in samples.
        """
        hosts = max(1, gpus // HOSTS[model])
        best = 0.0
        for step in self.steps:
            sync = step.sync_s(gpus, hosts)
            if sync is not None:
                # A batch smaller than the first one is made up by accumulation.
                samples = max(gpus * step.batch, self.first_batch)
                speed = gpus * step.batch / (step.compute_s / self.faster[model] + sync)
                best = max(best, speed * (noise + self.first_batch) / (noise + samples))
        return best


def applications() -> tuple[Application, ...]:
    """Read the tables."""
    speeds = json.loads(GAVEL.read_text(encoding="utf-8"))
    made = []
    for name, (alike, first_batch) in ALIKE.items():
        alone = {model: speeds[model][f"('{alike}', 1)"]["null"] for model in HOSTS}
        slowest = alone[next(iter(HOSTS))]
        faster = {model: speed / slowest for model, speed in alone.items()}
        made.append(Application(_measurements(name), faster, first_batch))
    return tuple(made)


def _measurements(name: str) -> tuple[Measurement, ...]:
    """Return what is measured of 1, 2 and 4 GPUs of a host and of whole hosts, per batch."""
    inside: defaultdict[int, dict[int, tuple[float, float]]] = defaultdict(dict)
    across: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for table in TABLES:
        with (POLLUX / f"{name}_{table}.csv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                # A placement has a digit per host: the GPUs used there.
                parts = [int(digit) for digit in row.get("placement") or ""]
                hosts = len(parts) or int(row["num_nodes"])
                gpus = sum(parts) or int(row["num_replicas"])
                batch, sync = int(row["local_bsz"]), float(row["sync_time"])
                if hosts == 1 and gpus in (1, 2, 4):
                    inside[batch][gpus] = (float(row["step_time"]), sync)
                if gpus == 4 * hosts:
                    across[batch][hosts] = sync
    return tuple(
        Measurement(
            batch,
            alone[1][0] - alone[1][1],
            tuple(alone[gpus][1] for gpus in (1, 2, 4)),
            tuple(sorted(across[batch])),
            tuple(across[batch][hosts] for hosts in sorted(across[batch])),
        )
        for batch, alone in sorted(inside.items())
        if len(alone) == 3
    )

"""Rules and terms of the policies `geo` and `replicas`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from placewright.instances.verify.policies import PolicyRules
from placewright.instances.verify.reading import Data, Reading, bits
from placewright.instances.verify.rules.gang.priority import class_terms, value
from placewright.instances.verify.rules.gang.reasons import RULES_OF_REASONS
from placewright.instances.verify.rules.gang.terms import PLACEMENT_TERMS
from placewright.instances.verify.rules.geo import sections
from placewright.instances.verify.rules.geo.copies import RULES_OF_COPIES, RULES_OF_FLOWS
from placewright.instances.verify.rules.geo.jobs import (
    RULES_OF_HOMES,
    RULES_OF_READS,
    RULES_OF_REGIONS_OF_JOBS,
)
from placewright.instances.verify.rules.geo.sections import RULES_OF_SECTIONS_OF_REGIONS
from placewright.topology.units import WHOLE_GPU

# The terms of data, regions and their prices, recomputed.


HOMELESS = 3
"""What each milli-GPU of a job without a home counts in `overload`."""


def reads_of_runs(reading: Reading) -> int:
    """GiB per window that jobs which run after the round read from other regions."""
    return sum(read.gib for _, read in reading.geo.missing)


def reads_of_homes(reading: Reading) -> int:
    """GiB per window that jobs read from other regions than their homes once all copies are done.

    Of a job without a home, everything that it reads.
    """
    data = reading.geo
    homes = _homes(reading, data)
    total = 0
    for job in reading.round.jobs:
        home = homes.get(job.name)
        for read in job.reads:
            if home is None or not data.final[read.dataset] >> home[0] & 1:
                total += read.gib
    return total


def egress_cost(reading: Reading) -> int:
    """Micro-dollars per window for what jobs read over links after the round."""
    data = reading.geo
    sources = {
        (reader.job, read.dataset): data.facts.number.get(read.source)
        for reader in data.reads.readers
        for read in reader.reads
    }
    total = 0
    for name, read in data.missing:
        source = sources.get((name, read.dataset))
        link = None if source is None else data.facts.links.get((source, data.runs[name]))
        total += 0 if link is None else read.gib * link.egress
    return total


def gpu_cost(reading: Reading) -> int:
    """Micro-dollars per hour for all GPUs held after the round, rounded down once for all."""
    data = reading.geo
    prices = {
        (region, model): price
        for region, entry in data.facts.entries.items()
        for model, price in entry.prices.items()
    }
    total = 0
    for task in reading.placed_tasks() if prices else ():
        model = task.host.hardware.gpu_model
        if model is not None:
            total += task.group.gpu * prices.get((data.facts.region_of(task.host), model), 0)
    return total // WHOLE_GPU


def overload(reading: Reading) -> int:
    """Milli-GPU that homes ask beyond the supply, again beyond 120 % of it, and of no home thrice.

    By region and GPU model, each piece rounded up to a whole milli-GPU.
    """
    data = reading.geo
    homes = _homes(reading, data)
    total = 0
    for where, asked in _demand(reading, homes).items():
        supply = data.facts.supply.get(where, 0)
        total += max(0, asked - supply) + -(-max(0, 5 * asked - 6 * supply) // 5)
    return total + sum(
        HOMELESS * job.options[0].milli_gpu for job in reading.round.jobs if job.name not in homes
    )


def copies_made(reading: Reading) -> int:
    """GiB of all new replicas."""
    data = reading.geo
    return sum(data.facts.datasets[name].document.size for name, _ in data.complete)


def imbalance(reading: Reading) -> int:
    """GiB by which regions with a storage limit exceed their proportional part of the stored data.

    Theirs is in proportion to their storage, rounded down.
    """
    data = reading.geo
    used: defaultdict[int, int] = defaultdict(int)
    for name, regions in data.final.items():
        for region in bits(regions):
            used[region] += data.facts.datasets[name].document.size
    limits = {
        region: entry.storage
        for region, entry in data.facts.entries.items()
        if entry.storage is not None
    }
    everything, storage = sum(used[region] for region in limits), sum(limits.values())
    return sum(
        max(0, used[region] - (everything * limit // storage if storage else 0))
        for region, limit in limits.items()
    )


def hottest(reading: Reading) -> int:
    """Largest demand of a region over its supply, in thousandths, rounded up.

    A region without any GPU counts as if it had one.
    """
    data = reading.geo
    asked: defaultdict[int, int] = defaultdict(int)
    for (region, _), amount in _demand(reading, _homes(reading, data)).items():
        asked[region] += amount
    supply: defaultdict[int, int] = defaultdict(int)
    for (region, _), amount in data.facts.supply.items():
        supply[region] += amount
    return max(
        (-(-1000 * amount // (supply[region] or WHOLE_GPU)) for region, amount in asked.items()),
        default=0,
    )


def _homes(reading: Reading, data: Data) -> Mapping[str, tuple[int, str]]:
    """Return the home of each job that has one, as region and GPU model."""
    homes: dict[str, tuple[int, str]] = {}
    for one in data.replicas.homes:
        region = data.facts.number.get(one.region)
        if one.job in reading.jobs and region is not None:
            homes.setdefault(one.job, (region, one.gpu_model))
    return homes


def _demand(
    reading: Reading, homes: Mapping[str, tuple[int, str]]
) -> Mapping[tuple[int, str], int]:
    """Return the milli-GPU of the first options of the jobs at home in each region, by model."""
    asked: defaultdict[tuple[int, str], int] = defaultdict(int)
    for name, where in homes.items():
        asked[where] += reading.jobs[name].options[0].milli_gpu
    return asked


GEO = PolicyRules(
    terms={
        **PLACEMENT_TERMS,
        "value": value,
        "remote_reads": reads_of_runs,
        "egress_cost": egress_cost,
        "gpu_cost": gpu_cost,
    },
    rules=(
        *RULES_OF_SECTIONS_OF_REGIONS,
        *RULES_OF_REGIONS_OF_JOBS,
        *RULES_OF_READS,
        *RULES_OF_COPIES,
        *RULES_OF_FLOWS,
        *RULES_OF_REASONS,
    ),
    forms=sections.FORMS,
    read=sections.with_data,
    classes=class_terms,
)
REPLICAS = PolicyRules(
    terms={
        "overload": overload,
        "remote_reads": reads_of_homes,
        "copies": copies_made,
        "imbalance": imbalance,
        "hottest": hottest,
    },
    rules=(*RULES_OF_SECTIONS_OF_REGIONS, *RULES_OF_HOMES, *RULES_OF_COPIES, *RULES_OF_FLOWS),
    forms={kind: sections.FORMS[kind] for kind in ("replicas", "flows")},
    read=sections.with_data,
)

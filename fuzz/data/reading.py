"""What jobs read from where, under the policy `geo`, and what they wait for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import TypeAlias

from fuzz.book.facts import Facts
from fuzz.data.world import Replica, World
from fuzz.policy import Raw

Sources: TypeAlias = Mapping[tuple[str, str], str]
"""By job and dataset, the region from which it is read over a link."""


class Reading:
    """The reads of a round's jobs."""

    def __init__(self, facts: Facts, world: World) -> None:
        self.world = world
        self.jobs: dict[str, Raw] = {job["name"]: job for job in facts.raw["jobs"]}
        self.options = {job.name: job.options for job in facts.jobs}

    def can_start(self, job: str, region: str) -> bool:
        """Whether a job may start in a region, and read all its data there now."""
        return region in self.world.allowed(self.jobs[job]) and all(
            sources for _, sources in self.missing(job, region)
        )

    def missing(self, job: str, region: str) -> Iterator[tuple[Raw, list[str]]]:
        """Yield the reads of a job of which its region has no replica, and who can serve each."""
        for read in self.jobs[job].get("reads", ()):
            if (read["dataset"], region) not in self.world.held:
                yield read, self._servers(read, region)

    def ways(self, runs: Mapping[str, str]) -> Iterator[Sources]:
        """Yield all ways to read, with the region of each job that runs.

        Whoever is to start can read everything; who ran before goes on without what nobody serves.
        """
        wanted = [
            [(job, read["dataset"], source) for source in sources]
            for job, region in runs.items()
            for read, sources in self.missing(job, region)
            if sources
        ]
        for chosen in product(*wanted):
            yield {(job, dataset): source for job, dataset, source in chosen}

    def broken(self, runs: Mapping[str, str], readers: list[Raw]) -> str:
        """Return a rule that the list of who reads over links breaks, "" if it breaks none."""
        listed: set[tuple[str, str]] = set()
        names = [reader["job"] for reader in readers]
        if len(set(names)) < len(names) or not runs.keys() >= set(names):
            return "readers"
        for reader in readers:
            job, region = reader["job"], runs[reader["job"]]
            data = [read["dataset"] for read in reader["reads"]]
            if len(set(data)) < len(data):
                return "readers"
            can = {read["dataset"]: sources for read, sources in self.missing(job, region)}
            if any(read["source"] not in can.get(read["dataset"], ()) for read in reader["reads"]):
                return "remote_read"
            listed |= {(job, name) for name in data}
        for job, region in runs.items():
            for read, sources in self.missing(job, region):
                ran = "running" in self.jobs[job]
                if (job, read["dataset"]) not in listed and (sources or not ran):
                    return "local_data"
        return ""

    def remote(self, runs: Mapping[str, str]) -> int:
        """Return the GiB that jobs read of data that their region does not hold."""
        return sum(
            read["gib"] for job, region in runs.items() for read, _ in self.missing(job, region)
        )

    def egress(self, runs: Mapping[str, str], sources: Sources) -> int:
        """Return what reads over links cost, in micro-dollars."""
        total = 0
        for job, region in runs.items():
            for read, _ in self.missing(job, region):
                source = sources.get((job, read["dataset"]))
                if source is not None:
                    total += read["gib"] * self.world.links[source, region].egress
        return total

    def _servers(self, read: Raw, region: str) -> list[str]:
        if not read.get("remote", True):
            return []
        return self.world.sources(read["dataset"], region, self.world.held)


class Waiting:
    """Where jobs could run that do not, once all copies are done, and when their data is there."""

    def __init__(self, reading: Reading, creates: Mapping[Replica, int]) -> None:
        self.reading, self.world = reading, reading.world
        self.since = dict.fromkeys(self.world.held, self.world.now) | dict(creates)
        self.since |= {r: at for r, at in self.world.coming.items() if r not in self.world.held}

    def could(self, job: str) -> dict[str, int]:
        """Return the regions that could run a job, and from when on it can read everything."""
        found = {}
        for region in self.world.allowed(self.reading.jobs[job]):
            ready = self._ready(job, region)
            if ready is not None and self._has_gpus(job, region):
                found[region] = ready
        return found

    def broken(self, job: str, reason: str | None, entries: list[Raw]) -> str:
        """Return a rule that a waiting job's reason, and what is said of its data, break."""
        could = self.could(job)
        if reason == "no_region" and could:
            return "data_reason"
        if reason == "not_asked" or (reason == "data" and not entries):
            return "data_reason"
        for entry in entries:
            ready = could.get(entry["region"])
            if reason != "data" or len(entries) > 1 or ready in (None, self.world.now):
                return "waits_for_data"
            if ready != entry["ready"]:
                return "waits_for_data"
        return ""

    def _ready(self, job: str, region: str) -> int | None:
        """Return when all data of a job can be read in a region, None if it never can."""
        ready = self.world.now
        for read in self.reading.jobs[job].get("reads", ()):
            name = read["dataset"]
            at = [self.since[name, region]] if (name, region) in self.since else []
            if read.get("remote", True):
                sources = self.world.sources(name, region, self.since.keys())
                at += [self.since[name, source] for source in sources]
            if not at:
                return None
            ready = max(ready, min(at))
        return ready

    def _has_gpus(self, job: str, region: str) -> bool:
        """Whether a region has all GPUs that each group of some option asks, group by group."""
        supply = {m: milli for (r, m), milli in self.world.supply.items() if r == region}
        return any(
            all(
                sum(supply.get(model, 0) for model in group.models or supply) >= group.milli
                for group in option.groups
            )
            for option in self.reading.options[job]
        )

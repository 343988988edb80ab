"""The rules of the policy `geo`, beyond those of gangs, and what its plans are worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from fuzz.book.choices import MIGRATE, START, Choice, Choices
from fuzz.book.facts import WHOLE, Facts, Job
from fuzz.book.judgement import Judgement
from fuzz.book.terms import Terms
from fuzz.book.writing import written
from fuzz.data.carrying import Carried
from fuzz.data.reading import Reading, Sources
from fuzz.data.world import read_world
from fuzz.policy import Raw


class Said(NamedTuple):
    """What a plan says of data: sources, reasons, jobs that wait for it, copies."""

    readers: list[Raw]
    reasons: Mapping[str, str]
    waiting: list[Raw]
    carried: Carried


class Book:
    """The rules of a round of regions, and the values of its terms."""

    def __init__(self, round_: Raw) -> None:
        self.round, self.facts = round_, Facts(round_)
        self.world = read_world(round_)
        self.reading = Reading(self.facts, self.world)
        self.judgement = Judgement(self.facts)
        data = {"remote_reads": self._remote, "egress_cost": lambda _: 0, "gpu_cost": self._gpus}
        self._terms = Terms(self.judgement, data)
        self._regions = {h.number: self.world.region_of[h.name] for h in self.facts.hosts}
        entries = round_["geo"]["regions"]
        self._prices = {entry["name"]: entry.get("prices", {}) for entry in entries}
        self._quotas = {
            (entry["name"], tenant): milli
            for entry in entries
            for tenant, milli in entry.get("quotas", {}).items()
        }

    def admits(self, job: Job, choice: Choice) -> bool:
        """Whether a job may be where a choice has it, as far as regions and data go."""
        return not self._alone(job, choice)

    def between(self, choices: Choices) -> str:
        """Return a rule between jobs that a plan breaks, "" if it breaks none."""
        return self.judgement.between(choices) or self._quota(choices)

    def broken(self, choices: Choices) -> str:
        """Return a rule that a plan breaks, data aside, "" if it breaks none."""
        for job, choice in zip(self.facts.jobs, choices, strict=True):
            if rule := self._alone(job, choice):
                return rule
        return self.judgement.broken(choices) or self._quota(choices)

    def runs(self, choices: Choices) -> dict[str, str]:
        """Return the region of each job that runs after the round."""
        return {
            job.name: self._regions[choice.places[0][2]]
            for job, choice in zip(self.facts.jobs, choices, strict=True)
            if choice.runs
        }

    def terms(self, choices: Choices, sources: Sources) -> dict[str, int]:
        """Return the values of the terms."""
        values = self._terms(choices)
        if "egress_cost" in values:
            values["egress_cost"] = self.reading.egress(self.runs(choices), sources)
        return values

    def document(self, choices: Choices, said: Said, seed: int) -> Raw:
        """Write a plan."""
        plan = written(self._terms, choices, seed)
        for decision in plan["decisions"]:
            if decision["job"] in said.reasons:
                decision["reason"] = said.reasons[decision["job"]]
        reads = {"kind": "reads", "readers": said.readers, "waiting": said.waiting}
        plan["sections"].append(reads)
        creates, drops, flows = said.carried
        if creates or drops:
            copies = {"kind": "replicas", "creates": creates, "drops": drops, "homes": []}
            plan["sections"].append(copies)
        if flows:
            plan["sections"].append({"kind": "flows", "flows": flows})
        return plan

    def _alone(self, job: Job, choice: Choice) -> str:
        """Return a rule of regions that a job breaks by itself; it can read all that it needs."""
        if not choice.anew:
            return ""
        regions = {self._regions[place[2]] for place in choice.places}
        if len(regions) > 1:
            return "one_region"
        (region,) = regions
        if choice.kind == MIGRATE and job.running is not None:
            return "" if region == self._regions[job.running.places[0][2]] else "one_region"
        if region not in self.world.allowed(self.round["jobs"][job.number]):
            return "residency"
        return "" if self.reading.can_start(job.name, region) else "local_data"

    def _quota(self, choices: Choices) -> str:
        before: Counter[tuple[str, str | None]] = Counter()
        after: Counter[tuple[str, str | None]] = Counter()
        starts = set()
        for job, choice in zip(self.facts.jobs, choices, strict=True):
            if job.running is not None:
                here = self._regions[job.running.places[0][2]], job.tenant
                before[here] += job.options[job.running.option].asks["gpu"]
            if choice.runs:
                there = self._regions[choice.places[0][2]], job.tenant
                after[there] += job.options[choice.option].asks["gpu"]
                if choice.kind == START:
                    starts.add(there)
        for where, quota in self._quotas.items():
            if where in starts and after[where] > max(quota, before[where]):
                return "region_quota"
        return ""

    def _remote(self, choices: Choices) -> int:
        return self.reading.remote(self.runs(choices))

    def _gpus(self, choices: Choices) -> int:
        total = 0
        for job, choice in zip(self.facts.jobs, choices, strict=True):
            for place in choice.places:
                host = self.facts.hosts[place[2]]
                price = self._prices.get(self._regions[host.number], {}).get(host.model, 0)
                total += price * job.options[choice.option].groups[place[0]].gpu
        return total // WHOLE

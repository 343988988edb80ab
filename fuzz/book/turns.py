"""Jobs that take turns on GPUs (docs/plans.md#taking-turns): groups, their period and worth."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations, permutations
from typing import NamedTuple, TypeAlias

from fuzz.book.choices import KEEP, Choices
from fuzz.book.facts import WHOLE, Facts, Group, Job, Place
from fuzz.book.room import Room
from fuzz.policy import Raw

MILLION = 10**6


class Team(NamedTuple):
    """Jobs of a group by number, ascending, and the offset of each."""

    jobs: tuple[int, ...]
    offsets: tuple[int, ...]


Teams: TypeAlias = tuple[Team, ...]


class Turns:
    """What the profiles and the section `sharing` of a round say."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        sharing: Raw = facts.raw.get("sharing", {})
        resources = sharing.get("resources", ("io", "cpu", "gpu", "network"))
        self.spanning: bool = sharing.get("spanning", False)
        self.slots = 4 if self.spanning else len(resources)
        self.contention = sharing.get("contention", [MILLION] * 3)
        self.most = min(sharing.get("most", 4), self.slots)
        self.needed: bool = sharing.get("as_needed", False)
        self.percentile: int = sharing.get("percentile", 100)
        self.correlation: int | None = sharing.get("correlation")
        self._listed = {frozenset(pair) for pair in sharing.get("conflicts", ())}
        self.raws: list[Raw] = facts.raw["jobs"]
        self.profiles: list[Raw | None] = [job.get("profile") for job in self.raws]
        self.weights = [job.get("weight", 1) for job in self.raws]
        self.like = [self._likeness(job) for job in facts.jobs]
        self._best: dict[tuple[int, ...], Team] = {}

    @cached_property
    def before(self) -> dict[tuple[Place, ...], tuple[int, ...]]:
        """The jobs that take turns before the round, by their places; shares of a GPU do not."""
        found: dict[tuple[Place, ...], list[int]] = {}
        for job in self.facts.jobs:
            running = job.running
            if running is not None and not running.option and self.like[job.number] is not None:
                found.setdefault(running.places, []).append(job.number)
        return {places: tuple(jobs) for places, jobs in found.items() if len(jobs) > 1}

    def best(self, jobs: tuple[int, ...]) -> Team:
        """Return the group with offsets of the shortest period; no term prefers another."""
        if jobs not in self._best:
            ways = (Team(jobs, offsets) for offsets in permutations(range(self.slots), len(jobs)))
            self._best[jobs] = min(ways, key=self.period)
        return self._best[jobs]

    def period(self, team: Team) -> int:
        """Return the microseconds of a period."""
        stages: list[list[int]] = [self._profile(job)["stages"] for job in team.jobs]
        if self.spanning:
            alone = self._spanning(stages, team.offsets)
        else:
            alone = sum(
                max(
                    times[(slot + offset) % self.slots]
                    for times, offset in zip(stages, team.offsets, strict=True)
                )
                for slot in range(self.slots)
            )
        factor: int = self.contention[len(stages) - 2]
        return -(-alone * factor // MILLION)

    def stays(self, team: Team, choices: Choices) -> bool:
        """Whether a group is as it was before: all kept, nobody comes or goes."""
        running = self.facts.jobs[team.jobs[0]].running
        return (
            running is not None
            and all(choices[job].kind == KEEP for job in team.jobs)
            and self.before.get(running.places) == team.jobs
        )

    def broken(self, choices: Choices, teams: Teams) -> str:
        """Return a rule of groups that a plan breaks, "" if it breaks none; room aside."""
        for team in teams:
            if any(not choices[job].runs for job in team.jobs):
                return "groups"
            likes = {self.like[job] for job in team.jobs}
            first = all(choices[job].option == 0 for job in team.jobs)
            if len(likes) > 1 or None in likes or not first or len(team.jobs) > self.most:
                return "group_members"
            if len({choices[job].places for job in team.jobs}) > 1:
                return "group_places"
            if len(set(team.offsets)) < len(team.jobs) or max(team.offsets) >= self.slots:
                return "offsets"
            if not self.stays(team, choices) and (rule := self._formed(team)):
                return rule
        mates = {job: team.jobs for team in teams for job in team.jobs}
        for job in self.facts.jobs:
            if job.running is not None and job.running.pinned:
                before = self.before.get(job.running.places, (job.number,))
                if mates.get(job.number, (job.number,)) != before:
                    return "pinned_group"
        return "" if self._as_needed(teams) else "as_needed"

    def fits(self, choices: Choices, teams: Teams) -> bool:
        """Whether all that runs after the round fits its hosts and GPUs."""
        room = Room(self.facts)
        alone = set(range(len(choices))) - {job for team in teams for job in team.jobs}
        units = [team.jobs for team in teams]
        units += [(job,) for job in sorted(alone) if choices[job].runs]
        for jobs in units:
            for place in choices[jobs[0]].places:
                options = [choices[job].option for job in jobs]
                group = self.merged(jobs, options, place[0])
                if not room.holds(group, place):
                    return False
                room.take(group, place)
        return True

    def merged(self, jobs: tuple[int, ...], options: Sequence[int], number: int) -> Group:
        """Return what a task of a group of jobs takes, or of a job alone, each with its option."""
        each = [
            self.facts.jobs[job].options[option].groups[number]
            for job, option in zip(jobs, options, strict=True)
        ]
        if len(jobs) == 1:
            return each[0]
        wants: dict[str, int] = {}
        for group in each:
            for name, amount in group.wants:
                mine = wants.get(name, 0)
                wants[name] = max(mine, amount) if name == "cpu" else mine + amount
        memory = sum(
            self._size(job, group) for job, group in zip(jobs, each, strict=True) if group.gpu
        )
        return replace(each[0], wants=tuple(wants.items()), gpu_memory=memory)

    def rates(self, choices: Choices, teams: Teams) -> Iterator[tuple[int, int]]:
        """Yield the throughput of each job that is placed."""
        grouped = {job for team in teams for job in team.jobs}
        for team in teams:
            period = self.period(team)
            for job in team.jobs:
                yield job, self.speed(job, 0) * self.iteration(job) // period
        for job, choice in enumerate(choices):
            if choice.runs and job not in grouped:
                yield job, self.speed(job, choice.option)

    def efficiency(self, choices: Choices, teams: Teams) -> int:
        """Return the sum of the mean busy shares of groups and of single jobs with a profile."""
        grouped = {job for team in teams for job in team.jobs}
        total = 0
        for team in teams:
            work = sum(sum(self._profile(job)["stages"]) for job in team.jobs)
            total += MILLION * work // (self.slots * self.period(team))
        for job, choice in enumerate(choices):
            if choice.runs and job not in grouped and self.profiles[job] is not None:
                work = sum(self._profile(job)["stages"])
                total += MILLION * work // (self.slots * self.iteration(job))
        return total

    def iteration(self, job: int) -> int:
        """Return the microseconds of an iteration of a job alone."""
        profile = self._profile(job)
        given: int | None = profile.get("iteration")
        return sum(profile["stages"]) if given is None else given

    def _profile(self, job: int) -> Raw:
        profile = self.profiles[job]
        assert profile is not None
        return profile

    def _formed(self, team: Team) -> str:
        """Return the rule that a group breaks which was not there before, "" if none."""
        took = self.period(team)
        if took > sum(self.iteration(job) for job in team.jobs):
            return "in_turn"
        for job in team.jobs:
            cap = self._profile(job).get("slowdown")
            if cap is not None and took * 1000 > cap * self.iteration(job):
                return "slowdown"
        for one, other in combinations(team.jobs, 2):
            names = {self.facts.jobs[one].name, self.facts.jobs[other].name}
            if names in self._listed or self._correlate(one, other):
                return "conflicts"
        return ""

    def _correlate(self, one: int, other: int) -> bool:
        x: list[int] = self._profile(one).get("load", [])
        y: list[int] = self._profile(other).get("load", [])
        if self.correlation is None or len(x) != len(y) or not x:
            return False
        n: int = len(x)
        common = n * sum(a * b for a, b in zip(x, y, strict=True)) - sum(x) * sum(y)
        square_x = n * sum(a * a for a in x) - sum(x) ** 2
        square_y = n * sum(b * b for b in y) - sum(y) ** 2
        if not square_x or not square_y or common < 0:
            return False
        least = self.correlation**2 * square_x * square_y
        return (1000 * common) ** 2 >= least

    def _as_needed(self, teams: Teams) -> bool:
        """Whether groups save no more GPUs than are missing, if the round asks that."""
        if not self.needed:
            return True
        asked = [job.options[0].asks["gpu"] for job in self.facts.jobs]
        there = sum(
            WHOLE * (host.gpus - len(host.reserved_gpus))
            for host in self.facts.hosts
            if host.healthy and not host.reserved
        )
        missing = sum(asked) - there
        largest = max(
            (asked[job] for job, profile in enumerate(self.profiles) if profile is not None),
            default=0,
        )
        most = missing + largest - WHOLE if missing > 0 else 0
        saved = sum((len(team.jobs) - 1) * asked[team.jobs[0]] for team in teams)
        before = sum((len(jobs) - 1) * asked[jobs[0]] for jobs in self.before.values())
        return not teams or saved <= max(most, before)

    def _size(self, job: int, group: Group) -> int:
        """Return what a job takes in a group of the memory of each of its GPUs."""
        series = sorted(self._profile(job).get("memory", ()))
        if not series:
            return group.gpu_memory
        return int(series[-(-self.percentile * len(series) // 100) - 1])

    def speed(self, job: int, option: int) -> int:
        """Return the speed of a job on its own with an option, in millionths."""
        profile = self.profiles[job]
        matrix = None if profile is None else profile.get("sensitivity")
        if matrix is None:
            return MILLION
        asking = [group for group in self.facts.jobs[job].options[option].groups if group.gpu]

        def below(axis: list[int], name: str) -> int:
            return sum(
                all(dict(group.wants).get(name, 0) * WHOLE >= each * group.gpu for group in asking)
                for each in axis
            )

        row, column = below(matrix["cores"], "cpu"), below(matrix["memory"], "memory")
        return int(matrix["speeds"][row - 1][column - 1]) if row and column else 0

    def _spanning(self, stages: list[list[int]], offsets: tuple[int, ...]) -> int:
        """Return the least sum of four slots, by the formula of two pairs of neighbours."""
        long, single = [0] * 4, [0] * 4
        for (first, second, third), offset in zip(stages, offsets, strict=True):
            begins = -offset % 4
            long[begins] = max(long[begins], first)
            for after, time in ((2, second), (3, third)):
                slot = (begins + after) % 4
                single[slot] = max(single[slot], time)
        pair = [max(long[s], single[s] + single[(s + 1) % 4]) for s in range(4)]
        return max(pair[0] + pair[2], pair[1] + pair[3])

    def _likeness(self, job: Job) -> Hashable:
        """Return what members of a group have in common; None: the job is in no group."""
        groups = job.options[0].groups
        whole = all(group.profile is None and group.gpu % WHOLE == 0 for group in groups)
        if self.profiles[job.number] is None or job.label is not None or not whole:
            return None
        own = {"name", "cpu", "memory", "resources", "gpu_memory"}
        option = self.raws[job.number]["options"][0]
        asked = [
            sorted((key, repr(value)) for key, value in group.items() if key not in own)
            for group in ({"count": 1, **written} for written in option["groups"])
        ]
        return repr((option.get("required"), asked))

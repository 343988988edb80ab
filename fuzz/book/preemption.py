"""Who may be preempted, and by whom (docs/plans.md#who-may-be-preempted), by trying it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

from fuzz.book.choices import IDLE, KEEP, MIGRATE, PREEMPT, RESIZE, START, STOPPED, Choice, Choices
from fuzz.book.facts import WHOLE, Facts, Group, Job, Place
from fuzz.book.pools import Pools, Taken
from fuzz.book.room import Room
from fuzz.book.standing import Precedence, Standing
from fuzz.book.turns import Team, Teams, Turns

Promised: TypeAlias = frozenset[int]


class Preemption:
    """The preempted jobs of one plan, which fits; `room` is what it leaves, if that is known."""

    def __init__(
        self,
        facts: Facts,
        standing: Standing,
        choices: Choices,
        promised: Promised,
        teams: Teams,
        room: Room | None = None,
    ) -> None:
        self.facts, self.standing, self._given = facts, standing, room
        self.choices, self.promised, self.teams = choices, promised, teams
        self.pools = Pools(facts)
        self.victims = [job for job in facts.jobs if choices[job.number].kind == PREEMPT]
        self.judged = [job for job in self.victims if not self._on_away(job)]
        self.evicted = [job for job in self.judged if self._is_evicted(job)]
        self.judged = [job for job in self.judged if job not in self.evicted]

    def broken(self) -> bool:
        """Whether a victim could stay, or a job that is not above it has what it gave back."""
        if any(not self._breaks([victim], (), [victim]) for victim in self.judged):
            return True
        if any(self._serves_others(self._level(victim)) for victim in self.judged):
            return True
        return self.standing.ruled and any(self._serves_without_leave(v) for v in self.judged)

    def displacers(self, victim: Job) -> list[Job]:
        """Return some jobs that are all needed to displace a victim, or just one that comes."""
        above = [
            job
            for job in self.facts.jobs
            if self.choices[job.number].anew and self._is_over(job, victim)
        ]
        if victim in self.evicted:
            return [job for job in above if self._rank(job)[1]][:1] or above[:1]
        if victim not in self.judged or self._breaks([victim], above, [victim]):
            return []
        for job in list(above):
            fewer = [other for other in above if other is not job]
            if not self._breaks([victim], fewer, [victim]):
                above = fewer
        return above

    def displaces(self, victim: Job, named: Collection[str]) -> bool:
        """Whether jobs of higher precedence that come displace a victim, and all are needed.

        One that need not be displaced by need (`broken`) may name any that comes from above it.
        """
        comers = [job for job in self.facts.jobs if job.name in named]
        if len(comers) < len(named) or not all(
            self._anew(job) and self._is_over(job, victim) for job in comers
        ):
            return False
        if victim not in self.judged:
            return bool(named) or self._on_away(victim)
        return not self._breaks([victim], comers, [victim]) and all(
            self._breaks([victim], [job for job in comers if job is not one], [victim])
            for one in comers
        )

    def _serves_others(self, level: Precedence) -> bool:
        back = [job for job in self.judged if self._level(job) >= level]
        higher = [
            j
            for j in self.facts.jobs
            if self._anew(j) and self._rank(j) > level and not self._preempts_nobody(j)
        ]
        owners = [job for job in self.judged if self._level(job) == level]
        return self._breaks_without(higher, back, owners)

    def _serves_without_leave(self, victim: Job) -> bool:
        """Whether a job that may not preempt a victim has what it gave back."""
        over = self._all_over(victim)
        back = [
            other
            for other in self.judged
            if self._level(other) >= self._level(victim)
            and all(job in over for job in self._all_over(other))
        ]
        return self._breaks_without(over, back, [victim])

    def _all_over(self, victim: Job) -> list[Job]:
        return [j for j in self.facts.jobs if self._anew(j) and self._is_over(j, victim)]

    def _is_over(self, job: Job, victim: Job) -> bool:
        option = self.choices[job.number].option
        promised = job.number in self.promised
        return self.standing.may_preempt(job, option, victim, promised=promised)

    def _preempts_nobody(self, job: Job) -> bool:
        return self.standing.preempts_nobody(job, self.choices[job.number].option)

    def _breaks_without(self, higher: list[Job], back: list[Job], owners: list[Job]) -> bool:
        """Whether a rule breaks without jobs that come, and with victims back."""
        starts = [job for job in higher if self.choices[job.number].kind == START]
        touched = {place[2] for job in back for place in self._home(job).places}
        while True:
            more = [
                job
                for job in higher
                if self.choices[job.number].kind in (MIGRATE, RESIZE)
                and job not in back
                and (
                    self._comes_to(job) & touched
                    or self._label_meets(job, back)
                    or self._takes_more(job, back)
                )
            ]
            if not more:
                break
            back += more
            touched |= {place[2] for job in more for place in self._home(job).places}
        return self._breaks(back, starts, owners)

    def _breaks(self, back: Iterable[Job], gone: Iterable[Job], owners: Iterable[Job]) -> bool:
        """Whether a rule breaks with some jobs in their old places, and others not arriving."""
        changed = list(self.choices)
        for job in gone:
            changed[job.number] = IDLE if job.running is None else STOPPED
        for job in back:
            changed[job.number] = self._home(job)
        if not self._fits(tuple(changed), {job.number for job in back}):
            return True
        for job in self.facts.jobs:
            if changed[job.number].anew and self._label_meets(job, back):
                return True
        moved = {job.number for job in gone if job.running is not None}
        return any(
            self._over_quota(owner, changed, moved) for owner in owners
        ) or self._beyond_pools(back, gone)

    def _takes_more(self, job: Job, back: Iterable[Job]) -> bool:
        """Whether a job takes more than before of a pool domain of which one of others had some."""
        more = self.pools.taken_by(job, self.choices[job.number]) - self.pools.home(job)
        return any(more.keys() & self.pools.home(other).keys() for other in back)

    def _beyond_pools(self, back: Iterable[Job], gone: Iterable[Job]) -> bool:
        """Whether too much is held of a pool domain of which a job that is back held something.

        Jobs that move and are not to come take no more of a domain than before.
        """
        if not self.pools:
            return False
        held: Taken = Counter()
        for job in self.facts.jobs:
            home, now = self.pools.home(job), self.pools.taken_by(job, self.choices[job.number])
            held.update(home if job in back else now & home if job in gone else now)
        return any(self.pools.over(held, self.pools.home(job)) for job in back)

    def _fits(self, changed: Choices, back: Collection[int]) -> bool:
        if not self.teams and "sharing" not in self.facts.raw:
            return self._has_room(changed)
        turns = Turns(self.facts)
        at_home = {
            job.number
            for job in self.facts.jobs
            if job.running is not None and changed[job.number].places == job.running.places
        }
        teams: list[tuple[int, ...]] = []
        for team in self.teams:
            left = tuple(n for n in team.jobs if changed[n].runs and n not in back)
            if len(left) > 1 and not at_home.issuperset(left):
                teams.append(left)
        taken = {n for team in teams for n in team}
        for mates in turns.before.values():
            left = tuple(n for n in mates if n in at_home and n not in taken)
            if len(left) > 1:
                teams.append(left)
        return turns.fits(changed, tuple(Team(jobs, ()) for jobs in teams))

    def _has_room(self, changed: Choices) -> bool:
        """Whether all fits once some jobs of the plan are elsewhere."""
        moved = [job for job in self.facts.jobs if changed[job.number] != self.choices[job.number]]
        for job in moved:
            self._put(job, self.choices[job.number], -1)
        taken: list[tuple[Group, Place]] = []
        fits = True
        for job in moved:
            choice = changed[job.number]
            for place in choice.places if fits else ():
                group = job.options[choice.option].groups[place[0]]
                fits = fits and self._room.holds(group, place)
                if fits:
                    self._room.take(group, place)
                    taken.append((group, place))
        for group, place in taken:
            self._room.take(group, place, -1)
        for job in moved:
            self._put(job, self.choices[job.number])
        return fits

    @cached_property
    def _room(self) -> Room:
        """What the plan leaves."""
        if self._given is not None:
            return self._given
        room = Room(self.facts)
        for job, choice in zip(self.facts.jobs, self.choices, strict=True):
            for place in choice.places:
                room.take(job.options[choice.option].groups[place[0]], place)
        return room

    def _put(self, job: Job, choice: Choice, sign: int = 1) -> None:
        for place in choice.places:
            self._room.take(job.options[choice.option].groups[place[0]], place, sign)

    def _over_quota(self, owner: Job, changed: list[Choice], moved: Collection[int]) -> bool:
        """Whether what a victim's accounts hold is too much, moves left out."""
        for limits, members in self._quotas(owner):
            for name, limit in limits.items():
                before = after = 0
                for job, host in members:
                    running, choice = job.running, changed[job.number]
                    if running is not None:
                        held = job.options[running.option].counts.get(name, 0)
                        before += held
                        now = job.options[choice.option].counts.get(name, 0)
                        if job.number in moved:
                            here = self.choices[job.number]
                            now = min(held, job.options[here.option].counts.get(name, 0))
                        after += now if choice.runs or job.number in moved else 0
                    elif choice.runs and (host is None or choice.places[0][2] in host):
                        after += job.options[choice.option].counts.get(name, 0)
                if after > max(limit, before):
                    return True
        return False

    def _quotas(
        self, owner: Job
    ) -> list[tuple[Mapping[str, int], list[tuple[Job, frozenset[int] | None]]]]:
        """Return the limits that a victim counts in, the jobs that do, and on which hosts."""
        mine = [job for job in self.facts.jobs if job.tenant == owner.tenant]
        found: list[tuple[Mapping[str, int], list[tuple[Job, frozenset[int] | None]]]] = [
            (
                self.facts.limits.get(account, {}),
                [(job, None) for job in self.facts.jobs if account in job.accounts],
            )
            for account in owner.accounts
        ]
        geo = self.facts.raw.get("geo")
        if self.facts.policy.get("formulation") == "geo" and geo and owner.tenant is not None:
            level = self.facts.levels.index(geo.get("level", "region"))
            region = self.facts.hosts[self._home(owner).places[0][2]].domains[level]
            inside = frozenset(h.number for h in self.facts.hosts if h.domains[level] == region)
            for entry in geo["regions"]:
                if entry["name"] == region and owner.tenant in entry.get("quotas", {}):
                    there: list[tuple[Job, frozenset[int] | None]] = [
                        (job, inside)
                        for job in mine
                        if job.running is None or job.running.places[0][2] in inside
                    ]
                    found.append(({"gpu": entry["quotas"][owner.tenant]}, there))
        return found

    def _label_meets(self, job: Job, back: Iterable[Job]) -> bool:
        """Whether a job arrives where another one of its label, in its old place, keeps it out."""
        if job.label is None:
            return False
        hosts, level = self.facts.hosts, job.label[1]
        come = {hosts[h].domains[level] for h in self._arrives(job)}
        return any(
            other is not job
            and other.label == job.label
            and come & {hosts[place[2]].domains[level] for place in self._home(other).places}
            for other in back
        )

    def _is_evicted(self, victim: Job) -> bool:
        """Whether a job cannot stay beside jobs that cells are for, or shares parts of GPUs."""
        guaranteed = [
            j for j in self.facts.jobs if self.choices[j.number].runs and self._rank(j)[1]
        ]
        for job in guaranteed:
            if not self._anew(job):
                continue
            for theirs in self.choices[job.number].places:
                for place in self._home(victim).places:
                    same = theirs[2] == place[2] and set(theirs[3]) & set(place[3])
                    groups = [
                        job.options[self.choices[job.number].option].groups[theirs[0]],
                        victim.options[self._home(victim).option].groups[place[0]],
                    ]
                    if same and any(group.profile or group.gpu_memory for group in groups):
                        return True
        if not any(self._anew(job) for job in guaranteed):
            return False
        stay = [*guaranteed, *(j for j in self.facts.jobs if j.running and j.running.pinned)]
        alone = [IDLE] * len(self.choices)
        for job in stay:
            alone[job.number] = self.choices[job.number]
        alone[victim.number] = self._home(victim)
        held = self.pools.held(zip(self.facts.jobs, alone, strict=True))
        return not self._fits(tuple(alone), [victim.number]) or self.pools.over(
            held, self.pools.home(victim)
        )

    def _anew(self, job: Job) -> bool:
        return self.choices[job.number].anew

    def _arrives(self, job: Job) -> set[int]:
        """Return the hosts at which tasks of a job arrive, on whatever GPUs."""
        before = () if job.running is None else job.running.places
        return {place[2] for place in self.choices[job.number].places if place not in before}

    def _comes_to(self, job: Job) -> set[int]:
        """Return the hosts to which a job comes: a resized one where it takes more of something."""
        choice, running = self.choices[job.number], job.running
        if choice.kind != RESIZE or running is None:
            return self._arrives(job)
        more: Counter[tuple[int, object]] = Counter()
        for option, places, sign in (
            (choice.option, choice.places, 1),
            (running.option, running.places, -1),
        ):
            for place in places:
                group = job.options[option].groups[place[0]]
                for name, amount in group.wants:
                    more[place[2], name] += sign * amount
                for what, amount in self._parts(group, place):
                    more[place[2], what] += sign * amount
        return {where[0] for where, amount in more.items() if amount > 0}

    def _parts(self, group: Group, place: Place) -> Iterator[tuple[object, int]]:
        """Yield what a task takes of its GPUs, of their memory and of each memory slice."""
        _, _, host, gpus, slot = place
        kind = self.facts.hosts[host].slices.get(group.profile or "")
        for gpu in gpus:
            yield gpu, group.each
            yield (gpu, "memory"), group.gpu_memory
            yield (gpu, "media"), int(kind is not None and kind.media)
            for i in range(8):
                inside = kind is not None and slot is not None and slot <= i < slot + kind.size
                yield (gpu, i), group.each if kind is None else WHOLE * inside

    def _home(self, job: Job) -> Choice:
        assert job.running is not None
        return Choice(KEEP, job.running.option, job.running.places)

    def _rank(self, job: Job) -> Precedence:
        option = self.choices[job.number].option
        return self.standing.of(job, option, promised=job.number in self.promised)

    def _level(self, victim: Job) -> Precedence:
        return self.standing.of(victim, self._home(victim).option)

    def _on_away(self, job: Job) -> bool:
        return any(self.facts.hosts[place[2]].away for place in self._home(job).places)

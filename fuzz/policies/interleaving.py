"""Policy `interleaving`: jobs with profiles may take turns on the same GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from random import Random

from fuzz.book.choices import IDLE, KEEP, MAX_STEPS, MIGRATE, START, STOPPED, Choice, Choices
from fuzz.book.facts import Facts, Job, Place
from fuzz.book.gangs import MAX_PLANS, SPOILT, MissedPlanError
from fuzz.book.judgement import Judgement
from fuzz.book.mutations import mutated
from fuzz.book.reason_details import untrue
from fuzz.book.room import Room
from fuzz.book.terms import Terms
from fuzz.book.turns import Team, Teams, Turns
from fuzz.book.writing import written
from fuzz.drawing import NOW, chance, cluster, costs, group, settle
from fuzz.drawing_caps import draw_caps
from fuzz.drawing_pools import draw_pools
from fuzz.policies.gang import INNER_SETTINGS, disruption_limits
from fuzz.policy import Judged, Policy, Raw, TooManyPlansError

RATES = ("throughput", "weighted_throughput", "efficiency")
PLACES = ("disruption", "spread", "proximity", "opened")


class Book:
    """The rules and terms of a round in which jobs take turns."""

    def __init__(self, round_: Raw) -> None:
        self.facts = Facts(round_)
        self.turns = Turns(self.facts)
        self.judgement = Judgement(self.facts)
        self.terms = Terms(self.judgement)
        self.classes = self.terms.classes_by(self._worth)

    def broken(self, choices: Choices, teams: Teams) -> str:
        """Return a rule that a plan breaks, "" if it breaks none."""
        for job, choice in zip(self.facts.jobs, choices, strict=True):
            if rule := self.judgement.alone(job, choice):
                return rule
        if rule := self.between(choices, teams):
            return rule
        return "" if self.turns.fits(choices, teams) else "capacity"

    def between(self, choices: Choices, teams: Teams) -> str:
        """Return a rule between jobs that a plan breaks, "" if it breaks none; room aside."""
        return self.turns.broken(choices, teams) or self.judgement.between(choices, teams=teams)

    def values(self, choices: Choices, teams: Teams) -> dict[str, int]:
        """Return the values of all terms."""
        turns, found = self.turns, {}
        for name in self.terms.names:
            if name == "throughput":
                found[name] = sum(rate for _, rate in turns.rates(choices, teams))
            elif name == "weighted_throughput":
                found |= self._weighted(name, choices, teams)
            elif name == "efficiency":
                found[name] = turns.efficiency(choices, teams)
            else:
                found[name] = self.terms.of(name, choices)
        return found

    def _weighted(self, name: str, choices: Choices, teams: Teams) -> dict[str, int]:
        """Return the weighted rates of all jobs, or by class those of jobs that are not pinned."""
        rates = [(j, self.turns.weights[j] * rate) for j, rate in self.turns.rates(choices, teams)]
        if not self.classes:
            return {name: sum(rate for _, rate in rates)}
        found = {f"{name}_{k}": 0 for k in range(1, len(self.classes) + 1)}
        for number, rate in rates:
            job = self.facts.jobs[number]
            if job.running is None or not job.running.pinned:
                level = self.judgement.standing.of(job, 0)
                (k,) = [k for k, one in enumerate(self.classes, 1) if level in one]
                found[f"{name}_{k}"] += rate
        return found

    def _worth(self, job: Job, option: int) -> int:
        weight: int = self.turns.weights[job.number]
        return weight * self.turns.speed(job.number, option)

    def written(self, choices: Choices, teams: Teams, seed: int) -> Raw:
        """Write a plan as a document."""
        # Who displaces whom is asked of groups only: others take nothing together.
        alike = tuple(team for team in teams if len({self.turns.like[n] for n in team.jobs}) == 1)
        document = written(self.terms, choices, seed, parting=True, teams=alike)
        groups = [
            {
                "members": [
                    {"job": self.facts.jobs[job].name, "offset": offset}
                    for job, offset in zip(team.jobs, team.offsets, strict=True)
                ],
                "period": self.turns.period(team),
            }
            for team in teams
        ]
        if groups:
            document["sections"].append({"kind": "groups", "groups": groups})
        return document


class Enumeration:
    """Every plan that fits, unit by unit: jobs that take turns, and jobs alone.

    Of the offsets of a group the best are taken: all terms are the same with others, but for those
    of which a shorter period makes more.
    """

    def __init__(self, book: Book) -> None:
        self.book, self.facts, self.turns = book, book.facts, book.turns
        self.room = Room(self.facts)
        self.steps = 0
        # Whoever stays whatever happens comes first: what it holds is nobody else's.
        self.order = sorted(
            self.facts.jobs, key=lambda j: j.running is None or not j.running.pinned
        )
        self.chosen: dict[int, Choice] = {}
        self.teams: list[Team] = []

    def __iter__(self) -> Iterator[tuple[Choices, Teams]]:
        left = next((job for job in self.order if job.number not in self.chosen), None)
        if left is None:
            yield tuple(self.chosen[n] for n in range(len(self.order))), tuple(self.teams)
            return
        if left.running is None or not left.running.pinned:
            self.chosen[left.number] = IDLE if left.running is None else STOPPED
            yield from self
            del self.chosen[left.number]
        options = range(len(left.options)) if left.running is None else [left.running.option]
        for option in options:
            yield from self._unit((left.number,), option)
        mates = [
            job.number
            for job in self.facts.jobs
            if job.number not in self.chosen
            and job is not left
            and self.turns.like[left.number] is not None
            and self.turns.like[job.number] == self.turns.like[left.number]
            and (job.running is None or job.running.option == 0)
        ]
        for number in range(1, self.turns.most if 0 in options else 1):
            for some in combinations(mates, number):
                yield from self._unit(tuple(sorted((left.number, *some))), 0)

    def _unit(self, jobs: tuple[int, ...], option: int) -> Iterator[tuple[Choices, Teams]]:
        for places in self._placed(jobs, option, ()):
            choices = [self._choice(self.facts.jobs[job], option, places) for job in jobs]
            if any(
                self.book.judgement.alone(self.facts.jobs[job], choice)
                for job, choice in zip(jobs, choices, strict=True)
            ):
                continue
            self.chosen |= dict(zip(jobs, choices, strict=True))
            if len(jobs) > 1:
                self.teams.append(self.turns.best(jobs))
            yield from self
            if len(jobs) > 1:
                self.teams.pop()
            for job in jobs:
                del self.chosen[job]

    def _choice(self, job: Job, option: int, places: tuple[Place, ...]) -> Choice:
        if job.running is None:
            return Choice(START, option, places)
        return Choice(KEEP if places == job.running.places else MIGRATE, option, places)

    def _placed(
        self, jobs: tuple[int, ...], number: int, before: tuple[Place, ...]
    ) -> Iterator[tuple[Place, ...]]:
        option = self.facts.jobs[jobs[0]].options[number]
        tasks = list(option.tasks())
        if len(before) == len(tasks):
            yield before
            return
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TooManyPlansError
        g, index = tasks[len(before)]
        merged = self.turns.merged(jobs, [number] * len(jobs), g)
        homes = [
            running.places[len(before)]
            for job in jobs
            if (running := self.facts.jobs[job].running) is not None
        ]
        ways = [*homes, *self.room.places(merged, g, index)]
        ascending = not homes and index > 0 and not merged.ordered
        for place in dict.fromkeys(ways):
            if ascending and (place[2], place[3]) < (before[-1][2], before[-1][3]):
                continue
            if self.room.holds(merged, place):
                self.room.take(merged, place)
                yield from self._placed(jobs, number, (*before, place))
                self.room.take(merged, place, -1)


def plans(round_: Raw, rng: Random) -> Iterator[Judged]:
    """Yield every plan, groups with their best offsets, and some with others; and invalid ones."""
    book = Book(round_)
    seed = rng.randrange(1 << 30)
    valid: list[tuple[Choices, Teams]] = []
    spoilt: list[tuple[Choices, Teams, str]] = []
    values = set()
    for choices, teams in Enumeration(book):
        broken = book.between(choices, teams)
        if broken:
            if len(spoilt) < SPOILT or rng.random() < 0.02:
                spoilt.append((choices, teams, broken))
            continue
        valid.append((choices, teams))
        if len(valid) > MAX_PLANS:
            raise TooManyPlansError
        mine = book.values(choices, teams)
        values.add(tuple(mine.values()))
        yield Judged(partial(book.written, choices, teams, seed), mine)
    for _ in range(2 * SPOILT if valid else 0):
        choices, teams = rng.choice(valid)
        draw = rng.random()
        if draw < 0.5:
            choices = mutated(book.facts, choices, rng)
        else:
            teams = _other(book, choices, teams, rng)
        broken = book.broken(choices, teams)
        mine = {} if broken else book.values(choices, teams)
        if broken:
            spoilt.append((choices, teams, broken))
        elif all(team == book.turns.best(team.jobs) for team in teams):
            if tuple(mine.values()) not in values:
                raise MissedPlanError(f"the enumeration misses {choices} with {teams}")
        else:
            yield Judged(partial(book.written, choices, teams, seed), mine)
    for choices, teams, broken in dict.fromkeys(spoilt):
        yield Judged(partial(book.written, choices, teams, seed), {}, broken)


def _other(book: Book, choices: Choices, teams: Teams, rng: Random) -> Teams:
    """Dissolve a group, change its offsets, or form one."""
    if teams and chance(rng, 0.7):
        number = rng.randrange(len(teams))
        others = (*teams[:number], *teams[number + 1 :])
        if chance(rng, 0.2):
            return others
        jobs = teams[number].jobs
        offsets = [rng.randrange(book.turns.slots) for _ in jobs]
        if chance(rng, 0.7) and len(jobs) <= book.turns.slots:
            offsets = rng.sample(range(book.turns.slots), len(jobs))
        return (*others, Team(jobs, tuple(offsets)))
    grouped = {job for team in teams for job in team.jobs}
    free = [
        n
        for n, profile in enumerate(book.turns.profiles)
        if profile is not None and choices[n].runs and n not in grouped
    ]
    if len(free) < 2:
        return teams
    return (*teams, book.turns.best(tuple(sorted(rng.sample(free, 2)))))


def draw(rng: Random) -> Raw:
    """One to three hosts, one to five jobs, most with profiles, of one or two kinds of places."""
    round_: Raw = {"now": NOW, "cluster": cluster(rng, 3), "jobs": []}
    document = round_["cluster"]
    for host in document["hosts"]:
        if "cpu" not in host and chance(rng, 0.5):
            host["gpu_memory"] = 16
    sharing = _sharing(rng)
    round_["sharing"] = sharing
    if chance(rng, 0.3):
        quota = {"gpu": rng.choice((1000, 2000, 3000))}
        round_["tenants"] = [{"name": "t0", "quota": quota}]
    if chance(rng, 0.1):
        round_["reservations"] = [{"host": rng.choice(document["hosts"])["name"]}]
    shapes = [_shape(rng, document) for _ in range(rng.choice((1, 1, 2)))]
    jobs = [_job(rng, round_, shapes, i) for i in range(rng.choice((1, 2, 3, 3, 4, 4, 5)))]
    for job in jobs[: rng.choice((0, 0, 1, 2, 3))]:
        _settle(rng, round_, job)
    for job in round_["jobs"]:
        costs(rng, job["running"])
    round_["jobs"] += [job for job in jobs if "running" not in job]
    rng.shuffle(round_["jobs"])
    whole = [
        job["name"]
        for job in round_["jobs"]
        if all(g["gpu"] % 1000 == 0 for option in job["options"] for g in option["groups"])
    ]
    if len(whole) > 1 and chance(rng, 0.2):
        sharing["conflicts"] = [rng.sample(whole, 2)]
    terms = rng.sample(PLACES, rng.randint(0, 3))
    if chance(rng, 0.85):
        lead = rng.sample(RATES, rng.choice((1, 1, 2)))
        terms = [*lead[:1], *rng.sample([*terms, *lead[1:]], len(terms) + len(lead) - 1)]
    else:
        others = [term for term in terms if term != "disruption"]
        terms = ["disruption", rng.choice(RATES), *others]
    round_["policy"] = {"formulation": "interleaving", "terms": terms}
    if chance(rng, 0.2):
        round_["policy"]["limits"] = {"disruption": disruption_limits(rng)}
    if chance(rng, 0.25):
        draw_caps(rng, round_, by_model=False)
    if chance(rng, 0.25):
        draw_pools(rng, round_)
    return round_


def _sharing(rng: Random) -> Raw:
    sharing: Raw = {}
    if chance(rng, 0.2):
        sharing |= {"resources": ["a", "b", "c"], "spanning": True}
    elif chance(rng, 0.4):
        sharing["resources"] = ["a", "b", "c"][: rng.randint(2, 3)]
    if chance(rng, 0.4):
        sharing["contention"] = [rng.choice((1_000_000, 1_100_000, 1_310_345)) for _ in range(3)]
    if chance(rng, 0.2):
        sharing["most"] = rng.choice((1, 2, 3))
    if chance(rng, 0.2):
        sharing["as_needed"] = True
    if chance(rng, 0.1):
        sharing["correlation"] = rng.choice((0, 500, 900))
    if chance(rng, 0.1):
        sharing["percentile"] = rng.choice((50, 90))
    return sharing


def _shape(rng: Random, document: Raw) -> list[Raw]:
    """Task groups that members of a group have in common; mostly whole GPUs."""
    number = rng.choice((1, 1, 1, 2))
    groups = [
        group(rng, document, rng.choice((1, 1, 2)) if number == 1 else 1) for _ in range(number)
    ]
    for one in groups:
        if chance(rng, 0.9):
            one["gpu"] = max(1000, one["gpu"] // 1000 * 1000)
    if not any(one["gpu"] for one in groups):
        groups[0]["gpu"] = 1000
    return groups


def _job(rng: Random, round_: Raw, shapes: list[list[Raw]], number: int) -> Raw:
    groups = [dict(one) for one in rng.choice(shapes)]
    resources = round_["sharing"].get("resources", ("io", "cpu", "gpu", "network"))
    for one in groups:
        if "cpu" in one and chance(rng, 0.5):
            one |= {"cpu": rng.choice((0, 1, 2)), "memory": rng.choice((0, 1, 2))}
        if one["gpu"] and chance(rng, 0.15):
            one["gpu_memory"] = rng.choice((4, 8, 12))
    job: Raw = {"name": f"j{number}", "options": [{"groups": groups}]}
    if chance(rng, 0.85):
        stages = [rng.choice((0, 1, 2, 3, 5, 8, 20)) for _ in resources]
        if not any(stages):
            stages[0] = 4
        profile: Raw = {"stages": stages}
        job["profile"] = profile
        if chance(rng, 0.2):
            profile["iteration"] = rng.randint(max(1, sum(stages) // 2), sum(stages))
        if chance(rng, 0.25):
            profile["slowdown"] = rng.choice((1000, 1300, 1700, 2500))
        whole = all(one["gpu"] % 1000 == 0 for one in groups)
        if "correlation" in round_["sharing"] and whole:
            profile["load"] = [rng.choice((0, 500, 900)) for _ in range(3)]
        if chance(rng, 0.1):
            profile["memory"] = [rng.choice((2, 4, 8)) for _ in range(3)]
        if chance(rng, 0.15):
            _tuned(rng, job)
    if chance(rng, 0.4):
        job["priority"] = rng.choice((-1, 1, 2))
    if chance(rng, 0.3):
        job["weight"] = rng.choice((0, 2, 3))
    if round_.get("tenants") and chance(rng, 0.6):
        job["tenant"] = "t0"
    if chance(rng, 0.04):
        job["anti_affinity"] = {"label": "service", "level": "host"}
    return job


def _tuned(rng: Random, job: Raw) -> None:
    """Give a job a second option of more CPU or memory, and speeds for both."""
    first = job["options"][0]
    more = [{**one, "cpu": one.get("cpu", 0) + rng.choice((0, 1))} for one in first["groups"]]
    job["options"].append({"groups": more})
    job["profile"]["sensitivity"] = {
        "cores": [0, 1],
        "memory": [0, 2],
        "speeds": [[rng.choice((500_000, 1_000_000)), 1_000_000], [1_200_000, 1_300_000]],
    }


def _settle(rng: Random, round_: Raw, job: Raw) -> None:
    """Let a job run: with one that is alike on its GPUs, if they can, or where there is room."""
    others = [other for other in round_["jobs"] if other["running"]["option"] == 0]
    if others and chance(rng, 0.6):
        place = rng.choice(others)["running"]
        joined = {**job, "running": {"option": 0, "tasks": place["tasks"]}}
        book = Book({**round_, "jobs": [*round_["jobs"], joined], "policy": {"terms": []}})
        choices = tuple(
            Choice(KEEP, one.running.option, one.running.places)
            for one in book.facts.jobs
            if one.running is not None
        )
        groups = [jobs for jobs in book.turns.before.values() if len(jobs) <= book.turns.slots]
        teams = tuple(book.turns.best(jobs) for jobs in groups)
        alike = all(
            len({book.turns.like[n] for n in jobs}) == 1
            and book.turns.like[jobs[0]] is not None
            and len(jobs) <= book.turns.most
            for jobs in book.turns.before.values()
        )
        if alike and book.turns.fits(choices, teams):
            job["running"] = joined["running"]
            round_["jobs"].append(job)
        return
    settle(rng, round_, [job])


POLICY = Policy("interleaving", draw, plans, INNER_SETTINGS, untrue=untrue)

"""Policy `deadline`: a plan of the current lease, and promises that the leases can keep."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from random import Random

from fuzz.book.choices import START, Choice, Choices, Enumeration
from fuzz.book.facts import Facts, Job
from fuzz.book.gangs import MAX_PLANS, MissedPlanError
from fuzz.book.judgement import Judgement
from fuzz.book.lease_reasons import untrue
from fuzz.book.leases import MILLION, Leases, Plan, Target, Targets
from fuzz.book.mutations import mutated
from fuzz.book.terms import Terms
from fuzz.book.writing import written
from fuzz.drawing import NOW, chance, cluster, costs, options, settle
from fuzz.drawing_caps import draw_caps
from fuzz.policies.gang import INNER_SETTINGS, disruption_limits
from fuzz.policy import Judged, Policy, Raw, TooManyPlansError

LENGTH = 10
SPOILT = 8
PLACES = ("disruption", "spread", "proximity", "opened")


class Book:
    """The rules and terms of a round with leases."""

    def __init__(self, round_: Raw) -> None:
        self.facts = Facts(round_)
        self.leases = Leases(self.facts)
        self.judgement = Judgement(self.facts)
        self.terms = Terms(self.judgement)
        self.weights = [job.get("weight", 1) for job in round_["jobs"]]
        self.classes = {
            "admitted": self.terms.classes_by(lambda job, _: max(self._offers(job)), self._asks),
            "best_effort": self.terms.classes_by(self._most_effort, self._is_ready),
        }

    def admits(self, job: Job, choice: Choice) -> bool:
        """Whether a job is on no host that is away, and starts no earlier than it is ready."""
        if choice.kind == START and self.leases.first(job, choice.option):
            return False
        return not any(self.facts.hosts[place[2]].away for place in choice.places)

    def broken(self, choices: Choices, plan: Plan) -> str:
        """Return a rule that a plan breaks, "" if it breaks none."""
        for job, choice in zip(self.facts.jobs, choices, strict=True):
            if choice.kind == START and self.leases.first(job, choice.option):
                return "ready"
        return self.judgement.broken(choices, now(plan)) or self.leases.broken(choices, plan)

    def values(self, choices: Choices, targets: Targets) -> dict[str, int]:
        """Return the values of all terms."""
        found: dict[str, int] = {}
        for name in self.terms.names:
            if name == "broken":
                found[name] = self._broken(targets)
            elif name == "admitted":
                found |= self._by_class(name, self._admitted(targets))
            elif name == "best_effort":
                found |= self._by_class(name, self._best_effort(choices, targets))
            elif name == "early":
                found[name] = self._early(choices, targets)
            else:
                found[name] = self.terms.of(name, choices)
        return found

    def _by_class(self, name: str, amounts: dict[int, int]) -> dict[str, int]:
        """Return a term from what jobs add to it, by priority class if there are several."""
        classes = self.classes[name]
        if not classes:
            return {name: sum(amounts.values())}
        found = {f"{name}_{k}": 0 for k in range(1, len(classes) + 1)}
        for number, amount in amounts.items():
            level = self.judgement.standing.of(self.facts.jobs[number], 0)
            (k,) = [k for k, one in enumerate(classes, 1) if level in one]
            found[f"{name}_{k}"] += amount
        return found

    def _offers(self, job: Job) -> list[int]:
        """Return the values of the promises that a job may have."""
        return [target.value for target in self.leases.works[job.number].targets()]

    def _asks(self, job: Job) -> bool:
        return bool(self._offers(job))

    def _is_ready(self, job: Job) -> bool:
        """Whether a job may run now."""
        return job.running is not None or not self.leases.first(job, 0)

    def _most_effort(self, job: Job, option: int) -> int:
        """Return the most that a job adds to `best_effort` with an option."""
        pace = self.leases.works[job.number].paces[option]
        hosts = (1, *(number for number, _ in pace.spanning))
        return max(self._effort(job, option, number) for number in hosts)

    def _effort(self, job: Job, option: int, hosts: int) -> int:
        work = self.leases.works[job.number]
        gain = work.paces[option].gain(self.leases.length, hosts)
        whole = work.work or 1000 * self.leases.horizon * self.leases.length
        return int(self.weights[job.number] * min(MILLION, MILLION * gain // whole))

    def written(self, choices: Choices, plan: Plan, seed: int) -> Raw:
        """Write a plan as a document."""
        document = written(self.terms, choices, seed, now(plan))
        document["sections"].append(self._section(choices, plan))
        return document

    def _broken(self, targets: Targets) -> int:
        return sum(
            max(0, work.old.value - (0 if target is None else target.value))
            for work, target in zip(self.leases.works, targets, strict=True)
            if work.old is not None
        )

    def _admitted(self, targets: Targets) -> dict[int, int]:
        return {n: target.value for n, target in enumerate(targets) if target is not None}

    def _best_effort(self, choices: Choices, targets: Targets) -> dict[int, int]:
        return {
            job.number: self._effort(job, choice.option, len({place[2] for place in choice.places}))
            for job, choice in zip(self.facts.jobs, choices, strict=True)
            if choice.runs and targets[job.number] is None
        }

    def _early(self, choices: Choices, targets: Targets) -> int:
        return sum(
            job.options[choices[job.number].option].asks["gpu"]
            for job in self.facts.jobs
            if choices[job.number].runs and targets[job.number] is not None
        )

    def _section(self, choices: Choices, plan: Plan) -> Raw:
        jobs, broken, refused = [], [], []
        for job, promised, work in zip(self.facts.jobs, plan, self.leases.works, strict=True):
            if promised is not None:
                hosts = len({place[2] for place in choices[job.number].places}) or 1
                done = self.leases.finish(job, promised.option, promised.leases, hosts)
                jobs.append(
                    {
                        "job": job.name,
                        "option": promised.option,
                        "promise": promised.target._asdict(),
                        "finish": promised.target.at if done is None else done,
                        "leases": intervals(promised.leases),
                    }
                )
            elif work.due:
                refused.append({"job": job.name})
            if work.old is not None and (promised is None or promised.target.at > work.old.at):
                broken.append({"job": job.name, "promise": work.old._asdict()})
        section: Raw = {"kind": "leases", "length": self.leases.length}
        return {**section, "jobs": jobs, "broken": broken, "refused": refused}


def now(plan: Plan) -> frozenset[int]:
    """Return the jobs that are promised the current lease."""
    return frozenset(n for n, one in enumerate(plan) if one is not None and one.leases[0] == 0)


def intervals(leases: tuple[int, ...]) -> list[list[int]]:
    """Return leases as intervals, each without its end."""
    found: list[list[int]] = []
    for lease in leases:
        if found and found[-1][1] == lease:
            found[-1][1] += 1
        else:
            found.append([lease, lease + 1])
    return found


def plans(round_: Raw, rng: Random) -> Iterator[Judged]:
    """Yield a plan for each lawful placement and each set of promises that can be kept beside it.

    With which option a job is promised later leases, and which leases keep a promise, no term can
    tell: one way is shown.
    """
    book = Book(round_)
    seed = rng.randrange(1 << 30)
    valid: list[tuple[Choices, Plan]] = []
    spoilt: list[tuple[Choices, Plan, str]] = []
    values = set()
    looked = 0
    for choices in Enumeration(book.facts, book.admits):
        for targets in product(*([None, *work.targets()] for work in book.leases.works)):
            looked += 1
            if looked > 10 * MAX_PLANS:
                raise TooManyPlansError
            plan = book.leases.kept(choices, targets)
            if plan is None:
                continue
            broken = book.judgement.between(choices, now(plan))
            if not broken:
                valid.append((choices, plan))
                if len(valid) > MAX_PLANS:
                    raise TooManyPlansError
                mine = book.values(choices, targets)
                values.add(tuple(mine.values()))
                yield Judged(partial(book.written, choices, plan, seed), mine)
            elif len(spoilt) < SPOILT:
                spoilt.append((choices, plan, broken))
    for _ in range(2 * SPOILT if valid else 0):
        choices, plan = rng.choice(valid)
        if chance(rng, 0.5):
            choices = mutated(book.facts, choices, rng)
        else:
            plan = _spoilt(book, plan, rng)
        broken = book.broken(choices, plan)
        if broken:
            spoilt.append((choices, plan, broken))
            continue
        targets = tuple(None if one is None else one.target for one in plan)
        if tuple(book.values(choices, targets).values()) not in values:
            raise MissedPlanError(f"the enumeration misses {choices} with {plan}")
    for choices, plan, broken in dict.fromkeys(spoilt):
        yield Judged(partial(book.written, choices, plan, seed), {}, broken)


def _spoilt(book: Book, plan: Plan, rng: Random) -> Plan:
    """Change a promise: its target, a lease, or its option."""
    changed = list(plan)
    given = [number for number, one in enumerate(plan) if one is not None]
    if not given:
        return plan
    number = rng.choice(given)
    one = changed[number]
    assert one is not None
    draw = rng.random()
    targets = [*book.leases.works[number].targets(), Target(one.target.at + 1, one.target.value)]
    if draw < 0.3:
        changed[number] = one._replace(target=rng.choice(targets))
    elif draw < 0.5:
        options_ = range(len(book.facts.jobs[number].options))
        changed[number] = one._replace(option=rng.choice(options_))
    else:
        count = rng.randint(1, min(book.leases.horizon, len(one.leases) + 1))
        leases = rng.sample(range(book.leases.horizon), count)
        changed[number] = one._replace(leases=tuple(sorted(leases)))
    return tuple(changed)


def draw(rng: Random) -> Raw:
    """One to three hosts, one to four jobs, most with deadlines, some running; few leases."""
    round_: Raw = {"now": NOW, "cluster": cluster(rng, 3), "jobs": []}
    horizon = rng.randint(2, 5)
    round_["leases"] = {"length_s": LENGTH, "horizon": horizon}
    hosts = round_["cluster"]["hosts"]
    if chance(rng, 0.3):
        round_["leases"]["outages"] = [_outage(rng, hosts) for _ in range(rng.randint(1, 2))]
    if chance(rng, 0.2):
        round_["leases"]["headroom"] = rng.choice((100, 500))
    if chance(rng, 0.25):
        quota = {"gpu": rng.choice((1000, 2000, 3000))}
        round_["tenants"] = [{"name": "t0", "quota": quota}]
    if chance(rng, 0.1):
        host = rng.choice(hosts)
        round_["reservations"] = [{"host": host["name"]}]
        if chance(rng, 0.6):
            round_["reservations"][0]["gpus"] = [rng.randrange(host["gpus"])]
    jobs = [_job(rng, round_, i) for i in range(rng.choice((1, 2, 2, 3, 3, 4)))]
    settle(rng, round_, jobs[: rng.choice((0, 1, 1, 2, 3))])
    gone = {host.name for host in Facts(round_).hosts if host.away}
    for job in round_["jobs"]:
        costs(rng, job["running"])
        job.get("deadline", {}).pop("ready", None)
        if any(task["host"] in gone for task in job["running"]["tasks"]):
            job["running"].pop("pinned", None)
    round_["jobs"] += [job for job in jobs if "running" not in job]
    rng.shuffle(round_["jobs"])
    round_["policy"] = {"formulation": "deadline"}
    if chance(rng, 0.8):
        others = ["admitted", "best_effort", "early", *PLACES]
        rest = rng.sample(others, rng.randint(0, 5))
        if chance(rng, 0.7):
            rest = ["admitted", *(term for term in rest if term != "admitted")]
        round_["policy"]["terms"] = ["broken", *rest]
    else:
        round_["policy"]["terms"] = [
            "broken", "admitted", "disruption", "best_effort", "early", "spread", "opened",
        ]  # fmt: skip
    if chance(rng, 0.2):
        round_["policy"]["limits"] = {"disruption": disruption_limits(rng)}
    if chance(rng, 0.25):
        draw_caps(rng, round_)
    return round_


def _outage(rng: Random, hosts: list[Raw]) -> Raw:
    entry: Raw = {"host": rng.choice(hosts)["name"]}
    if chance(rng, 0.8):
        entry["start"] = NOW + rng.choice((0, 5, 10, 15, 20, 30))
    if chance(rng, 0.7):
        entry["end"] = entry.get("start", NOW) + rng.choice((1, 5, 10, 20))
    return entry


def _job(rng: Random, round_: Raw, number: int) -> Raw:
    most = rng.choice((1, 1, 1, 2, 2))
    job: Raw = {"name": f"j{number}", "options": options(rng, round_["cluster"], most)}
    if chance(rng, 0.3):
        job["priority"] = rng.choice((-1, 1))
    if chance(rng, 0.15):
        job["weight"] = rng.choice((0, 2))
    if round_.get("tenants") and chance(rng, 0.6):
        job["tenant"] = "t0"
    if chance(rng, 0.8):
        job["deadline"] = _deadline(rng, len(job["options"]))
    return job


def _deadline(rng: Random, number: int) -> Raw:
    deadline: Raw = {"work_s": rng.choice((3, 8, 10, 12, 15, 20, 24, 30))}
    if chance(rng, 0.85):
        times = sorted(rng.sample(range(NOW + 3, NOW + 60), rng.choice((1, 1, 2))))
        values = sorted(rng.sample(range(1, 15), len(times)), reverse=True)
        deadline["due"] = [{"at": at, "value": v} for at, v in zip(times, values, strict=True)]
    if chance(rng, 0.4):
        deadline["promise"] = {"at": NOW + rng.randint(3, 60), "value": rng.randint(1, 20)}
    if chance(rng, 0.15):
        deadline["ready"] = NOW + rng.choice((1, 10, 15, 20))
    if chance(rng, 0.6):
        deadline["paces"] = [_pace(rng) for _ in range(number)]
    return deadline


def _pace(rng: Random) -> Raw:
    pace: Raw = {}
    if chance(rng, 0.6):
        pace["speed"] = rng.choice((500, 700, 1000, 1300, 2000, 3000))
    if chance(rng, 0.4):
        pace["overhead_s"] = rng.choice((1, 2, 5, 10))
    if chance(rng, 0.4):
        pace["spanning"] = [[2, rng.choice((300, 500, 900, 1200))]]
        if chance(rng, 0.3):
            pace["spanning"].append([3, rng.choice((200, 800))])
    return pace


POLICY = Policy("deadline", draw, plans, INNER_SETTINGS, untrue=untrue)

"""Protection of checkpoints in memory: who keeps whose copy, and what that survives."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, zip_longest
from math import comb, sqrt
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from placewright.instances.derived.arrays import build_cluster, build_state
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.presets.replica_teams import BUFFERS, Team, hosts_of, replica_teams
from placewright.rounds.solve import solve_round
from placewright.topology import Cluster


# The fewest sets of hosts that keep the checkpoints of the hosts that no team is left for.
#
# A set is M hosts that keep the checkpoints of some of them, its *owners*; each host owns in one
# set, and keeps at most M - 1 copies of others. For N hosts this leaves, for each host, exactly M
# owners in the sets that it is in, itself included. So sets of a_1, a_2, ... owners (a partition
# of N) will do if the hosts can be divided into patterns, each the sets that a host is in, of
# which the owners add up to M, so that each set is in the patterns of M hosts. Owners are then a
# flow: each host of a pattern may own a_s / M in each set s of it, which adds up to 1, so a whole
# flow exists, too.
#
# The fewest sets lose least when M hosts fail at once: M hosts lose something only if they are a
# set.
class HostSet(NamedTuple):
    """Hosts that keep the checkpoints of some of them."""

    hosts: tuple[int, ...]
    owners: tuple[int, ...]


@cache
def fewest_sets(hosts: int, copies: int) -> tuple[HostSet, ...]:
    """Return the fewest sets of `copies` hosts for hosts 0, 1, ..., by enumeration.

    `hosts`: from `copies` to 2 * `copies` - 1.
    """
    for number in range(1, hosts + 1):
        for owners in _partitions(hosts, number, copies):
            patterns = [
                pattern
                for size in range(1, number + 1)
                for pattern in combinations(range(number), size)
                if sum(owners[s] for s in pattern) == copies
            ]
            counts = _counts(patterns, (copies,) * number)
            if counts is not None:
                return _owned(patterns, counts, owners)
    raise ValueError(f"{hosts} hosts are fewer than {copies}")


def _partitions(total: int, parts: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write a total as so many parts, 1 to `most`, in descending order."""
    if parts == 0:
        if total == 0:
            yield ()
        return
    for first in range(min(total - parts + 1, most), 0, -1):
        for rest in _partitions(total - first, parts - 1, first):
            yield (first, *rest)


def _counts(patterns: Sequence[tuple[int, ...]], need: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return how many hosts have each pattern, so that each set has what it needs; or None."""
    if not any(need):
        return (0,) * len(patterns)
    if not patterns:
        return None
    first = patterns[0]
    for number in range(min(need[s] for s in first), -1, -1):
        left = tuple(n - number * (s in first) for s, n in enumerate(need))
        rest = _counts(patterns[1:], left)
        if rest is not None:
            return (number, *rest)
    return None


def _owned(
    patterns: Sequence[tuple[int, ...]], counts: Sequence[int], owners: Sequence[int]
) -> tuple[HostSet, ...]:
    """Return the sets with their hosts, and each host as owner in one of them."""
    pattern_of = [pattern for pattern, n in zip(patterns, counts, strict=True) for _ in range(n)]
    graph: nx.DiGraph[object] = nx.DiGraph()
    for host, pattern in enumerate(pattern_of):
        graph.add_edge("source", ("host", host), capacity=1)
        for s in pattern:
            graph.add_edge(("host", host), ("set", s), capacity=1)
    for s, number in enumerate(owners):
        graph.add_edge(("set", s), "sink", capacity=number)
    flow = nx.maximum_flow(graph, "source", "sink")[1]
    return tuple(
        HostSet(
            tuple(h for h, pattern in enumerate(pattern_of) if s in pattern),
            tuple(h for h in range(len(pattern_of)) if flow["host", h].get(("set", s))),
        )
        for s in range(len(owners))
    )


# Survival: how likely it is that failed hosts leave a copy of every checkpoint.
#
# A checkpoint is lost if all hosts of its set fail at once. Sets that share no host, directly or by
# way of others, are counted on their own; the counts are multiplied as polynomials, whose term of
# degree k counts the choices of k failed hosts that lose nothing.
MOST_CHOICES = 1_000_000
"""Choices of failed hosts, among those that share sets, up to which each is looked at."""

SAMPLES = 100_000


class Chance(NamedTuple):
    """That nothing is lost: exact, or with the half-width of its 95 % interval."""

    value: float
    error: float = 0.0


def survival(sets: Iterable[Collection[int]], hosts: int, failed: int, *, seed: int = 0) -> Chance:
    """Return how likely it is that so many failed hosts lose nothing.

    `sets`: the hosts that keep a checkpoint, numbers from 0; for each checkpoint, or once for all
    that the same hosts keep. `hosts`: number of all hosts; each is as likely to fail. `failed`: how
    many of them fail, at most all. `seed`: of the samples, which are drawn where there are too many
    choices to look at each.
    """
    distinct = {frozenset(one) for one in sets}
    sizes = sorted({len(one) for one in distinct if len(one) <= failed})

    def is_safe(choice: Sequence[int]) -> bool:
        parts = (part for n in sizes for part in combinations(choice, n))
        return not any(frozenset(part) in distinct for part in parts)

    graph: nx.Graph[int] = nx.Graph()
    for one in distinct:
        nx.add_star(graph, one)
    together = [sorted(part) for part in nx.connected_components(graph)]
    if any(comb(len(part), failed) > MOST_CHOICES for part in together):
        rng = np.random.default_rng(seed)
        rows = (rng.choice(hosts, failed, replace=False).tolist() for _ in range(SAMPLES))
        drawn = sum(map(is_safe, rows))
        chance = drawn / SAMPLES
        return Chance(chance, 1.96 * sqrt(chance * (1 - chance) / SAMPLES))
    safe = [comb(hosts - len(graph), k) for k in range(failed + 1)]
    for part in together:
        own = [sum(map(is_safe, combinations(part, k))) for k in range(failed + 1)]
        safe = [sum(safe[i] * own[k - i] for i in range(k + 1)) for k in range(failed + 1)]
    return Chance(float(Fraction(safe[failed], comb(hosts, failed))))


# Protection of checkpoints in memory: which hosts of a running job keep whose copies.
#
# A host that fails takes its memory with it, a rack all of its hosts. So the hosts of a job are
# divided into teams of M that keep each other's checkpoints, as many as can be with all hosts in
# different domains, by a round (`replica_teams`) with a proven bound. The N mod M hosts that no
# team is left for and those of one team get the fewest sets that will do (`last_sets`).
MOST_FAILED = 4
MOST_TEAMS_TRIED = 64


@dataclass(frozen=True, slots=True)
class KeeperSet:
    """Hosts that keep the checkpoints of the `owners` among them.

    `ranks` are ranks that keep each other's shards: the first GPU of each host, the second ...;
    `is_apart`: no two hosts are in one domain.
    """

    hosts: tuple[str, ...]
    owners: tuple[str, ...]
    ranks: tuple[tuple[int, ...], ...]
    is_apart: bool


@dataclass(frozen=True, slots=True)
class ProtectedJob:
    """What protects the checkpoints of a job, and what that survives.

    `chances[k - 1]` is that k failed hosts of the job lose nothing; `unprotected` are hosts whose
    checkpoint nobody else keeps; `domains` are those of the level that hold hosts of the job, and
    `fatal` those of which all hosts, failing at once, lose something.
    """

    job: str
    hosts: tuple[str, ...]
    sets: tuple[KeeperSet, ...]
    unprotected: tuple[str, ...]
    chances: tuple[Chance, ...]
    domains: tuple[str, ...]
    fatal: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Protection:
    """Who keeps whose checkpoints: the round that was solved, its plan, and the jobs.

    `apart` teams of the plan have all hosts in different domains, and no plan has more than
    `most_apart` of them (None: not known). A host that keeps copies needs `memory_mib` free.
    """

    round: Round
    plan: Plan
    jobs: tuple[ProtectedJob, ...]
    apart: int
    most_apart: int | None
    memory_mib: int

    def as_object(self) -> dict[str, Any]:
        """Return it as plain JSON, for those who set up a training framework."""
        return {
            "kind": "Protection",
            "teams_apart": self.apart,
            "most_teams_apart": self.most_apart,
            "jobs": [
                {
                    "job": job.job,
                    "sets": [
                        {
                            "hosts": one.hosts,
                            "checkpoints_of": one.owners,
                            "ranks": one.ranks,
                            "apart": one.is_apart,
                        }
                        for one in job.sets
                    ],
                    "unprotected": job.unprotected,
                    "survives_failed_hosts": [
                        {"failed": failed, "chance": chance.value, "error": chance.error}
                        for failed, chance in enumerate(job.chances, 1)
                    ],
                    "domains": len(job.domains),
                    "fatal_domains": job.fatal,
                }
                for job in self.jobs
            ],
        }


def protect(
    round: Round,  # noqa: A002
    copies: int,
    level: str,
    memory_mib: int,
    jobs: Sequence[str] | None = None,
    *,
    time_limit: float | None = None,
) -> Protection:
    """Decide which hosts of running jobs keep whose checkpoints in memory.

    Parameters
    ----------
    round
        The round as it is; only its running jobs matter.
    copies, level, memory_mib, jobs
        As `replica_teams` has them.
    time_limit
        Wall-clock seconds for the search; None: as the round has it.

    Raises
    ------
    InvalidInputError
        As `replica_teams` does.
    """
    made = replica_teams(round, copies, level, memory_mib, jobs)
    plan = solve_round(made, time_limit=time_limit)
    cluster = build_cluster(made.cluster)
    domain_of = _domains(cluster, level)
    needed = BUFFERS * memory_mib * (copies - 1)
    room = _room(made, cluster, plan, needed)
    teams: defaultdict[int, list[tuple[str, ...]]] = defaultdict(list)
    numbers = {Team.named(job.name).job for job in made.jobs if job.running is None}
    for decision in plan.decisions:
        if decision.decision is DecisionKind.START:
            hosts = tuple(task.host for task in decision.tasks)
            teams[Team.named(decision.job).job].append(hosts)
    apart = sum(_is_apart(team, domain_of) for mine in teams.values() for team in mine)
    protected = [
        _protected(round.jobs[i], teams[i], copies, domain_of, room) for i in sorted(numbers)
    ]
    return Protection(made, plan, tuple(protected), apart, _most_apart(made, plan), needed)


def _most_apart(made: Round, plan: Plan) -> int | None:
    """Return how many teams any plan can have in different domains, by its bound."""
    bound = None if plan.certificate is None else plan.certificate.terms[0].bound
    worth = [job.value_of(0) for job in made.jobs if job.running is None]
    return None if bound is None or not worth else int(bound // worth[0])


def _protected(
    job: Job,
    teams: list[tuple[str, ...]],
    copies: int,
    domain_of: Mapping[str, str],
    room: Mapping[str, bool],
) -> ProtectedJob:
    hosts = hosts_of(job)
    order = {host: number for number, host in enumerate(hosts)}
    teams = sorted(tuple(sorted(team, key=order.__getitem__)) for team in teams)
    teams.sort(key=lambda team: order[team[0]])
    sets = [(team, team) for team in teams]
    in_team = {host for team in teams for host in team}
    rest = [host for host in hosts if host not in in_team and room[host]]
    if teams and 0 < len(rest) < copies:
        sets = _with_last(teams, rest, copies, domain_of)
    kept = {owner for _, owners in sets for owner in owners}
    unprotected = tuple(host for host in hosts if host not in kept)
    ranks = ranks_of(job)
    keepers = [keeper for keeper, _ in sets] + [(host,) for host in unprotected]
    numbered = [[order[host] for host in keeper] for keeper in keepers]
    chances = tuple(
        survival(numbered, len(hosts), failed)
        for failed in range(1, min(MOST_FAILED, len(hosts)) + 1)
    )
    domains = tuple(dict.fromkeys(domain_of[host] for host in hosts))
    inside = [{domain_of[host] for host in keeper} for keeper in keepers]
    fatal = {next(iter(found)) for found in inside if len(found) == 1}
    return ProtectedJob(
        job=job.name,
        hosts=hosts,
        sets=tuple(
            KeeperSet(keeper, owners, cliques(keeper, ranks), _is_apart(keeper, domain_of))
            for keeper, owners in sets
        ),
        unprotected=unprotected,
        chances=chances,
        domains=domains,
        fatal=tuple(domain for domain in domains if domain in fatal),
    )


def _with_last(
    teams: list[tuple[str, ...]],
    rest: list[str],
    copies: int,
    domain_of: Mapping[str, str],
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the sets where one team and the hosts that are left have the fewest sets.

    That team is taken with which the fewest of these sets are in one domain.
    """
    best: tuple[int, int] | None = None
    found: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    for number, team in list(enumerate(teams))[-MOST_TEAMS_TRIED:]:
        hosts = _interleaved([*team, *rest], domain_of)
        last = [
            (tuple(hosts[h] for h in one.hosts), tuple(hosts[h] for h in one.owners))
            for one in fewest_sets(len(hosts), copies)
        ]
        inside = sum(len({domain_of[host] for host in keeper}) == 1 for keeper, _ in last)
        lost = _is_apart(team, domain_of)
        if best is None or (inside, lost) < best:
            best = inside, lost
            found = [(other, other) for k, other in enumerate(teams) if k != number] + last
    return found


def _interleaved(hosts: list[str], domain_of: Mapping[str, str]) -> list[str]:
    """Order hosts so that neighbours are in different domains where they can be."""
    seen: Counter[str] = Counter()
    size = Counter(domain_of[host] for host in hosts)
    key: dict[str, tuple[float, str]] = {}
    for host in hosts:
        domain = domain_of[host]
        seen[domain] += 1
        key[host] = (seen[domain] / (size[domain] + 1), domain)
    return sorted(hosts, key=lambda host: key[host])


def _is_apart(hosts: Sequence[str], domain_of: Mapping[str, str]) -> bool:
    return len({domain_of[host] for host in hosts}) == len(hosts)


def ranks_of(job: Job) -> dict[str, list[int]]:
    """Return the ranks of each host: its GPUs in the order of the tasks, task by task."""
    ranks: defaultdict[str, list[int]] = defaultdict(list)
    number = 0
    for task in () if job.running is None else job.running.tasks:
        for _ in task.gpus:
            ranks[task.host].append(number)
            number += 1
    return ranks


def cliques(hosts: Sequence[str], ranks: Mapping[str, list[int]]) -> tuple[tuple[int, ...], ...]:
    """Return the ranks that keep each other's shards: the first of each host, the second ..."""
    rows = zip_longest(*(ranks.get(host, []) for host in hosts))
    return tuple(tuple(rank for rank in row if rank is not None) for row in rows)


def _domains(cluster: Cluster, level: str) -> dict[str, str]:
    """Return the domain of each host; a host that is in none is one of its own."""
    number = cluster.levels.index(level)
    names = cluster.names[number]
    hosts = cluster.names[-1]
    return {host: names[d] for host, d in zip(hosts, cluster.domain[number].tolist(), strict=True)}


def _room(round_: Round, cluster: Cluster, plan: Plan, memory: int) -> dict[str, bool]:
    """Return on which hosts so much memory is free after a plan."""
    state = build_state(round_, cluster)
    free = state.free[:, cluster.resources.index("memory")]
    asked = Counter(
        task.host
        for decision in plan.decisions
        if decision.decision is DecisionKind.START
        for task in decision.tasks
    )
    return {
        host: bool(healthy) and left - asked[host] * memory >= memory
        for host, left, healthy in zip(
            cluster.names[-1], free.tolist(), state.healthy.tolist(), strict=True
        )
    }

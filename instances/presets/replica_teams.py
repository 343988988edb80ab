"""Replica teams: who keeps a copy of whose checkpoint in memory, as a round.

Source: Wang et al., "Gemini: Fast Failure Recovery in Distributed Training with In-Memory
Checkpoints", SOSP'23: groups of hosts that keep each other's checkpoints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from placewright.instances.checks.round import checked
from placewright.instances.derived.names import check_known, refuse_text
from placewright.instances.documents.arrangement import Apart
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.quantities import memory_text
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.presets.presets import runs_of, with_policy

MOST_COPIES = 8
MOST_MIB = 10**9
BUFFERS = 2
"""A host has room for two versions of each copy: the last one, and the one that arrives."""


class Team(NamedTuple):
    """A pending job of the round: a team of a job, by its index."""

    job: int
    number: int

    def name(self, prefix: str) -> str:
        """Return what it is called."""
        return f"{prefix}-{self.job}-{self.number}"

    @classmethod
    def named(cls, name: str) -> Team:
        """Return the team of a name."""
        _, job, number = name.rsplit("-", 2)
        return cls(int(job), int(number))


def hosts_of(job: Job) -> tuple[str, ...]:
    """Return the hosts of a running job, in the order of its tasks."""
    tasks = () if job.running is None else job.running.tasks
    return tuple(dict.fromkeys(task.host for task in tasks))


def replica_teams(
    round: Round,  # noqa: A002
    copies: int,
    level: str,
    memory_mib: int,
    jobs: Sequence[str] | None = None,
) -> Round:
    """Divide the hosts of running jobs into teams that keep each other's checkpoints in memory.

    For a job on N hosts N // `copies` pending jobs are added, its teams: tasks without GPUs on that
    many of its hosts, one team a host, each with memory for two versions of the others' copies. A
    team whose hosts are in different domains of a level is worth more than all others together;
    of these one that is not all in one domain is worth 2, any other 1. Running jobs are pinned,
    pending ones left out; the only term is `value`.

    Parameters
    ----------
    round
        The round as it is.
    copies
        Hosts that keep a checkpoint, the one that makes it included: 2 to 8.
    level
        Of the failure domains: a level of the cluster.
    memory_mib
        MiB of the checkpoint of one host.
    jobs
        Names of the running jobs; None: all that run on `copies` hosts or more.

    Raises
    ------
    InvalidInputError
        If the level is unknown, a number is not in range, or a job does not run, or on too few
        hosts.
    """
    round = checked(round)  # noqa: A001
    check_known(level, round.cluster.levels, "level", ("level",))
    for name, given, least, most in (
        ("copies", copies, 2, MOST_COPIES),
        ("memory", memory_mib, 1, MOST_MIB),
    ):
        if not least <= given <= most:
            raise InvalidInputError(f"expected {least} to {most:,}", (name,), given)
    chosen = {i: hosts_of(round.jobs[i]) for i in _chosen(round, copies, jobs)}
    number = sum(len(hosts) // copies for hosts in chosen.values())
    prefix = _free_prefix([job.name for job in round.jobs] + [*round.host_sets])
    sets = {i: f"{prefix}-hosts-{i}" for i in chosen}
    teams: list[Job] = []
    for i, hosts in chosen.items():
        group = TaskGroup.model_validate(
            {
                "count": copies,
                "gpu": 0,
                "memory": memory_text(BUFFERS * memory_mib * (copies - 1)),
                "resources": {_seat(i): 1},
                "host_sets": (sets[i],),
                "preferred": (),
            }
        )
        worth = {"apart": 1 + number, "together": 1}
        if copies > 2:
            worth = {"apart": 1 + 2 * number, "split": 2, "together": 1}
        groups = {
            "apart": _apart(group, level, 1),
            "split": _apart(group, level, copies - 1),
            "together": group,
        }
        options = tuple(
            Option(name=name, groups=(groups[name],), value=value) for name, value in worth.items()
        )
        teams += [
            Job(name=Team(i, k).name(prefix), options=options) for k in range(len(hosts) // copies)
        ]
    pinned = [
        job.model_copy(update={"running": job.running.model_copy(update={"pinned": True})})
        for job in round.jobs
        if job.running is not None
    ]
    changed = round.model_copy(
        update={
            "cluster": _with_seats(round.cluster, chosen),
            "host_sets": {**round.host_sets, **{sets[i]: hosts for i, hosts in chosen.items()}},
            "jobs": (*pinned, *teams),
        }
    )
    return with_policy(changed, ("value",))


def _chosen(round_: Round, copies: int, jobs: Sequence[str] | None) -> list[int]:
    """Return the indices of the jobs whose hosts are to be protected."""
    if jobs is None:
        return [i for i, job in enumerate(round_.jobs) if len(hosts_of(job)) >= copies]
    refuse_text(jobs, "jobs", ("job",))
    index = {job.name: i for i, job in enumerate(round_.jobs)}
    for name in jobs:
        check_known(name, index, "job", ("job",))
        hosts = len(hosts_of(round_.jobs[index[name]]))
        if hosts < copies:
            held = f"runs on {hosts} hosts" if hosts else "does not run"
            raise InvalidInputError(
                f"{held}; expected a job on {copies} hosts or more", ("job",), name
            )
    return sorted({index[name] for name in jobs})


def _apart(group: TaskGroup, level: str, most: int) -> TaskGroup:
    return group.model_copy(update={"apart": Apart(level=level, most=most)})


def _free_prefix(names: Sequence[str]) -> str:
    """Return a prefix that no name has."""
    prefix = "team"
    while any(name.startswith(prefix) for name in names):
        prefix += "-"
    return prefix


def _seat(job: int) -> str:
    """Return the resource that each host of a job has once."""
    return f"seat-{job}"


def _with_seats(cluster: ClusterDocument, chosen: Mapping[int, tuple[str, ...]]) -> ClusterDocument:
    """Return the cluster with a seat on each host of each job."""
    seats: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for i, hosts in chosen.items():
        for host in hosts:
            seats[host][_seat(i)] = 1
    entries = tuple(
        part.model_copy(update={"resources": {**part.resources, **mine}}) if mine else part
        for entry in cluster.hosts
        for part, mine in runs_of(entry, lambda name: seats.get(name, {}))
    )
    return cluster.model_copy(update={"hosts": entries})

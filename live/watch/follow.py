"""An engine that follows a cluster: each state becomes changes of the state before."""

from __future__ import annotations

from typing import Self

from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.rounds import Changes, Engine


class Follower:
    """Decides one state of a cluster after the other; a context manager, as `Engine` is.

    Parameters
    ----------
    time_limit
        Of each round, in seconds.
    """

    def __init__(self, *, time_limit: float) -> None:
        self._time_limit = time_limit
        self._engine: Engine | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the solver process."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def decide(self, coming: Round) -> tuple[Round, Plan]:
        """Return the round that was decided, which says what `coming` does, and its plan.

        What changes cannot say (other hosts, tenants, policy) begins a new engine.
        """
        engine = self._engine
        changes = None if engine is None else changes_between(engine.state, coming)
        if engine is not None and changes is not None:
            try:
                plan = engine.round(changes)
            except InvalidInputError:  # two states that are right need not be in one order of steps
                pass
            else:
                solved = engine.round_solved
                if _says(solved, coming):
                    return solved, plan
        self.close()
        self._engine = engine = Engine(coming, time_limit=self._time_limit)
        plan = engine.round()
        return engine.round_solved, plan


def changes_between(before: Round, after: Round) -> Changes | None:
    """Return what leads from one round to another; None if changes cannot say it.

    Jobs, health of hosts, reservations, maintenance and the time may differ, nothing else.
    """
    if after.now < before.now or _frame(before) != _frame(after):
        return None
    old = {job.name: job for job in before.jobs}
    new = {job.name: job for job in after.jobs}
    healthy = {host.name: host.healthy for host in before.cluster.hosts}
    return Changes(
        removed=[name for name in old if name not in new],
        updated=[job for name, job in new.items() if name in old and old[name] != job],
        added=[job for name, job in new.items() if name not in old],
        order=list(new) if after.policy.as_listed else (),
        health={
            host.name: host.healthy
            for host in after.cluster.hosts
            if healthy[host.name] != host.healthy
        },
        reservations=after.reservations,
        maintenance=after.maintenance,
        now=after.now,
    )


def _frame(round_: Round) -> Round:
    """Return a round without what changes can say."""
    return round_.model_copy(
        update={
            "now": 0,
            "jobs": (),
            "reservations": (),
            "maintenance": (),
            "annotations": {},
            "cluster": _healthy(round_.cluster),
        }
    )


def _healthy(cluster: ClusterDocument) -> ClusterDocument:
    hosts = tuple(host.model_copy(update={"healthy": True}) for host in cluster.hosts)
    return cluster.model_copy(update={"hosts": hosts})


def _says(solved: Round, coming: Round) -> bool:
    """Whether two rounds have the same jobs, hosts and rules, in whatever order."""
    return (
        {job.name: job for job in solved.jobs} == {job.name: job for job in coming.jobs}
        and solved.cluster.hosts == coming.cluster.hosts
        and solved.reservations == coming.reservations
        and solved.maintenance == coming.maintenance
    )

"""The Round document: cluster, jobs pending and running, tenants, policy, at one instant."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypedDict, Unpack

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from placewright.instances.documents.annotations import Annotations
from placewright.instances.documents.base import (
    API_VERSION,
    MAX_AMOUNT,
    MAX_NOW,
    Document,
    Flag,
    Index,
    Many,
    Name,
)
from placewright.instances.documents.caps import Cap, Measure
from placewright.instances.documents.cells import Binding, bindings_in
from placewright.instances.documents.cluster import ClusterDocument, HostName
from placewright.instances.documents.form_errors import invalid_input
from placewright.instances.documents.geo import Geo
from placewright.instances.documents.html import html_table
from placewright.instances.documents.job import Job, Values
from placewright.instances.documents.leases import Leases, Outage
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.plan_leases import promises_in
from placewright.instances.documents.policy import DEFAULT_SPREAD_WEIGHTS, Policy, Tenant
from placewright.instances.documents.sections import refuse_unused_sections
from placewright.instances.documents.sharing import Sharing
from placewright.instances.documents.stage import Stage
from placewright.instances.errors import InvalidInputError
from placewright.topology import Cluster

if TYPE_CHECKING:
    import networkx as nx

MAX_HOST_SETS = 10_000


class Reservation(Document):
    """Hosts (a name or range), or some of their GPUs, that nothing may arrive on in this round."""

    host: HostName
    gpus: Many[Index] | None = Field(default=None, min_length=1)


class RoundLimits(Document):
    """When to stop: after seconds, at a relative gap of the first term, or by work done."""

    time_s: Annotated[float, Field(strict=True, ge=0, le=86_400, allow_inf_nan=False)] = 60.0
    gap: Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)] = 1e-4
    seed: Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)] = 0
    deterministic: Flag = False
    memory_mib: Annotated[int, Field(strict=True, ge=64, le=MAX_AMOUNT)] | None = None


class RoundFields(TypedDict, total=False):
    """Fields of a round, as arguments of `Round.of`, but for those that are written out there."""

    name: str
    host_sets: Mapping[str, Sequence[str]]
    caps: Mapping[str, Cap | Values]
    reservations: Sequence[Reservation | Values]
    maintenance: Sequence[Outage | Values]
    bindings: Sequence[Binding | Values]
    sharing: Sharing | Values
    leases: Leases | Values
    geo: Geo | Values
    limits: RoundLimits | Values
    annotations: Mapping[str, str]


class Round(Document):
    """One scheduling round. `now` is in seconds on the caller's clock.

    `host_sets` are hosts by the name of the set, for task groups that may use these alone.
    `maintenance` says when hosts will be away: jobs that would not have ended by then do not come
    to them. `bindings` are those of the last plan; they hold while guaranteed jobs run in their
    domains. `sharing` is for the policy `interleaving`, `leases` for `deadline`, `geo` for `geo`
    and `replicas`. `annotations`, of the round, its hosts and its jobs, are carried along; no
    decision depends on them.

    Attributes
    ----------
    invalid : mapping of str to str
        Pending jobs that make no sense in this round, by name, with what is wrong with them. They
        wait. Only a lenient reading leaves any, and they are no field of the document.
    """

    apiVersion: Literal["placewright/v1alpha2"] = API_VERSION  # noqa: N815
    kind: Literal["Round"] = "Round"
    name: Name = "round"
    now: Annotated[int, Field(strict=True, ge=0, le=MAX_NOW)] = 0
    cluster: ClusterDocument
    host_sets: dict[Name, Many[HostName]] = Field(default_factory=dict, max_length=MAX_HOST_SETS)
    jobs: Many[Job] = ()
    tenants: Many[Tenant] = ()
    caps: dict[Name, Cap] = Field(default_factory=dict)
    reservations: Many[Reservation] = ()
    maintenance: Many[Outage] = ()
    bindings: Many[Binding] = ()
    sharing: Sharing = Sharing.model_construct()
    leases: Leases = Leases.model_construct()
    geo: Geo = Geo.model_construct()
    policy: Policy = Policy.model_construct()
    limits: RoundLimits = RoundLimits.model_construct()
    annotations: Annotations = Field(default_factory=dict)
    _invalid: Mapping[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _sections(cls, raw: Any) -> Any:
        return refuse_unused_sections(raw)

    @classmethod
    def of(
        cls,
        cluster: ClusterDocument | Cluster | nx.Graph[Any] | Values,
        jobs: Iterable[Job | Values] = (),
        *,
        running: Plan | None = None,
        after: nx.DiGraph[Any] | None = None,
        policy: Policy | Values | None = None,
        tenants: Iterable[Tenant | Values] = (),
        now: int = 0,
        **fields: Unpack[RoundFields],
    ) -> Self:
        """Make a round: a cluster, and the jobs that there are now.

        What names of hosts, levels and tenants refer to is checked when the round is used.

        Parameters
        ----------
        cluster
            Where the jobs may run: the document, the arrays, or a NetworkX graph as
            `topology/graph.py` describes it.
        jobs
            All jobs, pending and running, by descending rank where nothing else tells them apart.
        running
            The plan of an earlier round, which has been carried out: those of the jobs to which it
            gives a place run there, those that it preempts or lets wait are pending. Jobs of the
            plan that are not among `jobs` have ended. Without it those jobs run that say so
            themselves. When jobs started is not known of a plan: an `Engine` keeps that, too.
        after
            Which jobs wait for which, for the policy `stages`: a NetworkX graph of their names with
            an edge from each job to those that wait for it. An attribute `task_s` of a node is how
            long the tasks of a job without a stage run.
        policy
            What is decided, and by which terms; None: who starts, in order of value.
        tenants
            Owners of jobs, with their quotas.
        now
            Seconds on any clock that all times of jobs are on, too.
        **fields
            All other fields of the document, as named there: `caps`, `reservations`, `limits` ...

        Raises
        ------
        InvalidInputError
            It names the argument, its value and what was expected.
        """
        values = {
            "cluster": _document_of(cluster),
            "jobs": jobs,
            "tenants": tenants,
            "now": now,
            **({} if policy is None else {"policy": policy}),
            **fields,
        }
        try:
            round_ = cls.model_validate(values)
        except ValidationError as error:
            raise invalid_input(error, cls, values) from None
        if after is not None:
            if not hasattr(after, "predecessors"):
                problem = "expected a directed NetworkX graph of names of jobs"
                raise InvalidInputError(problem, ("after",), after)
            unknown = sorted((name for name in after if name not in round_.names), key=str)
            if unknown:
                problem = "unknown job; expected names of jobs"
                raise InvalidInputError(problem, ("after",), unknown[0])
            jobs_after = tuple(_after(job, after) for job in round_.jobs)
            round_ = round_.model_copy(update={"jobs": jobs_after})
        return round_ if running is None else round_._under(running)

    def _under(self, plan: Plan) -> Self:
        """Return the round with its jobs where a plan of an earlier one has them."""
        if not isinstance(plan, Plan):
            raise InvalidInputError("expected the Plan of an earlier round", ("running",), plan)
        kinds = {section["kind"] for section in plan.sections}
        if kinds & {"replicas", "flows"}:
            raise InvalidInputError(
                "orders copies of data; expected an Engine, which knows how far they are",
                ("running",),
            )
        decided = {decision.job: decision for decision in plan.decisions}
        jobs = [job.placed(decided[job.name]) if job.name in decided else job for job in self.jobs]
        if "leases" in self.policy.spec.sections:
            promised = promises_in(plan.sections)
            jobs = [
                job.with_promise(promised.get(job.name)) if job.name in decided else job
                for job in jobs
            ]
        bindings = bindings_in(plan.sections) if "cells" in kinds else self.bindings
        return self.model_copy(update={"jobs": tuple(jobs), "bindings": bindings})

    @property
    def invalid(self) -> Mapping[str, str]:
        """Pending jobs that make no sense, by name, with what is wrong with them."""
        return self._invalid

    def with_invalid(self, invalid: Mapping[str, str]) -> Self:
        """Return the round with these invalid jobs, and no others."""
        if not invalid and not self._invalid:
            return self
        marked = self.model_copy()
        marked._invalid = dict(invalid)
        return marked

    def valid_part(self) -> Self:
        """Return the round without its invalid jobs: what there is to decide."""
        return self.without_jobs(self._invalid).with_invalid({}) if self._invalid else self

    def offered(self, job: Job) -> tuple[int, ...]:
        """Return the options that a job may have, of a running job first the one that it runs.

        Running jobs resize under `gang` alone, where neither backfill nor cells rely on what they
        hold.
        """
        several = job.running is not None and len(job.options) > 1
        return job.offered(resizes=several and self.resizes)

    @property
    def resizes(self) -> bool:
        """Whether running jobs may resize at all."""
        return not self.policy.keep_sizes and self.lets_resize

    @property
    def lets_resize(self) -> bool:
        """Whether they may but for `keep_sizes`."""
        policy = self.policy
        if not policy.spec.resizes or policy.backfill is not None:
            return False
        return not any(tenant.cells for tenant in self.tenants)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all jobs."""
        return tuple(job.name for job in self.jobs)

    def without_jobs(self, names: Collection[str]) -> Self:
        """Return the round without some jobs, and without conflicts of those."""
        pairs = self.sharing.conflicts
        left = tuple(pair for pair in pairs if not any(name in names for name in pair))
        jobs = tuple(job for job in self.jobs if job.name not in names)
        update: dict[str, Any] = {"jobs": jobs}
        if len(left) < len(pairs):
            update["sharing"] = self.sharing.model_copy(update={"conflicts": left})
        return self.model_copy(update=update)

    def used_by(self, tenant: str, resource: str) -> int:
        """Return what the running jobs of a tenant ask of a resource that quotas name."""
        return sum(
            job.options[job.running.option].amount_of(resource)
            for job in self.jobs
            if job.running is not None and job.tenant == tenant
        )

    def held_of(self, cap: str, measure: Measure) -> int:
        """Return what the running jobs that count in a cap hold of what it limits."""
        return sum(
            measure.asked_by(job.options[job.running.option])
            for job in self.jobs
            if job.running is not None and cap in job.caps
        )

    def spread_weights(self) -> dict[str, int]:
        """Weight of each level in the term `spread`; the defaults apply to levels that exist."""
        if self.policy.spread_weights is not None:
            return dict(self.policy.spread_weights)
        return {k: w for k, w in DEFAULT_SPREAD_WEIGHTS.items() if k in self.cluster.levels}

    def _repr_html_(self) -> str:
        """Return the jobs and what they ask, as a notebook shows them; the first hundred."""
        running = sum(job.running is not None for job in self.jobs)
        title = f"Round {self.name}: {len(self.jobs)} jobs, {running} of them running"
        rows = (
            (
                job.name,
                "runs" if job.running else "waits",
                job.tenant,
                job.priority,
                len(job.options),
            )
            for job in self.jobs[:100]
        )
        return html_table(title, ("job", "state", "tenant", "priority", "options"), rows)


def _after(job: Job, graph: Any) -> Job:
    """Return a job with what comes before it in a graph of names."""
    if job.name not in graph:
        return job
    stage, node = job.stage, graph.nodes[job.name]
    try:
        if stage is None:
            stage = Stage.model_validate({"task_s": node.get("task_s")})
        before = [*stage.after, *graph.predecessors(job.name)]
        stage = Stage.model_validate({**dict(stage), "after": tuple(dict.fromkeys(before))})
    except ValidationError as error:
        raise invalid_input(error, Stage, {}).under("after", job.name) from None
    return job.model_copy(update={"stage": stage})


def _document_of(cluster: Any) -> Any:
    """Return the document of a cluster that is given as arrays or as a graph, or what is given."""
    graph = cluster.to_graph() if isinstance(cluster, Cluster) else cluster
    try:
        return ClusterDocument.from_graph(graph) if hasattr(graph, "nodes") else cluster
    except InvalidInputError as error:
        raise error.under("cluster") from None

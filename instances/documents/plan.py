"""The Plan document: a decision per job, a place per task, and the certificate."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, Self, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from placewright.instances.documents.arrangement import HostCount
from placewright.instances.documents.base import (
    API_VERSION,
    Document,
    Flag,
    Index,
    Many,
    Name,
    Total,
)
from placewright.instances.documents.html import html_table
from placewright.instances.documents.quantities import (
    ResourceAmount,
    read_amount,
    write_amount,
)
from placewright.instances.errors import InvalidInputError
from placewright.topology.gpu_links import LinkKind
from placewright.topology.graph import GraphError
from placewright.topology.graph_reader import read_graph

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.axes import Axes
    from pandas import DataFrame

Graph = TypeVar("Graph", bound="nx.Graph[Any]")


def _finite(section: dict[str, Any]) -> dict[str, Any]:
    waiting: list[Any] = [section]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, float) and not math.isfinite(value):
            raise ValueError("expected finite numbers only")
    return section


def _listed(names: Any) -> Any:
    """Read one name as a list of one, and nothing as none."""
    return () if names is None else (names,) if isinstance(names, str) else names


SHA256 = r"^[0-9a-f]{64}$"
CLAIM_SHARPNESS = 1e-6
"""Relative tolerance of solvers: a claimed bound this near to a value leaves no gap to speak of."""

Status = Literal["optimal", "within_gap", "feasible"]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Section = Annotated[dict[str, Any], AfterValidator(_finite)]


class DecisionKind(StrEnum):
    """What happens to a job in this round."""

    START = "start"
    KEEP = "keep"
    MIGRATE = "migrate"
    RESIZE = "resize"
    PREEMPT = "preempt"
    WAIT = "wait"

    @property
    def moves(self) -> bool:
        """Whether a running job goes on with other tasks, places or GPUs."""
        return self in (DecisionKind.MIGRATE, DecisionKind.RESIZE)


class Reason(StrEnum):
    """Why a job waits, of the option that comes furthest; docs/plans.md has the exact tests.

    `never_fits`: it does not fit the cluster and its pools, even with all hosts healthy and empty.
    `quota`: it asks more than the plan leaves of its tenant's quota or of a cap; of a guaranteed
    job, its tenant's cells have no room for it beside the guaranteed jobs there.
    `hosts_away`: it does not fit without the hosts that are unhealthy, reserved, to be vacated or
    in an outage, even if all others are empty.
    `capacity`: it does not fit beside the jobs that the plan keeps and migrates; of a guaranteed
    job, too few of the cells that its tenant may claim are usable and free.
    `displaced_by_priority`: nor beside these and the started jobs of strictly higher precedence.
    `promised_later`: the job has a promise, and its leases come later.
    `refused`: the job asked for a promise and has none.
    `data`: a region that may run the job has such GPUs, and will have all its data by copies.
    `no_region`: no region has such GPUs and may run the job with all its data, even when all copies
    are done.
    `not_asked`: the policy decides about data and starts nobody; the job has a home.
    `held`: the job says so.
    `not_before`: the job may start later only, `at`.
    `reserved`: the job has a reservation, for the time `at`.
    `held_for_reservation`: it would delay the reservation that `job` has for the time `at`, and
    does not fit beside it and those before it; in rounds of more than 500 jobs, the first
    reservation that begins before the job has ended.
    `held_for_maintenance`: it would not have ended `at`, when maintenance takes a host it needs.
    `invalid`: the round was read leniently, and the job makes no sense in it: see `message`.
    `disruption_limit`: a guaranteed job that would evict more than the disruption budget allows.
    `later`: the schedule has the job begin later, `at`.
    `not_chosen`: none of these; no better plan was found in which it starts.
    """

    NEVER_FITS = "never_fits"
    QUOTA = "quota"
    HOSTS_AWAY = "hosts_away"
    CAPACITY = "capacity"
    DISPLACED_BY_PRIORITY = "displaced_by_priority"
    PROMISED_LATER = "promised_later"
    REFUSED = "refused"
    DATA = "data"
    NO_REGION = "no_region"
    NOT_ASKED = "not_asked"
    HELD = "held"
    NOT_BEFORE = "not_before"
    RESERVED = "reserved"
    HELD_FOR_RESERVATION = "held_for_reservation"
    HELD_FOR_MAINTENANCE = "held_for_maintenance"
    INVALID = "invalid"
    DISRUPTION_LIMIT = "disruption_limit"
    LATER = "later"
    NOT_CHOSEN = "not_chosen"


class Task(Document):
    """The place of one task: index of its group in the option, index in the group, host, GPUs.

    `gpus` are indices on the host: one for a share of a GPU, as many as asked for whole GPUs.
    `slot` is the first memory slice of a MIG slice, and None for any other task.
    """

    group: Index = 0
    index: Index = 0
    host: Name
    gpus: Many[Index] = ()
    slot: Index | None = None


MAX_MESSAGE = 1000
_AMOUNTS = ("asked", "used", "limit", "excess", "free")


class Detail(Document):
    """The facts of a reason, as far as they apply; docs/plans.md says which they are.

    `option` and `group` are indices, in the job and in the option. `asked`, `used`, `limit`,
    `excess` and `free` are amounts of `resource`, and with `cells`, which is how many of its
    tenant's cells are not in use, of what cells have. What a `cap` limits is a `resource`, GPUs of
    a `gpu_model`, or `jobs`. `places` is how many of the `tasks` of a
    group have a place on `domain` of `level`, or on all hosts, under `geo` those of `region`; it
    has all of them but for what keeps its tasks `apart`, by that level, or for the `num_hosts` on
    which they have to be, and more of them but for the `gpu_links` that they need, of that kind or
    better. That is of all groups if no `group` is given.
    `startable`: the option fits even beside all that the plan starts. `message` says what is wrong
    with an invalid job. `unproven`: a test before this reason could not be decided. `at` is the
    time of a reservation or an offer, or from when on the job may start, and `job` whose
    reservation it is, or a preempted job whose quota is not free.
    """

    option: Index | None = None
    group: Index | None = None
    tenant: Name | None = None
    cap: Name | None = None
    resource: Name | None = None
    gpu_model: Name | None = None
    asked: ResourceAmount | None = None
    used: ResourceAmount | None = None
    limit: ResourceAmount | None = None
    excess: ResourceAmount | None = None
    free: ResourceAmount | None = None
    region: Name | None = None
    host: Name | None = None
    level: Name | None = None
    domain: Name | None = None
    cells: Index | None = None
    tasks: Index | None = None
    places: Index | None = None
    apart: Name | None = None
    gpu_links: LinkKind | None = None
    num_hosts: HostCount | None = None
    startable: Flag = False
    message: Annotated[str, Field(max_length=MAX_MESSAGE)] | None = None
    unproven: Flag = False
    at: Index | None = None
    job: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_amounts(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        resource = str(raw.get("resource"))
        amounts = {name: raw[name] for name in _AMOUNTS if raw.get(name) is not None}
        return {**raw, **{name: read_amount(resource, amounts[name]) for name in amounts}}

    @model_serializer(mode="wrap")
    def _write_amounts(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        facts = {
            name: fact
            for name, fact in write(self).items()
            if fact is not None and fact is not False
        }
        amounts = {name: facts[name] for name in _AMOUNTS if name in facts}
        resource = self.resource or ""
        return {**facts, **{name: write_amount(resource, amounts[name]) for name in amounts}}


class Decision(Document):
    """What one job gets. `option` and `tasks` are given exactly when it holds GPUs afterwards.

    `reason` says why a job waits, and `detail` has the facts of it.
    `displaced_by` names, for a preempted job, jobs of strictly higher precedence without which it
    could stay: as few as are needed. One name may stand for a list of one.
    """

    job: Name
    decision: DecisionKind
    option: Index | None = None
    reason: Reason | None = None
    detail: Detail | None = None
    displaced_by: Annotated[Many[Name], BeforeValidator(_listed)] = ()
    tasks: Many[Task] = ()


class Precedence(Document):
    """A precedence of jobs: their tenant's cells, its guarantee, their priority."""

    cells: Flag = False
    entitled: Flag = True
    priority: Annotated[int, Field(strict=True)]


class TermResult(Document):
    """An objective term: its verified value, bounds on it, and the gap to them.

    Terms `value_1`, `value_2`, ... are those of priority classes, the highest first: `precedences`
    are those whose jobs count (several, where classes were merged), and `asked` is what the gap is
    relative to.

    `bound` is the tighter of `certified` (recomputed here) and `claimed` (by a solver's search);
    `proof` says which. `conditional`: a term between was not proven optimal. `status`: `optimal`
    (the value is the bound, or within `CLAIM_SHARPNESS` of a claimed one), `within_gap` (the gap is
    at most the one asked for) or `feasible`.
    """

    name: Name
    sense: Literal["max", "min"]
    value: Total
    bound: Number | None = None
    proof: Literal["certified", "claimed"] | None = None
    certified: Number | None = None
    claimed: Number | None = None
    gap: Number | None = None
    conditional: Flag = False
    status: Status | None = None
    precedences: Many[Precedence] = ()
    asked: Total | None = None


class Run(Document):
    """What the plan cost: wall and CPU seconds, peak memory in MiB, solver processes included."""

    wall_s: Number
    cpu_s: Number
    peak_mib: Number


class Certificate(Document):
    """How good the plan is proven to be, and by what.

    `status`: `optimal` (every term is), `within_gap` (the asked gap is met) or `feasible`.
    `gap` is that of the first term, and of promises the largest of the terms up to `admitted`.
    `degraded` says what went wrong on the way, if anything did.
    """

    status: Status
    gap: Number | None
    terms: Many[TermResult]
    backend: str
    versions: dict[str, str]
    seed: Index
    deterministic: Flag = False
    repeatable: Flag = False
    degraded: Many[str] = ()
    run: Run | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_sums(cls, raw: Any) -> Any:
        """Refuse sums of terms, which certificates once had; an empty list of them is ignored."""
        if not isinstance(raw, dict) or "sums" not in raw:
            return raw
        if raw["sums"]:
            raise InvalidInputError(
                "sums of terms are no longer part of a certificate; solve the round again",
                ("sums",),
                None,
            )
        return {name: value for name, value in raw.items() if name != "sums"}


class Named(Protocol):
    """What has a name, as a job has."""

    @property
    def name(self) -> str:
        """By which plans speak of it."""


def name_of(job: str | Named) -> str:
    """Return the name of a job of which the name or the job itself is given."""
    return job if isinstance(job, str) else job.name


class Plan(Document):
    """A plan for one round. `round` is the sha256 of the canonical Round it was made for."""

    apiVersion: Literal["placewright/v1alpha2"] = API_VERSION  # noqa: N815
    kind: Literal["Plan"] = "Plan"
    round: Annotated[str, Field(pattern=SHA256)] | None = None
    decisions: Many[Decision]
    sections: Many[Section] = ()
    certificate: Certificate | None = None

    def __getitem__(self, job: str) -> Decision:
        """Return what is decided about a job; `KeyError` if nothing is."""
        for decision in self.decisions:
            if decision.job == job:
                return decision
        raise KeyError(job)

    def placement(self, job: str | Named) -> tuple[Task, ...]:
        """Return the places that a job has once the plan is carried out: a `Task` for each task.

        Parameters
        ----------
        job
            Its name, or the job itself.

        Returns
        -------
        tuple of Task
            Each with `host` and `gpus`, the indices of its GPUs on that host. Empty for a job that
            waits or is preempted.

        Raises
        ------
        KeyError
            If nothing is decided about the job.
        """
        return self[name_of(job)].tasks

    def assignment(self) -> dict[str, list[tuple[str, int]]]:
        """Return the GPUs of each job that runs once the plan is carried out, as (host, index).

        In the order of its tasks. A GPU that jobs share is listed for each of them; a job that runs
        without GPUs has none.
        """
        return {
            decision.job: [(task.host, gpu) for task in decision.tasks for gpu in task.gpus]
            for decision in self.decisions
            if decision.tasks
        }

    def on(self, graph: Graph) -> Graph:
        """Write the plan onto the graph of its cluster: each GPU's node has its `job`.

        That is the name of the job that holds the GPU once the plan is carried out, or the names,
        with commas between, of those that share it. GPUs that nobody holds have no `job`.

        Parameters
        ----------
        graph
            A NetworkX graph with a node for each GPU, as `Cluster.from_graph` takes it; it is
            changed.

        Returns
        -------
        networkx.Graph
            The same graph.

        Raises
        ------
        InvalidInputError
            If it is no graph of a cluster, or has no node of a GPU of the plan.
        """
        try:
            nodes = {host.name: host.gpu_nodes for host in read_graph(graph).hosts}
        except (GraphError, TypeError) as error:
            raise InvalidInputError(str(error), ("graph",)) from None
        holders: dict[Any, dict[str, None]] = {}
        for job, places in self.assignment().items():
            for host, gpu in places:
                if gpu >= len(nodes.get(host, ())):
                    raise InvalidInputError(
                        f"has no node of GPU {gpu} of host {host}; expected the graph of the "
                        f"plan's cluster, down to GPUs",
                        ("graph",),
                    )
                holders.setdefault(nodes[host][gpu], {})[job] = None
        for node in (one for inside in nodes.values() for one in inside):
            graph.nodes[node].pop("job", None)
            if node in holders:
                graph.nodes[node]["job"] = ",".join(holders[node])
        return graph

    def to_frame(self) -> DataFrame:
        """Return the decisions as a pandas DataFrame, a row for each, indexed by the job.

        Its columns are `decision`, `option`, `reason`, `gpus` (how many GPUs it is on) and `hosts`,
        those of its tasks in their order. pandas is needed, and imported here.
        """
        from pandas import DataFrame

        rows = [
            {
                "job": decision.job,
                "decision": str(decision.decision),
                "option": decision.option,
                "reason": None if decision.reason is None else str(decision.reason),
                "gpus": len({(task.host, gpu) for task in decision.tasks for gpu in task.gpus}),
                "hosts": ", ".join(dict.fromkeys(task.host for task in decision.tasks)),
            }
            for decision in self.decisions
        ]
        columns = ["job", "decision", "option", "reason", "gpus", "hosts"]
        return DataFrame(rows, columns=columns).astype({"option": "Int64"}).set_index("job")

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw who is on which GPU once the plan is carried out: a row for each host that is used.

        A job has one colour, and its name where it begins on a host; jobs that share a GPU divide
        its cell. matplotlib is needed, and imported here. `placewright show` draws the whole
        cluster.

        Parameters
        ----------
        axes
            Where to draw; new ones if None.

        Returns
        -------
        matplotlib.axes.Axes
            With x the indices of GPUs on a host, and y the hosts in the order of their names.
        """
        from matplotlib import colormaps, pyplot

        holders: dict[tuple[str, int], list[str]] = {}
        for job, places in self.assignment().items():
            for place in places:
                holders.setdefault(place, []).append(job)
        rows = {host: row for row, host in enumerate(sorted({host for host, _ in holders}))}
        if axes is None:
            _, axes = pyplot.subplots(figsize=(8, max(1.5, 0.3 * len(rows))))
        shades = colormaps["tab20"].colors  # type: ignore[attr-defined]
        colours = {job: shades[i % len(shades)] for i, job in enumerate(self.assignment())}
        named: set[tuple[str, str]] = set()
        for (host, gpu), jobs in sorted(holders.items()):
            for part, job in enumerate(jobs):
                left = gpu - 0.45 + 0.9 * part / len(jobs)
                axes.barh(
                    rows[host], 0.9 / len(jobs), 0.8, left, color=colours[job], align="center"
                )
                if (host, job) not in named:
                    named.add((host, job))
                    axes.text(left + 0.05, rows[host], job, size=7, va="center", clip_on=True)
        columns = range(1 + max((gpu for _, gpu in holders), default=0))
        axes.set(xlabel="GPU", xticks=columns, yticks=range(len(rows)), yticklabels=list(rows))
        axes.invert_yaxis()
        return axes

    def _repr_html_(self) -> str:
        """Return the terms and how many jobs are decided how, as a notebook shows them."""
        counts = Counter(str(decision.decision) for decision in self.decisions)
        said = ", ".join(f"{number} {kind}" for kind, number in counts.items())
        rows = [
            (term.name, term.value, term.bound, term.status)
            for term in (self.certificate.terms if self.certificate else ())
        ]
        return html_table(f"Plan: {said}", ("term", "value", "bound", "status"), rows)

    def completed(self, names: Iterable[str]) -> Self:
        """Return the plan with the decisions of these jobs, in their order: who has none waits."""
        known = {decision.job: decision for decision in self.decisions}
        made = tuple(
            known.get(name) or Decision(job=name, decision=DecisionKind.WAIT) for name in names
        )
        return self if made == self.decisions else self.model_copy(update={"decisions": made})

    def without_jobs(self, names: Collection[str]) -> Self:
        """Return the plan without the decisions of some jobs; itself for none."""
        if not names:
            return self
        left = tuple(decision for decision in self.decisions if decision.job not in names)
        return self.model_copy(update={"decisions": left})

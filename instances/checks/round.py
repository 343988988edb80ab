"""Checks of a round: all references exist, names are unique, and its parts agree."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from weakref import WeakValueDictionary

from placewright.instances.checks.cluster import (
    check_allowed_hosts,
    check_arrangement,
    check_cluster,
    check_host_sets,
    check_uses,
)
from placewright.instances.checks.limits import check_caps, check_caps_of_jobs, check_cells
from placewright.instances.checks.magnitudes import MAX_EACH, check_magnitudes
from placewright.instances.checks.policies import (
    CHECKS,
    PolicyChecks,
    check_fields,
    check_job_fields,
)
from placewright.instances.checks.running import check_running
from placewright.instances.derived import ranges
from placewright.instances.derived.hardware import Hardware, hardware, pooled_resources
from placewright.instances.derived.names import check_known, check_unique, known_hosts
from placewright.instances.documents.base import MAX_TOTAL
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.plan import MAX_MESSAGE
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.quantities import CORE_RESOURCES
from placewright.instances.documents.round import Round
from placewright.instances.errors import ENTRY, Errors, InvalidInputError, Path, merged
from placewright.topology.units import HOST_LEVEL

# Checks of gang rounds whose jobs wait by rules: times and hosts exist, and nobody owns cells.


def _check_times(round_: Round) -> None:
    """Refuse jobs that were submitted later than now, and aged values that are too large."""
    total = 0
    for i, job in enumerate(round_.jobs):
        path: Path = ("jobs", i, "submitted")
        _check_past(job.submitted, round_.now, path)
        if round_.policy.aging is not None and job.running is None:
            each = max(job.value_of(o) for o in range(len(job.options)))
            total += each * round_.policy.aging.limit
            if each * round_.policy.aging.limit > MAX_EACH or total > MAX_TOTAL:
                raise InvalidInputError(
                    f"values of jobs times it are too large; expected at most {MAX_EACH:,} of one "
                    f"job and {MAX_TOTAL:,} of all",
                    ("policy", "aging", "limit"),
                    round_.policy.aging.limit,
                )


def _check_past(moment: int | None, now: int, path: Path) -> None:
    if moment is not None and moment > now:
        raise InvalidInputError(f"is later than now; expected at most {now}", path, moment)


def _check_sections(round_: Round, hosts: Mapping[str, Hardware]) -> None:
    """Refuse maintenance of unknown hosts, and cells beside what makes jobs wait."""
    errors = Errors()
    for i, outage in enumerate(round_.maintenance):
        errors.note(known_hosts, outage.host, hosts, ("maintenance", i, "host"))
    errors.refuse()
    if not any(tenant.cells for tenant in round_.tenants):
        return
    if round_.maintenance:
        raise _beside_cells(("maintenance",))
    for i, tenant in enumerate(round_.tenants):
        if tenant.preemption is not None:
            raise _beside_cells(("tenants", i, "preemption"))
    for name in ("aging", "backfill"):
        if getattr(round_.policy, name) is not None:
            raise _beside_cells(("policy", name))
    for i, job in enumerate(round_.jobs):
        for name in ("not_before", "held", "preempts"):
            if getattr(job, name) not in (None, False):
                raise _beside_cells(("jobs", i, name))


def _beside_cells(path: Path) -> InvalidInputError:
    problem = "not used where tenants own cells; expected none"
    return InvalidInputError(problem, path)


GANG_CHECKS = PolicyChecks(_check_times, _check_sections)


__all__ = [
    "check_cluster",
    "check_jobs",
    "check_limits",
    "check_round",
    "hosts_by_name",
    "is_checked",
    "known_hosts",
    "trusted",
]

_CHECKED: WeakValueDictionary[int, Round] = WeakValueDictionary()
"""Rounds that passed, by id. What `model_copy` or anything else makes of one is another object."""


def is_checked(round_: Round) -> bool:
    """Whether this very object has passed its checks."""
    return _CHECKED.get(id(round_)) is round_


def trusted(round_: Round) -> Round:
    """Return a round that counts as checked from now on: it was made of a checked one."""
    _CHECKED[id(round_)] = round_
    return round_


def check_round(round_: Round) -> None:
    """Refuse a round whose cluster, names, running jobs or policy make no sense.

    An object is checked once: it is immutable.

    Raises
    ------
    InvalidInputError
        All errors of the cluster, or else of the rest, with their paths in the Round document.
    """
    if is_checked(round_):
        return
    try:
        check_cluster(round_.cluster)
    except InvalidInputError as error:
        raise error.under("cluster") from None
    errors = Errors()
    errors.note(check_unique, (tenant.name for tenant in round_.tenants), "tenant", ("tenants",))
    errors.note(check_unique, (job.name for job in round_.jobs), "job", ("jobs",))
    levels = (*round_.cluster.levels, HOST_LEVEL)
    for level in round_.policy.spread_weights or ():
        errors.note(check_known, level, levels, "level", ("policy", "spread_weights", level))
    hosts = hosts_by_name(round_.cluster)
    errors.note(check_host_sets, round_, hosts)
    errors.note(check_jobs, round_, hosts)
    errors.note(check_limits, round_, hosts)
    errors.refuse()
    check_cells(round_)
    trusted(round_)


def check_jobs(round_: Round, hosts: Mapping[str, Hardware]) -> None:
    """Refuse jobs that name what the round does not have, or cannot be where they run.

    Parameters
    ----------
    round_
        Its cluster, tenants and names have been checked.
    hosts
        From `hosts_by_name`.
    """
    errors = Errors()
    errors.note(_check_names, round_, (*round_.cluster.levels, HOST_LEVEL))
    errors.note(check_allowed_hosts, round_, hosts)
    errors.note(check_arrangement, round_)
    errors.note(check_caps_of_jobs, round_)
    errors.note(check_uses, round_)
    errors.note(check_job_fields, round_)
    with errors:
        check_running(round_, hosts)
        errors.note(CHECKS[round_.policy.formulation].jobs, round_)
        check_magnitudes(round_)
    errors.refuse()


def check_limits(round_: Round, hosts: Mapping[str, Hardware]) -> None:
    """Refuse quotas, reservations or a policy of what the round does not have."""
    errors = Errors()
    with errors:
        check_fields(round_)
        _check_policy(round_.policy, hosts, (*round_.cluster.levels, HOST_LEVEL))
    with errors:
        if "contention" in round_.policy.terms and not (
            round_.cluster.links or round_.cluster.fabric
        ):
            raise InvalidInputError(
                "missing; expected links, whose load the term contention counts",
                ("cluster", "links"),
            )
    errors.note(CHECKS[round_.policy.formulation].sections, round_, hosts)
    errors.note(_check_quotas, round_)
    errors.note(_check_reservations, round_, hosts)
    with errors:
        if "share" in round_.policy.terms and not round_.tenants:
            problem = "missing; expected the tenants that the term share counts"
            raise InvalidInputError(problem, ("tenants",))
    errors.refuse()


def hosts_by_name(cluster: ClusterDocument) -> dict[str, Hardware]:
    """Return what each host of a cluster has; `cluster` must have passed `check_cluster`."""
    hosts: dict[str, Hardware] = {}
    pooled = pooled_resources(cluster)
    for entry in cluster.hosts:
        hosts.update(dict.fromkeys(ranges.expand(entry.name), hardware(entry, pooled)))
    return hosts


def _check_names(round_: Round, levels: Collection[str]) -> None:
    tenants = {tenant.name for tenant in round_.tenants}
    has = (hardware(entry) for entry in round_.cluster.hosts)
    gpu_models = {one.gpu_model for one in has if one.gpu_model is not None}
    errors = Errors()
    for i, job in enumerate(round_.jobs):
        if job.tenant is not None and job.tenant not in tenants:
            errors.note(check_known, job.tenant, tenants, "tenant", ("jobs", i, "tenant"))
        for j, option in enumerate(job.options):
            for k, group in enumerate(option.groups):
                if group.gpu_models is None and group.required is None and group.preferred is None:
                    continue
                path: Path = ("jobs", i, "options", j, "groups", k)
                for m, model in enumerate(group.gpu_models or ()):
                    errors.note(
                        check_known, model, gpu_models, "GPU model", (*path, "gpu_models", m)
                    )
                with errors:
                    if group.required is not None:
                        check_known(group.required, levels, "level", (*path, "required"))
                for m, level in enumerate(group.preferred or ()):
                    errors.note(check_known, level, levels, "level", (*path, "preferred", m))
    errors.refuse()


def _check_quotas(round_: Round) -> None:
    if not round_.caps and not any(t.quota or t.guarantee for t in round_.tenants):
        return
    resources = {name for entry in round_.cluster.hosts for name in entry.resources}
    resources.update(pooled_resources(round_.cluster))
    for job in round_.jobs:
        for option in job.options:
            for group in option.groups:
                resources.update(group.resources)
    resources.update(CORE_RESOURCES)
    errors = Errors()
    errors.note(check_caps, round_, resources)
    for i, tenant in enumerate(round_.tenants):
        for name in tenant.quota:
            errors.note(check_known, name, resources, "resource", ("tenants", i, "quota", name))
        for name, amount in tenant.guarantee.items():
            path: Path = ("tenants", i, "guarantee", name)
            with errors:
                check_known(name, resources, "resource", path)
                if amount > tenant.quota.get(name, amount):
                    raise InvalidInputError(
                        f"expected at most the tenant's quota, {tenant.quota[name]}", path, amount
                    )
    errors.refuse()


def _check_reservations(round_: Round, hosts: Mapping[str, Hardware]) -> None:
    errors = Errors()
    for i, reservation in enumerate(round_.reservations):
        with errors:
            for name in known_hosts(reservation.host, hosts, ("reservations", i, "host")):
                for k, gpu in enumerate(reservation.gpus or ()):
                    if gpu >= hosts[name].gpus:
                        raise InvalidInputError(
                            f"expected a GPU of host {name}, which has {hosts[name].gpus} (from 0)",
                            ("reservations", i, "gpus", k),
                            gpu,
                        )
    errors.refuse()


def _check_policy(policy: Policy, hosts: Mapping[str, Hardware], levels: Collection[str]) -> None:
    errors = Errors()
    for i, name in enumerate(policy.vacate):
        errors.note(known_hosts, name, hosts, ("policy", "vacate", i))
    with errors:
        if policy.freeing is not None:
            check_known(policy.freeing.level, levels, "level", ("policy", "freeing", "level"))
    errors.note(_check_mix, policy, hosts)
    for term, field, given in (
        ("remaining", "vacate", bool(policy.vacate)),
        ("freed", "freeing", policy.freeing is not None),
    ):
        if given == (term in policy.terms):
            continue
        problem = (
            f"given without the term {term}; expected {term} in policy.terms"
            if given
            else f"missing; expected what the term {term} counts"
        )
        errors.add(InvalidInputError(problem, ("policy", field)))
    errors.refuse()


def _check_mix(policy: Policy, hosts: Mapping[str, Hardware]) -> None:
    if policy.mix is None:
        return
    if "stranded" not in policy.terms:
        raise InvalidInputError(
            "given without the term stranded; expected stranded in policy.terms", ("policy", "mix")
        )
    known = {one.gpu_model for one in hosts.values() if one.gpu_model is not None}
    errors = Errors()
    for i, kind in enumerate(policy.mix):
        for m, model in enumerate(kind.gpu_models or ()):
            errors.note(
                check_known, model, known, "GPU model", ("policy", "mix", i, "gpu_models", m)
            )
    errors.refuse()


# Lenient checks: pending jobs that make no sense wait, and the round is not refused for them.


def checked(round_: Round) -> Round:
    """Return a round that is known to make sense: every public function begins with this.

    Of a round with invalid jobs it is found out again which are, so the result is another object.

    Raises
    ------
    InvalidInputError
        It is no Round, or one that a loader would refuse; with the loader's words.
    """
    if not isinstance(round_, Round):
        expected, given = "expected a Round, as loaders return it", type(round_).__name__
        raise InvalidInputError(expected, ("round",), given)
    if round_.invalid:
        return with_invalid_jobs(round_)
    check_round(round_)
    return round_


def with_invalid_jobs(round_: Round) -> Round:
    """Return a round that says which of its pending jobs are invalid; the others are legal.

    Invalid is a pending job with an error at any of its fields but its name, such as an unknown
    tenant.

    Raises
    ------
    InvalidInputError
        All errors elsewhere: in running jobs, or outside of jobs.
    """
    if is_checked(round_):
        return round_
    found: dict[str, list[InvalidInputError]] = {}
    rest = round_
    while True:
        try:
            check_round(rest)
        except InvalidInputError as error:
            kept = [i for i, job in enumerate(round_.jobs) if job.name not in found]
            refused: list[InvalidInputError] = []
            for one in error.errors:
                name = _job(one.path, rest)
                if name is None:
                    refused.append(one.at(in_whole_round(one.path, kept)))
                else:
                    found.setdefault(name, []).append(one.at(one.path[ENTRY:]))
            if refused:
                raise merged(refused) from None
            # What is checked of a legal round only may find more.
            rest = round_.without_jobs(found)
        else:
            messages = {name: _message(of) for name, of in found.items()}
            return trusted(round_.with_invalid(messages))


def _job(path: Path, round_: Round) -> str | None:
    """Return the pending job into whose fields a path leads, None if it leads elsewhere."""
    if path[:1] != ("jobs",) or len(path) <= ENTRY or path[ENTRY] == "name":
        return None
    job = round_.jobs[int(path[1])]
    return job.name if job.running is None else None


def in_whole_round(path: Path, kept: Sequence[int]) -> Path:
    """Return where a path of the round with the kept jobs alone leads in the whole round."""
    if path[:1] != ("jobs",) or len(path) < ENTRY:
        return path
    return ("jobs", kept[int(path[1])], *path[ENTRY:])


def _message(errors: list[InvalidInputError]) -> str:
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return errors[0].text()[: MAX_MESSAGE - len(more)] + more

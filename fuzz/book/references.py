"""Which jobs are invalid: they name what the round does not have (docs/file-formats.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from fuzz.book.accounts import counts_by_model
from fuzz.policy import Raw

HOST = "host"


def invalid_jobs(round_: Raw, hosts: Collection[str]) -> frozenset[str]:
    """Return the pending jobs that name a tenant, level, GPU model, host or set that is not there.

    Parameters
    ----------
    round_
        A round of gangs.
    hosts
        The names of its hosts.
    """
    cluster = round_["cluster"]
    known = {
        "tenant": {tenant["name"] for tenant in round_.get("tenants", ())},
        "level": {*cluster.get("levels", ()), HOST},
        "model": {host.get("gpu_model") for host in cluster["hosts"]},
        "host": set(hosts),
        "cap": set(round_.get("caps", ())),
        "host set": set(round_.get("host_sets", ())),
    }
    return frozenset(
        job["name"]
        for job in round_.get("jobs", ())
        if job.get("running") is None
        and (
            any(name not in known[kind] for kind, name in _named(job))
            or not _counts_in_caps(job, round_.get("caps", {}))
        )
    )


def _counts_in_caps(job: Raw, caps: Raw) -> bool:
    """Whether a job counts in each of its caps once, and what it counts is known beforehand."""
    names = job.get("caps", ())
    models = {m: 0 for name in names for m in caps.get(name, {}).get("gpus_by_model", {})}
    return len(set(names)) == len(names) and (
        not models or all(counts_by_model(option["groups"], models) for option in job["options"])
    )


def _named(job: Raw) -> Iterator[tuple[str, str]]:
    """Yield what a job names, and of which kind it is; ranges of hosts are known."""
    if job.get("tenant") is not None:
        yield "tenant", job["tenant"]
    yield from (("cap", name) for name in job.get("caps", ()))
    if job.get("anti_affinity") is not None:
        yield "level", job["anti_affinity"]["level"]
    for option in job["options"]:
        for part in (option, *option["groups"]):
            if part.get("required") is not None:
                yield "level", part["required"]
        for group in option["groups"]:
            yield from (("level", name) for name in group.get("preferred") or ())
            yield from (("model", name) for name in group.get("gpu_models") or ())
            yield from (("host", name) for name in group.get("hosts") or () if "[" not in name)
            yield from (("host set", name) for name in group.get("host_sets", ()))
            if group.get("slices") is not None:
                yield "level", group["slices"]["required"]
            if group.get("apart") is not None:
                yield "level", group["apart"]["level"]

"""Limits of users, QOS and accounts above others as caps: which jobs count in which of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from placewright.instances.converters.slurm.limits import Limits
from placewright.instances.converters.slurm.records import SlurmJob
from placewright.instances.documents.base import NAME

MAX_NAME = 253
_NAME = re.compile(NAME)


def caps_of(job: SlurmJob, limits: Limits) -> dict[str, int]:
    """Return the GPUs of each cap that a job counts in, by the cap's name.

    An account counts for all accounts below it; the one that is a job's tenant has a quota instead.
    """
    return {
        name: gpus
        for name, gpus in _named(job, limits)
        if _NAME.fullmatch(name) and len(name) <= MAX_NAME
    }


def _named(job: SlurmJob, limits: Limits) -> Iterator[tuple[str, int]]:
    account, user = job.account or "", job.user_name
    tenant = limits.tenant(account)
    for above in limits.chain(account):
        if above in limits.gpus and above != tenant:
            yield f"account/{above}", limits.gpus[above]
    if (account, user) in limits.users:
        yield f"account/{account}/user/{user}", limits.users[account, user]
    qos = limits.qos.get(job.qos)
    if qos is None:
        return
    for name, gpus in (
        (f"qos/{job.qos}", qos.total),
        (f"qos/{job.qos}/user/{user}", qos.per_user if user else None),
        (f"qos/{job.qos}/account/{account}", qos.per_account if account else None),
    ):
        if gpus is not None:
            yield name, gpus

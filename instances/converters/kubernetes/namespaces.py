"""What a namespace lets be made: quotas (ResourceQuota) of its pods, as caps.

The API server refuses pods beyond them when they are made. So they bind workloads whose pods are
still to be made, and no pod that is there, running or pending: it has been counted.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from pydantic import Field

from placewright.instances.converters.kubernetes.eligibility import State, state_of
from placewright.instances.converters.kubernetes.ledger import EXCEEDED, NAMESPACE_QUOTA
from placewright.instances.converters.kubernetes.nodes import Amounts, accelerators_in, amounts
from placewright.instances.converters.kubernetes.records import Object, Pod, Quantities, Record
from placewright.instances.documents.caps import Cap, Measure
from placewright.instances.documents.caveats import Caveat
from placewright.instances.documents.job import MAX_CAPS, Job
from placewright.instances.documents.source_keys import KUBERNETES_NAMESPACE

QUOTA_HELD = "quota-held:"
"""What the name of a job begins with that holds quota, and nothing else."""

_LONG = 100
_PLAIN = ("cpu", "memory", "pods", "ephemeral-storage")


class _Spec(Record):
    hard: Quantities = Field(default_factory=dict)
    scopes: object = None
    scopeSelector: object = None  # noqa: N815


class _Status(Record):
    used: Quantities = Field(default_factory=dict)


class ResourceQuota(Object):
    """How much the pods of a namespace may ask for, all together."""

    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def keys(self) -> dict[str, str]:
        """How it calls the resources that it limits, of those that pods request."""
        found = {}
        for key in self.spec.hard:
            name = "pods" if key == "count/pods" else key.removeprefix("requests.")
            if name in _PLAIN or name.startswith("hugepages-") or ("/" in name and name != key):
                found[name] = key
        return found

    @property
    def is_plain(self) -> bool:
        """Whether it is of all pods, and of what they request."""
        scoped = self.spec.scopes or self.spec.scopeSelector
        return not scoped and not any(key.startswith("limits.") for key in self.spec.hard)


class NamespaceQuotas:
    """The quotas of namespaces.

    `pods`, `asked`: all pods, and what each asks for, by its key. `kinds`: accelerators that pods
    of the round ask for: GPUs of several have no cap of their own.
    """

    def __init__(
        self,
        quotas: Iterable[ResourceQuota],
        pods: Iterable[Pod],
        asked: Mapping[tuple[str, str], Amounts],
        kinds: Collection[str],
    ) -> None:
        self._kinds = {*kinds}
        self._of = defaultdict[str, list[ResourceQuota]](list)
        for one in quotas:
            self._of[one.metadata.namespace or ""].append(one)
        self._held = defaultdict[str, Amounts](Amounts)
        for pod in pods if self._of else ():
            if state_of(pod) is not State.ENDED:
                self._held[pod.metadata.namespace or ""].add(asked[pod.key])
        self._caps: dict[str, ResourceQuota] = {}

    def rules(self, namespace: str, *, made: bool) -> Iterator[Caveat]:
        """Yield what is told of a job of a namespace whose pods are `made`, or still to be made."""
        for one in self._of.get(namespace, ()):
            if made and any(used > hard for hard, used in self._amounts(one).values()):
                yield EXCEEDED.caveat()
            if not made and (not one.is_plain or len(self._said(one)) < len(one.keys)):
                yield NAMESPACE_QUOTA.caveat()

    def held(self, jobs: Sequence[Job], unmade: Collection[str]) -> dict[str, dict[str, int]]:
        """Return the caps that some jobs need, each with what others hold of it than running ones.

        `unmade`: the jobs whose pods are to be made, by name; other quotas limit nobody.
        """
        found = {}
        for space in sorted({_space(job) for job in jobs if job.name in unmade}):
            running = [job for job in jobs if job.running is not None and _space(job) == space]
            for one in self._of.get(space, ()):
                name, said = _called(one), self._said(one)
                if not one.is_plain or not said:
                    continue
                self._caps[name] = one
                left = {
                    key: used - sum(_amount_of(job, key) for job in running)
                    for key, (_, used) in said.items()
                }
                if uses := {f"{key}@{name}": n for key, n in left.items() if n > 0}:
                    found[name] = uses
        return found

    def with_caps(self, job: Job, *, counts: bool) -> Job:
        """Return a job that runs, or whose pods are to be made, counted in its quotas."""
        caps = [name for name in self._caps if job.name == f"{QUOTA_HELD}{name}"]
        uses: dict[str, str] = {}
        for name, one in self._caps.items() if counts else ():
            if one.metadata.namespace == _space(job):
                caps.append(name)
                uses |= {f"{key}@{name}": key for key in self._said(one)}
        options = tuple(
            one.model_copy(
                update={"uses": {**one.uses, **{n: one.amount_of(k) for n, k in uses.items()}}}
            )
            for one in job.options
        )
        update = {"caps": (*job.caps, *caps)[:MAX_CAPS], "options": options}
        return job.model_copy(update=update) if caps else job

    def caps(self) -> dict[str, Cap]:
        """Return the quotas that jobs count in."""
        return {
            name: Cap.of(
                {
                    Measure("resources", f"{key}@{name}"): hard
                    for key, (hard, _) in self._said(one).items()
                }
            )
            for name, one in sorted(self._caps.items())
        }

    def _said(self, quota: ResourceQuota) -> dict[str, tuple[int, int]]:
        """Return the hard limits and what is used of them, as far as a round can say them."""
        found = {}
        for name, (hard, used) in self._amounts(quota).items():
            if not accelerators_in([name]):
                found[name] = hard, used
            elif self._kinds <= {name}:
                found["gpu"] = 1000 * hard, 1000 * used
        return {name: both for name, both in found.items() if len(name) <= _LONG}

    def _amounts(self, quota: ResourceQuota) -> dict[str, tuple[int, int]]:
        """Return the hard limits and what is used of them, in pieces, millicores and MiB."""
        hard, used = quota.spec.hard, quota.status.used
        pods = self._held[quota.metadata.namespace or ""]
        found = {}
        for name, key in quota.keys.items():
            held = amounts({name: used[key]}, up=True) if key in used else pods
            found[name] = _of(name, amounts({name: hard[key]}, up=False)), _of(name, held)
        return found


def _called(quota: ResourceQuota) -> str:
    name = quota.name
    short = name if len(name) <= _LONG else hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"resource-quota/{short}"


def _space(job: Job) -> str:
    return job.annotations.get(KUBERNETES_NAMESPACE, "")


def _amount_of(job: Job, resource: str) -> int:
    running = job.running
    return 0 if running is None else job.options[running.option].amount_of(resource)


def _of(name: str, has: Amounts) -> int:
    if accelerators_in([name]):
        return has.gpus
    known = {"cpu": has.cpu, "memory": has.memory}
    return known[name] if name in known else has.others.get(name, 0)

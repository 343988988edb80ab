"""Limits of Kueue as caps: of a cohort on its queues together, and of a queue on each GPU model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.kueue import Queues, of_gpus
from placewright.instances.converters.kubernetes.kueue_records import ClusterQueue
from placewright.instances.converters.support.model_options import with_one_model_each
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.caps import Cap
from placewright.instances.documents.job import MAX_CAPS, Job

_NOTHING = Decimal(0)


class QueueCaps:
    """The caps of ClusterQueues and of the cohorts that they are in.

    Parameters
    ----------
    queues
    models
        The GPU model of each flavor of which all nodes have one.
    """

    def __init__(self, queues: Queues, models: Mapping[str, str]) -> None:
        self._queues, self._models = queues, models
        self._caps: dict[str, Cap] = {}
        self._of_queue: dict[str, tuple[str, ...]] = {}
        members: dict[str, list[str]] = {}
        for name, queue in sorted(queues.cluster.items()):
            for cohort in queues.cohorts_of(queue):
                members.setdefault(cohort, []).append(name)
        for cohort, names in members.items():
            self._add_cohort(cohort, names)
        for name, queue in sorted(queues.cluster.items()):
            self._add_queue(name, queue)
            found = [f"cohort/{cohort}" for cohort in queues.cohorts_of(queue)]
            mine = [one for one in (f"queue/{name}", *found) if one in self._caps]
            self._of_queue[name] = tuple(mine[:MAX_CAPS])

    def with_caps(
        self, jobs: Collection[Job], model_of: Mapping[str, str | None], book: Bookkeeping
    ) -> tuple[Job, ...]:
        """Return jobs that count in the caps of their queues."""
        return tuple(self._with_caps(job, model_of, book) for job in jobs)

    def used_by(self, jobs: Collection[Job]) -> dict[str, Cap]:
        """Return the caps in which some jobs count."""
        used = {name for job in jobs for name in job.caps}
        return {name: cap for name, cap in sorted(self._caps.items()) if name in used}

    def says_flavors_of(self, queue: str) -> bool:
        """Whether what a queue has of each flavor is a cap of GPUs by model."""
        return f"queue/{queue}" in self._caps

    def _with_caps(self, job: Job, model_of: Mapping[str, str | None], book: Bookkeeping) -> Job:
        names = self._of_queue.get(job.tenant or "", ())
        capped = {model for name in names for model in self._caps[name].gpus_by_model}
        if capped:
            known = with_one_model_each(job, model_of, capped)
            if known is None:
                book.cannot_say("a quota per flavor, of a job of several models", job.name)
                names = tuple(n for n in names if not self._caps[n].gpus_by_model)
            job = known or job
        return job.model_copy(update={"caps": names}) if names else job

    def _add_cohort(self, cohort: str, names: Collection[str]) -> None:
        """Add what the queues in a cohort may hold together, if that is more than one's quota."""
        cohorts, own = self._queues.cohorts, self._queues.cohorts.get(cohort)
        inside = [self._queues.cluster[name] for name in names]
        inside += [
            one for n, one in cohorts.items() if n == cohort or cohort in self._queues.above(n)
        ]
        by_model = self._by_model(inside)
        if len(names) < 2 and not by_model:
            return
        total = sum((amount for one in inside for amount in _totals(one)), _NOTHING)
        if self._queues.root_of(cohort) != cohort:
            borrowed = [] if own is None else [one.borrowingLimit for _, one in of_gpus(own)]
            limits = [one for one in borrowed if one is not None]
            if not borrowed or len(limits) < len(borrowed):
                return  # it may borrow what the outermost one has
            total, by_model = total + sum(limits, _NOTHING), {}
        if any(True for one in inside for _ in of_gpus(one)):
            self._caps[f"cohort/{cohort}"] = Cap(gpus=_milli(total), gpus_by_model=by_model)

    def _by_model(self, queues: Collection[ClusterQueue]) -> dict[str, str]:
        """Return the nominal GPUs of each model, if flavors are of several and all are known."""
        flavors = [pair for queue in queues for pair in of_gpus(queue)]
        if any(flavor not in self._models for flavor, _ in flavors):
            return {}
        amounts: dict[str, Decimal] = {}
        for flavor, one in flavors:
            model = self._models[flavor]
            amounts[model] = amounts.get(model, _NOTHING) + (one.nominalQuota or _NOTHING)
        return {m: _milli(amount) for m, amount in amounts.items()} if len(amounts) > 1 else {}

    def _add_queue(self, name: str, queue: ClusterQueue) -> None:
        """Add what a queue may hold of each GPU model, if it has flavors of several."""
        flavors = [flavor for flavor, _ in of_gpus(queue)]
        if any(flavor not in self._models for flavor in flavors):
            return
        if len({self._models[flavor] for flavor in flavors}) < 2:
            return
        amounts: dict[str, Decimal | None] = {}
        for flavor, one in of_gpus(queue):
            model = self._models[flavor]
            most: Decimal | None = one.nominalQuota or _NOTHING
            if queue.cohort is not None:
                lent = one.borrowingLimit
                most = None if lent is None or most is None else most + lent
            before = amounts.get(model, _NOTHING)
            amounts[model] = None if before is None or most is None else before + most
        by_model = {model: _milli(most) for model, most in amounts.items() if most is not None}
        if by_model:
            self._caps[f"queue/{name}"] = Cap(gpus_by_model=by_model)


def _totals(queue: ClusterQueue) -> Iterator[Decimal]:
    return (one.nominalQuota or _NOTHING for _, one in of_gpus(queue))


def _milli(gpus: Decimal) -> str:
    return f"{min(MAX_AMOUNT, int(gpus * 1000))}m"

"""Leave to preempt: whose jobs a job may preempt, by precedence and by the rules of the round."""

from __future__ import annotations

from placewright.instances.documents.job import Job
from placewright.instances.documents.policy import Preemption
from placewright.instances.documents.round import Round
from placewright.instances.verify.precedence import Precedence
from placewright.instances.verify.rules.gang.entitlement import Entitlement


class Leave:
    """Which running jobs may be preempted for which others.

    Attributes
    ----------
    ruled : bool
        Whether the round says more than precedence does.
    """

    def __init__(self, round_: Round, entitlement: Entitlement) -> None:
        self._entitlement = entitlement
        self._rules = {tenant.name: tenant.preemption for tenant in round_.tenants}
        self.ruled = any(self._rules.values()) or any(j.preempts is not None for j in round_.jobs)
        self._movable = [j for j in round_.jobs if j.running is not None and not j.running.pinned]

    def over(self, job: Job, option: int, victim: Job) -> bool:
        """Whether a job with an option may preempt a running one, promises left aside."""
        if victim.running is None or victim is job:
            return False
        mine = self._entitlement.of(job, option)
        theirs = self._entitlement.of(victim, victim.running.option)
        if mine <= theirs:
            return False
        if job.preempts is not None and not set(job.preempts) & set(victim.caps):
            return False
        rule = self._rules.get(job.tenant or "")
        return rule is None or self._grants(rule, job, victim, mine, theirs)

    def over_nobody(self, job: Job, option: int) -> bool:
        """Whether a job with an option may preempt none of those that run and are not pinned."""
        return self.ruled and not any(self.over(job, option, one) for one in self._movable)

    def _grants(
        self, rule: Preemption, job: Job, victim: Job, mine: Precedence, theirs: Precedence
    ) -> bool:
        lower = theirs.priority < mine.priority
        if job.tenant == victim.tenant:
            return rule.within == "lower" and lower
        of_victim = self._rules.get(victim.tenant or "")
        together = of_victim is not None and of_victim.cohort == rule.cohort is not None
        if not together or theirs.entitled:
            return False
        if mine.entitled:
            return rule.reclaim == "any" or (rule.reclaim == "lower" and lower)
        up_to = theirs.priority if rule.borrow_up_to is None else rule.borrow_up_to
        return rule.borrow == "lower" and lower and theirs.priority <= up_to

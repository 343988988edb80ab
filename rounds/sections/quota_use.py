"""What is used of quotas and caps after a plan, as reasons to wait speak of it (docs/plans.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from placewright.formulations.gang.problem.jobs import NOBODY
from placewright.formulations.gang.problem.limits import Account, accounts_of, limits_of
from placewright.formulations.plan_messages import Candidate
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.round import Round
from placewright.rounds.sections.fixed_states import FixedStates, Precedence

Amounts: TypeAlias = dict[Measure, int]


class RegionQuotas(NamedTuple):
    """The quotas of a region, and which jobs they are about."""

    name: str
    quotas: Mapping[str, int]
    jobs: Collection[int]


class _GivenBack(NamedTuple):
    """What is used if a preempted job and those of at least its precedence had stayed."""

    victim: int
    used: Amounts


class QuotaUse:
    """What is used of quotas and caps after a plan, and what may be used.

    What a preempted job gave back is for starts alone that may preempt it. So for any other job
    what is used counts as if it and the preempted jobs above it had stayed that no others may
    preempt, and the starts that may preempt it had not come, if that is more.

    Parameters
    ----------
    states
        Says who may preempt whom.
    exempt
        Preempted jobs whose quota anybody may have.
    region
        For the quotas of a region: its name, these by tenant, and which jobs run there before the
        round or start there.
    """

    def __init__(
        self,
        round_: Round,
        candidate: Candidate,
        states: FixedStates,
        exempt: Collection[int] = (),
        region: RegionQuotas | None = None,
    ) -> None:
        self._where = {} if region is None else {"region": region.name}
        limits = limits_of(round_)
        if region is not None:
            of = region.quotas.items()
            limits = {("tenant", tenant): {Measure("gpus"): quota} for tenant, quota in of}
        before = {account: dict.fromkeys(measures, 0) for account, measures in limits.items()}
        self._stay = {account: dict(none) for account, none in before.items()}
        self._jobs, self._states = round_.jobs, states
        starts: dict[Account, list[tuple[int, Option]]] = {account: [] for account in limits}
        stopped: dict[Account, list[tuple[int, Option]]] = {account: [] for account in limits}
        for j, job in enumerate(round_.jobs if limits else ()):
            for account in accounts_of(job):
                if account not in limits or not (region is None or j in region.jobs):
                    continue
                if job.running is not None:
                    option = job.options[job.running.option]
                    _add(before[account], option)
                    if j not in candidate.preempted:
                        _add(self._stay[account], option)
                    elif j not in exempt:
                        stopped[account].append((j, option))
                elif j in candidate.starts:
                    starts[account].append((j, job.options[candidate.starts[j][0]]))
        self.limit = {
            account: {measure: max(most, before[account][measure]) for measure, most in of.items()}
            for account, of in limits.items()
        }
        self.used = {account: dict(stay) for account, stay in self._stay.items()}
        for account, mine in starts.items():
            for _, option in mine:
                _add(self.used[account], option)
        self._given_back = {
            account: list(self._with_victims(account, starts[account], mine))
            for account, mine in stopped.items()
        }

    def _with_victims(
        self,
        account: Account,
        starts: list[tuple[int, Option]],
        stopped: list[tuple[int, Option]],
    ) -> Iterator[_GivenBack]:
        """Yield what is used once preempted jobs are back, one for all that are alike."""
        states = self._states
        ranks = {j: states.precedence(j) for j, _ in stopped}
        over = {j: states.over(j) for j, _ in stopped}
        first = {(ranks[j], over[j], states.kind(j)): j for j, _ in reversed(stopped)}
        for victim in first.values():
            used = dict(self._stay[account])
            for j, option in stopped:
                if ranks[j] >= ranks[victim] and over[j] <= over[victim]:
                    _add(used, option)
            for j, option in starts:
                if j not in over[victim]:
                    _add(used, option)
            yield _GivenBack(victim, used)

    def excess(
        self, job: Job, option: int, precedence: Precedence, leave: int = NOBODY
    ) -> dict[str, Any]:
        """Return by how much an option exceeds a quota or cap, nothing if none; the worst."""
        worst: dict[str, Any] = {}
        for account in accounts_of(job) if self.limit else ():
            uses: list[tuple[dict[str, str], Amounts]] = [({}, self.used.get(account, {}))]
            uses += [
                ({"job": self._jobs[one.victim].name}, one.used)
                for one in self._given_back.get(account, ())
                if self._states.stays(one.victim, precedence, leave)
            ]
            for victim, used in uses:
                for measure, limit in self.limit.get(account, {}).items():
                    asked = measure.asked_by(job.options[option])
                    excess = used[measure] + asked - limit
                    if excess > 0 and (
                        not worst or excess * worst["asked"] > worst["excess"] * asked
                    ):
                        worst = {
                            account[0]: account[1],
                            **measure.facts,
                            "asked": asked,
                            "used": used[measure],
                            "limit": limit,
                            "excess": excess,
                            **victim,
                            **self._where,
                        }
        return worst


def _add(sums: Amounts, option: Option) -> None:
    for measure in sums:
        sums[measure] += measure.asked_by(option)

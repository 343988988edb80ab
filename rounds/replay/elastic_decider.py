"""Sizes of running jobs in a replay: who runs with which option, and where."""

from __future__ import annotations

from typing import Any

import numpy as np

from placewright.array_types import Ints
from placewright.instances.traces.trace import SPEED_BY_OPTION, SPREAD_SPEED, RunOption
from placewright.rounds.policies.base import Columns, ElasticPolicy, Offer
from placewright.rounds.replay.book import Place, Places
from placewright.rounds.replay.loop import Decider, Loop
from placewright.rounds.settings import InternalError


class ElasticDecider(Decider):
    """Asks a policy for an option of each job, and places those that start or change.

    Who keeps its option keeps its place. All that change are taken off their GPUs and placed anew
    with those that start, the largest first, on their own hosts where these have room; a job that
    no hosts have room for gets the next smaller option of its model that fits, or waits. With
    places that are free all jobs are placed anew in this way, where more then get their options.
    """

    def __init__(self, policy: ElasticPolicy, places: Places = "kept") -> None:
        super().__init__()
        self._policy, self._chooser, self._places = policy, policy.chooser(), places

    def state(self) -> Any:
        """Return the state of the policy."""
        return self._chooser.state()

    def restore(self, state: Any) -> None:
        """Take a state over."""
        self._chooser.restore(state)

    def close(self) -> None:
        """End what the policy has started."""
        self._chooser.close()

    def arrive(self, loop: Loop, job: int) -> None:
        """Learn nothing: all jobs alive are looked at in each decision."""

    def leave(self, loop: Loop, job: int) -> None:
        """Tell the policy of a job that has ended."""
        self._chooser.end(Columns(loop, np.array([job]), self._policy.sees))

    def wakes_us(self, loop: Loop) -> int:
        """Return when the policy wants to choose again."""
        return self._chooser.wakes_us(self._columns(loop))

    def _columns(self, loop: Loop) -> Columns:
        jobs = np.fromiter(loop.alive, dtype=np.int64, count=len(loop.alive))
        return Columns(loop, jobs, self._policy.sees)

    def decide(self, loop: Loop) -> None:
        """Choose options, and let jobs run with them."""
        jobs = self._columns(loop)
        if not len(jobs):
            return
        offer = offer_of(loop, jobs.numbers)
        chosen = self._chooser.choose(jobs, offer)
        taken = chosen[chosen >= 0]
        held = np.bincount(
            offer.model[taken], weights=offer.gpus[taken], minlength=len(offer.open_gpus)
        )
        if len(chosen) != len(jobs) or (held > offer.open_gpus).any():
            raise InternalError(f"{self._policy.name} gives out {held} of {offer.open_gpus} GPUs")
        options = dict(zip(jobs.numbers.tolist(), chosen.tolist(), strict=True))
        loop.assign_all(self._placed(loop, options))

    def _placed(self, loop: Loop, chosen: dict[int, int]) -> dict[int, tuple[int, Place]]:
        """Return option and place of each job that runs; the ledger has them then."""
        ledger = loop.ledger
        for place in loop.place.values():
            ledger.release(place)
        kept = {
            job: (chosen[job], place)
            for job, place in loop.place.items()
            if chosen[job] == loop.option[job]
        }
        runs = self._fitted(loop, chosen, kept)
        wanted = {job: option for job, option in chosen.items() if option >= 0}

        def lacking(runs: dict[int, tuple[int, Place]]) -> int:
            return sum(job not in runs or runs[job][0] != wanted[job] for job in wanted)

        if self._places == "free" and lacking(runs):
            for _, place in runs.values():
                ledger.release(place)
            anew = self._fitted(loop, chosen, {})
            if lacking(anew) < lacking(runs):
                return anew
            for _, place in anew.values():
                ledger.release(place)
            for _, place in runs.values():
                ledger.take(place)
        return runs

    def _fitted(
        self, loop: Loop, chosen: dict[int, int], kept: dict[int, tuple[int, Place]]
    ) -> dict[int, tuple[int, Place]]:
        """Place all others beside those that are kept, and take their GPUs."""
        ledger, options, runs = loop.ledger, loop.trace.options, dict(kept)
        for _, place in kept.values():
            ledger.take(place)
        todo = [job for job, option in chosen.items() if option >= 0 and job not in runs]
        todo.sort(key=lambda job: -options[chosen[job]].gpus)
        for job in todo:
            found = self._place(loop, job, chosen[job])
            if found is not None:
                ledger.take(found[1])
                runs[job] = found
        return runs

    def _place(self, loop: Loop, job: int, option: int) -> tuple[int, Place] | None:
        """Return the place of a job with an option, or with the next smaller one that has one."""
        ledger, trace = loop.ledger, loop.trace
        own = loop.place.get(job, ())
        spread = trace.extra.get(SPREAD_SPEED)
        for number in smaller(trace.options, trace.extra[SPEED_BY_OPTION][job], option):
            model = ledger.models.index(trace.options[number].gpu_model)
            place = ledger.find_of(model, trace.options[number].gpus, own)
            if place is None and spread is not None and spread[job, number]:
                place = ledger.find_spread(model, trace.options[number].gpus, own)
            if place is not None:
                return number, place
        return None

    def survives(self, loop: Loop, job: int, host: int) -> tuple[int, Place] | None:
        """Return the largest option that the other hosts of a job have the GPUs for."""
        left = [(other, gpus) for other, gpus in loop.place[job] if other != host]
        room = sum(gpus for _, gpus in left)
        if not (self._policy.survives and left):
            return None
        trace = loop.trace
        speeds = trace.extra[SPEED_BY_OPTION][job]
        spread = trace.extra.get(SPREAD_SPEED)
        for number in smaller(trace.options, speeds, int(loop.option[job])):
            gpus, place = trace.options[number].gpus, list[tuple[int, int]]()
            if gpus > room:
                continue
            for other, there in left:
                place += [(other, min(there, gpus))] if gpus else []
                gpus -= min(there, gpus)
            if spread is None or spread[job, number] or not loop.ledger.is_spread(tuple(place)):
                return number, tuple(place)
        return None

    def returns(self, loop: Loop, host: int) -> int:
        """Return the host on loan, like this one, that takes the fewest GPUs from jobs.

        First those of jobs that stop with it, all of theirs, then those of jobs that go on.
        """
        ledger = loop.ledger
        like = [
            other
            for other in (loop.on_loan if self._policy.returns else ())
            if other not in ledger.closed
            and ledger.sizes[other] == ledger.sizes[host]
            and ledger.model_of[other] == ledger.model_of[host]
        ]
        costs = {other: [0, 0] for other in like}
        for job, place in loop.place.items():
            for other, gpus in place:
                if other in costs:
                    goes_on = self.survives(loop, job, other) is not None
                    costs[other][0] += 0 if goes_on else loop.gpus[job]
                    costs[other][1] += gpus
        return min(like, key=lambda other: (costs[other], other != host), default=host)


def offer_of(loop: Loop, jobs: Ints) -> Offer:
    """Return what a policy may choose from for these jobs now."""
    options, models = loop.trace.options, loop.ledger.models
    gpus = np.array([option.gpus for option in options], dtype=np.int64)
    start = np.repeat(loop.start_us[jobs][:, None], len(options), axis=1)
    if loop.costs.by_gpus_us:
        start[:] = [loop.costs.start(option.gpus, 0) for option in options]
    return Offer(
        gpus=gpus,
        model=np.array([models.index(option.gpu_model) for option in options], dtype=np.int64),
        open_gpus=np.array(loop.ledger.open_by_model, dtype=np.int64),
        start_us=start,
    )


def smaller(options: tuple[RunOption, ...], speeds: Ints, option: int) -> list[int]:
    """Return an option and those of its GPU model with fewer GPUs, the fastest of each number."""
    of = options[option]
    found = [
        number
        for number, other in enumerate(options)
        if other.gpu_model == of.gpu_model and other.gpus < of.gpus and speeds[number]
    ]
    found.sort(key=lambda number: (-options[number].gpus, -int(speeds[number])))
    return [option, *found]

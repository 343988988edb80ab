"""Policies that choose the sizes of jobs: which option each runs with, by how fast it is with it.

All of them leave out options with which a job is no faster than with fewer GPUs of the same model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.instances.traces.trace import FULL_SPEED, NEVER, SECOND, SPEED_BY_OPTION
from placewright.rounds.policies.base import Chooser, Columns, ElasticPolicy, Offer

MAX_STATES = 100_000
"""Of the knapsack: numbers of free GPUs of each model."""

LEAST_GAIN = 1e-4
"""What a job that runs is worth at least: any is better than none."""

Rule: TypeAlias = Callable[[Columns, Offer], Ints]


class Memoryless(Chooser):
    """Chooses by a function of what it sees now."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def choose(self, jobs: Columns, offer: Offer) -> Ints:
        """Return an option for each job."""
        return self._rule(jobs, offer)


def useful_speeds(jobs: Columns, offer: Offer) -> Floats:
    """Return speeds by option (jobs, options); 0 where fewer GPUs of the model are no slower."""
    speeds: Ints = getattr(jobs, SPEED_BY_OPTION)
    found: Floats = speeds / FULL_SPEED
    order = np.lexsort((offer.gpus, offer.model))
    best, model = np.zeros(len(speeds)), -1
    for option in order.tolist():
        if offer.model[option] != model:
            best, model = np.zeros(len(speeds)), int(offer.model[option])
        column = found[:, option]
        column[column <= best] = 0
        best = np.maximum(best, column)
    return found


def knapsack(values: Floats, offer: Offer) -> Ints:
    """Return the options of greatest total value that fit: multiple-choice knapsack, exactly.

    By dynamic programming over the GPUs of all models, in O(jobs x options x states), the states
    being the product of their numbers. With more than `MAX_STATES`, one model after the other, each
    with the jobs that the models before it did not take: no optimum then.

    `values` (jobs, options): of each option, -inf where there is none; a job that waits has 0.
    Returns int64 (jobs,), -1 for a job that waits.
    """
    values = np.where(offer.gpus <= offer.open_gpus[offer.model], values, -np.inf)
    sizes = offer.open_gpus + 1
    if np.prod(sizes.astype(np.float64)) <= MAX_STATES:
        return _knapsack(values, offer)
    found = np.full(len(values), -1, dtype=np.int64)
    for model in range(len(sizes)):
        rows, options = (found < 0).nonzero()[0], (offer.model == model).nonzero()[0]
        only = replace(
            offer,
            gpus=offer.gpus[options],
            model=np.zeros(len(options), dtype=np.int64),
            open_gpus=offer.open_gpus[[model]],
        )
        chosen = _knapsack(values[np.ix_(rows, options)], only)
        found[rows[chosen >= 0]] = options[chosen[chosen >= 0]]
    return found


def _knapsack(values: Floats, offer: Offer) -> Ints:
    count, sizes, gpus = len(values), offer.open_gpus + 1, offer.gpus
    every = np.concatenate([np.zeros((count, 1)), values], axis=1)
    first: Ints = every.argmax(axis=1) - 1
    taken = first[first >= 0]
    held = np.bincount(offer.model[taken], weights=gpus[taken], minlength=len(sizes))
    if (held <= offer.open_gpus).all():
        return first
    # State `n` has, by its digits, so many GPUs of each model; the one behind the last is no state.
    states = int(np.prod(sizes))
    digit = np.append(1, np.cumprod(sizes)[:-1])
    number = np.arange(states)
    before = np.empty((1 + len(gpus), states), dtype=np.int64)
    before[0] = number
    for option, model in enumerate(offer.model.tolist()):
        has = number // digit[model] % sizes[model]
        shifted = number - gpus[option] * digit[model]
        before[1 + option] = np.where(has >= gpus[option], shifted, states)
    best = np.append(np.zeros(states), -np.inf)
    choice = np.empty((count, states), dtype=np.int16)
    for job in range(count):
        options = best[before] + every[job][:, None]
        choice[job] = options.argmax(axis=0)
        best[:states] = options.max(axis=0)
    found, state = np.empty(count, dtype=np.int64), states - 1
    for job in range(count - 1, -1, -1):
        found[job] = choice[job, state] - 1
        state = int(before[choice[job, state], state])
    return found


def changed(jobs: Columns, options: int) -> Bools:
    """Return which options are another one than that with which the job runs, (jobs, options)."""
    running = jobs.option[:, None]
    other: Bools = (running >= 0) & (running != np.arange(options))
    return other


# Goodput to a power: Sia, and Pollux before it.
#
# A job is worth its speed relative to its least one, to a negative power: the smaller the power,
# the more of a second GPU goes to those that have one. Speeds with another option than that with
# which it runs count less, the more so the shorter a job has run and the more often it was
# restarted: (age - restarts S) / (age + S) with S seconds of a restart. How much work is left is
# not known.
# Source: Jayaram Subramanya et al., "Sia: heterogeneity-aware, goodput-optimized ML-cluster
# scheduling", SOSP 2023, section 3.4 (p = -0.5, and 1.1 for each job that waits). Qiao et al.,
# "Pollux: co-adaptive cluster scheduling for goodput-optimized deep learning", OSDI 2021, section
# 4.2 (p = -1; the fitness is the power mean of speed-ups).
SIA_WAITS, POLLUX_WAITS = 1.1, 100.0
"""What a job that waits counts, where one that runs at its least speed counts 1: under Sia hardly
more, under Pollux, whose mean it takes to 0, so much that as few wait as can be."""

LEAST_RELATIVE = 1e-3


def by_goodput(power: float, waits: float, jobs: Columns, offer: Offer) -> Ints:
    """Choose the options for which the sum of the powers of relative goodputs is least."""
    return knapsack(goodputs(power, waits, jobs, offer), offer)


def goodputs(power: float, waits: float, jobs: Columns, offer: Offer) -> Floats:
    """Return by how much each option lowers that sum, (jobs, options); -inf where it is none."""
    speeds = useful_speeds(jobs, offer)
    least = np.where(speeds > 0, speeds, np.inf).min(axis=1)
    age = np.maximum(jobs.now_us - jobs.submit_us, SECOND)[:, None]
    factor = (age - jobs.restarts[:, None] * offer.start_us) / (age + offer.start_us)
    relative = speeds / least[:, None] * np.where(changed(jobs, len(offer.gpus)), factor, 1.0)
    gain = np.maximum(waits - np.maximum(relative, LEAST_RELATIVE) ** power, LEAST_GAIN)
    return np.where(speeds > 0, gain, -np.inf)


# More GPUs by what they add: AFS-L.
#
# All jobs have the fewest GPUs that they can run with, the shortest first. Then more go, one option
# further at a time, to the winner of a tournament: of two jobs, l, which would end sooner as it is,
# wins against h if (p' - p) / p of l is more than (p' - p) / p' of h, each per GPU more, with p and
# p' the speeds now and after it.
# Source: Hwang et al., "Elastic resource sharing for distributed deep learning", NSDI 2021, section
# 4.
Pick: TypeAlias = Callable[[Ints, Ints, Floats, Floats], int]
"""Of jobs with GPUs more and speeds now and then, the number of the one that takes them, or -1."""


class Ladder:
    """The useful options of jobs in the order of their GPUs, all of one model.

    - `at` (int64 (jobs,)): the option of each job in that order; -1: it waits.
    - `free`: GPUs that are left.
    - `gpus`, `speeds`, `after`: GPUs of the options in that order, each job's speed with them (0
      where one is not useful), and the next useful one of each; those of -1 are the last.
    - `order`: options of the offer in that order.
    """

    def __init__(self, jobs: Columns, offer: Offer) -> None:
        self.order = np.argsort(offer.gpus, kind="stable")
        speeds = useful_speeds(jobs, offer)[:, self.order]
        count, options = speeds.shape
        self.gpus = np.append(offer.gpus[self.order], 0)
        self.speeds = np.append(speeds, np.zeros((count, 1)), axis=1)
        self.after = np.full((count, options + 1), -1, dtype=np.int64)
        follows = np.full(count, -1, dtype=np.int64)
        for option in range(options - 1, -2, -1):
            self.after[:, option] = follows
            if option >= 0:
                follows = np.where(speeds[:, option] > 0, option, follows)
        self.rows = np.arange(count)
        self.at = np.full(count, -1, dtype=np.int64)
        self.free = int(offer.open_gpus.sum())

    @property
    def speed(self) -> Floats:
        """Speed of each job where it is."""
        found: Floats = self.speeds[self.rows, self.at]
        return found

    def place_of(self, options: Ints) -> Ints:
        """Return where options of the offer are in the order of GPUs; -1 stays."""
        found: Ints = np.append(np.argsort(self.order), -1)[options]
        return found

    def options(self) -> Ints:
        """Return where each job is as an option of the offer."""
        found: Ints = np.append(self.order, -1)[self.at]
        return found

    def take(self, row: int, option: int) -> bool:
        """Give a job an option if GPUs are free for it."""
        more = int(self.gpus[option] - self.gpus[self.at[row]])
        if option < 0 or more > self.free:
            return False
        self.at[row] = option
        self.free -= more
        return True

    def least(self, speeds: Floats) -> Ints:
        """Return each job's fewest GPUs at such a speed, those of its greatest if it has none."""
        reaches = (self.speeds[:, :-1] >= speeds[:, None]) & (self.speeds[:, :-1] > 0)
        found: Ints = np.where(
            reaches.any(axis=1), reaches.argmax(axis=1), self.speeds[:, :-1].argmax(axis=1)
        )
        return found

    def climb(self, pick: Pick, part: Bools | None = None) -> None:
        """Let jobs take their next options as long as GPUs are free: those that run, or `part`."""
        part = self.at >= 0 if part is None else part
        while self.free:
            follows = self.after[self.rows, self.at]
            more = self.gpus[follows] - self.gpus[self.at]
            able = (part & (follows >= 0) & (more <= self.free)).nonzero()[0]
            if not len(able):
                return
            then = self.speeds[able, follows[able]]
            chosen = pick(able, more[able], self.speed[able], then)
            if chosen < 0:
                return
            self.take(int(able[chosen]), int(follows[able[chosen]]))


def afs(jobs: Columns, offer: Offer) -> Ints:
    """Choose the options of AFS-L."""
    ladder, left = Ladder(jobs, offer), jobs.remaining_us.astype(np.float64)
    first = ladder.after[:, -1]
    for row in np.argsort(left / ladder.speeds[ladder.rows, first], kind="stable").tolist():
        ladder.take(row, int(first[row]))

    def winner(rows: Ints, more: Ints, now: Floats, then: Floats) -> int:
        order = np.argsort(left[rows] / now, kind="stable")
        gain = ((then - now) / more)[order]
        sooner, later, best = gain / now[order], gain / then[order], 0
        while len(others := (later[best + 1 :] >= sooner[best]).nonzero()[0]):
            best += 1 + int(others[0])
        return int(order[best])

    ladder.climb(winner)
    return ladder.options()


# GPU time that remains: ONES.
#
# As few jobs wait as can be, as many GPUs as can be are in use, and by jobs of which as little as
# possible remains: one with c GPUs at a speed x scores what is left of it times c / x, and the sum
# is to be least. ONES predicts what is left; here it is known.
# Source: Bian et al., "Online evolutionary batch size orchestration for scheduling deep learning
# workloads in GPU clusters", SC 2021, section 3.
def ones(jobs: Columns, offer: Offer) -> Ints:
    """Choose the options of the least score."""
    seconds = _seconds_left(jobs, offer)
    known = np.isfinite(seconds)
    most = 1.0 + np.where(known, seconds, 0.0).max(initial=0.0)
    anyone = most * float(offer.open_gpus.sum())
    return knapsack(np.where(known, anyone + offer.gpus * (most - seconds), -np.inf), offer)


def _seconds_left(jobs: Columns, offer: Offer) -> Floats:
    """Return how long each job would still run with each option, its start counted; else inf."""
    speeds = useful_speeds(jobs, offer)
    start = np.where(_others(jobs, len(offer.gpus)), offer.start_us, jobs.overhead_due_us[:, None])
    left = np.divide(
        jobs.remaining_us[:, None], speeds, out=np.full(speeds.shape, np.inf), where=speeds > 0
    )
    found: Floats = (start + left) / SECOND
    return found


def _others(jobs: Columns, options: int) -> Bools:
    """Return which options are not those with which jobs run."""
    found: Bools = jobs.option[:, None] != np.arange(options)
    return found


# Base demands first, then growth by the time that it saves: Lyra.
#
# A job asks its base demand. Who runs keeps it; who waits starts by shortest time left, skipping
# who does not fit. What is left goes to jobs that run, as the seconds that it saves them add up to
# most. So growth is given back when others come; hosts that are on loan are hosts with planned
# outages. When one goes back it is that which takes the fewest GPUs from jobs that stop, and jobs
# that have others go on with these.
# Source: Li et al., "Lyra: elastic scheduling for deep learning clusters", EuroSys 2023, section 5.
def lyra(jobs: Columns, offer: Offer) -> Ints:
    """Choose base demands, then growth."""
    speeds = useful_speeds(jobs, offer)
    base, seconds = _least_options(speeds, offer, 1.0), _seconds_left(jobs, offer)
    rows = np.arange(len(base))
    free, part = offer.open_gpus.copy(), np.zeros(len(base), dtype=np.bool_)
    waits = jobs.option < 0
    for row in np.lexsort((seconds[rows, base], waits)).tolist():
        model, gpus = offer.model[base[row]], offer.gpus[base[row]]
        if gpus <= free[model]:
            free[model] -= gpus
            part[row] = True
    saved = seconds[rows, base][:, None] - seconds
    larger = offer.gpus >= offer.gpus[base][:, None]
    saved[~larger | ~np.isfinite(saved) | (offer.model != offer.model[base][:, None])] = -np.inf
    saved[rows, base] = 0.0
    everyone = 1.0 + saved.max(axis=1, initial=0.0).sum()
    return _of_some(part, saved + everyone, offer)


def _least_options(speeds: Floats, offer: Offer, speed: float) -> Ints:
    """Return each job's option of the fewest GPUs with which it has a speed, else its fastest.

    Of equal numbers of GPUs the fastest.
    """
    able = speeds >= np.minimum(speed, speeds.max(axis=1, initial=0.0))[:, None]
    key = np.where(
        able & (speeds > 0), offer.gpus - speeds / (1.0 + speeds.max(initial=0.0)), np.inf
    )
    found: Ints = key.argmin(axis=1)
    return found


def _of_some(part: Bools, values: Floats, offer: Offer) -> Ints:
    """Return the best options of those jobs that take part; the others wait."""
    found = np.full(len(part), -1, dtype=np.int64)
    found[part] = knapsack(values[part], offer)
    return found


# Speed after a loss: Unicron, and Oobleck.
#
# Under both a job goes on with the hosts that it has left and loses no work. Unicron chooses sizes
# anew after each failure, arrival and end: those whose speeds, relative to the one with what they
# ask, add up to most, less what a job that changes would have done meanwhile. Under Oobleck jobs
# start with what they ask, in order of arrival, and grow back to it when GPUs are free.
# Source: He et al., "Unicron: economizing self-healing LLM training at scale", arXiv 2401.00134,
# section 5. Jang et al., "Oobleck: resilient distributed training of large models using pipeline
# templates", SOSP 2023.
HORIZON_US = 3600 * SECOND
"""For how long the speeds are expected to last; Unicron's is the mean time between failures."""


def unicron(jobs: Columns, offer: Offer) -> Ints:
    """Choose the options of the greatest speed in all, less transitions."""
    speeds, rows = useful_speeds(jobs, offer), np.arange(len(jobs))
    now = np.where(jobs.option >= 0, getattr(jobs, SPEED_BY_OPTION)[rows, jobs.option], 0)
    lost = now[:, None] / FULL_SPEED * offer.start_us / HORIZON_US
    value = speeds - np.where(changed(jobs, len(offer.gpus)), lost, 0.0)
    return knapsack(np.where(speeds > 0, np.maximum(value, LEAST_GAIN), -np.inf), offer)


def oobleck(jobs: Columns, offer: Offer) -> Ints:
    """Let who runs go on, and give who has less than it asks, by arrival, that much."""
    asked = _least_options(useful_speeds(jobs, offer), offer, 1.0)
    chosen, free = jobs.option.copy(), offer.open_gpus.copy()
    np.subtract.at(free, offer.model[chosen[chosen >= 0]], offer.gpus[chosen[chosen >= 0]])
    for row, option in enumerate(asked.tolist()):
        model, held, now = offer.model[option], 0, int(chosen[row])
        if now >= 0 and offer.model[now] == model:
            held = int(offer.gpus[now])
        if (now < 0 or held) and held < offer.gpus[option] <= free[model] + held:
            free[model] -= offer.gpus[option] - held
            chosen[row] = option
    return chosen


# Plans as options: Rubick.
#
# A plan lays a job out on its GPUs, and each is an option. A job is promised the speed of the plan
# and the GPUs that it asks, and has the fewest GPUs that give it with any plan; who waits starts by
# arrival. What is left goes where it adds most to speeds relative to the promised ones. A job that
# runs changes its option only if it has run so long that its restarts are a small part of that.
# Source: Zhang et al., "Rubick: exploiting job reconfigurability for deep learning cluster
# scheduling", MLSys 2025, section 5.
PART_OF_TIME = 0.97
"""Of the time since it came, at least so much must be left by restarts."""


def rubick(jobs: Columns, offer: Offer) -> Ints:
    """Choose the least options of promised speeds, then growth."""
    speeds = useful_speeds(jobs, offer)
    base, free = _least_options(speeds, offer, 1.0), offer.open_gpus.copy()
    age = np.maximum(jobs.now_us - jobs.submit_us, 1)
    restarts = (1 + jobs.restarts) * offer.start_us.max(axis=1)
    pinned = (jobs.option >= 0) & (age - restarts < PART_OF_TIME * age)
    base[pinned] = jobs.option[pinned]
    part = np.zeros(len(base), dtype=np.bool_)
    for row in np.argsort((jobs.option < 0) + 0 - 2 * pinned, kind="stable").tolist():
        model, gpus = offer.model[base[row]], offer.gpus[base[row]]
        if gpus <= free[model]:
            free[model] -= gpus
            part[row] = True
    rows = np.arange(len(base))
    able = (speeds > 0) & (offer.gpus >= offer.gpus[base][:, None])
    able &= (offer.model == offer.model[base][:, None]) & ~pinned[:, None]
    able[rows, base] = True
    return _of_some(part, np.where(able, speeds + 1.0 + speeds.max(axis=1).sum(), -np.inf), offer)


# Time slices, growth and shrinking: Gandiva.
#
# While jobs wait all take turns: in slices of a minute, those that have had the fewest of them run,
# with the GPUs that they ask. While none waits, jobs grow where it adds most to their speed, per
# GPU; they shrink to what they ask when others come. Packing and migration by trial are not here.
# Source: Xiao et al., "Gandiva: introspective cluster scheduling for deep learning", OSDI 2018,
# section 4.
SLICE_US = 60 * SECOND


class Gandiva(Chooser):
    """Round robin in slices, or growth."""

    def choose(self, jobs: Columns, offer: Offer) -> Ints:
        """Return the options of those whose turn it is."""
        ladder = Ladder(jobs, offer)
        asked = ladder.least(np.ones(len(jobs)))
        for row in np.lexsort((jobs.numbers, jobs.service_us // SLICE_US)).tolist():
            ladder.take(row, int(asked[row]))
        if (ladder.at >= 0).all():
            # Who has grown stays so as long as there is room: growth costs a start.
            for row, option in enumerate(ladder.place_of(jobs.option).tolist()):
                if ladder.gpus[option] > ladder.gpus[ladder.at[row]]:
                    ladder.take(row, option)
            ladder.climb(lambda _, more, now, then: int(((then / now - 1) / more).argmax()))
        return ladder.options()

    def wakes_us(self, jobs: Columns) -> int:
        """Return when the slice ends, if some job waits."""
        waits = len(jobs) and bool((jobs.option < 0).any())
        return int(jobs.now_us[0]) // SLICE_US * SLICE_US + SLICE_US if waits else NEVER


# Earliest deadline first at the greatest speed: ElasticFlow's baseline.
#
# In the order of deadlines each job has the GPUs with which it is fastest, skipping who does not
# fit; who has an earlier deadline preempts.
# Source: Gu et al., "ElasticFlow: an elastic serverless training platform for distributed deep
# learning", ASPLOS 2023, section 6; its artifact gives a job that many.
def fastest_edf(jobs: Columns, offer: Offer) -> Ints:
    """Choose the fastest options by deadline."""
    ladder = Ladder(jobs, offer)
    fits = ladder.gpus[:-1] <= ladder.free
    fastest = np.where(fits, ladder.speeds[:, :-1], 0).argmax(axis=1)
    for row in np.argsort(jobs.deadline_us, kind="stable").tolist():
        ladder.take(row, int(fastest[row]))
    return ladder.options()


_AGE = frozenset({"now_us", "restarts"})
_LEFT = frozenset({"remaining_us", "overhead_due_us"})


def _elastic(
    name: str, rule: Rule, needs: frozenset[str] = frozenset(), **how: Any
) -> ElasticPolicy:
    return ElasticPolicy(name, partial(Memoryless, rule), needs, **how)


ELASTIC = (
    _elastic("sia", partial(by_goodput, -0.5, SIA_WAITS), _AGE),
    _elastic("pollux", partial(by_goodput, -1.0, POLLUX_WAITS), _AGE),
    _elastic(
        "sia-rounds",
        partial(by_goodput, -0.5, SIA_WAITS),
        _AGE,
        one_model=True,
        worth=partial(goodputs, -0.5, SIA_WAITS),
    ),
    _elastic("afs-l", afs, _LEFT, one_model=True),
    _elastic("ones", ones, _LEFT),
    _elastic("lyra", lyra, _LEFT, survives=True, returns=True),
    _elastic("rubick", rubick, _AGE),
    _elastic("edf-fastest", fastest_edf, frozenset({"deadline_us"}), one_model=True),
    _elastic("unicron", unicron, survives=True),
    _elastic("oobleck", oobleck, survives=True),
    ElasticPolicy("gandiva", Gandiva, frozenset({"now_us", "service_us"}), one_model=True),
)

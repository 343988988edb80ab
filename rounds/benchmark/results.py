"""What rows of the benchmark say: gaps to the best known, proofs, CPU; and two runs compared."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev, variance

from placewright.instances.benchmark.index import Instance
from placewright.instances.errors import InvalidInputError
from placewright.instances.policies import sense_of
from placewright.rounds.benchmark.run import FAILED, SKIPPED, SOLVED, Row
from placewright.rounds.certificate import gap_of

SHIFT_S = 1.0
"""Of the shifted geometric mean, so that milliseconds do not decide it."""

NEAR = 0.01
"""Gap to the best known value from which on a plan counts as near it."""

TOLERANCE = 5e-4
"""Gap by which a first term may be worse, whatever the noise."""

SLOWER = 1.25
"""Ratio of shifted CPU seconds from which on a solver is slower, if that is no noise."""

SIGMAS = 4.0
"""Standard errors that are no noise: of independent runs one in 30,000 is so far off."""

FEW = 4
"""With `FEW` degrees of freedom twice as many: roughly the quantiles of Student's t."""


@dataclass(frozen=True, slots=True)
class Best:
    """The best value of the first term of an instance and the tightest bound, from any source."""

    term: str
    value: int | None
    bound: float | None

    def gap(self, value: float | None) -> float:
        """Return the relative gap of a value to the best one; 1 without a plan."""
        if value is None or self.value is None:
            return 1.0
        return min(1.0, gap_of(value, self.value) or 0.0)


@dataclass(frozen=True, slots=True)
class Summary:
    """A solver over its runs.

    `cpu_s` is the shifted geometric mean; `primal` the mean primal integral (Berthold 2013) over
    the limit, between 0 (the best value at once) and 1, where the solver tells what it finds.
    """

    solver: str
    runs: int
    plans: int
    bests: int
    proven: int
    mean_gap: float
    cpu_s: float | None
    primal: float | None
    failed: int


def value_of(row: Row) -> int | None:
    """Return the value of the first term of a row, None without a plan."""
    return next(iter(row.values.values()), None)


def bests(rows: Iterable[Row], index: Mapping[str, Instance]) -> dict[str, Best]:
    """Return the best of each instance: of the index, and of the rows."""
    found: dict[str, Best] = {}
    for row in rows:
        known = index[row.instance].best if row.instance in index else ()
        first = known[0] if known else None
        term = first.name if first else next(iter(row.values), "")
        old = found.get(row.instance) or Best(
            term, first.value if first else None, first.bound if first else None
        )
        if not (old.term or term):
            continue
        term = old.term or term
        sign = _sign(term)
        value, bound = value_of(row), row.bound
        if old.value is not None and (value is None or sign * value < sign * old.value):
            value = old.value
        if old.bound is not None and (bound is None or sign * bound > sign * old.bound):
            bound = old.bound
        found[row.instance] = Best(term, value, bound)
    return found


def _sign(term: str) -> int:
    """1 if more of a term is better, else -1; so is a cost that is no term of a policy."""
    try:
        return 1 if sense_of(term) == "max" else -1
    except KeyError:
        return -1


def contradictions(rows: Iterable[Row], best: Mapping[str, Best]) -> list[str]:
    """Return what must not be: bounds that a verified plan of any solver beats."""
    found = []
    for row in rows:
        one = best.get(row.instance)
        if one is None or row.bound is None or one.value is None:
            continue
        over = (one.value - row.bound) * _sign(one.term)
        if over > 1e-6 * max(1.0, abs(row.bound)):
            found.append(
                f"{row.instance}: a plan of {one.term} {one.value} beats the bound {row.bound:g} "
                f"of {row.solver}"
            )
    return found


def counted(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that count: those of runs that were not skipped."""
    return [row for row in rows if row.status != SKIPPED]


def by_solver(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each solver, in the order of the file."""
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.solver].append(row)
    return dict(found)


def summaries(rows: Sequence[Row], best: Mapping[str, Best]) -> list[Summary]:
    """Return a summary for each solver; a run without a plan counts as a gap of 100 %."""
    made = []
    for solver, mine in by_solver(counted(rows)).items():
        gaps = [_gap(row, best) for row in mine]
        integrals = [found for row in mine if (found := primal_integral(row, best)) is not None]
        made.append(
            Summary(
                solver=solver,
                runs=len(mine),
                plans=sum(bool(row.values) for row in mine),
                bests=sum(gap == 0 for gap in gaps),
                proven=sum(row.status in SOLVED for row in mine),
                mean_gap=fmean(gaps),
                cpu_s=shifted_mean(row.cpu_s for row in mine),
                primal=fmean(integrals) if integrals else None,
                failed=sum(row.status in FAILED for row in mine),
            )
        )
    return made


def _gap(row: Row, best: Mapping[str, Best]) -> float:
    return best[row.instance].gap(value_of(row)) if row.instance in best else 1.0


def primal_integral(row: Row, best: Mapping[str, Best]) -> float | None:
    """Return the mean gap over the limit of a run that told what it found and when."""
    limit = float(row.protocol.get("seconds", 0))
    if not row.found or row.instance not in best or not limit:
        return None
    steps = [(0.0, 1.0)] + [(at, best[row.instance].gap(value)) for at, value in row.found]
    ends = [at for at, _ in steps[1:]] + [limit]
    spans = (min(end, limit) - min(at, limit) for (at, _), end in zip(steps, ends, strict=True))
    return sum(gap * max(0.0, span) for (_, gap), span in zip(steps, spans, strict=True)) / limit


def shifted_mean(seconds: Iterable[float | None]) -> float | None:
    """Geometric mean of the known values, each shifted by a second; None if there are none."""
    known = [math.log(one + SHIFT_S) for one in seconds if one is not None]
    return math.exp(fmean(known)) - SHIFT_S if known else None


def ratios(
    rows: Sequence[Row], best: Mapping[str, Best], *, proofs: bool
) -> dict[str, tuple[list[float], int]]:
    """Return performance profiles (Dolan and Moré 2002): CPU over that of the fastest, per solver.

    A run counts as solved if its first term is proven (`proofs`), else if its plan is `NEAR` the
    best known; an instance that nobody solves is left out. With the ratios comes how many instances
    there are. Times of an instance are means over seeds, shifted by `SHIFT_S` tenths of a second.
    """
    times: defaultdict[str, dict[str, float]] = defaultdict(dict)
    alike: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    solvers = list(by_solver(counted(rows)))
    common = _tried_by_all(rows, solvers)
    for row in counted(rows):
        if row.instance in common:
            alike[row.instance, row.solver].append(row)
    for (instance, solver), mine in alike.items():
        solved = all(
            row.status in SOLVED if proofs else bool(row.values) and _gap(row, best) <= NEAR
            for row in mine
        )
        if solved and all(row.cpu_s is not None for row in mine):
            times[instance][solver] = fmean(row.cpu_s or 0.0 for row in mine) + SHIFT_S / 10
    least = {instance: min(of.values()) for instance, of in times.items()}
    return {
        solver: (
            [of[solver] / least[instance] for instance, of in times.items() if solver in of],
            len(times),
        )
        for solver in solvers
    }


def _tried_by_all(rows: Sequence[Row], solvers: Sequence[str]) -> set[str]:
    tried: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:  # those that skip an instance did not solve it
        tried[row.instance].add(row.solver)
    return {instance for instance, some in tried.items() if len(some) == len(solvers)}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs: what is worse by more than noise, what is better, and what was not compared."""

    worse: tuple[str, ...]
    better: tuple[str, ...]
    left_out: tuple[str, ...]
    compared: int


def compared(old: Sequence[Row], new: Sequence[Row], index: Mapping[str, Instance]) -> Comparison:
    """Compare the first terms and CPU seconds of two runs, solver by solver.

    The loss of an instance is the mean gap of the new runs less that of the old ones, gaps to the
    best of either run or the index. Its noise comes from the seeds: the variance within either run,
    and no less than the mean over all instances of the solver, as a few seeds may be alike by
    chance. A solver is worse on an instance whose loss is `SIGMAS` standard errors of this, more
    where the seeds are few, and as a whole if the sum of the losses is. It is slower if CPU is, by
    `SLOWER` and by as many standard errors over the instances. Less than `TOLERANCE` is never
    worse.

    Raises
    ------
    InvalidInputError
        If the limits of the runs differ.
    """
    best = bests([*old, *new], index)
    pairs = [by_solver(counted(rows)) for rows in (old, new)]
    worse: list[str] = []
    better: list[str] = []
    left_out = [f"solver {name}" for name in sorted(pairs[0].keys() ^ pairs[1].keys())]
    limits = [{json.dumps(row.protocol, sort_keys=True) for row in one} for one in (old, new)]
    if limits[0] != limits[1]:
        raise InvalidInputError(
            "the two runs have other limits; expected those of one protocol",
            ("protocol",),
            min(limits[1] ^ limits[0]),
        )
    number = 0
    for solver in [name for name in pairs[0] if name in pairs[1]]:
        sides = [_by_instance(one[solver]) for one in pairs]
        common = [name for name in sides[0] if name in sides[1]]
        if missing := len(sides[0].keys() ^ sides[1].keys()):
            left_out.append(f"{missing} rounds of {solver}")
        number += len(common)
        losses = [
            _Loss.of(
                [_gap(row, best) for row in sides[0][name]],
                [_gap(row, best) for row in sides[1][name]],
            )
            for name in common
        ]
        for sign, said, word in ((1, worse, "worse"), (-1, better, "better")):
            said += _apart(solver, common, losses, sign, word)
            said += _cpu_apart(solver, common, sides, sign)
    return Comparison(tuple(worse), tuple(better), tuple(left_out), number)


@dataclass(frozen=True, slots=True)
class _Loss:
    """Of an instance: by how much it is worse, its variance within runs, and 1/n + 1/m of it.

    `sigmas` is how many standard errors are no noise: more where few seeds tell the variance.
    """

    amount: float
    variance: float
    per: float
    sigmas: float

    @classmethod
    def of(cls, old: Sequence[float], new: Sequence[float]) -> _Loss:
        degrees = len(old) + len(new) - 2
        within = sum((len(side) - 1) * variance(side) for side in (old, new) if len(side) > 1)
        return cls(
            fmean(new) - fmean(old),
            within / degrees if degrees else 0.0,
            1 / len(old) + 1 / len(new),
            SIGMAS * (1 + FEW / max(1, degrees)),
        )


def _apart(
    solver: str, names: Sequence[str], losses: Sequence[_Loss], sign: int, word: str
) -> list[str]:
    """Say where losses times `sign` are more than noise."""
    if not losses:
        return []
    pooled = fmean(loss.variance for loss in losses)
    found = []
    for name, loss in zip(names, losses, strict=True):
        amount = sign * loss.amount
        noise = math.sqrt(max(loss.variance, pooled) * loss.per)
        if amount > max(TOLERANCE, loss.sigmas * noise):
            found.append(
                f"{solver} on {name}: first term {100 * amount:.3f} % {word}, "
                f"noise {100 * noise:.3f} %"
            )
    total = sign * sum(loss.amount for loss in losses)
    noise = math.sqrt(sum(loss.variance * loss.per for loss in losses))
    if total > max(TOLERANCE * len(losses), SIGMAS * noise):
        found.append(
            f"{solver} over {len(losses)} rounds: first terms {100 * total / len(losses):.3f} % "
            f"{word} on average, noise {100 * noise / len(losses):.3f} %"
        )
    return found


def _cpu_apart(
    solver: str,
    names: Sequence[str],
    sides: Sequence[Mapping[str, Sequence[Row]]],
    sign: int,
) -> list[str]:
    logs = []
    for name in names:
        means = [shifted_mean(row.cpu_s for row in side[name]) for side in sides]
        if means[0] is not None and means[1] is not None:
            logs.append(math.log((means[1] + SHIFT_S) / (means[0] + SHIFT_S)))
    if len(logs) < 2:
        return []
    mean, error = sign * fmean(logs), stdev(logs) / math.sqrt(len(logs))
    if mean <= max(math.log(SLOWER), SIGMAS * error):
        return []
    word = "slower" if sign > 0 else "faster"
    return [f"{solver}: {word}, {math.exp(mean):.2f} times by CPU over {len(logs)} rounds"]


def _by_instance(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.instance].append(row)
    return dict(found)

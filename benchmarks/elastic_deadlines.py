"""ElasticFlow's deadlines with the GPUs that jobs ask, and with elastic options.

Rounds are cut from the deadline traces of three clusters: the jobs submitted in a window, each
ready when it is submitted, and those alive at its beginning. Deadline, duration and GPUs are the
trace's; each promise is worth 1. Leases are 20 minutes, and each costs a job 30 s times 1 + log2 of
its GPUs. `asked`: a job has the GPUs that it asks. `elastic`: it may have any power of two up to
64, and is faster by Muri's profiles (the batch of a GPU fixed) or, for models that these lack, by
Amdahl's law with 5 % serial.

What `elastic` admits is an error unless it is more than the bound of what `asked` can admit: then
no plan with the GPUs asked is as good.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.lease_answers import answers, placewright, ruled
from benchmarks.lease_rules import RULES, least_share
from benchmarks.measure import measured
from benchmarks.report import ERROR, OURS, SKIPPED, Row
from placewright import Round
from placewright.instances.converters import convert_elasticflow

__all__ = ["Elastic", "cases"]

DATA = Path(__file__).parents[2] / "shared/data"
TRACES = DATA / "traces/elasticflow/deadline"
PROFILES = DATA / "profiles/muri_profiles.csv"
DAY_S = 86_400
MOST = 64
SECONDS = 60.0
"""Of wall clock, which is more than it takes: nothing is cut short where others compute, too."""


@dataclass(frozen=True, slots=True)
class Elastic:
    """A window of a cluster's trace, in days, on so many GPUs."""

    cluster: str
    gpus: int
    day: int
    days: int
    seed: None = None

    @property
    def name(self) -> str:
        """What rows call it."""
        return f"elastic-{self.cluster}"

    def make(self, *, elastic: bool) -> Round:
        """Return the round."""
        return convert_elasticflow(
            TRACES / f"cluster{self.cluster}.csv",
            gpus=self.gpus,
            at=self.day * DAY_S,
            ahead=self.days * DAY_S,
            elastic=MOST if elastic else None,
            profiles=PROFILES if elastic else None,
        )

    def rows(self) -> Iterator[Row]:
        """Yield the rows of the round with the GPUs asked, and of that with elastic options."""
        if not TRACES.is_dir():
            note = f"{TRACES} not found; expected the deadline traces of ElasticFlow"
            yield Row(self.name, OURS, None, SKIPPED, note=note)
            return
        ours: dict[str, Row] = {}
        for kind in ("asked", "elastic"):
            make = partial(self.make, elastic=kind == "elastic")
            rules = {**RULES, "least share": least_share} if kind == "elastic" else RULES
            methods = {
                OURS: partial(measured, make, partial(placewright, SECONDS), 1),
                **{
                    name: partial(measured, make, partial(ruled, rule), 1)
                    for name, rule in rules.items()
                },
            }
            for row in answers(f"{self.name}-{kind}", None, methods, {"GPUs": self.gpus}):
                if row.method == OURS:
                    ours.setdefault(kind, row)
                yield row
        value, bound = ours["elastic"].value, ours["asked"].bound
        if value is not None and bound is not None and value <= bound:
            note = f"elastic options admit {value}, and {bound:g} may be admitted without them"
            yield Row(f"{self.name}-elastic", OURS, None, ERROR, note=note)


def cases(*, quick: bool) -> list[Elastic]:
    """Return a week of the smallest cluster; or also days of the two larger ones."""
    smallest = Elastic("10", 16, 50, 7)
    return [smallest] if quick else [smallest, Elastic("06", 64, 52, 3), Elastic("03", 128, 50, 3)]

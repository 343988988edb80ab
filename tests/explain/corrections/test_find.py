"""Corrections beside the enumeration of all sets of changes and of all amounts, on tiny rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from random import Random

from examples import examples
from fuzz.play import read
from fuzz.policies.gang import POLICY
from fuzz.policy import TooManyPlansError
from placewright import load_round, solve_round
from placewright.explain.corrections.change import Amounts, Change, Names
from placewright.explain.corrections.cluster import cluster_changes
from placewright.explain.corrections.find import Correction, corrections
from placewright.explain.corrections.own import own_changes
from placewright.instances.checks.round import trusted
from placewright.instances.documents.edits import Edit, Edits
from placewright.instances.documents.job import Job
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.round import Round
from placewright.instances.edits.apply import apply_edits
from placewright.instances.errors import InvalidInputError

QUICKSTART = Path(__file__).parents[3] / "instances" / "library" / "quickstart.yaml"
MAX_AMOUNTS = 40


def question(job: Job) -> Job:
    """A job that stays if it runs, and is worth 1 if it waits."""
    if job.running is not None:
        return job.model_copy(update={"running": job.running.model_copy(update={"pinned": True})})
    options = tuple(option.model_copy(update={"value": 1}) for option in job.options)
    return job.model_copy(update={"options": options})


def starts(round_: Round) -> bool:
    """Whether the one job that waits starts while nobody moves or stops."""
    policy = Policy(terms=("value",), priority="preemption", vacate=round_.policy.vacate)
    jobs = tuple(map(question, round_.jobs))
    asked = trusted(round_.model_copy(update={"jobs": jobs, "policy": policy}))
    plan = solve_round(asked, gap=0.0, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"
    return plan.certificate.terms[0].value > 0


def starts_without(round_: Round, ended: Sequence[str]) -> bool:
    return starts(round_.without_jobs(ended))


def starts_with(round_: Round, edits: Sequence[Edit]) -> bool:
    try:
        return starts(apply_edits(round_, Edits(edits=tuple(edits))))
    except InvalidInputError:
        return False


def alone(round_: Round, name: str) -> tuple[Round, list[Change]]:
    """The round in which one job waits, and all changes."""
    others = {one.name for one in round_.jobs if one.running is None and one.name != name}
    base = round_.without_jobs(others)
    job = next(one for one in base.jobs if one.name == name)
    return base, [*own_changes(base, job), *cluster_changes(base, job)]


def blocked(seeds: range) -> Iterator[tuple[Round, list[Change]]]:
    """Tiny rounds with a job that cannot start as things are, and few changes."""
    for seed in seeds:
        try:
            round_ = read(POLICY.draw(Random(seed))).valid_part()
        except TooManyPlansError:
            continue
        for one in round_.jobs if not any(tenant.cells for tenant in round_.tenants) else ():
            if one.running is None:
                base, changes = alone(round_, one.name)
                if 0 < len(changes) < 12 and not starts(base):
                    yield base, changes


def weaker(change: Change, edits: tuple[Edit, ...]) -> Iterator[tuple[Edit, ...]]:
    """The next smaller amounts of a change than that with some edits."""
    if isinstance(change, Amounts):
        amount = next(a for a in range(1, change.most + 1) if change.edits(a) == edits)
        if amount > 1:
            yield change.edits(amount - 1)
    if isinstance(change, Names):
        (named,) = edits
        names = tuple(named.value)
        for name in names if len(names) > 1 else ():
            yield change.edits([one for one in names if one != name])


def check(base: Round, changes: list[Change], found: list[Correction]) -> None:
    """Each correction starts the job, and no smaller one does; no set of changes is missing."""
    strongest = [change.strongest.edits for change in changes]
    sets = [
        frozenset(chosen)
        for size in (1, 2)
        for chosen in combinations(range(len(changes)), size)
        if starts_with(base, [edit for c in chosen for edit in strongest[c]])
    ]
    minimal = {one for one in sets if not any(other < one for other in sets)}
    assert len([one for one in found if len(one.parts) < 3]) == len(minimal)
    for correction in found:
        assert correction.minimal
        assert starts_with(base, correction.edits.edits)
        forms = [part.form for part in correction.parts]
        for part in correction.parts:
            others = [edit for form in forms if form is not part.form for edit in form.edits]
            assert not starts_with(base, others)


def test_no_correction_is_missing_and_none_is_larger_than_it_has_to_be() -> None:
    checked = 0
    for base, changes in blocked(range(examples(day=4, nightly=25))):
        found = list(corrections(base, changes, starts_without))
        check(base, changes, found)
        checked += len(found)
        for correction in found:
            for part in correction.parts:
                mine = [c for c in changes if c.kind == part.kind]
                others = [e for p in correction.parts if p is not part for e in p.form.edits]
                for change in mine:
                    if isinstance(change, Amounts) and part.form.edits not in [
                        change.edits(a) for a in range(1, min(change.most, MAX_AMOUNTS) + 1)
                    ]:
                        continue
                    for less in weaker(change, part.form.edits):
                        assert not starts_with(base, [*others, *less])
    assert checked > examples(day=2, nightly=20)


def test_quickstart_says_who_could_do_what() -> None:
    base, changes = alone(load_round(QUICKSTART), "homework")
    found = [(*map(str, one.who), one.text) for one in corrections(base, changes, starts_without)]
    assert found == [
        ("user", "ask 4 instead of 8 tasks"),
        ("admin", "raise the quota of students by 4 GPUs"),
    ]

"""Verdicts and run times of jobs that wait for reservations, by the rule book."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fuzz.book.choices import START, Choice, Enumeration
from fuzz.book.facts import Facts, Job
from fuzz.book.judgement import Judgement
from fuzz.book.reservations import KIND, delayed, maintained, read_section
from fuzz.book.waiting import Waiting
from fuzz.explanations.samples import SOLVE_S, Sample
from fuzz.policies import queue
from fuzz.policy import Raw, TooManyPlansError
from fuzz.small_units import in_small_units
from placewright.explain.explanation import Explanation, Verdict
from placewright.explain.situations import Situations
from placewright.instances.documents.edits import Edits
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.edits.apply import apply_edits
from placewright.rounds import solve_round

MAX_PLACES = 2_000
"""Places of a job that are looked at."""


def faults(found: Explanation, sample: Sample) -> Iterator[str]:
    """Yield what is wrong with a verdict beside reservations, and with what is said to help.

    Raises
    ------
    TooManyPlansError
        The job has too many places.
    """
    round_, plan, job = sample
    if plan is None or found.verdict not in (Verdict.COULD_START, Verdict.HELD_FOR_RESERVATION):
        return
    round_ = round_.valid_part()
    after = Situations(round_, plan.without_jobs(sample.round.invalid)).after.round
    every = Beside(after, plan, job)
    before = every.before
    is_held = not every.starts()
    if is_held is not (found.verdict is Verdict.HELD_FOR_RESERVATION):
        yield f"the verdict is {found.verdict}, but the job {'delays' if is_held else 'fits'}"
    if found.held_by is not None:
        first = before.index(found.held_by.job)
        if every.starts(before[: first + 1]) or not every.starts(before[:first]):
            yield f"job {found.held_by.job} is not the first that is delayed"
    for one in found.corrections.now if found.corrections is not None else ():
        (edit,) = one.edits.edits
        assert edit.job is not None
        seconds = edit.job[job].expected_runtime_s
        assert seconds is not None
        if not every.starts(seconds=seconds) or (one.minimal and every.starts(seconds=seconds + 1)):
            yield f"{one.text}: not the longest run time with which the job starts"
        edited = apply_edits(sample.round, Edits(edits=(edit,)))
        made = solve_round(edited, time_limit=SOLVE_S, deterministic=True, isolation="none")
        if not any(d.job == job and d.decision == START for d in made.decisions):
            yield f"{one.text}: the round's plan does not start the job"
        document = in_small_units(edited.model_dump(mode="json", exclude_defaults=True))
        made_raw = in_small_units(made.model_dump(mode="json", exclude_none=True))
        if wrong := queue.fault(document, made_raw):
            yield f"{one.text}: {wrong}"


class Beside:
    """Whether a job starts after a plan beside some of its reservations."""

    def __init__(self, after: Round, plan: Plan, job: str) -> None:
        empty: Raw = {"kind": KIND, "jobs": ()}
        self._section = next((dict(s) for s in plan.sections if s["kind"] == KIND), empty)
        self._after, self._job = after, job
        names = [entry["job"] for entry in self._section["jobs"]]
        before = names[: names.index(job)] if job in names else names
        at = {entry["job"]: entry["at"] for entry in self._section["jobs"]}
        self.before = sorted(before, key=at.__getitem__)

    def starts(self, names: Sequence[str] | None = None, seconds: int | None = None) -> bool:
        """Whether it does beside those of some jobs, or of all before it, in a given run time."""
        names = self.before if names is None else names
        stay = {self._job, *names}
        waiting = {one.name for one in self._after.jobs if one.running is None}
        round_ = self._after.without_jobs(waiting - stay)
        document = in_small_units(round_.model_dump(mode="json", exclude_defaults=True))
        policy = document.get("policy", {})
        document["policy"] = {"terms": ["value"], "priority": "preemption"}
        document["policy"] |= {key: policy[key] for key in ("vacate",) if key in policy}
        for one in document["jobs"]:
            if "running" in one:
                one["running"]["pinned"] = True
            elif one["name"] == self._job and seconds is not None:
                one["expected_runtime_s"] = seconds
        facts = Facts(document)
        there = {one["name"] for one in document["jobs"]}.intersection(names)
        kept = [entry for entry in self._section["jobs"] if entry["job"] in there]
        read = read_section(facts, {"sections": [{**self._section, "starts": [], "jobs": kept}]})
        reserved = [] if read is None else read[1]
        judgement, queued = Judgement(facts), Waiting(facts)

        def admits(job: Job, choice: Choice) -> bool:
            return job.running is not None or (choice.kind == START) is (job.name == self._job)

        enumeration = Enumeration(facts, admits)
        for number, choices in enumerate(enumeration):
            if number >= MAX_PLACES:
                raise TooManyPlansError
            if judgement.between(choices, room=enumeration.room):
                continue
            if maintained(queued, choices) and not delayed(queued, (), reserved, choices):
                return True
        return False

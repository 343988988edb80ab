"""What is done with the body of a request: parse, check, decide, and write the answer.

All of it happens in a process of its own (`work`), so that no document is parsed in the service
itself; only arguments of the extender are, which are small.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from placewright.collection import no_collection
from placewright.explain.document import (
    explanation_document,
    kinds_document,
    left_out_document,
)
from placewright.explain.explain_job import explain_job
from placewright.explain.kinds import explain_all
from placewright.instances.checks.round import hosts_by_name
from placewright.instances.derived.names import check_known
from placewright.instances.derived.source_words import jobs_called, left_out_called
from placewright.instances.documents.base import Document
from placewright.instances.documents.form_errors import invalid_input
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError, Path, printable
from placewright.instances.io.digest import round_digest
from placewright.instances.io.files import (
    headed,
    json_text,
    load_plan,
    load_round,
    parse_plan,
    parse_round,
    text_of,
)
from placewright.instances.io.yaml_json import parse_json
from placewright.instances.verify import Verification, unverified, verify
from placewright.live.serve.lane import (
    BAD_REQUEST,
    DEFAULT_CORRECTIONS,
    INVALID,
    MOST_CORRECTIONS,
    OK,
    Admission,
    Answer,
    BrokenRule,
    Question,
    Verdict,
    as_json,
    failed,
    refused,
)
from placewright.live.serve.service import snapshot_of
from placewright.rounds import Changes, prove_bounds, solve_round
from placewright.rounds.state.admission import Ledger, answer_admission, check_asks_for_promise
from placewright.rounds.state.changes import apply_changes, apply_plan
from placewright.solver.process import send

DIGITS = 12
"""Of a digest, in messages."""

RATHER_THAN_OTHERS = "500"
Solved = tuple[Round, Plan]


def work(message: object, answers: int) -> None:
    """Answer a question in the process of a lane, and send what the service is to show."""
    with suppress(OSError):  # where memory runs out, this process is to go and not the service
        pathlib.Path("/proc/self/oom_score_adj").write_text(RATHER_THAN_OTHERS)
    if not isinstance(message, Question):
        return
    made, solved = answer(message)
    send(answers, made)
    if solved is not None:
        # The caller has its answer; what the service shows may take longer.
        try:
            send(answers, snapshot_of(*solved))
        except Exception as error:  # noqa: BLE001
            send(answers, failed(printable(f"not shown: {type(error).__name__}: {error}")))


def answer(question: Question) -> tuple[Answer, Solved | None]:
    """Answer a question; beside it the round and plan that the service shows from now on, if any.

    Whatever is wrong with the body, or goes wrong here, is an answer, too.
    """
    try:
        raw = parse_json(text_of(question.body))
    except InvalidInputError as error:
        return refused(error, BAD_REQUEST), None
    try:
        with no_collection():
            return _VERBS[question.verb](raw, question)
    except InvalidInputError as error:
        return refused(error, INVALID), None
    except MemoryError:
        return failed("out of memory; expected more, or a smaller document"), None
    except Exception as error:  # noqa: BLE001
        return failed(printable(f"internal error: {type(error).__name__}: {error}")), None


def _solve(raw: Any, question: Question) -> tuple[Answer, Solved | None]:
    round_ = _round(raw, question)
    plan = solve_round(round_, time_limit=_seconds(round_, question))
    made = Answer(OK, json_text(plan).encode(), follows=question.publish)
    return made, (round_, plan) if question.publish else None


def _verify(raw: Any, question: Question) -> tuple[Answer, None]:
    given = _fields(raw, ("round", "plan"), ("bound",))
    round_, plan = _pair(given, question)
    bound = _flag(given, "bound")
    checked = verify(round_, plan)
    bounds = None
    if bound and checked.placement_ok:
        bounds = prove_bounds(round_, plan, time_limit=_seconds(round_, question))
    verdict = Verdict(
        valid=checked.ok,
        placement_valid=checked.placement_ok,
        violations=tuple(
            BrokenRule(rule=one.rule, path=one.where, message=printable(one.message))
            for one in checked.violations
        ),
        unverified=unverified(plan),
        terms=dict(checked.terms),
        bounds=None if bounds is None else tuple(bounds),
    )
    return _document(verdict), None


def _explain(raw: Any, question: Question) -> tuple[Answer, None]:
    given = _fields(raw, ("round",), ("plan", "job", "corrections"))
    round_, plan = _checked_pair(given, question)
    job, corrections = given.get("job"), given.get("corrections", DEFAULT_CORRECTIONS)
    if not isinstance(job, str | None):
        raise InvalidInputError("expected the name of a job", path=("job",), value=job)
    if type(corrections) is not int or not 0 <= corrections <= MOST_CORRECTIONS:
        raise InvalidInputError(
            f"expected an integer from 0 to {MOST_CORRECTIONS}",
            path=("corrections",),
            value=corrections,
        )
    seconds, digest = _seconds(round_, question), round_digest(round_)
    if job is None:
        return as_json(kinds_document(explain_all(round_, plan, time_limit=seconds), digest)), None
    if not jobs_called(round_, job) and (left := left_out_called(round_, job)):
        return as_json(left_out_document(job, left, digest)), None
    found = explain_job(round_, plan, job, corrections=corrections, time_limit=seconds)
    return as_json(explanation_document(found, digest)), None


def _admit(raw: Any, question: Question) -> tuple[Answer, None]:
    given = _fields(raw, ("round", "job"), ("plan", "admitted"))
    round_, plan = _checked_pair(given, question)
    admitted = given.get("admitted", [])
    if not isinstance(admitted, list):
        raise InvalidInputError("expected a list", path=("admitted",), value=admitted)
    job = _job(given["job"], "job")
    try:
        check_asks_for_promise(round_, job)
    except InvalidInputError as error:
        of_round = error.path[:1] == ("policy",)
        raise error.under("round" if of_round else "job") from None
    state, ledger, now = round_, Ledger(), round_.now
    if plan is not None:
        state = apply_plan(round_.valid_part(), plan.without_jobs(round_.invalid), {})
        ledger = Ledger.of(plan.sections)
        now += round_.leases.length_s
    jobs = [_job(one, "admitted", i) for i, one in enumerate(admitted)]
    changes = Changes(added=(*jobs, job), now=now)
    try:
        coming = apply_changes(state, changes, hosts_by_name(round_.cluster))
    except InvalidInputError as error:
        raise error.moved(lambda path: _in_body(path, len(jobs))) from None
    found = answer_admission(coming.valid_part(), ledger)
    promised = None
    if found.promise is not None and job.deadline is not None:
        deadline = job.deadline.model_copy(update={"promise": found.promise})
        promised = job.model_copy(update={"deadline": deadline})
    return _document(
        Admission(
            promise=found.promise,
            option=found.option,
            finish=found.finish,
            runs=found.runs,
            in_the_way=found.in_the_way,
            job=promised,
        )
    ), None


def _load(raw: Any, question: Question) -> tuple[Answer, Solved | None]:
    """Take a round and a plan of files as the ones to show; only the service itself asks so."""
    round_, plan = load_round(raw["round"], lenient=question.lenient), load_plan(raw["plan"])
    _refuse_another(round_, plan)
    _refuse_invalid(verify(round_, plan))
    return Answer(OK, b"{}", follows=True), (round_, plan)


_VERBS: Mapping[str, Callable[[Any, Question], tuple[Answer, Solved | None]]] = {
    "solve": _solve,
    "verify": _verify,
    "explain": _explain,
    "admit": _admit,
    "load": _load,
}


def _seconds(round_: Round, question: Question) -> float:
    return min(round_.limits.time_s, question.seconds)


def _round(raw: Any, question: Question) -> Round:
    """Return the round of a body, with the fields of a policy that the service was given."""
    values = headed(raw, None, "Round")
    own = values.get("policy", {})
    if question.policy and isinstance(own, dict):
        values = {**values, "policy": {**own, **question.policy}}
    return parse_round(values, lenient=question.lenient)


def _pair(given: Mapping[str, Any], question: Question) -> tuple[Round, Plan]:
    """Return the round and the plan of a body; a plan of another round is refused."""
    try:
        round_ = _round(given["round"], question)
    except InvalidInputError as error:
        raise error.under("round") from None
    try:
        plan = parse_plan(headed(given["plan"], None, "Plan"))
    except InvalidInputError as error:
        raise error.under("plan") from None
    _refuse_another(round_, plan)
    return round_, plan


def _refuse_another(round_: Round, plan: Plan) -> None:
    if plan.round is not None and plan.round != (digest := round_digest(round_)):
        raise InvalidInputError(
            f"is another round; expected {digest[:DIGITS]}..., the sha256 of the round beside it",
            path=("plan", "round"),
            value=f"{plan.round[:DIGITS]}...",
        )


def _checked_pair(given: Mapping[str, Any], question: Question) -> tuple[Round, Plan | None]:
    """Return the round and its plan, which must be valid; None without one."""
    if given.get("plan") is not None:
        round_, plan = _pair(given, question)
        _refuse_invalid(verify(round_, plan))
        return round_, plan.completed(round_.names)
    try:
        return _round(given["round"], question), None
    except InvalidInputError as error:
        raise error.under("round") from None


def _refuse_invalid(checked: Verification) -> None:
    if not checked.ok:
        first = checked.violations[0]
        raise InvalidInputError(
            f"breaks {first.rule}: {first.message}; expected a plan that keeps all rules",
            path=("plan",),
            show_value=False,
        )


def _job(raw: Any, *place: str | int) -> Job:
    try:
        return Job.model_validate(raw)
    except ValidationError as error:
        raise invalid_input(error, Job, raw).under(*place) from None


def _in_body(path: Path, admitted: int) -> Path:
    """Return where the body of a request has what `Changes` have at a path."""
    if path[:1] != ("added",):
        return ("round", *path)
    return ("job", *path[2:]) if path[1:2] == (admitted,) else ("admitted", *path[1:])


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise InvalidInputError("expected true or false", path=(name,), value=value)
    return value


def _fields(raw: Any, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, Any]:
    """Return a body that has all of the first fields, and of others only the second."""
    names = ", ".join((*required, *optional))
    if not isinstance(raw, dict):
        raise InvalidInputError(f"expected a mapping with {names}", value=raw)
    for name in required:
        if name not in raw:
            raise InvalidInputError("missing; expected a value", path=(name,), show_value=False)
    for name in raw:
        check_known(name, (*required, *optional), "field", (name,))
    return raw


def _document(document: Document) -> Answer:
    return Answer(OK, document.model_dump_json().encode())

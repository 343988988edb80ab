"""One tiny round: all of its plans against the verifier, and every bound against all plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from traceback import extract_tb
from typing import Any, NamedTuple

from fuzz.book.facts import named
from fuzz.book.references import invalid_jobs
from fuzz.claims import Values, certificate_bounds
from fuzz.policy import Judged, Policy, Raw, Setting, TooManyPlansError
from fuzz.small_units import as_document, in_small_units
from fuzz.watching import Watched, following, proven, watched
from placewright.collection import no_collection
from placewright.formulations.plan_messages import Bound
from placewright.instances.checks.round import with_invalid_jobs
from placewright.instances.documents.plan import Certificate, Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify

HEADER = {"apiVersion": "placewright/v1alpha2"}
BACKENDS = ("auto",) * 12 + ("cp-sat", "cbc", "scip", "highs")
ALL_IN = 20
"""In one round of so many every plan is verified; in the others one of each class, and a few."""
CLASSES, OTHERS, INVALID = 12, 3, 6
"""In the others: so many classes (plans of equal values), so many more valid and invalid plans."""
MANY = 2
"""So many failures of a kind are told of one round."""
PROVEN_IN, FOLLOWED_IN = 5, 5
"""In one round of so many bounds are proven of some valid plan, too, or an engine plays on."""


class Failure(NamedTuple):
    """What went wrong: its kind, in words, and the plan that shows it."""

    kind: str
    text: str
    plan: Raw | None = None


@dataclass(slots=True)
class Played:
    """What came of a round.

    `plans` are valid, `verified` were given to the verifier, and `decided` are the rounds that were
    solved: more than one where an engine plays on.
    `best_first` says whether the solver's plan has the best value of the first term that any plan
    has; None if there was no such plan. `later` is the round that an engine was at, `features` what
    the policy counts.
    """

    failures: list[Failure] = field(default_factory=list)
    plans: int = 0
    verified: int = 0
    decided: int = 0
    bounds: int = 0
    best_first: bool | None = None
    solved: Plan | None = None
    later: Raw | None = None
    features: set[str] = field(default_factory=set)

    def fail(self, kind: str, text: str, plan: Raw | None = None) -> None:
        """Add a failure, if there are not many of its kind."""
        if sum(failure.kind == kind for failure in self.failures) < MANY:
            self.failures.append(Failure(kind, text, plan))


def play(policy: Policy, raw: Raw, seed: int) -> Played:
    """Play a round of a policy; the seed draws how it is solved and which plans are verified."""
    played, rng = Played(), Random(f"play {policy.name} {seed}")
    try:
        round_ = read(raw)
    except Exception as error:  # noqa: BLE001
        played.fail("document", told(error))
        return played
    valid: list[Judged] = []
    invalid: list[Judged] = []
    try:
        for judged in policy.plans(raw, rng):
            (invalid if judged.broken else valid).append(judged)
    except TooManyPlansError:
        raise
    except Exception as error:  # noqa: BLE001
        played.fail("generator", told(error))
        return played
    played.plans = len(valid)
    _verify(round_, valid, invalid, rng, played)
    if played.failures or not valid:
        return played
    try:
        _solve(policy, raw, round_, valid, rng, played)
        if rng.randrange(PROVEN_IN) == 0:
            _prove(policy, raw, round_, valid, rng, played)
    except TooManyPlansError:
        raise
    except Exception as error:  # noqa: BLE001
        played.fail("exception", told(error))
    return played


def told(error: Exception) -> str:
    """Say what was raised, and where."""
    *_, last = extract_tb(error.__traceback__)
    where = f"{Path(last.filename).name}:{last.lineno} in {last.name}"
    return f"{type(error).__name__}: {error} ({where})"


def read(raw: Raw) -> Round:
    """Make a checked Round of a document, read leniently."""
    round_ = Round.model_validate(as_document({**HEADER, "kind": "Round", **raw}))
    checked = with_invalid_jobs(round_)
    hosts = [name for host in raw["cluster"]["hosts"] for name in named(host["name"])]
    if set(checked.invalid) != (invalid := invalid_jobs(raw, hosts)):
        raise ValueError(f"{sorted(invalid)} are invalid, {dict(checked.invalid)} are called so")
    return checked


def read_plan(raw: Raw) -> Plan:
    """Make a Plan of a document."""
    return Plan.model_validate({**HEADER, "kind": "Plan", **raw})


def _verify(
    round_: Round, valid: list[Judged], invalid: list[Judged], rng: Random, played: Played
) -> None:
    """Compare the verifier's verdicts and values with those of the rule book."""
    if rng.randrange(ALL_IN):
        classes = {tuple(judged.terms.values()): judged for judged in valid}
        shown = list(classes.values())
        shown = rng.sample(shown, min(CLASSES, len(shown)))
        shown += rng.sample(valid, min(OTHERS, len(valid)))
        shown += rng.sample(invalid, min(INVALID, len(invalid)))
    else:
        shown = valid + invalid
    for judged in shown:
        document = judged.document()
        verification = verify(round_, read_plan(document))
        played.verified += 1
        if judged.broken and verification.ok:
            played.fail("verdict", f"verify accepts a plan that breaks {judged.broken}", document)
        elif not judged.broken and not verification.ok:
            first = verification.violations[0]
            played.fail("verdict", f"verify refuses a valid plan: {first}", document)
        elif not judged.broken and dict(verification.terms) != dict(judged.terms):
            told = f"{dict(verification.terms)}, the rule book says {dict(judged.terms)}"
            played.fail("terms", f"verify says {told}", document)


def _solve(
    policy: Policy, raw: Raw, round_: Round, valid: list[Judged], rng: Random, played: Played
) -> None:
    """Solve a round, alone or as the first of some, and compare plans and bounds with all plans."""
    with _under(policy.settings, rng) as seconds, no_collection():
        arguments: dict[str, Any] = {
            "time_limit": seconds,
            "gap": rng.choice((0.0, 0.0, 1e-4, 0.1)),
            "backend": rng.choice(BACKENDS),
            "seed": rng.randrange(100),
            "deterministic": rng.random() < 0.3,
            "isolation": "none",
        }
        if rng.randrange(FOLLOWED_IN) == 0:
            solved = list(following(round_, rng, **arguments))
        else:
            solved = [watched(round_, **arguments)]
    for number, (solve, plan) in enumerate(solved):
        played.solved = plan
        played.decided += 1
        try:
            if number:
                raw = played.later = in_small_units(
                    solve.given.model_dump(mode="json", exclude_none=True)
                )
                valid = [judged for judged in policy.plans(raw, rng) if not judged.broken]
            _look(policy, raw, valid, solve, plan, played)
        except TooManyPlansError:
            if not number:
                raise


def _look(
    policy: Policy, raw: Raw, valid: list[Judged], solve: Watched, plan: Plan, played: Played
) -> None:
    """Compare a plan and what was told of it with all plans of its scope."""
    document = plan.model_dump(mode="json", exclude_none=True)
    if policy.untrue is not None and (fault := policy.untrue(raw, with_facts(plan, document))):
        played.fail("reason", fault, document)
    if policy.fault is not None:
        _judge_passed(policy.fault, raw, solve, document, played)
    played.features |= set(policy.features(raw, document))
    scope = policy.scope(raw, document)
    spoken = [judged for judged in valid if judged.scope == scope]
    if policy.within is not None:
        spoken = list(policy.within(raw, document))
    listed = dict(solve.values) in [dict(judged.terms) for judged in spoken]
    if policy.judge is not None and not listed:
        judged = policy.judge(raw, document)
        spoken += [judged] if not judged.broken else []
    certificate = plan.certificate
    if certificate is None or not spoken:
        played.fail("unlisted", "no plan of the solver's scope is among all plans", document)
        return
    judge(solve.told, certificate, solve.values, spoken, played, document)


def _judge_passed(
    fault: Callable[[Raw, Raw], str], raw: Raw, solve: Watched, document: Raw, played: Played
) -> None:
    """Ask the rule book about a plan, and about those that were the best before it.

    Of those it is not said who displaces whom.
    """
    passed = [plan.model_dump(mode="json", exclude_none=True) for plan in solve.passed[:-1]]
    for plan in (*({**plan, "unnamed": True} for plan in passed), document):
        if wrong := fault(raw, plan):
            played.fail("rule", wrong, plan)


def with_facts(plan: Plan, document: Raw) -> Raw:
    """Return the document of a plan with the facts of reasons in small units."""
    facts = (None if d.detail is None else dict(d.detail) for d in plan.decisions)
    pairs = zip(document["decisions"], facts, strict=True)
    return {**document, "decisions": [{**decision, "detail": fact} for decision, fact in pairs]}


def judge(
    told: Sequence[Bound],
    certificate: Certificate,
    mine: Mapping[str, int],
    spoken: list[Judged],
    played: Played,
    document: Raw,
) -> None:
    """Compare bounds, status and the plan itself with all plans that they speak of."""
    values = Values([judged.terms for judged in spoken])
    if dict(mine) not in [dict(judged.terms) for judged in spoken]:
        played.fail("unlisted", f"no plan has the values {dict(mine)} of the solver's", document)
    if any("invalid plan" in fault for fault in certificate.degraded):
        played.fail("invalid", "; ".join(certificate.degraded))
    elif any(fault.startswith("reasons:") for fault in certificate.degraded):
        played.fail("reason", "; ".join(certificate.degraded))
    elif any(fault.startswith("formulation:") for fault in certificate.degraded):
        played.fail("exception", "; ".join(certificate.degraded))
    claims = not certificate.degraded
    bounds = [bound for bound in told if bound.certified or claims]
    bounds += certificate_bounds(certificate.terms, mine, claims=claims)
    _compare(bounds, values, spoken, played)
    best = spoken[values.best()]
    if certificate.status == "optimal" and dict(best.terms) != dict(mine):
        text = f"{dict(mine)} is called optimal; a plan has {dict(best.terms)}"
        played.fail("status", text, best.document())
    first = values.terms[0]
    played.best_first = best.terms[first] == mine[first]


def _compare(bounds: Sequence[Bound], values: Values, spoken: list[Judged], played: Played) -> None:
    for bound in dict.fromkeys(bounds):
        played.bounds += 1
        beaten = values.beating(bound)
        if beaten is not None:
            kind = "bound" if bound.certified else "claim"
            played.fail(kind, str(beaten), spoken[beaten.plan].document())


def _prove(
    policy: Policy, raw: Raw, round_: Round, valid: list[Judged], rng: Random, played: Played
) -> None:
    """Prove bounds of some valid plan, and compare them with all plans."""
    chosen = rng.choice(valid)
    document = chosen.document()
    spoken = [judged for judged in valid if judged.scope == policy.scope(raw, document)]
    with _under(policy.settings, rng) as seconds:
        plan = read_plan(document)
        results, on_the_way = proven(round_, plan, time_limit=seconds, isolation="none")
    bounds = [*on_the_way, *certificate_bounds(results, chosen.terms, claims=True)]
    _compare(bounds, Values([judged.terms for judged in spoken]), spoken, played)


@contextmanager
def _under(settings: Sequence[Setting], rng: Random) -> Iterator[float]:
    """Enter one of the settings, drawn by weight; yield the seconds that a solve has under it."""
    (setting,) = rng.choices(settings, [setting.weight for setting in settings])
    with setting.enter():
        yield setting.seconds

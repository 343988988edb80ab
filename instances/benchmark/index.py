"""The index of the instance library, as MIPLIB has one: a line of JSON for each round.

A line says where the round comes from and under which licence, its digest, and of each objective
term the best known value and bound, with who found them and when. Rounds of generators are made
anew by their seed; others are compressed files (`rounds/`). The best known plans are in `plans/`,
so that each value can be checked.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import Field, ValidationError

from placewright.instances.documents.base import API_VERSION, Document, Index, Many, Name, Total
from placewright.instances.documents.form_errors import invalid_input
from placewright.instances.documents.plan import SHA256, Number, Plan, TermResult
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.generators.gang import generate_round
from placewright.instances.generators.geo import generate
from placewright.instances.io.digest import round_digest
from placewright.instances.io.files import AnyPath, load_round, load_text, parse_plan, parse_round
from placewright.instances.io.library import FOLDER
from placewright.instances.policies import sense_of

Suite: TypeAlias = Literal["small", "medium", "large"]
SUITES: tuple[Suite, ...] = get_args(Suite)

HOME = Path(__file__).parent
INDEX = HOME / "index.json"

Text = Annotated[str, Field(min_length=1, max_length=500)]


class Found(Document):
    """Who found something, with what, and on which day (ISO 8601)."""

    by: Text
    on: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]


class Known(Document):
    """A term: its value in the best known plan, and the tightest bound that holds for that plan.

    `proof` is as in a certificate.
    """

    name: Name
    value: Total
    bound: Number | None = None
    proof: Literal["certified", "claimed"] | None = None


class Instance(Document):
    """A round of the library.

    Parameters
    ----------
    name, suite, policy, hosts, gpus, jobs, mix
        What it is like.
    source, licence
        Where the round comes from, and under which licence that is.
    digest
        The sha256 of the canonical round.
    generator
        Arguments of the one in `GENERATORS` that `kind` names; None if the round is a file.
    best, found, proven
        Its terms in their order, who found the plan of these values, and who proved the bounds.
    """

    name: Name
    suite: Suite
    policy: Name
    hosts: Index
    gpus: Index
    jobs: Index
    mix: Text
    source: Text
    licence: Text
    digest: Annotated[str, Field(pattern=SHA256)]
    generator: dict[str, Any] | None = None
    best: Many[Known] = ()
    found: Found | None = None
    proven: Found | None = None


def _bundled(name: str) -> Round:
    return load_round(FOLDER / f"{name}.yaml")


GENERATORS: Mapping[str, Callable[..., Round]] = {
    "bundled": _bundled,
    "gang": generate_round,
    "geo": generate,
}


def read_index(path: AnyPath = INDEX) -> dict[str, Instance]:
    """Return the instances of an index by name.

    Raises
    ------
    InvalidInputError
        If it is none.
    """
    file = str(path)
    found = {}
    for number, line in enumerate(load_text(path).splitlines(), 1):
        try:
            instance = Instance.model_validate_json(line)
        except ValidationError as error:
            raise invalid_input(error, Instance).inside(f"{file}:{number}") from None
        found[instance.name] = instance
    return found


def write_index(instances: Iterable[Instance], path: AnyPath = INDEX) -> None:
    """Write an index: a line for each instance, so that a change shows as one."""
    lines = [json.dumps(one.model_dump(mode="json", exclude_defaults=True)) for one in instances]
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def round_of(instance: Instance) -> Round:
    """Read or make the round of an instance.

    Raises
    ------
    InvalidInputError
        If it is not the round that the index names by its digest.
    """
    if instance.generator is None:
        made = parse_round(_unpacked("rounds", instance.name))
    else:
        arguments = dict(instance.generator)
        made = GENERATORS[arguments.pop("kind")](**arguments)
    if (digest := round_digest(made)) != instance.digest:
        raise InvalidInputError(
            f"is not the round of the index; expected {instance.digest}", (instance.name,), digest
        )
    return made


def best_plan(instance: Instance) -> Plan:
    """Return the plan of the best known values."""
    return parse_plan(_unpacked("plans", instance.name))


def write_round(name: str, round_: Round, home: Path = HOME) -> None:
    """Keep a round as a file of the library."""
    _pack(home / "rounds", name, round_.model_dump(mode="json", exclude_defaults=True))


def write_plan(name: str, plan: Plan, home: Path = HOME) -> None:
    """Keep a plan of an instance, without certificate and reasons."""
    bare = plan.model_copy(
        update={
            "certificate": None,
            "decisions": tuple(
                one.model_copy(update={"reason": None, "detail": None}) for one in plan.decisions
            ),
        }
    )
    _pack(home / "plans", name, bare.model_dump(mode="json", exclude_defaults=True))


def _pack(folder: Path, name: str, document: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    head = {"apiVersion": API_VERSION, "kind": "Round" if folder.name == "rounds" else "Plan"}
    text = json.dumps({**head, **document}, separators=(",", ":"))
    (folder / f"{name}.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))


def _unpacked(folder: str, name: str) -> Any:
    return json.loads(lzma.decompress((HOME / folder / f"{name}.json.xz").read_bytes()))


def with_plan(instance: Instance, values: Mapping[str, int], found: Found) -> Instance | None:
    """Return an instance with the values of a verified plan; None if they are not better.

    Better is meant lexicographically. Bounds of later terms hold for plans that are no worse in
    earlier ones, and are dropped otherwise.
    """
    known = {one.name: one for one in instance.best}
    if known and not _beats(instance.best, values):
        return None
    best: list[Known] = []
    holds = True
    for name, value in values.items():
        old = known.get(name)
        if old is None or not holds:
            best.append(Known(name=name, value=value))
            continue
        best.append(old.model_copy(update={"value": value}))
        holds = _no_worse(name, value, old.value)
    return instance.model_copy(update={"best": tuple(best), "found": found})


def with_bounds(instance: Instance, terms: Sequence[TermResult], found: Found) -> Instance:
    """Return an instance with the bounds of a certificate that are tighter and hold for it."""
    best = list(instance.best)
    tighter = False
    for at, (term, old) in enumerate(zip(terms, instance.best, strict=True)):
        sign = 1 if term.sense == "max" else -1
        if term.bound is not None and (
            old.bound is None
            or sign * term.bound < sign * old.bound
            or (term.bound == old.bound and (term.proof, old.proof) == ("certified", "claimed"))
        ):
            best[at] = old.model_copy(update={"bound": term.bound, "proof": term.proof})
            tighter = True
        if not _no_worse(term.name, old.value, term.value):
            break
    return instance.model_copy(update={"best": tuple(best), "proven": found} if tighter else {})


def _beats(best: Iterable[Known], values: Mapping[str, int]) -> bool:
    """Whether values are lexicographically better; all terms must be there."""
    for one in best:
        if values[one.name] != one.value:
            return _no_worse(one.name, values[one.name], one.value)
    return False


def _no_worse(name: str, value: int, other: int) -> bool:
    return value >= other if sense_of(name) == "max" else value <= other

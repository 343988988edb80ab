"""Checks that each policy adds, and fields that only some policies read.

What is wrong is an `InvalidInputError` with its path in the Round document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from placewright.instances.derived.hardware import Hardware
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError, Path, merged
from placewright.instances.policies import POLICIES, PolicyRegistry

# Checks of references that each policy adds: of its jobs, and of the sections of its rounds.


def _accept(round_: Round) -> None:
    """Accept any jobs."""


def _accept_sections(round_: Round, hosts: Mapping[str, Hardware]) -> None:
    """Accept any sections."""


class PolicyChecks(NamedTuple):
    """What a policy refuses beside what all do; each check raises `InvalidInputError`.

    `jobs` is given a round whose running jobs can be where they are, and `sections` also what each
    host of the cluster has, by name.
    """

    jobs: Callable[[Round], None] = _accept
    sections: Callable[[Round, Mapping[str, Hardware]], None] = _accept_sections


CHECKS: PolicyRegistry[PolicyChecks] = PolicyRegistry(
    {
        "gang": "placewright.instances.checks.round:GANG_CHECKS",
        "interleaving": "placewright.instances.checks.running:CHECKS",
        "deadline": "placewright.instances.checks.deadlines:CHECKS",
        "geo": "placewright.instances.checks.geo:CHECKS",
        "replicas": "placewright.instances.checks.geo:CHECKS",
        "stages": "placewright.instances.checks.stages:CHECKS",
    }
)
"""The checks of each policy."""


# Fields that only some policies read: a round that gives one to another policy is refused.


_JOBS = "jobs"


def check_job_fields(round_: Round) -> None:
    """Refuse jobs with fields that the policy does not read."""
    names = [name for owner, name in _unused(round_) if owner == _JOBS]
    paths = _given(round_.jobs, names, _JOBS)
    _refuse(_refused(round_, path, "expected none") for path in paths)


def check_fields(round_: Round) -> None:
    """Refuse fields of the round, its tenants and its policy that the policy does not read."""
    paths: list[Path] = []
    for owner, name in _unused(round_):
        if owner == "tenants":
            paths += _given(round_.tenants, [name], owner)
        elif owner != _JOBS and getattr(getattr(round_, owner) if owner else round_, name):
            paths.append((owner, name) if owner else (name,))
    _refuse(_refused(round_, path, "expected the round without it") for path in paths)


def _unused(round_: Round) -> list[tuple[str, str]]:
    """Return owner and name of the fields that only other policies read; a Round is no owner."""
    read = round_.policy.spec.fields
    fields = (field for spec in POLICIES.values() for field in spec.fields if field not in read)
    parts = (field.rpartition(".") for field in dict.fromkeys(fields))
    return [(owner, name) for owner, _, name in parts]


def _given(entries: Iterable[Any], names: Sequence[str], owner: str) -> Iterator[Path]:
    """Yield the path of each field that an entry gives."""
    for index, entry in enumerate(entries):
        for name in names:
            value = getattr(entry, name)
            if value or (value == () and type(entry).model_fields[name].default is None):
                yield owner, index, name


def _refuse(errors: Iterable[InvalidInputError]) -> None:
    found = list(errors)
    if found:
        raise merged(found)


def _refused(round_: Round, path: Path, expected: str) -> InvalidInputError:
    policy = round_.policy.formulation
    return InvalidInputError(f"not used by policy {policy!r}; {expected}", path)

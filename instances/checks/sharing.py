"""Checks of profiles and the section `sharing` against the rest of a round."""

from __future__ import annotations

from collections.abc import Mapping

from placewright.instances.checks.policies import PolicyChecks
from placewright.instances.derived.compatibility import asks_whole_gpus
from placewright.instances.derived.hardware import Hardware
from placewright.instances.derived.names import check_known
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.errors import Errors, InvalidInputError, Path

MAX_SAMPLES = 2_000_000
"""Samples of load and memory of all jobs together; a verification reads each a few times."""
MAX_LOADS = 2_000
"""Jobs whose loads are compared, each with each."""


def check_profiles(round_: Round) -> None:
    """Refuse profiles with a stage too many or too few, and those of jobs without GPUs.

    Raises
    ------
    InvalidInputError
        The first fault, with its path in the Round document.
    """
    resources = round_.sharing.resources
    errors = Errors()
    for i, job in enumerate(round_.jobs):
        if job.profile is None:
            continue
        with errors:
            if len(job.profile.stages) != len(resources):
                raise InvalidInputError(
                    f"{len(job.profile.stages)} stages; "
                    f"expected {len(resources)}: {', '.join(resources)}",
                    path=("jobs", i, "profile", "stages"),
                    show_value=False,
                )
            if not job.options[0].milli_gpu:
                raise InvalidInputError(
                    "given for a job without GPUs; expected a first option with some",
                    path=("jobs", i, "profile"),
                    show_value=False,
                )
    errors.refuse()


def check_sharing(
    round_: Round,
    hosts: Mapping[str, Hardware],  # noqa: ARG001
) -> None:
    """Refuse conflicts of unknown jobs, and series too long to compare.

    Raises
    ------
    InvalidInputError
        The first fault, with its path in the Round document.
    """
    _check_conflicts(round_)
    _check_series(round_)


def _check_conflicts(round_: Round) -> None:
    """Refuse conflicts of jobs that are unknown, or could meet on shares of a GPU."""
    sharing, jobs = round_.sharing, {job.name: job for job in round_.jobs}
    errors = Errors()
    for i, pair in enumerate(sharing.conflicts):
        for k, name in enumerate(pair):
            path: Path = ("sharing", "conflicts", i, k)
            with errors:
                check_known(name, jobs, "job", path)
                if _takes_shares(jobs[name]):
                    raise InvalidInputError(
                        "is a job that asks for parts of GPUs; expected jobs of whole GPUs",
                        path=path,
                        value=name,
                    )
    errors.refuse()
    for i, job in enumerate(round_.jobs if sharing.correlation is not None else ()):
        if job.profile is not None and job.profile.load and _takes_shares(job):
            raise InvalidInputError(
                "given for a job that asks for parts of GPUs; expected whole GPUs, or no "
                "correlation",
                path=("jobs", i, "profile", "load"),
                show_value=False,
            )


def _check_series(round_: Round) -> None:
    """Refuse utilization series whose pairwise comparison would take too long."""
    samples = loads = 0
    for i, job in enumerate(round_.jobs):
        if job.profile is None:
            continue
        loads += bool(job.profile.load)
        if round_.sharing.correlation is not None and loads > MAX_LOADS:
            raise InvalidInputError(
                f"given for more than {MAX_LOADS:,} jobs; expected that many at most, or no "
                "correlation",
                path=("jobs", i, "profile", "load"),
                show_value=False,
            )
        for field, series in (("load", job.profile.load), ("memory", job.profile.memory)):
            samples += len(series)
            if samples > MAX_SAMPLES:
                raise InvalidInputError(
                    f"more than {MAX_SAMPLES:,} samples together with the jobs before; expected "
                    "shorter series",
                    path=("jobs", i, "profile", field),
                    show_value=False,
                )


def _takes_shares(job: Job) -> bool:
    return any(option.milli_gpu and not asks_whole_gpus(option) for option in job.options)


CHECKS = PolicyChecks(check_profiles, check_sharing)
"""What the policy `interleaving` refuses."""

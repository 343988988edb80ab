"""What else there is to know: how the plan was made, and what the round cannot say."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.instances.documents.plan import Plan
from placewright.report.panels.subject import Subject
from placewright.report.table import Table, table
from placewright.report.text import NONE


def notes(subject: Subject) -> Iterator[Table]:
    """Yield tables of what went wrong, of invalid jobs, and of how each plan was made."""
    wrong = [
        (name, text)
        for name, plan in zip(subject.names, subject.plans, strict=True)
        if plan.certificate is not None
        for text in plan.certificate.degraded
    ]
    if wrong:
        yield table("What went wrong in the search", ("plan", "what"), wrong)
    if subject.round.invalid:
        yield table(
            "Jobs that make no sense, and wait",
            ("job", "what is wrong"),
            ((subject.cell(job), text) for job, text in subject.round.invalid.items()),
        )
    made = [dict(_made(plan)) for plan in subject.plans]
    keys = dict.fromkeys(key for one in made for key in one)
    yield table(
        "How it was made",
        ("", *subject.names) if len(made) > 1 else ("", ""),
        ((key, *(one.get(key, NONE) for one in made)) for key in keys),
    )


def _made(plan: Plan) -> Iterator[tuple[str, str]]:
    certificate = plan.certificate
    if certificate is None:
        yield "certificate", "none: made by hand, or by another scheduler"
    else:
        yield "status", certificate.status.replace("_", " ")
        yield "backend", certificate.backend
        yield "versions", ", ".join(f"{name} {v}" for name, v in certificate.versions.items())
        yield "seed", str(certificate.seed)
        if certificate.deterministic:
            yield "repeatable", "yes" if certificate.repeatable else "no"
        if (run := certificate.run) is not None:
            yield "wall clock", f"{run.wall_s:.2f} s"
            yield "CPU", f"{run.cpu_s:.2f} s"
            yield "peak memory", f"{run.peak_mib:,.0f} MiB"
    if plan.round is not None:
        yield "sha256 of the round", plan.round

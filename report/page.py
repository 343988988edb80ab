"""One self-contained page about a round and its plan, or two plans of it side by side.

The page asks nothing of any other place, and its Content-Security-Policy allows only the script and
the style that are written into it. Names are hostile: the template escapes them, what the script
reads of them is JSON that no markup can end, and characters that are not printable become escapes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import cache, partial
from typing import Any

from markupsafe import Markup

from placewright.instances.checks.round import checked
from placewright.instances.derived.source_words import Words, words_of
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.io.digest import round_digest
from placewright.report.job_data import job_data
from placewright.report.map_data import map_data
from placewright.report.panels.limits import caps, free, pools, uplinks, usage
from placewright.report.panels.moves import moves
from placewright.report.panels.policies import PANELS
from placewright.report.panels.subject import Subject
from placewright.report.panels.summary import differences, notes, objective, source, summary
from placewright.report.panels.waiting import waiting
from placewright.report.table import Table
from placewright.report.template import content_policy, environment, text_of

SCRIPTS = ("data.js", "layout.js", "paint.js", "map.js", "picked.js", "jobs.js", "page.js")


def render_report(
    round: Round,  # noqa: A002
    plan: Plan,
    other: Plan | None = None,
    *,
    time_limit: float = 0.0,
) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    round, plan
        A round, and a valid plan for it.
    other
        Another valid plan for it, to show beside the first one.
    time_limit
        Seconds to look for what would let waiting jobs start; 0: what the plan says of them.
    """
    round = checked(round)  # noqa: A001
    plans = [plan] if other is None else [plan, other]
    subject = Subject(round, [one.completed(round.names) for one in plans])
    both = zip(subject.names, subject.plans, strict=True)
    each = time_limit / len(subject.plans)
    script, style = _script(), text_of("page.css")
    words = words_of(round)
    said = partial(_said, words)
    data = {
        "words": {one: words.say(one) for one in ("tenant", "Tenant")},
        "map": map_data(subject),
        "jobs": job_data(round, subject.plans),
        "names": list(subject.names),
    }
    return (
        environment()
        .get_template("page.html")
        .render(
            subject=subject,
            summary=summary(subject),
            objective=objective(subject),
            differences=list(differences(subject)),
            usage=said([*usage(subject), *caps(subject), *pools(subject), *uplinks(subject)])
            if round.policy.spec.places_jobs
            else [],
            free=said(free(subject)),
            moves=said(moves(subject)),
            say=words.say,
            title=PANELS[round.policy.formulation].title,
            special=[(name, said(tables)) for name, tables in _special(subject)],
            waiting=[waiting(subject, name, made, each) for name, made in both],
            notes=said([*source(subject), *notes(subject)]),
            digest=round_digest(round),
            mapped=round.policy.spec.places_jobs and subject.cluster.num_gpus > 0,
            policy=content_policy(style, script),
            script=Markup(script),  # noqa: S704
            style=Markup(style),  # noqa: S704
            data=embedded(data),
        )
    )


def _said(words: Words, tables: Iterable[Table]) -> list[Table]:
    """Return tables with titles and columns in the words of the source of the round."""
    return [
        replace(one, title=words.say(one.title), columns=tuple(map(words.say, one.columns)))
        for one in tables
    ]


def _special(subject: Subject) -> list[tuple[str, list[Table]]]:
    """Return the tables of the policy for each plan, with what the plan is called."""
    decided = subject.decided
    names = [""] if len(decided.plans) == 1 else [f" of {name}" for name in decided.names]
    tables = PANELS[decided.round.policy.formulation].tables
    both = zip(names, decided.plans, strict=True)
    return [(name, list(tables(decided, plan))) for name, plan in both]


def embedded(data: Any) -> Markup:
    """Return JSON that stands in a script element: ASCII alone, without any `<`, `>` or `&`."""
    text = json.dumps(data, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704


@cache
def _script() -> str:
    parts = "\n".join(text_of(name) for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'

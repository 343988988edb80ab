"""A question "what if" and its answer, as text and as an object for JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from placewright.cli.views.comparison import comparison_object, print_comparison
from placewright.cli.views.gang.selected import DEFAULT, Selection
from placewright.cli.views.gang.tables import certificate_line
from placewright.cli.views.tables import print_plan
from placewright.instances.edits.sentences import sentence_of
from placewright.instances.io.files import json_text

if TYPE_CHECKING:
    from rich.console import Console

    from placewright.explain.whatif import WhatIf
    from placewright.instances.documents.edits import Edits
    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round

INTERRUPTED = "The second search was interrupted: its plan may not be finished."
UNFINISHED = (
    "The second search was interrupted before it had a plan. The plan of the round as it is:"
)


def print_whatif(
    console: Console, answer: WhatIf, edits: Edits, selection: Selection = DEFAULT
) -> None:
    """Print the edits as sentences, and the difference that they make."""
    _print_edits(console, answer.round, edits)
    if answer.interrupted:
        console.print(INTERRUPTED, soft_wrap=True)
    print_comparison(console, answer.comparison, answer.round_after.now, selection)
    for when, plan in (("before", answer.before), ("after", answer.after)):
        if plan.certificate is not None:
            console.print(f"{when}: {certificate_line(plan.certificate)}", soft_wrap=True)


def print_unfinished(console: Console, round_: Round, first: Plan, edits: Edits) -> None:
    """Print the plan of the round as it is, where the edited round has none."""
    _print_edits(console, round_, edits)
    console.print(UNFINISHED, soft_wrap=True)
    console.print()
    print_plan(console, round_, first)


def whatif_object(answer: WhatIf, edits: Edits) -> dict[str, Any]:
    """Return what `whatif --format json` prints (docs/cli.md)."""
    return {
        **_edits_object(edits),
        "interrupted": answer.interrupted,
        **comparison_object(answer.comparison),
    }


def unfinished_object(first: Plan, edits: Edits) -> dict[str, Any]:
    """Return what `whatif --format json` prints where the edited round has none yet."""
    before = json.loads(json_text(first))
    return {**_edits_object(edits), "interrupted": True, "before": before}


def _edits_object(edits: Edits) -> dict[str, Any]:
    return {
        "edits": edits.model_dump(mode="json", exclude_unset=True)["edits"],
        "sentences": [sentence_of(edit) for edit in edits.edits],
    }


def _print_edits(console: Console, round_: Round, edits: Edits) -> None:
    console.print(f"What if, in round {round_.name}:")
    for edit in edits.edits:
        console.print(f"  {sentence_of(edit)}", soft_wrap=True)
    console.print()

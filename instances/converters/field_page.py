"""The page of fields: what becomes of each field that a reader of a live cluster may meet.

`python -m placewright.instances.converters.field_page FILE` writes it; it is made from the ledgers
alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from placewright.instances.converters.kubernetes.ledger import LEDGERS as OF_KUBERNETES
from placewright.instances.converters.ledger import OTHERWISE, Ledger, Rule, Told, Use
from placewright.instances.converters.slurm.ledger import LEDGERS as OF_SLURM

_HEAD = """\
# Fields of live clusters

Made from the tables in the code. Of each object that `convert` and `watch` read, a field is

- **read**: the round obeys it, or shows it;
- **of no effect** on which plans are right;
- **told**: a rule that the round cannot say. The job or host that carries it has it as a
  [caveat](file-formats.md#annotations). A *hard* one may forbid what the round allows; a *soft*
  one is a wish, or leaves no plan wrong.

A field that is in no table is told as `unknown-field` (soft); of one with a few fixed
words another word is told as `unknown-word` (hard). A path stands for all that is below
it; null, empty, false and 0 say nothing.
"""


def field_page() -> str:
    """Return the page, as Markdown."""
    named = [(f"Slurm: {name}", ledger) for name, ledger in OF_SLURM.items()]
    named += [(_title(*kind), ledger) for kind, ledger in OF_KUBERNETES.items()]
    return "\n".join((_HEAD, *(line for title, one in named for line in _section(title, one))))


def _title(group: str, name: str) -> str:
    return f"Kubernetes: {name}" + (f" of {group}" if group else "")


def _section(title: str, ledger: Ledger) -> Iterator[str]:
    uses = list(ledger.uses())
    yield from (f"## {title}", "")
    for use in Use:
        yield from (f"**{use.value.capitalize()}**: {_paths(p for p, u in uses if u is use)}", "")
    told = [(path, use) for path, use in uses if not isinstance(use, Use)]
    if told:
        yield from ("| told | rule | |", "|---|---|---|")
        yield from (
            row for path, use in sorted(told, key=lambda one: one[0]) for row in _rows(path, use)
        )
        yield ""


def _paths(paths: Iterable[str]) -> str:
    return ", ".join(f"`{path}`" for path in sorted(paths)) or "none"


def _rows(path: str, told: Told) -> Iterator[str]:
    rules: Mapping[str, Rule | Use | None] = {"": told} if isinstance(told, Rule) else told
    others = [value for value, rule in rules.items() if not isinstance(rule, Rule)]
    for value, rule in rules.items():
        if not isinstance(rule, Rule):
            continue
        which = f" = {value}" if value != OTHERWISE else ""
        but = f", but for {', '.join(others)}" if others and value == OTHERWISE else ""
        kind = "hard" if rule.hard else "soft"
        yield f"| `{path}`{which}{but} | `{rule.name}` ({kind}) | {rule.text} |"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(field_page())

"""Rounds that come with the package: the bundled ones, with what each shows, and starters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from placewright.instances.io.yaml_json import parse_yaml
from placewright.instances.policies import GANG

FOLDER = Path(__file__).parents[1] / "library"
STARTERS = Path(__file__).parents[1] / "starter"


@dataclass(frozen=True, slots=True)
class Example:
    """A bundled round, as its first comment describes it.

    Attributes
    ----------
    path
        Its file; the name of the round is the file's.
    policy
        The formulation that decides it.
    source
        What it shows, and where that is from.
    answer, why
        The values of the terms of its best plan, and how that comes.
    """

    path: Path
    policy: str
    source: str
    answer: str
    why: str


def examples() -> Iterator[Example]:
    """Yield the bundled rounds, by name."""
    for path in sorted(FOLDER.glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        fields = {"Source": "", "Objective": "", "Answer": ""}
        field = ""
        for line in text.splitlines():
            if not line.startswith("#"):
                break
            word, _, rest = line.removeprefix("# ").partition(": ")
            begins = word in fields
            field, said = (word, f"{rest}\n") if begins else (field, f"{line.strip('# ')} ")
            if field:
                fields[field] += said
        policy = parse_yaml(text).get("policy", {}).get("formulation", GANG.name)
        answer, _, why = fields["Answer"].partition("\n")
        source = " ".join(fields["Source"].split())
        yield Example(path, policy, source, answer, " ".join(why.split()))

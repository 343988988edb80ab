"""Draw the gallery of bundled rounds: `python docs/gallery.py FOLDER`; the site's build does it."""

from __future__ import annotations

import contextlib
import io
import sys
from collections import defaultdict
from pathlib import Path

from placewright import load_round, solve_round, write
from placewright.cli.app import main as placewright
from placewright.instances.io.library import Example, examples
from placewright.instances.policies import POLICIES

INTRO = """# Gallery

The rounds that come with Placewright, each small and with a known answer, drawn with their plans.
`placewright examples NAME` prints one.
"""


def draw(example: Example, folder: Path) -> bool:
    """Draw the plan of a bundled round; return whether there is a picture of it."""
    plan, picture = folder / "plan.json", folder / f"{example.path.stem}.svg"
    write(solve_round(load_round(example.path), isolation="none"), plan)
    words = ["show", str(example.path), "--plan", str(plan), "-o", str(picture)]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        placewright(words)
    plan.unlink()
    return picture.exists()


def write_gallery(folder: Path) -> None:
    """Write the page and its pictures."""
    folder.mkdir(exist_ok=True)
    parts = defaultdict(list)
    for example in examples():
        name = example.path.stem
        shown = f"\n![{name}]({name}.svg)\n" if draw(example, folder) else ""
        source = example.source[:1].upper() + example.source[1:]
        answer = f"\nAnswer: **{example.answer}**. {example.why}\n" if example.answer else ""
        parts[example.policy].append(f"### {name}\n\n{source}\n{shown}{answer}")
    sections = (
        f"## Policy `{name}`: {spec.title}\n\n" + "\n".join(parts[name])
        for name, spec in POLICIES.items()
        if name in parts
    )
    (folder / "index.md").write_text("\n".join((INTRO, *sections)), encoding="utf-8")


if __name__ == "__main__":
    write_gallery(Path(sys.argv[1]))

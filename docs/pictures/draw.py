"""Draw the pictures of docs/architecture.md: `python docs/pictures/draw.py` writes two SVG files.

Boxes are placed by hand, in units of a hundredth of an inch, y downwards. An argument is the
suffix of the files, such as `.png`, to look at them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

INK, FRAME = "#222222", "#555555"
FILL = {
    "cli": "#eeeeee",
    "live": "#e8eef4",
    "report": "#f4eee0",
    "explain": "#fbf3cf",
    "rounds": "#fde9c9",
    "formulations": "#d6e9f8",
    "instances": "#dcefdc",
    "solver": "#eadff2",
    "topology": "#f6dede",
    "plain": "#ffffff",
}


class Picture:
    """A figure of boxes and arrows."""

    def __init__(self, width: int, height: int) -> None:
        self.figure = Figure(figsize=(width / 100, height / 100))
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, width), ylim=(height, 0))
        self.axes.axis("off")

    def box(
        self, x: int, y: int, width: int, height: int, title: str, text: str = "", fill: str = ""
    ) -> None:
        """Draw a box with a bold title and lines of text below it."""
        shape = FancyBboxPatch(
            (x, y),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=6",
            facecolor=FILL[fill or "plain"],
            edgecolor=FRAME,
            linewidth=0.9,
        )
        self.axes.add_patch(shape)
        lines = text.count("\n") + 1 if text else 0
        middle = x + width / 2
        top = y + height / 2 - 7.5 * lines
        self.axes.text(
            middle, top, title, ha="center", va="center", size=9.5, weight="bold", color=INK
        )
        if text:
            self.axes.text(
                middle,
                top + 11,
                text,
                ha="center",
                va="top",
                size=8.2,
                color=INK,
                linespacing=1.25,
            )

    def note(self, x: int, y: int, text: str, align: str = "center") -> None:
        """Write small text around a point, or from it to the left or right."""
        self.axes.text(x, y, text, ha=align, va="center", size=8, color=INK, style="italic")

    def arrow(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Draw an arrow."""
        self.axes.annotate(
            "",
            xy=end,
            xytext=start,
            arrowprops={
                "arrowstyle": "-|>",
                "color": FRAME,
                "linewidth": 1.1,
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )

    def save(self, file: Path) -> None:
        """Write the picture; the same source and matplotlib give the same bytes."""
        metadata = {"Date": None} if file.suffix == ".svg" else None
        with rc_context({"svg.hashsalt": file.stem, "svg.fonttype": "none"}):
            self.figure.savefig(file, dpi=110, metadata=metadata)


def life_of_a_round() -> Picture:
    """Draw how a file becomes a plan."""
    picture = Picture(900, 470)
    for y, height, layer in (
        (12, 96, "instances"),
        (126, 96, "rounds"),
        (240, 96, "formulations"),
        (372, 84, "solver"),
    ):
        picture.note(14, y + height // 2, f"{layer}/", "left")
    top, middle, low, bottom = 24, 138, 252, 384
    picture.box(118, top, 120, 72, "load_round", "strict schema,\nreferences checked", "instances")
    picture.box(118, middle, 120, 72, "solve_round", "picks the policy's\ndecider", "rounds")
    picture.box(118, low, 120, 72, "compile", "job classes,\nhosts as arrays", "formulations")
    picture.box(
        318, low, 170, 72, "run", "heuristics, models, bounds:\na generator", "formulations"
    )
    picture.box(318, bottom, 170, 60, "Worker process", "one backend per solver", "solver")
    picture.box(318, middle, 170, 72, "decide", "decisions, order of moves,\nsections", "rounds")
    picture.box(318, top, 170, 72, "verify", "every rule, every term,\nrecomputed", "instances")
    picture.box(568, middle, 130, 72, "incumbent", "best verified plan,\nits bounds", "rounds")
    picture.box(
        758, middle, 130, 72, "certificate", "value, bound, gap;\nverified once more", "rounds"
    )
    picture.box(758, top, 130, 72, "write", "YAML or JSON", "instances")
    picture.arrow((178, 4), (178, 24))
    picture.note(186, 10, "file", "left")
    picture.arrow((178, 96), (178, 138))
    picture.note(184, 117, "Round", "left")
    picture.arrow((178, 210), (178, 252))
    picture.arrow((238, 288), (318, 288))
    picture.note(278, 276, "Problem")
    picture.arrow((403, 252), (403, 210))
    picture.note(397, 231, "Candidate", "right")
    picture.arrow((403, 138), (403, 96))
    picture.note(397, 117, "Plan", "right")
    picture.arrow((488, 60), (600, 138))
    picture.note(556, 84, "values", "left")
    picture.arrow((488, 270), (600, 210))
    picture.note(516, 226, "Bound", "left")
    picture.arrow((640, 210), (488, 302))
    picture.note(606, 262, "session.best, proven,\ntime that is left", "left")
    picture.arrow((380, 324), (380, 384))
    picture.note(374, 354, "Arrays, Limits", "right")
    picture.arrow((426, 384), (426, 324))
    picture.note(432, 354, "Outcome: a checked point, bound, duals", "left")
    picture.arrow((698, 174), (758, 174))
    picture.note(728, 154, "time up,\nor proven")
    picture.arrow((823, 138), (823, 96))
    picture.note(829, 117, "Plan", "left")
    picture.arrow((823, 24), (823, 4))
    picture.note(831, 10, "file", "left")
    return picture


def layers() -> Picture:
    """Draw who imports whom, and the floor plan of a formulation."""
    picture = Picture(900, 470)
    picture.note(200, 18, "Folders: imports go downwards only, along the arrows")
    folders = (
        ("cli", "verbs, tables, pictures"),
        ("live", "running clusters, a service"),
        ("report", "what is shown, one page"),
        ("explain", "why a job waits, what if, audit"),
        ("rounds", "one round, or one after another"),
        ("formulations", "plans and bounds"),
        ("instances", "documents, files, the verifier"),
    )
    for i, (folder, text) in enumerate(folders):
        picture.box(90, 40 + 54 * i, 220, 42, f"{folder}/", text, folder)
        if i:
            picture.arrow((200, 28 + 54 * i), (200, 40 + 54 * i))
    picture.box(20, 418, 160, 42, "solver/", "MILP, LP; no GPU", "solver")
    picture.box(200, 418, 200, 42, "topology/", "clusters as arrays and graphs", "topology")
    picture.arrow((90, 331), (50, 418))
    picture.arrow((290, 406), (290, 418))
    picture.axes.plot([440, 440], [12, 460], color="#bbbbbb", linewidth=0.8)
    picture.note(670, 18, "Inside a formulation: each step imports only from steps below it")
    steps = (
        ("incremental", "from the last plan and its dual prices"),
        ("run", "the phases, in their order"),
        ("bounds", "Lagrangian, packing, branch and bound"),
        ("heuristics", "construct, repair, improve: one algorithm a file"),
        ("models", "MILP and LP: exact, aggregate, relaxed"),
        ("placement", "a plan under construction; to and from candidates"),
        ("problem", "what is decided, as arrays"),
    )
    for i, (title, text) in enumerate(steps):
        picture.box(540 - 10 * i, 40 + 54 * i, 260 + 20 * i, 42, title, text, "formulations")
        if i:
            picture.arrow((670, 28 + 54 * i), (670, 40 + 54 * i))
    return picture


PICTURES = {"round": life_of_a_round, "layers": layers}
"""What draws each picture, by the file's name without its suffix."""


def main() -> None:
    """Write the pictures beside this script."""
    suffix = sys.argv[1] if len(sys.argv) > 1 else ".svg"
    for name, draw in PICTURES.items():
        draw().save(Path(__file__).with_name(name + suffix))


if __name__ == "__main__":
    main()

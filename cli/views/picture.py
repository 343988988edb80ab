"""Pictures of a round, of its plan, and of two plans, as a file."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from placewright.cli.interrupts import interrupts
from placewright.cli.views.gang.facts import Occupancy, occupancy_of
from placewright.cli.views.gang.picture import PAPER, draw_map
from placewright.instances.derived.hardware import hardware
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.plan import Decision, DecisionKind, Plan
from placewright.instances.errors import printable
from placewright.instances.io.streams import write
from placewright.report.text import shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from placewright.instances.documents.round import Round


SUFFIXES = (".png", ".svg")
MARGIN_INCHES = 0.2
NO_MAP_INCHES = 0.01
DPI = 150
MAX_TITLE = 80
HATCH_POINTS = 0.5


def check_picture(path: str, option: str = "-o") -> None:
    """Refuse early what could only fail after a document was read; `option` names the picture.

    Raises
    ------
    typer.BadParameter
        If the suffix is none of `SUFFIXES`, or matplotlib is not installed.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        raise typer.BadParameter(
            f"{path} is no picture's name; expected it to end in {' or '.join(SUFFIXES)}",
            param_hint=option,
        )
    if find_spec("matplotlib") is None:
        raise typer.BadParameter(
            "a picture needs matplotlib, which is not installed; "
            "expected what pip install 'placewright[plot]' brings",
            param_hint=option,
        )


def draw(
    occupancy: Occupancy,
    path: str,
    title: str,
    subtitle: str,
    add_panels: Callable[[Figure], None],
    *,
    mapped: bool = True,
) -> None:
    """Write a picture of a cluster, and what its policy has to show below it.

    The path's suffix is the format. GPUs are drawn one by one, each with the parts that jobs hold,
    where they can be read; else a cell stands for a host, a rack or more and stacks what its GPUs
    do, in proportion. A plan that is not `mapped` has its panels alone.

    Raises
    ------
    ValueError
        If the cluster has no GPUs.
    InvalidInputError
        If the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = draw_map(occupancy) if mapped else Figure(figsize=(PAPER[0], NO_MAP_INCHES))
    height = figure.get_size_inches()[1]
    # All else lies outside the axes; the tight bounding box includes it.
    figure.text(0, 1 + 0.4 / height, shortened(title, MAX_TITLE), size=11, weight="bold")
    figure.text(0, 1 + 0.2 / height, subtitle, size=9)
    add_panels(figure)
    save_figure(figure, path, title)


def save_figure(figure: Figure, path: str, title: str) -> None:
    """Write a figure, in the format of the path's suffix, with escapes for what is not printable.

    Raises
    ------
    InvalidInputError
        If the file cannot be written.
    """
    from matplotlib import rc_context
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_text("\n".join(map(printable, text.get_text().split("\n"))))
        text.set_parse_math(False)
    content = BytesIO()
    suffix = Path(path).suffix.lower()[1:]
    # A fixed salt and no date: the same plan gives the same bytes. Text stays text, to search in.
    with rc_context(
        {"svg.hashsalt": "placewright", "svg.fonttype": "none", "hatch.linewidth": HATCH_POINTS}
    ):
        figure.savefig(
            content,
            format=suffix,
            dpi=DPI,
            bbox_inches="tight",
            pad_inches=MARGIN_INCHES,
            metadata={"Date": None, "Title": printable(title)} if suffix == "svg" else None,
        )
    with interrupts.writing(path):
        write(path, content.getvalue())


def check_has_gpus(round_: Round, file: str) -> None:
    """Refuse early to draw a cluster without GPUs.

    Raises
    ------
    typer.BadParameter
        If there is nothing to draw.
    """
    if not any(hardware(entry).gpus for entry in round_.cluster.hosts):
        raise typer.BadParameter(f"{file} has no GPUs to draw", param_hint="--picture")


def draw_difference(
    round_: Round, plan: Plan, round_after: Round, plan_after: Plan, path: str
) -> None:
    """Draw what runs after each of two plans, on the cluster of the second round.

    Jobs that run in the second plan alone are drawn as started, those that run in the first alone
    as preempted, those that are elsewhere as migrated.
    """
    jobs = {job.name: job for job in round_.jobs} | {job.name: job for job in round_after.jobs}
    old = {job.name: job for job in round_.jobs}
    before = {decision.job: decision for decision in plan.decisions if decision.tasks}
    after = {decision.job: decision for decision in plan_after.decisions if decision.tasks}
    made: list[Job] = []
    decisions: list[Decision] = []
    for name, job in jobs.items():
        first, second = before.get(name), after.get(name)
        if first is None and second is None:
            continue
        options, running = job.options, None
        if first is not None:
            # The two may have other options; each is drawn with its own.
            options = (*options, old[name].options[first.option or 0])
            running = Running.model_construct(option=len(options) - 1, tasks=first.tasks)
        made.append(job.model_copy(update={"options": options, "running": running}))
        decisions.append(_decision(name, first, second))
    drawn = round_after.model_copy(update={"jobs": tuple(made)})
    change = Plan(decisions=tuple(decisions), sections=plan_after.sections)
    occupancy = occupancy_of(drawn, change, both=True)
    title = f"Before and after: {round_after.name}"
    draw(
        occupancy,
        path,
        title,
        "migrated: elsewhere after; preempted: runs before only; started: runs after only",
        lambda _: None,
    )


def _decision(name: str, first: Decision | None, second: Decision | None) -> Decision:
    if second is None:
        return Decision(job=name, decision=DecisionKind.PREEMPT)
    kind = DecisionKind.MIGRATE
    if first is None:
        kind = DecisionKind.START
    elif first.tasks == second.tasks:
        kind = DecisionKind.KEEP
    return Decision(job=name, decision=kind, option=second.option, tasks=second.tasks)

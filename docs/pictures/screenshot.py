"""Draw the report of a made-up plan as report.png: `.venv/bin/python docs/pictures/screenshot.py`.

It needs Chromium.
"""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import sync_playwright

from placewright import solve_round
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Reservation, Round
from placewright.instances.generators.gang import generate_round
from placewright.report.page import render_report

HERE = Path(__file__).parent
ARGUMENTS = ("--no-sandbox", "--disable-gpu")
SEED = 4


def example() -> tuple[Round, Plan]:
    """Return a round of 64 hosts, two of them failed and one reserved, and its plan."""
    made = generate_round(512, 60, tenants=5, seed=SEED)
    busy = {task.host for job in made.jobs if job.running for task in job.running.tasks}
    names = [(name, entry) for entry in made.cluster.hosts for name in expand(entry.name)]
    free = [name for name, _ in names if name not in busy]
    failed = free[3:5]
    hosts = tuple(
        entry.model_copy(update={"name": name, "healthy": name not in failed})
        for name, entry in names
    )
    cluster = made.cluster.model_copy(update={"hosts": hosts})
    reservations = (Reservation(host=free[9]),)
    update = {"name": "training-cluster", "cluster": cluster, "reservations": reservations}
    round_ = made.model_copy(update=update)
    return round_, solve_round(round_, deterministic=True)


def main() -> None:
    """Write the picture."""
    page_file = HERE / "report.html"
    page_file.write_text(render_report(*example(), time_limit=30), encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=list(ARGUMENTS)
        )
        page = browser.new_page(viewport={"width": 1360, "height": 1060})
        page.goto(page_file.as_uri())
        page.locator("#job-table tbody tr").first.wait_for()
        page.locator("#canvas").hover(position={"x": 598, "y": 196})
        page.screenshot(path=HERE / "report.png")
        browser.close()
    page_file.unlink()


if __name__ == "__main__":
    main()

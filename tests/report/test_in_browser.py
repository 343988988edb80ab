"""The page in Chromium: what is drawn, picked, filtered and read without a mouse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from placewright import solve_round
from placewright.instances import verify as verification
from placewright.instances.io.files import load_round
from placewright.report.page import render_report
from tests.report import subjects

pytestmark = pytest.mark.browser

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
PROBES = Path(__file__).with_name("probes.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS.split())
        yield made
        made.close()


@pytest.fixture
def show(browser, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open a page; afterwards it must have asked for nothing, and have no error."""
    asked: list[str] = []
    wrong: list[str] = []
    contexts = []

    def opened(html: str, **options: Any) -> Any:
        file = tmp_path / "report.html"
        file.write_text(html, encoding="utf-8")
        context = browser.new_context(viewport={"width": 1400, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(file.as_uri())
        page.wait_for_function("document.documentElement.dataset.ready === 'true'")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert all(url.startswith("file:") and url.endswith("report.html") for url in asked), asked
    assert not wrong


@pytest.fixture
def page(show):
    return show(render_report(*subjects.solved("quickstart")))


def probe(page: Any, name: str, *arguments: Any) -> Any:
    """What a function of probes.js returns."""
    return page.evaluate(f"(given) => {{ {PROBES}; return {name}(...given); }}", list(arguments))


def colours(page: Any) -> int:
    """How many colours the map has."""
    return int(probe(page, "colours"))


def test_the_map_is_drawn_and_every_state_looks_different(page):
    seen = [colours(page)]
    pictures = set()
    for name in ("Before", "After", "Difference"):
        page.get_by_role("radio", name=name, exact=True).click()
        page.wait_for_timeout(50)
        seen.append(colours(page))
        pictures.add(page.evaluate("document.getElementById('canvas').toDataURL()"))
    assert min(seen) > 5
    assert len(pictures) == 3


def test_a_job_picked_on_the_map_is_picked_in_the_table(page):
    page.locator("#canvas").click(position=probe(page, "cellOf", "a2", 0))
    row = page.locator("#job-table tr[aria-current]")
    assert row.locator("td.name").inner_text() == "pretrain"
    picked = page.locator("#picked").inner_text()
    for said in ("pretrain", "research", "started, 16 GPUs", "a1:0-7, a2:0-7"):
        assert said in picked
    assert page.locator("#chosen-name").inner_text() == "pretrain"
    page.locator("#let-go").click()
    assert page.locator("#job-table tr[aria-current]").count() == 0


def test_a_job_picked_in_a_table_is_outlined_on_the_map(page):
    before = page.evaluate("document.getElementById('canvas').toDataURL()")
    page.locator("#job-table tr", has_text="sweep").click()
    page.wait_for_timeout(50)
    assert page.evaluate("document.getElementById('canvas').toDataURL()") != before
    assert "b0:2-5" in page.locator("#picked").inner_text()
    page.locator("button.job", has_text="homework").click()
    assert "4 too many" in page.locator("#picked").inner_text()
    assert page.locator("button.job[aria-pressed=true]").inner_text() == "homework"


def test_the_filter_leaves_what_has_all_its_words(page):
    field = page.get_by_label("Filter")
    rows = page.locator("#job-table tbody tr")
    for text, names in (
        ("students", ["homework"]),
        ("research quota", ["pretrain-next"]),
        ("b1", ["finetune"]),
        ("rack", None),
        ("no such job", []),
    ):
        field.fill(text)
        if names is not None:
            assert rows.locator("td.name").all_inner_texts() == names
            assert page.locator("#matches").inner_text() == f"{len(names)} jobs"
    field.fill("")
    assert rows.count() == 10
    page.get_by_role("radio", name="Waiting").click()
    assert rows.count() == 4


def test_the_table_is_ordered_by_its_heads(page):
    page.get_by_role("button", name="GPUs", exact=True).click()
    assert page.locator("#job-table tbody td.name").first.inner_text() == "colossus"
    assert page.locator("#job-table th[aria-sort=descending]").inner_text().strip() == "GPUs"
    page.get_by_role("button", name="job", exact=True).click()
    assert page.locator("#job-table tbody td.name").first.inner_text() == "colossus"
    page.get_by_role("button", name="job", exact=True).click()
    assert page.locator("#job-table tbody td.name").first.inner_text() == "train"


def test_all_is_reached_by_keys(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#jobs"
    page.locator("#view").focus()
    page.keyboard.press("ArrowRight")
    assert "a0, GPU 0" in page.locator("#picked").inner_text()
    for key in ("ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert "a1, GPU 1" in page.locator("#picked").inner_text()
    page.keyboard.press("Enter")
    assert page.locator("#job-table tr[aria-current] td.name").inner_text() == "pretrain"
    page.keyboard.press("Escape")
    assert page.locator("#job-table tr[aria-current]").count() == 0
    page.locator("#job-table tbody tr").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#job-table tr[aria-current] td.name").inner_text() == "finetune"
    assert page.evaluate("document.activeElement.getAttribute('aria-current')") == "true"
    page.get_by_role("radio", name="After", exact=True).focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("radio", name="Difference").get_attribute("aria-checked") == "true"


def test_everything_that_can_be_used_has_a_name(page):
    assert probe(page, "nameless") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read_in_light_and_dark(show, scheme):
    page = show(render_report(*subjects.solved("quickstart")), color_scheme=scheme)
    assert probe(page, "faint") == []


@pytest.mark.nightly
def test_a_dump_of_64_hosts(show):
    page = show(render_report(*subjects.dumped()))
    assert colours(page) > 5
    assert page.locator("#job-table tbody tr").count() == len(subjects.dumped()[0].jobs)
    page.get_by_label("Filter").fill("h16")
    assert page.locator("#job-table tbody td.name").all_inner_texts() == ["17"]


def test_two_plans(show):
    round_, plan = subjects.solved("quickstart")
    page = show(render_report(round_, subjects.kept(round_), plan))
    names = page.locator("#states [role=radio]").all_inner_texts()
    assert names == [
        "Before",
        "Plan A",
        "Plan B",
        "A against before",
        "B against before",
        "B against A",
    ]
    page.get_by_role("radio", name="Differ").click()
    assert page.locator("#job-table tbody tr").count() == 4
    page.get_by_role("radio", name="B against A").click()
    assert colours(page) > 5


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("name", ["muri", "chronus", "mast-regions", "mast-replicas", "nvidia-mig"])
def test_other_policies(show, name):
    page = show(render_report(*subjects.solved(name)))
    assert page.locator("#job-table tbody tr").count() == len(subjects.solved(name)[0].jobs)
    assert page.locator("#map").count() == (name != "mast-replicas")


def cpu_seconds_to_load(page: Any) -> float:
    """The CPU time of the page's thread until all of it is shown."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.reload()
    page.wait_for_function("document.documentElement.dataset.ready === 'true'")
    measured = session.send("Performance.getMetrics")["metrics"]
    return next(one["value"] for one in measured if one["name"] == "TaskDuration")


@pytest.mark.nightly
def test_100_000_gpus(show):
    page = show(render_report(*subjects.large()))
    assert colours(page) > 20
    assert cpu_seconds_to_load(page) < 1
    page.get_by_label("Filter").fill("run-3")
    page.locator("#job-table tbody tr").nth(1).click()
    assert page.locator("#picked h3").inner_text().removeprefix("A").strip().startswith("run-3")
    page.get_by_role("radio", name="Difference").click()
    for _ in range(3):
        page.get_by_role("button", name="Larger").click()
    page.locator("#view").evaluate("view => view.scrollTop = 900")
    page.wait_for_timeout(50)
    assert colours(page) > 5


def test_hostile_names_do_nothing(show):
    page = show(render_report(*subjects.hostile()))
    page.locator("#job-table tbody tr").first.click()
    page.locator("#canvas").hover(position={"x": 150, "y": 30})
    page.get_by_label("Filter").fill("<script>")
    assert page.title().startswith("Placewright: quickstart")
    assert page.locator("img, b b, script").count() == 2
    for selector in ("#picked", "#tip", "#job-table tbody tr td.name", "#chosen-name", "h1"):
        assert "document.title='pwned'" in page.locator(selector).first.text_content()
    assert "\u202e" not in page.locator("body").inner_text()


def test_a_printed_page_is_light_and_has_all_jobs(show):
    page = show(render_report(*subjects.solved("why-jobs-wait")), color_scheme="dark")
    jobs = len(subjects.solved("why-jobs-wait")[0].jobs)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_timeout(50)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("#job-table tbody tr").count() == jobs
    assert page.locator("#canvas").is_visible()
    assert len(page.pdf()) > 20_000


def test_a_served_page_asks_for_nothing_either(browser):
    """Not even for an icon."""
    html = render_report(*subjects.solved("pair")).encode()
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(html)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        page.wait_for_function("document.documentElement.dataset.ready === 'true'")
        page.wait_for_timeout(200)
        page.close()
        server.shutdown()
    assert asked == ["/"]


def test_without_script_all_but_map_and_jobs_can_be_read(show, browser, tmp_path):
    file = tmp_path / "plain.html"
    file.write_text(render_report(*subjects.solved("quickstart")), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    text = page.locator("main").inner_text()
    context.close()
    assert "pretrain-next" in text
    assert "need JavaScript" in text
    assert file.stat().st_size < 200_000


COUNT_CURVES = """() => {
  window.curves = 0;
  const context = CanvasRenderingContext2D.prototype, draw = context.quadraticCurveTo;
  context.quadraticCurveTo = function (...all) { window.curves += 1; draw.apply(this, all); };
}"""


def test_the_links_of_a_picked_job_are_marked_in_the_matrix_of_its_host(show):
    round_ = load_round(Path(verification.__file__).parents[1] / "library" / "gpu-pairs.yaml")
    plan = solve_round(round_, isolation="none")
    page = show(render_report(round_, plan))
    page.evaluate(COUNT_CURVES)
    page.locator("#job-table tbody tr", has_text="double-0").first.click()
    page.wait_for_function("window.curves > 0")  # a line between its two GPUs, on the map
    matrix = page.locator("#picked table.links")
    assert matrix.locator("caption").inner_text() == "Links of h0"
    assert matrix.locator("tr").count() == 9
    assert sorted(matrix.locator("td.mine").all_inner_texts()) == ["NV", "NV", "X", "X"]
    panel, frame = (page.locator(one).bounding_box() for one in ("#picked", ".matrix"))
    assert frame["x"] + frame["width"] <= panel["x"] + panel["width"]
    assert "NV: nvlink, 448,000 Mbit/s" in page.locator("#picked").inner_text()
    page.locator("#job-table tbody tr", has_text="single-0").first.click()
    assert page.locator("#picked table.links").count() == 0

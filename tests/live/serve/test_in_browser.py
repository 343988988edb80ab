"""The page of the service in Chromium: a password opens it, and it asks for nothing else."""

from __future__ import annotations

import time

import httpx
import pytest

from tests.live.serve import callers

pytestmark = pytest.mark.browser

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


@pytest.mark.nightly
def test_a_browser_shows_the_last_round(bundled, tmp_path):
    from playwright.sync_api import sync_playwright

    asked, wrong = [], []
    with callers.running(tmp_path) as service, sync_playwright() as playwright:
        solve = f"{service.url}/v1alpha2/solve"
        answer = httpx.post(solve, json=bundled("quickstart"), headers=callers.NAMED, timeout=60)
        assert answer.status_code == 200
        deadline = time.monotonic() + 60
        while "colossus" not in httpx.get(service.url, headers=callers.NAMED).text:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        known = {"username": "anybody", "password": callers.TOKEN}
        page = browser.new_context(http_credentials=known).new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(service.url)
        page.wait_for_function("document.documentElement.dataset.ready === 'true'")
        assert "quickstart" in page.title()
        browser.close()
    assert set(asked) == {f"{service.url}/"}
    assert wrong == []

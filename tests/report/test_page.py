"""The page as text: its policy, what stands in it, and what names cannot do to it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from placewright.instances.documents.caps import Cap
from placewright.instances.documents.plan import DecisionKind
from placewright.report.page import embedded, render_report
from tests.report import subjects

POLICIES = (
    "quickstart",
    "hived",
    "backfill-easy",
    "muri",
    "chronus",
    "mast-regions",
    "mast-replicas",
)


class Elements(HTMLParser):
    """Collects elements with their attributes, and texts by the element that they are in."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.comments: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append((self.elements[-1][0] if self.elements else "", data))

    def handle_comment(self, data):
        self.comments.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self) -> str:
        """What is read on the page, without scripts and styles."""
        return " ".join(text for tag, text in self.texts if tag not in ("script", "style"))


def data_of(page: str) -> Any:
    """The JSON in a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_the_policy_allows_one_script_and_one_style_and_nothing_from_elsewhere():
    page = render_report(*subjects.solved("quickstart"))
    policy = Elements(page).of("meta")[1]["content"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert "unsafe" not in policy
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        [text] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert not re.search(r"https?:|//[a-z]|@import|url\(", page)
    assert 'style="' not in page
    assert not re.search(r"\son[a-z]+=", page)
    ids = [a["id"] for _, a in Elements(page).elements if a.get("id")]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_has_its_page(name):
    round_, plan = subjects.solved(name)
    page = render_report(round_, plan)
    text, data = Elements(page).text, data_of(page)
    assert plan.certificate is not None
    for term in plan.certificate.terms:
        assert term.name in text
    waiting = sum(one.decision is DecisionKind.WAIT for one in plan.decisions)
    assert ("No job waits" in text) is (waiting == 0)
    assert sum(data["jobs"]["plans"][0]["decision"][1::2]) == len(round_.jobs)
    special = {
        "hived": "Cells in use",
        "backfill-easy": "Reservations, in the order of the queue",
        "muri": "Groups that take turns",
        "chronus": "Promises, earliest first",
        "mast-regions": "Regions, fullest first",
        "mast-replicas": "Changes of replicas, in this order",
    }
    for policy, title in special.items():
        assert (title in text) is (
            policy == name or (policy, name) == ("mast-regions", "mast-replicas")
        )


def test_waiting_jobs_stand_by_reason_and_what_was_not_computed_is_said():
    round_, plan = subjects.solved("quickstart")
    text = Elements(render_report(round_, plan)).text
    assert "What would let them start was not computed" in text
    assert "tenant students uses 0 of 4 GPUs; the job asks 8 GPUs, 4 too many" in text
    explained = Elements(render_report(round_, plan, time_limit=60)).text
    assert "was not computed" not in explained
    assert "raise the quota of students by 4 GPUs" in explained
    assert "Any one of these would let it start" in explained


def test_a_change_that_helps_nobody_beside_the_plan_says_so():
    round_, plan = subjects.solved("pools")
    text = " ".join(Elements(render_report(round_, plan, time_limit=60)).text.split())
    assert "from 13,000 to 13,500 (not beside what this plan starts)" in text


def refused(*_args: object, **_options: object) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("placewright.explain.corrections.own.hardware", "Left out, as they could not be tried:"),
        ("placewright.report.panels.waiting.explain_job", "could not be looked for (ZeroDivision"),
        ("placewright.report.panels.waiting.explain_all", "was not computed; below is what"),
    ],
)
def test_what_fails_of_an_explanation_takes_nothing_else_of_the_page(broken, said, monkeypatch):
    monkeypatch.setattr(broken, refused)
    text = Elements(render_report(*subjects.solved("quickstart"), time_limit=4)).text
    assert said in text
    assert "homework" in text


def test_caps_have_what_counts_in_them():
    round_, plan = subjects.solved("quickstart")
    jobs = tuple(job.model_copy(update={"caps": ("account",)}) for job in round_.jobs)
    cap = Cap(gpus=64, jobs=6)
    capped = round_.model_copy(update={"caps": {"account": cap}, "jobs": jobs})
    text = " ".join(Elements(render_report(capped, plan)).text.split())
    assert "Caps, fullest first" in text
    assert "account 2 jobs 6 jobs, 100 % 6 jobs account 10 GPUs 39.2 GPUs, 61.3 % 64 GPUs" in text


def test_two_plans_stand_side_by_side():
    round_, plan = subjects.solved("quickstart")
    page = render_report(round_, subjects.kept(round_), plan)
    text = Elements(page).text
    assert "better by 90,400" in text
    assert "Jobs that B decides otherwise" in text
    assert "started on a2:0-7 and 1 more host" in text
    assert len(data_of(page)["map"]["states"]) == 3


def test_what_the_source_said_and_a_round_cannot_is_listed():
    text = Elements(render_report(*subjects.dumped())).text
    for said in ("Read from slurm", "not eligible (PartitionNodeLimit)", "--contiguous"):
        assert said in text


@pytest.mark.parametrize("note", ["{", "[]", '{"taken": 1}', "[" * 5000, "1e999", '"' * 7])
def test_a_bookkeeping_that_is_none_is_shown_as_a_text(note):
    round_, plan = subjects.solved("quickstart")
    noted = round_.model_copy(update={"annotations": {"bookkeeping": note}})
    assert "Annotations" in Elements(render_report(noted, plan)).text


def test_a_plan_without_a_certificate_has_values_and_no_bounds():
    round_, _ = subjects.solved("quickstart")
    text = Elements(render_report(round_, subjects.kept(round_))).text
    assert "The plan has no certificate" in text
    assert "0 GPU-s" in text


def test_hostile_names_are_text_and_nothing_else():
    round_, plan = subjects.solved("quickstart")
    noted = round_.model_copy(update={"annotations": {"note": "plain"}})
    page = render_report(*subjects.hostile())
    clean, evil = Elements(render_report(noted, plan)), Elements(page)
    assert [tag for tag, _ in evil.elements] == [tag for tag, _ in clean.elements]
    assert not evil.comments
    assert not any(attribute.startswith("on") for _, found in evil.elements for attribute in found)
    assert "document.title='pwned'" in evil.text
    assert "49" not in re.findall(r"quickstart\S*", evil.text)[0]
    assert all(c.isprintable() or c == "\n" for c in page)
    assert "\\u202e" in evil.text
    assert any("pwned" in str(name) for name in data_of(page)["jobs"]["names"])


def test_json_in_a_script_has_nothing_that_ends_it():
    text = str(embedded({"a": "</script><!-- \u2028\u2029 & \x00 é"}))
    assert not set("<>&") & set(text)
    assert text.isascii()
    assert json.loads(text)["a"] == "</script><!-- \u2028\u2029 & \x00 é"


@pytest.mark.nightly
def test_100_000_gpus_take_less_than_a_megabyte():
    assert len(render_report(*subjects.large())) < 1_000_000

"""Promises on the command line: tables, reasons of refusals, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from placewright.cli.views.deadline.chart import chart_of, print_leases
from placewright.cli.views.deadline.tables import print_broken, print_promises
from placewright.cli.views.tables import document_text, print_plan
from placewright.instances.derived.phrases import duration, several, span
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.io.files import load_plan, load_round, write
from placewright.instances.verify import RefusalReasons
from placewright.report.facts.promises import broken_in, promises_of
from placewright.report.text import after, intervals
from placewright.rounds import solve_round
from tests.cli import promising

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
TIMES = (0, 59, 60, 750, 3599, 3600, 8400, 86_399, 86_400, 273_600, 863_999, 864_000, 2_649_599)
COLUMNS = ["job", "GPUs", "work", "due", "value", "promised"]


@pytest.fixture
def lost():
    """Return a round that loses a host, and a plan that breaks one promise."""
    return promising.lost()


def printed(round_: Round, plan: Plan, width: int = 100) -> str:
    """Print the tables of a plan."""
    console = Console(width=width, highlight=False, markup=False)
    with console.capture() as capture:
        print_broken(console, promises_of(round_, plan))
        print_promises(console, promises_of(round_, plan))
    return capture.get()


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_times_are_short_and_counted_from_now():
    assert [duration(s) for s in TIMES] == [
        "0s",
        "59s",
        "1m",
        "12m30",
        "59m59",
        "1h00",
        "2h20",
        "23h59",
        "1d00h00",
        "3d04h00",
        "9d23h59",
        "10d00h",
        "30d15h",
    ]
    assert [after(at, 1000) for at in (1000, 9400, 400)] == ["now", "+2h20", "-10m"]


def test_leases_are_spans_and_names_are_cut():
    assert intervals([(0, 4), (6, 7), (9, 11)], 3) == "0-3,6,9-10"
    assert intervals([(0, 4), (6, 7), (9, 11)], 1) == "0-3 and 2 more"
    assert [several(names, 2) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "-",
        "a",
        "a and b",
        "a, b and c",
    ]


def test_a_promise_has_its_finish_slack_and_leases(lost):
    lines = rows(printed(*lost))
    assert ["old", "4", "70", "+1h00", "+1h00", "0s", "0-2", "1/1", "kept"] in lines
    assert ["resnet", "8", "100", "+2h40", "+2h20", "20m", "4-6", "1/1", "new"] in lines


def test_a_later_due_time_is_marked(lost):
    lines = rows(printed(*lost))
    assert ["bert", "8", "40", "+2h40", "+1h40", "1h00", "0,4", "2/2", "new"] in lines


def test_a_later_due_time_has_the_colour_that_it_has_in_the_chart(lost, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for bare in (False, True):
        if bare:
            monkeypatch.setenv("NO_COLOR", "1")
        console = Console(width=100, force_terminal=True, color_system="truecolor")
        with console.capture() as capture:
            print_promises(console, promises_of(*lost))
        text = capture.get()
        assert ("\x1b[38;2;153;187;221m" in text) is not bare


def test_promises_are_counted_with_what_they_hold(lost):
    lines = rows(printed(*lost))
    # 8 GPUs in 3 and 2 leases of a third of an hour; 4 GPUs in 3.
    assert ["new", "2", "140", "8", "13.3"] in lines
    assert ["kept", "1", "70", "4", "4"] in lines
    assert ["refused", "3", "100", "0", "-"] in lines
    assert ["best", "effort,", "running", "1", "-", "4", "-"] in lines


def test_a_broken_promise_comes_first_and_says_why(lost):
    lines = printed(*lost).splitlines()
    assert lines[:4] == [
        "BROKEN: 1 of 2 promises, value 50 lost",
        "  away meanwhile: a1 from +20m until +1h20",
        "  lost  8 GPUs, promised by +1h20 (value 50), now none",
        "    1 of 4 leases have room; held by old and bert",
    ]


def test_a_promise_broken_for_a_later_one_says_so(lost):
    round_, plan = lost
    raw = plan.model_dump()
    section = raw["sections"][0]
    section["jobs"].append(promising.promised("lost", 200, 10, 160, [3, 4], [5, 8]))
    section["refused"] = section["refused"][1:]
    jobs = round_.model_dump()
    jobs["jobs"][1]["deadline"]["due"] += ({"at": promising.NOW + 12_000, "value": 10},)
    text = printed(Round.model_validate(jobs), Plan.model_validate(raw))
    assert "BROKEN: 1 of 2 promises, value 40 lost" in text
    assert "promised by +1h20 (value 50), now by +3h20 (value 10)" in text
    assert ["broken,", "now", "for", "later", "1", "10", "0", "10.7"] in rows(text)
    assert ["2/2", "later"] in [line[-2:] for line in rows(text)]


def test_a_refused_job_has_an_offer_and_what_stands_in_its_way(lost):
    text = " ".join(printed(*lost, 160).split())
    why = "1 of 5 leases have room; held by bert, old and resnet"
    assert f"much 8 +1h40 +3h00 {why}" in text
    assert "past 8 -1h40 +3h00 was due 1h40 ago" in text


def test_best_effort_of_this_lease_is_named(lost):
    assert "\nBest effort in this lease: batch (4 GPUs)\n" in printed(*lost)


@pytest.mark.parametrize(
    ("asks", "says"),
    [
        ((8, 5, (80, 9)), "even alone not before +1h40"),
        ((8, 5.1, (30, 9)), "even alone not before +1h42"),
        ((8, 999, (10, 9)), "even alone not before +13d21h"),
        # A part of a lease is enough for the rest of the work.
        ((8, 1.5, (30, 9)), "2 of 2 leases have room, by count"),
        ((8, 2, (30, 9)), "even alone not before +40m"),
        ((24, 2, (80, 9)), "0 of 2 leases have enough GPUs, whoever holds them"),
        ((16, 2, (60, 9)), "0 of 2 leases have room; held by first"),
        ((16, 2, (80, 9)), "1 of 2 leases have room; held by first"),
        ((1, 1, (0, 9)), "even alone not before +20m"),
        ((1, 1, (-1, 9)), "was due 1m ago"),
    ],
)
def test_what_stands_in_the_way_is_counted(asks, says):
    round_ = promising.document(
        [promising.job("first", 4, 3, (60, 9)), promising.job("asks", *asks)]
    )
    plan = promising.planned(
        round_,
        {"first": ("a0", 0, 4)},
        jobs=[promising.promised("first", 60, 9, 60, [0, 3])],
        refused=[{"job": "asks"}],
    )
    assert says in " ".join(printed(round_, plan, 160).split())


def test_overhead_readiness_and_another_running_option_shorten_the_window():
    slow = {"paces": [{"overhead_s": 600}]}
    late = {"ready": promising.NOW + 1201}
    never = {"paces": [{"overhead_s": 1200}]}
    round_ = promising.document(
        [
            promising.job("slow", 8, 2, (60, 9), deadline=slow),
            promising.job("late", 8, 2, (60, 9), deadline=late),
            promising.job("never", 8, 2, (60, 9), deadline=never),
        ]
    )
    plan = promising.planned(round_, {}, refused=[{"job": j.name} for j in round_.jobs])
    found = RefusalReasons(round_, plan)
    by = promising.NOW + 3600
    assert found.of("slow", by)[1:6] == (4, promising.NOW + 4800, (0, 3), 3, 3)
    assert found.of("late", by)[1:6] == (2, promising.NOW + 4800, (2, 3), 1, 1)
    assert found.of("never", by)[1:6] == (None, by, (0, 0), 0, 0)
    assert "no lease is long enough for its overhead" in printed(round_, plan)


def test_the_option_that_comes_closest_is_shown():
    elastic = promising.job("elastic", 4, 6, (60, 9), deadline={"paces": [{}, {"speed": 1900}]})
    elastic["options"].append({"name": "wide", "groups": [{"gpu": 8}]})
    round_ = promising.document(
        [elastic, promising.job("other", 8, 3, (60, 50)), promising.job("more", 8, 1, (60, 50))]
    )
    plan = promising.planned(
        round_,
        {"other": ("a0", 0, 8)},
        jobs=[
            promising.promised("other", 60, 50, 60, [0, 3]),
            promising.promised("more", 60, 50, 40, [1, 2]),
        ],
        refused=[
            {
                "job": "elastic",
                "offer": {"option": 1, "at": promising.NOW + 5400, "leases": [[2, 5]]},
            }
        ],
    )
    reason = RefusalReasons(round_, plan).of("elastic", promising.NOW + 3600)
    # 7,200 s at speed 1.9 are four leases, of which three begin early enough and two have room.
    assert reason[:2] == (8000, 4)
    assert reason[3:6] == ((0, 3), 3, 2)
    assert reason.holders == ("other", "more")
    text = printed(round_, plan, 120)
    assert "+1h30, wide" in text
    assert ["job", "option", "GPUs"] in [line[:3] for line in rows(text)]


@pytest.mark.parametrize(
    ("finish", "text"), [(3599, "+59m59"), (3601, "+1h01"), (7200, "+2h00"), (864_001, "+10d01h")]
)
def test_an_offer_is_no_earlier_than_what_could_be_promised(finish, text):
    round_ = promising.document([promising.job("late", 8, 1, (1, 9))], leases={"horizon": 900})
    offer = {"option": 0, "at": promising.NOW + finish, "leases": [[0, 1]]}
    plan = promising.planned(round_, {}, refused=[{"job": "late", "offer": offer}])
    assert ["late", "8", "+1m", text] in [line[:4] for line in rows(printed(round_, plan))]


def test_capacity_is_counted_by_model_and_by_quota():
    hosts = [
        {"name": "a0", "gpus": 8, "gpu_model": "H100"},
        {"name": "b0", "gpus": 8, "gpu_model": "A100"},
    ]
    ask = promising.job("ask", 8, 2, (60, 9))
    ask["options"][0]["groups"][0]["gpu_models"] = ["A100"]
    held = promising.job("held", 8, 1, (60, 9))
    held["options"][0]["groups"][0]["gpu_models"] = ["A100"]
    any_ = promising.job("any", 8, 1, (60, 9))
    poor = promising.job("poor", 4, 1, (60, 9), tenant="t")
    round_ = promising.document(
        [held, any_, ask, poor],
        cluster={"hosts": hosts},
        tenants=[{"name": "t", "quota": {"gpu": 2}}],
    )
    plan = promising.planned(
        round_,
        {},
        jobs=[
            promising.promised("held", 60, 9, 40, [1, 2]),
            promising.promised("any", 60, 9, 60, [2, 3]),
        ],
        refused=[{"job": "ask"}, {"job": "poor"}],
    )
    found = RefusalReasons(round_, plan)
    assert found.of("ask", promising.NOW + 3600)[3:6] == ((0, 3), 3, 2)
    assert found.of("any", promising.NOW + 3600)[3:6] == ((0, 3), 3, 3)
    assert found.of("poor", promising.NOW + 3600)[4:6] == (0, 0)


def test_many_rows_are_cut():
    round_ = promising.document([promising.job(f"j{i}", 1, 1, (20 * i + 20, 1)) for i in range(50)])
    plan = promising.planned(
        round_,
        {},
        jobs=[
            promising.promised(f"j{i}", 20 * i + 20, 1, 20 * i + 20, [i, i + 1])
            for i in range(1, 25)
        ],
        refused=[{"job": f"j{i}"} for i in range(25, 50)],
    )
    text = printed(round_, plan)
    assert "... and 4 more promises" in text
    assert "... and 5 more refused jobs" in text


def test_the_summary_counts_promises_and_what_asks_for_them(lost):
    round_, plan = lost
    assert document_text(plan).endswith("3 promises, 1 BROKEN, 3 refused")
    assert document_text(round_).endswith("; 6 jobs due, 2 promised")
    assert broken_in(plan) == ["lost"]


def test_the_plan_of_another_policy_promises_nothing(first_fit, round_file):
    plan = first_fit(load_round(round_file))
    assert promises_of(load_round(round_file), plan) is None
    assert broken_in(plan) == []
    assert "promise" not in document_text(plan)


def test_a_plan_prints_what_it_breaks_before_all_else(lost):
    console = Console(width=100, highlight=False, markup=False)
    with console.capture() as capture:
        print_plan(console, *lost)
    text = capture.get()
    assert text.index("BROKEN") < text.index("Decisions") < text.index("Promised, earliest first")
    assert text.count("promised_later: ") == 1
    assert text.count("refused: ") == 3


def test_a_round_shows_its_deadlines_and_who_is_away(run, lost, tmp_path):
    path = tmp_path / "round.json"
    write(lost[0], path)
    result = run("show", path)
    assert (result.code, result.err) == (0, "")
    assert "Away: a1 from +20m until +1h20" in result.out
    lines = rows(result.out)
    names = [line[0] for line in lines[lines.index(COLUMNS) + 2 :] if line]
    assert names == ["past", "bert", "old", "lost", "much", "resnet", "batch"]
    for row in (
        ["past", "8", "1h40", "-1h40", "20", "-"],
        ["bert", "8", "40m", "+40m", "to", "+2h40", "80", "to", "40", "-"],
        ["lost", "8", "1h20", "+1h20", "50", "+1h20"],
        ["batch", "4", "3h00", "-", "best", "effort", "-"],
    ):
        assert row in lines


def test_a_host_that_is_away_now_is_no_free_one(run, tmp_path):
    path = tmp_path / "round.json"
    write(
        promising.document(
            [promising.job("a", 8, 1, (60, 9))], leases={"outages": [{"host": "a0"}]}
        ),
        path,
    )
    result = run("show", path)
    assert "16 GPUs (16 H100) on 2 hosts, 1 away, 8 free" in result.out
    assert "host a0  8 H100, 0 free, away" in result.out
    assert "Away: a0 for good" in result.out


def test_a_broken_promise_is_exit_code_4_and_the_plan_is_written(run, lost, tmp_path):
    round_, plan = tmp_path / "round.json", tmp_path / "plan.json"
    write(lost[0], round_)
    for more in ([], ["--format", "json"], ["--gap", "0"]):
        result = run("solve", round_, "-o", plan, *more)
        assert result.code == 4
        assert result.err == (
            f"wrote {plan}\n"
            "placewright: breaks what was promised to lost; proven to be the least loss "
            "(as a solver claims)\n"
        )
        assert broken_in(load_plan(plan)) == ["lost"]
    assert run("verify", round_, plan).code == 0


def test_progress_is_that_of_the_promises(lost):
    reported = []
    solve_round(lost[0], progress=lambda value, bound: reported.append((value, bound)))
    assert reported[-1] == (210, 210)


def test_the_page_of_the_command_line_shows_what_is_printed(lost):
    section = PAGE.read_text().partition("### Promises\n")[2].partition("\n### ")[0]
    console = Console(width=100, highlight=False, markup=False)
    with console.capture() as capture:
        print_broken(console, promises_of(*lost))
        print_leases(console, chart_of(promises_of(*lost)))
    text = printed(*lost)
    shown = {line.strip() for line in (capture.get() + text).splitlines()}
    assert {line.strip() for line in section.splitlines() if line.startswith("    ")} <= shown


def test_the_section_is_part_of_validate_and_schema(run, lost, tmp_path):
    paths = tmp_path / "round.json", tmp_path / "plan.json"
    for found, path in zip(lost, paths, strict=True):
        write(found, path)
    assert run("validate", paths[0]).out.endswith("6 jobs due, 2 promised\n")
    assert run("validate", paths[1]).out.endswith("3 promises, 1 BROKEN, 3 refused\n")
    for section in ({"kind": "leases"}, {"kind": "leases", "jobs": 7}, {}):
        write(lost[1].model_copy(update={"sections": (section,)}), paths[1])
        assert run("validate", paths[1]).out.endswith(
            "valid Plan, 7 jobs, 3 started, 0 kept, 4 waiting\n"
        )
        assert run("show", *paths[:1], "--plan", paths[1]).code == 7
    schema = run("schema", "Round").out
    assert '"leases"' in schema
    assert '"deadline"' in schema


def test_times_that_lose_seconds_are_in_seconds():
    assert [span(seconds) for seconds in (0, 45, 4800, 4830)] == ["0s", "45s", "1h20", "4,830 s"]
    assert (span(10 * 86_400 + 3600), span(10 * 86_400 + 60)) == ("10d01h", "864,060 s")

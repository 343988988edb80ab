"""Wrong usage is one line that names the word, its value and what was expected."""

from __future__ import annotations

import pytest

from placewright.cli.format.output import reworded, seconds

WRONG = {
    "nonsense": "nonsense: unknown command",
    "preset drian": "drian: unknown command; did you mean drain?",
    "solve": "ROUND: missing",
    "solve r.json extra": "extra: one word too many",
    "solve r.json --backend gurobi": "--backend: gurobi: expected one of auto, highs, cp-sat, cbc, "
    "scip",
    "solve r.json --format table": "--format: table: expected one of text, json",
    "solve r.json --gap 2": "--gap: 2: expected at most 1",
    "solve r.json --gap nan": "--gap: nan: expected",
    "solve r.json --time-limit inf": "--time-limit: inf: expected a time such as 90, 90s, 2m",
    "solve r.json --time-limit=-1": "--time-limit: -1: expected a time such as 90, 90s, 2m",
    "solve r.json --time-limit 2d": "--time-limit: 2d: expected 0 to 86,400 seconds",
    "solve r.json --time-limit": "--time-limit: expected a value after it",
    "solve r.json --tim 3": "--tim: unknown option; did you mean --time-limit?",
    "solve r.json --seed -1": "--seed: -1: expected at least 0",
    "solve r.json --seed x": "--seed: x: expected a whole number",
    "solve r.json --deterministic=1": "--deterministic: expected no value",
    "solve r.json -o no/where.json": "-o: no/where.json: its folder does not exist; expected one",
    "verify r.json p.json --time-limit soon": "--time-limit: soon: expected a time such as 90",
    "preset defragment r.json --gpu-worth-s 0": "--gpu-worth-s: 0: expected 1 to 1,000,000 seconds",
    "preset defragment r.json --gpu-worth-s 0.5m5.5s": "expected a time of whole seconds",
    "generate round --gpus 8": "--jobs: missing",
    "generate round --gpus 9 --jobs 1": "--gpus: 9: expected a multiple of 8",
    "convert chronus t.csv --gpus 8 -o r.json --lease ever": "--lease: ever: expected a time",
    "schema Solution": "KIND: Solution: expected one of round, plan, cluster, edits",
    "verify - -": "- is given twice; expected at most one document from stdin",
}


@pytest.mark.parametrize("command", WRONG)
def test_wrong_usage_is_one_line_in_plain_words(run, command):
    result = run(*command.split())
    assert (result.code, result.out) == (2, "")
    assert result.err.count("\n") == 1
    assert result.err.startswith("placewright: ")
    assert WRONG[command] in result.err
    assert result.err.endswith("--help)\n")
    for jargon in ("Input should", "Value error", "valid", "parse"):
        assert jargon not in result.err


def test_what_an_argument_holds_is_escaped(run):
    result = run("solve", "--\x1b[31m")
    assert result.code == 2
    assert "\x1b" not in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("'x' is not a valid float.", "x: expected a number"),
        ("'x' is not a valid int.", "x: expected a whole number"),
        ("2.0 is not in the range 0<=x<=1.", "2.0: expected 0<=x<=1"),
        ("'g' is not one of 'a', 'b'.", "g: expected one of a, b"),
        ("Option '--gap' requires an argument.", "--gap: expected a value after it"),
        ("Got unexpected extra argument (b)", "b: one word too many"),
        ("r.json has no GPUs; expected some to draw", "r.json has no GPUs; expected some to draw"),
    ],
)
def test_messages_of_older_versions_of_typer_are_reworded_too(message, text):
    assert reworded(message) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", 90),
        ("0", 0),
        ("2.5", 2.5),
        ("90s", 90),
        ("2m", 120),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("1d", 86_400),
        ("1d2h3m4s", 93_784),
        ("", None),
        ("m", None),
        ("-1", None),
        ("30m1h", None),
        ("1h30", None),
        ("1 h", None),
        ("2M", None),
        ("1e3", None),
        ("nan", None),
        ("٣m", None),
    ],
)
def test_times_are_numbers_of_seconds_or_have_units(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize("verb", ["solve", "verify"])
def test_help_names_the_time_and_what_it_looks_like(run, verb):
    assert "TIME" in run(verb, "--help").out


def test_the_kind_of_a_schema_may_be_written_small(run):
    assert run("schema", "plan") == run("schema", "Plan")

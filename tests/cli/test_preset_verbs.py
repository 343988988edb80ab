"""`placewright preset`: rounds that drain, swap, defragment or preempt."""

from __future__ import annotations

import json

import pytest

from placewright.instances.io.files import load_round
from placewright.instances.presets import presets

VERBS = {
    "drain": ["--host", "a0", "--host", "a[2-3]"],
    "hot-swap": ["--host", "a1"],
    "defragment": ["--gpu-worth-s", "600"],
    "minimal-victims": ["--job", "gang"],
    "return-hosts": ["--host", "a[0-2]", "--count", "2"],
}


def expected(verb, round_):
    return {
        "drain": lambda: presets.drain(round_, ["a0", "a[2-3]"]),
        "hot-swap": lambda: presets.hot_swap(round_, ["a1"]),
        "defragment": lambda: presets.defragment(round_, "host", 600),
        "minimal-victims": lambda: presets.minimal_victims(round_, "gang"),
        "return-hosts": lambda: presets.return_hosts(round_, ["a[0-2]"], 2),
    }[verb]()


@pytest.mark.parametrize("verb", VERBS)
def test_a_preset_is_that_of_the_library(run, moving, tmp_path, verb):
    path = tmp_path / "made.yaml"
    result = run("preset", verb, moving[0], *VERBS[verb], "-o", path)
    assert result.code == 0
    assert not result.out
    assert load_round(path) == expected(verb, load_round(moving[0]))


@pytest.mark.parametrize("verb", VERBS)
def test_what_was_made_goes_to_stdout_and_one_line_about_it_to_stderr(run, moving, verb):
    result = run("preset", verb, moving[0], *VERBS[verb])
    assert result.code == 0
    assert json.loads(result.out)["kind"] == "Round"
    says = {
        "drain": "made drain of 3 hosts: 16 GPUs",
        "hot-swap": "made hot swap of 1 host: 16 GPUs (16 H100) on 4 hosts, 1 unhealthy",
        "defragment": "made defragmentation by host, a freed GPU worth 600 GPU-s of disruption: ",
        "minimal-victims": "made minimal victims for gang: 16 GPUs",
        "return-hosts": "made return of 2 of the loaned hosts: 16 GPUs",
    }[verb]
    assert result.err.startswith(says)
    assert result.err.count("\n") == 1


def test_the_help_of_defragment_states_the_exchange_rate(run):
    text = " ".join(run("preset", "defragment", "--help").out.split())
    assert "freeing a GPU is worth so long a disruption of one" in text


@pytest.mark.parametrize(
    "args",
    [
        ("drain",),
        ("drain", "--host", "b9"),
        ("drain", "--host", "a[2-9]"),
        ("drain", "--host", "a[0-999999999]"),
        ("drain", "--host", "no host"),
        ("drain", "--host", ""),
        ("hot-swap", "--host", "b9"),
        ("hot-swap",),
        ("defragment",),
        ("defragment", "--gpu-worth-s", "0"),
        ("defragment", "--gpu-worth-s", "600", "--level", "rack"),
        ("defragment", "--gpu-worth-s", "600", "--level", "no level"),
        ("minimal-victims",),
        ("minimal-victims", "--job", "nobody"),
        ("minimal-victims", "--job", "train"),
        ("return-hosts", "--host", "b9", "--count", "1"),
        ("return-hosts", "--host", "a[0-2]", "--count", "4"),
        ("return-hosts", "--host", "a[0-2]", "--count", "0"),
    ],
    ids=" ".join,
)
def test_a_wrong_argument_is_a_usage_error_that_names_the_option(run, moving, tmp_path, args):
    verb, *options = args
    path = tmp_path / "made.json"
    result = run("preset", verb, moving[0], *options, "-o", path)
    assert result.code == 2
    assert not result.out
    option = {"defragment": "--gpu-worth-s", "minimal-victims": "--job"}.get(verb, "--host")
    named = [one for one in ("--level", "--count") if one in options and "b9" not in options]
    assert (named[0] if named else option) in result.said
    assert not path.exists()


@pytest.mark.parametrize("verb", VERBS)
def test_a_bad_round_exits_3_and_the_input_is_never_overwritten(run, moving, tmp_path, verb):
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    assert run("preset", verb, bad, *VERBS[verb], "-o", tmp_path / "made.json").code == 3
    before = moving[0].read_bytes()
    assert run("preset", verb, moving[0], *VERBS[verb], "-o", moving[0]).code == 2
    assert moving[0].read_bytes() == before

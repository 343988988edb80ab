"""Mutated dumps of live clusters: each is a round that counts every object, or one clear line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples import examples
from fuzz.dumps import __main__ as dumps

INPUTS = examples(day=40, nightly=500)
ROOT = Path(__file__).parents[2]


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("reader", list(dumps.READERS))
def test_mutated_dumps_give_a_round_or_one_line(reader):
    # In a process of its own: the peak of memory is that of a process, other tests' included.
    command = [sys.executable, "-m", "fuzz.dumps", reader, "--inputs", str(INPUTS)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{reader}: {INPUTS} inputs from seed 0: " in ended.stdout
    assert " 0 failures" in ended.stdout


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("reader", list(dumps.READERS))
def test_rounds_of_mutated_dumps_are_explained_reported_and_exported(reader, capsys):
    number = examples(day=6, nightly=12)
    assert dumps.main([reader, "--inputs", f"{number}", "--use"]) == 0, capsys.readouterr().out
    assert f"{number} inputs from seed 0: " in capsys.readouterr().out


def test_a_traceback_a_second_line_and_a_hang_are_failures(monkeypatch, capsys):
    def raises(seed, folder):
        raise KeyError(seed)

    def hangs(seed, folder):
        while True:
            pass

    monkeypatch.setattr(dumps, "HANGS_AFTER_S", 1)
    for reader in (raises, lambda seed, folder: "file: a\nb", hangs):
        monkeypatch.setitem(dumps.READERS, "slurm", reader)
        assert dumps.main(["slurm", "--inputs", "1"]) == 1
        assert "1 failures" in capsys.readouterr().out

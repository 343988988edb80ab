"""Mutated dumps of live clusters: each is a round that counts every object, or one clear line."""

from __future__ import annotations

import pytest

from fuzz.dumps import __main__ as dumps

INPUTS = 500


@pytest.mark.parametrize("reader", list(dumps.READERS))
def test_mutated_dumps_give_a_round_or_one_line(reader, capsys):
    assert dumps.main([reader, "--inputs", str(INPUTS)]) == 0
    printed = capsys.readouterr().out
    assert f"{reader}: {INPUTS} inputs from seed 0: " in printed
    assert " 0 failures" in printed


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

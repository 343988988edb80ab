"""Completion of the command in bash and zsh."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def placewright(tmp_path: Path) -> Path:
    """A `placewright` on the path of an empty home."""
    program = tmp_path / "bin" / "placewright"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m placewright.cli.app "$@"\n')
    program.chmod(0o755)
    return program


def in_shell(shell: str, line: str, home: Path) -> str:
    """Run a line in a shell of this name, of which only its name need be true."""
    there = home / "bin" / shell
    if not there.exists():
        there.symlink_to("/bin/bash")
    done = subprocess.run(
        [there, "-c", f"{line}\n:"],  # the last command is not the shell's own process
        capture_output=True,
        text=True,
        env={
            "HOME": str(home),
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *filter(None, sys.path)]),
        },
        timeout=60,
        check=True,
    )
    assert not done.stderr
    return done.stdout


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("shell", "startup", "script"),
    [
        ("bash", ".bashrc", ".bash_completions/placewright.sh"),
        ("zsh", ".zshrc", ".zfunc/_placewright"),
    ],
)
def test_completion_is_installed_for_the_shell_it_is_asked_in(
    placewright, tmp_path, shell, startup, script
):
    said = in_shell(shell, "placewright --install-completion", tmp_path)
    assert f"{shell} completion installed in {tmp_path / script}" in said
    assert (tmp_path / startup).read_text().strip()
    shown = in_shell(shell, "placewright --show-completion", tmp_path)
    assert shown.strip() == (tmp_path / script).read_text().strip()


def test_the_installed_script_completes_verbs_and_options(placewright, tmp_path):
    in_shell("bash", "placewright --install-completion", tmp_path)
    completed = in_shell(
        "bash",
        'source "$HOME/.bashrc"; COMP_WORDS=(placewright solve --tim); COMP_CWORD=2; '
        "_placewright_completion placewright; echo ${COMPREPLY[@]}; "
        "COMP_WORDS=(placewright ver); COMP_CWORD=1; "
        "_placewright_completion placewright; echo ${COMPREPLY[@]}",
        tmp_path,
    )
    assert completed.split() == ["--time-limit", "verify"]

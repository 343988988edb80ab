"""What is done with the rounds of mutated dumps: jobs are explained, plans are shown and exported.

Whatever the dump says, no verb ends with a fault of its own, every job of the dump is found by each
of its names, and scripts are ones that a shell can read.
"""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import Any

from placewright.cli.app import main
from placewright.cli.interrupts import ExitCode
from placewright.instances.converters.support.live import LiveConversion
from placewright.instances.io.files import write

__all__ = ["use"]

NAMES = 3
"""So many names of jobs are tried of a dump."""

_CALM = (ExitCode.DONE, ExitCode.UNDECIDED)


def use(made: LiveConversion, folder: Path, rng: Random) -> None:
    """Explain jobs of a round by the names in its dump; solve it, report and export the plan.

    Raises
    ------
    AssertionError
        A verb fails, a name is not found, or a script is none.
    """
    names = list(_names(folder))
    file, plan = folder / "round.out", folder / "plan.out"
    write(made.round, file)
    for name in rng.sample(names, min(NAMES, len(names))):
        code, said = _run("explain", str(file), "--job", name, "--time-limit", "5")
        runs = code == ExitCode.INVALID and "runs; expected a job that waits" in said
        assert runs or code in _CALM, (name, code, said)
    code, said = _run("solve", str(file), "-o", str(plan), "--time-limit", "5")
    if not plan.exists():
        assert code != ExitCode.INTERNAL, said
        return
    page = str(folder / "page.html")
    code, said = _run("report", str(file), str(plan), "--explain", "1", "-o", page)
    assert code == ExitCode.DONE, (code, said)
    for verb in ("slurm", "kubernetes", "kueue"):
        script = folder / f"{verb}.sh"
        code, said = _run("export", verb, str(file), str(plan), "-o", str(script))
        assert code in (ExitCode.DONE, ExitCode.INVALID), (verb, code, said)
        if code == ExitCode.DONE:
            command = ["bash", "-n", str(script)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert not done.returncode, (verb, done.stderr)


def _run(*arguments: str) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    return code, err.getvalue()[-2000:]


def _names(folder: Path) -> Iterator[str]:
    """Yield the names by which people know the jobs of a dump: numbers, names, uids, owners."""
    for file in sorted(folder.glob("*.json")):
        try:
            raw = json.loads(file.read_text())
        except ValueError:
            continue
        for one in raw.get("jobs") or () if isinstance(raw, dict) else ():
            yield from _of_slurm(one)
        for one in raw.get("items") or () if isinstance(raw, dict) else ():
            if one.get("kind") == "Pod":
                yield from _of_pod(one)


def _of_slurm(job: Any) -> Iterator[str]:
    number = job.get("job_id")
    yield str(number)
    for text in (job.get("name"),):
        if isinstance(text, str) and text.strip():
            yield text
    array, task = (_number(job.get(key)) for key in ("array_job_id", "array_task_id"))
    if array and task is not None:
        yield f"{array}_{task}"
    het, offset = (_number(job.get(key)) for key in ("het_job_id", "het_job_offset"))
    if het:
        yield f"{het}+{offset or 0}"


def _number(value: Any) -> int | None:
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) else None
    return value if type(value) is int else None


def _of_pod(pod: Any) -> Iterator[str]:
    meta = pod["metadata"]
    space = meta.get("namespace") or ""
    yield meta["name"]
    if space:
        yield f"{space}/{meta['name']}"
    owners = meta.get("ownerReferences") or ()
    texts = (meta.get("uid"), *(one.get(key) for one in owners for key in ("name", "uid")))
    yield from (text for text in texts if isinstance(text, str) and text)

"""Standard streams that are full, closed, slow or gone: all is written, or one line says not."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from placewright.cli.interrupts import CompleteStream
from placewright.instances.errors import InvalidInputError
from placewright.instances.io import streams

ROOT = Path(__file__).parents[2]
LARGE = bytes(range(256)) * 4096


def process(*args: str | Path, before: str = "", env: dict[str, str] | None = None, **options):
    """Run the command in a process; `before` is what a shell does first, such as to redirect."""
    program = 'exec "$0" -m placewright.cli.app "$@"'
    return subprocess.run(
        ["sh", "-c", f"{before}\n{program}", sys.executable, *map(str, args)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **(env or {})},
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
        check=False,
        **options,
    )


def test_a_pipe_that_is_full_and_does_not_wait_gets_all(tmp_path):
    outlet, inlet = os.pipe()
    os.set_blocking(inlet, False)
    received: list[bytes] = []

    def read() -> None:
        while piece := os.read(outlet, 1000):
            received.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    stream = CompleteStream(inlet)
    assert stream.write(LARGE) == len(LARGE)
    assert stream.begun
    os.close(inlet)
    reader.join()
    os.close(outlet)
    assert b"".join(received) == LARGE


def test_after_a_failure_nothing_more_is_written():
    outlet, inlet = os.pipe()
    stream = CompleteStream(inlet)
    os.close(outlet)
    with pytest.raises(BrokenPipeError):
        stream.write(b"one")
    assert stream.write(b"two") == 3
    assert isinstance(stream.failure, BrokenPipeError)
    assert not stream.begun
    os.close(inlet)


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "args", [("schema", "Plan"), ("generate", "cluster", "--gpus", "800"), ("show", "--help")]
)
def test_a_full_disk_behind_standard_output_is_one_line_and_exit_3(args, unbuffered):
    with Path("/dev/full").open("w") as full:
        done = process(*args, env={"PYTHONUNBUFFERED": unbuffered}, stdout=full)
    assert done.returncode == 3
    first = done.stderr.splitlines()[0]
    assert first.startswith("placewright: ")
    assert "cannot be written (No space left on device)" in first
    assert "Traceback" not in done.stderr


def test_tables_on_a_full_disk_are_one_line_and_exit_3(round_file, plan_file):
    with Path("/dev/full").open("w") as full:
        done = process("verify", round_file, plan_file, stdout=full)
    line = "placewright: standard output cannot be written (No space left on device)\n"
    assert (done.returncode, done.stderr) == (3, line)


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("verb", ["schema", "generate", "show", "verify", "solve", "validate"])
def test_a_reader_that_goes_ends_every_verb_quietly(verb, unbuffered, round_file, plan_file):
    """As after `| head`: by the code of SIGPIPE, unless the verb has one of its own to tell."""
    args = {
        "schema": ("Round",),
        "generate": ("cluster", "--gpus", "800"),
        "show": ("--help",),
        "verify": (round_file, plan_file),
        "solve": (round_file, "--time-limit", "0", "-o", "-"),
        "validate": (plan_file.with_name("missing"),),
    }
    outlet, inlet = os.pipe()
    os.close(outlet)
    done = process(verb, *args[verb], env={"PYTHONUNBUFFERED": unbuffered}, stdout=inlet)
    os.close(inlet)
    if verb == "validate":
        assert done.returncode == 3
        assert "missing: cannot be read" in done.stderr
    else:
        notes = [one for one in done.stderr.splitlines() if not one.startswith("made ")]
        assert (done.returncode, notes) == (141, [])


@pytest.mark.nightly
def test_closed_streams_are_reported_and_take_no_file_in(round_file, tmp_path):
    done = process("validate", round_file, before="exec >&-")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "standard output cannot be written" in done.stderr
    done = process("validate", "-", before="exec <&-", stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("placewright: -: cannot be read (")
    target = tmp_path / "cluster.json"
    done = process("generate", "cluster", "--gpus", "8", "-o", target, before="exec >&- 2>&-")
    assert done.returncode == 0
    assert json.loads(target.read_text())["kind"] == "Cluster"


class Reluctant(io.RawIOBase):
    """An unbuffered stream that takes 1000 bytes at a time, and none at all after `limit`."""

    def __init__(self, limit: int) -> None:
        self.taken, self.limit = b"", limit

    def writable(self) -> bool:
        return True

    def write(self, content) -> int | None:
        if len(self.taken) >= self.limit:
            return None
        self.taken += bytes(content[:1000])
        return min(1000, len(content))


def test_the_library_writes_all_to_an_unbuffered_standard_output(monkeypatch):
    raw = Reluctant(len(LARGE) + 1)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, write_through=True))
    streams.write("-", LARGE)
    assert raw.taken == LARGE
    raw = Reluctant(5000)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, write_through=True))
    with pytest.raises(InvalidInputError, match="-: cannot be written"):
        streams.write("-", LARGE)


def test_the_library_writes_to_text_in_memory_and_refuses_a_closed_stream(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(sys, "stdout", text)
    streams.write("-", "é\n".encode())
    assert text.getvalue() == "é\n"
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(InvalidInputError, match=r"-: cannot be written \(it is closed\)"):
        streams.write("-", b"x")


def test_what_is_read_takes_no_memory_for_what_is_not_there(monkeypatch, tmp_path):
    """Reading asked for the whole limit at once, which some machines do not have."""

    class Recorder(io.BytesIO):
        asked: list[int] = []  # noqa: RUF012

        def read(self, size=-1) -> bytes:
            self.asked.append(size)
            return super().read(size)

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Recorder(LARGE)))
    assert streams.read("-", 1 << 40) == LARGE
    assert max(Recorder.asked) <= streams.PIECE
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Recorder(LARGE)))
    assert streams.read("-", 9) == LARGE[:10]


def test_a_fault_of_the_machine_is_one_line_and_exit_8(run, monkeypatch, round_file):
    for error, words in (
        (MemoryError(), "out of memory"),
        (OSError(24, "Too many open files", "x.yaml"), "Too many open files: 'x.yaml'"),
        (RuntimeError("can't start new thread"), "can't start new thread"),
        (ImportError("libx.so: failed to map segment from shared object"), "out of memory"),
    ):

        def fails(path: str, *, lenient: bool, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("placewright.instances.io.files.load_round", fails)
        result = run("solve", round_file)
        assert (result.code, result.out, result.err.count("\n")) == (8, "", 1)
        assert result.err.startswith("placewright: fault of the machine: ")
        assert words in result.err

"""A fresh Python process that answers over pipes, and that can be ended at any moment.

Never a fork, and nothing of the program that this process runs: no locks of threads that it does
not have, and no script that runs again. It belongs to the process that started it; a fork of that
forgets it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Self

__all__ = ["Child"]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Child:
    """A living process, the parent's ends of its pipes and its folder for files.

    `discard` removes the folder, at the latest when this process ends.
    """

    process: subprocess.Popen[bytes]
    inlet: int
    outlet: int
    scratch: Path
    discard: weakref.finalize[[str], subprocess.Popen[bytes]]

    @classmethod
    def start(cls, module: str) -> Self:
        """Start `python -m` with one of our modules, which calls `serving.serve`.

        Raises
        ------
        OSError
            If there is no folder to write to, no process or no pipe to be had.
        """
        # It imports exactly what this process would, and nothing from its own folder (-P).
        paths = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path)
        with contextlib.ExitStack() as undo:
            scratch = Path(tempfile.mkdtemp(prefix="placewright-"))
            undo.callback(shutil.rmtree, scratch, ignore_errors=True)
            requests, inlet = _pipe(undo)
            outlet, answers = _pipe(undo)
            with (scratch / "stderr").open("wb") as errors:
                # A session of its own: a kill reaches programs that it starts, a Ctrl-C does not.
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", module, str(scratch)],
                    stdin=requests,
                    stdout=answers,
                    stderr=errors,
                    env={
                        **os.environ,
                        "PYTHONPATH": paths,
                        "OPENBLAS_NUM_THREADS": "1",
                        "TMPDIR": str(scratch),
                    },
                    start_new_session=True,
                )
            undo.pop_all()
        # With these open here a dead child would never read as the end of its pipe.
        os.close(requests)
        os.close(answers)
        discard = weakref.finalize(process, shutil.rmtree, str(scratch), ignore_errors=True)
        child = cls(process, inlet, outlet, scratch, discard)
        _children.add(child)
        return child

    def kill(self) -> None:
        """Kill the process, and programs that it started; `end` is still to be called."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill the process, and leave nothing of it behind."""
        self.kill()
        self.process.wait()
        self.discard()
        self._close()

    def leave(self) -> None:
        """Detach from the process without ending it."""
        self.discard.detach()
        self._close()

    def _close(self) -> None:
        _children.discard(self)
        os.close(self.inlet)
        os.close(self.outlet)

    def epitaph(self) -> str:
        """Wait for the process to end, and describe how it did."""
        code = self.process.wait()
        how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        words = (self.scratch / "stderr").read_text(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(words) if line.strip()), "")
        return f"ended with {how}" + (f": {last}" if last else "")


_children: weakref.WeakSet[Child] = weakref.WeakSet()


def _leave_all() -> None:
    for child in list(_children):
        child.leave()


os.register_at_fork(after_in_child=_leave_all)


def _pipe(undo: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        undo.callback(os.close, end)
    return ends

"""The child's side of `child.py`: a loop that answers requests until the parent ends."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import threading
from collections.abc import Callable

from placewright.solver.wire import receive

__all__ = ["serve"]


def serve(answer: Callable[[object, int], None]) -> None:
    """Call `answer` with each request and with the descriptor that answers go to.

    This process ends with its parent, in the middle of a search, too: a parent that was killed has
    no use for an answer. Ctrl-C is for the parent, which then ends this process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Solvers print to stdout and their children inherit stdin: keep both away from the pipes.
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    end = threading.Thread(target=_end_unheard, args=(answers,), daemon=True)
    end.start()
    try:
        while (request := receive(requests)) is not None:
            answer(request, answers)
    except BrokenPipeError:
        pass
    # To return would end that before its work is done.
    end.join()


def _end_unheard(answers: int) -> None:
    """Kill this process, and programs that it started, once nobody can read its answers."""
    parent = select.poll()
    # No events are asked for: that the other end is closed is reported always.
    parent.register(answers, 0)
    parent.poll()
    # The parent may have had no time to remove the folder that it made for this process.
    for folder in sys.argv[1:]:
        shutil.rmtree(folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)

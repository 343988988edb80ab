"""The child's side of a process: a function answers its requests until the parent ends."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

from placewright.solver.arrays import BackendUnavailableError, UnsupportedModelError
from placewright.solver.backends import get_backend
from placewright.solver.outcome import Progress
from placewright.solver.process import Refusal, Request, Warm, attempt, receive, send


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
    for folder in sys.argv[2:]:
        shutil.rmtree(folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


# The child's side of `process.py`: `python -m placewright.solver.worker MODULE:FUNCTION`.
#
# It calls that function with each request and with the descriptor that answers go to, and keeps
# nothing between requests. Its parent ends it, or it ends itself once that is gone.
def answer(message: object, answers: int) -> None:
    """Solve, or load a backend."""
    if isinstance(message, Request | Warm):
        # Loaded before the clock is read: it takes its share of the limit. A backend that cannot be
        # loaded is reported by the request that needs it.
        with contextlib.suppress(BackendUnavailableError):
            get_backend(message.backend)
    if isinstance(message, Request):
        _solve(message, answers)


def _solve(request: Request, answers: int) -> None:
    # A solver with several threads may report from each of them.
    one_at_a_time = threading.Lock()

    def report(progress: Progress) -> None:
        with one_at_a_time:
            send(answers, progress)

    left = max(0.0, request.limits.seconds - (time.monotonic() - request.sent))
    limits = replace(request.limits, seconds=left)
    try:
        outcome = attempt(request.backend, request.arrays, limits, request.start, report)
    except BackendUnavailableError as error:
        send(answers, Refusal(available=False, message=str(error)))
    except UnsupportedModelError as error:
        send(answers, Refusal(available=True, message=str(error)))
    else:
        send(answers, outcome)


if __name__ == "__main__":
    module, _, function = sys.argv[1].partition(":")
    serve(getattr(import_module(module), function))

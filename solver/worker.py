"""The worker's side of the solver process: `python -m placewright.solver.worker`.

It keeps nothing between requests. Its parent ends it; it ends itself when the pipe closes, in the
middle of a search too: a parent that was killed has no use for an answer.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from dataclasses import replace

from placewright.solver.backends import get_backend
from placewright.solver.errors import BackendUnavailableError, UnsupportedModelError
from placewright.solver.inprocess import attempt
from placewright.solver.outcome import Progress
from placewright.solver.wire import Refusal, Request, Warm, receive, send

__all__ = ["main"]


def main() -> None:
    """Answer requests until the parent closes the pipe."""
    # Ctrl-C is for the parent, which then kills this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Solvers print to stdout and their children inherit stdin: keep both away from the pipes.
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    threading.Thread(target=_end_unheard, args=(answers,), daemon=True).start()
    while (message := receive(requests)) is not None:
        try:
            if isinstance(message, Request | Warm):
                # Loaded before the clock is read: it takes its share of the limit. A backend that
                # cannot be loaded is reported by the request that needs it.
                with contextlib.suppress(BackendUnavailableError):
                    get_backend(message.backend)
            if isinstance(message, Request):
                _answer(message, answers)
        except BrokenPipeError:
            return


def _end_unheard(answers: int) -> None:
    """Kill this process, and programs that a solver started, once nobody can read its answers."""
    parent = select.poll()
    # No events are asked for: that the other end is closed is reported always.
    parent.register(answers, 0)
    parent.poll()
    os.killpg(0, signal.SIGKILL)


def _answer(request: Request, answers: int) -> None:
    # A solver with several threads may report from each of them.
    one_at_a_time = threading.Lock()

    def report(progress: Progress) -> None:
        with one_at_a_time:
            send(answers, progress)

    left = max(0.0, request.limits.seconds - (time.monotonic() - request.sent))
    limits = replace(request.limits, seconds=left)
    try:
        answer = attempt(request.backend, request.arrays, limits, request.start, report)
    except BackendUnavailableError as error:
        send(answers, Refusal(available=False, message=str(error)))
    except UnsupportedModelError as error:
        send(answers, Refusal(available=True, message=str(error)))
    else:
        send(answers, answer)


if __name__ == "__main__":
    main()

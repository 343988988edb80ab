"""The worker's side of the solver process: `python -m placewright.solver.worker`.

It keeps nothing between requests. Its parent ends it; it ends itself when the pipe closes.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace

from placewright.solver.backends import get_backend
from placewright.solver.errors import BackendUnavailableError, UnsupportedModelError
from placewright.solver.outcome import Outcome, Progress, Status
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
    while (message := receive(requests)) is not None:
        try:
            if isinstance(message, Request):
                _answer(message, answers)
            elif isinstance(message, Warm):
                _warm(message)
        except BrokenPipeError:
            return


def _warm(message: Warm) -> None:
    # A backend that cannot be loaded is reported by the request that needs it.
    try:
        get_backend(message.backend)
    except Exception:  # noqa: BLE001
        return


def _answer(request: Request, answers: int) -> None:
    # A solver with several threads may report from each of them.
    one_at_a_time = threading.Lock()

    def report(progress: Progress) -> None:
        with one_at_a_time:
            send(answers, progress)

    began = time.monotonic()
    try:
        backend = get_backend(request.backend)
        left = max(0.0, request.limits.seconds - (time.monotonic() - request.sent))
        limits = replace(request.limits, seconds=left)
        answer = backend(request.arrays, limits, request.start, report)
    except BackendUnavailableError as error:
        send(answers, Refusal(available=False, message=str(error)))
    except UnsupportedModelError as error:
        send(answers, Refusal(available=True, message=str(error)))
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001
        message = f"backend {request.backend!r} raised {type(error).__name__}: {error}"
        seconds = time.monotonic() - began
        send(
            answers,
            Outcome(Status.FAILED, message=message, seconds=seconds, backend=request.backend),
        )
    else:
        send(answers, answer)


if __name__ == "__main__":
    main()

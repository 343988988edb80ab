"""The worker's side of the solver process: `python -m placewright.solver.worker`.

It keeps nothing between requests. Its parent ends it, or it ends itself once that is gone.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import replace

from placewright.solver.backends import get_backend
from placewright.solver.errors import BackendUnavailableError, UnsupportedModelError
from placewright.solver.inprocess import attempt
from placewright.solver.outcome import Progress
from placewright.solver.serving import serve
from placewright.solver.wire import Refusal, Request, Warm, send

__all__ = ["main"]


def main() -> None:
    """Answer requests as long as there is a parent."""
    serve(_answer)


def _answer(message: object, answers: int) -> None:
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
        answer = attempt(request.backend, request.arrays, limits, request.start, report)
    except BackendUnavailableError as error:
        send(answers, Refusal(available=False, message=str(error)))
    except UnsupportedModelError as error:
        send(answers, Refusal(available=True, message=str(error)))
    else:
        send(answers, answer)


if __name__ == "__main__":
    main()

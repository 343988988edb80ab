"""The process that answers: `python -m placewright.live.serve.worker`.

It keeps nothing between questions. The service ends it, or it ends itself once that is gone.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from placewright.instances.errors import printable
from placewright.live.serve.lane import Question, failed
from placewright.live.serve.questions import answer
from placewright.live.serve.service import snapshot_of
from placewright.solver.serving import serve
from placewright.solver.wire import send

RATHER_THAN_OTHERS = "500"


def main() -> None:
    """Answer questions as long as there is a service."""
    with suppress(OSError):  # where memory runs out, this process is to go and not the service
        Path("/proc/self/oom_score_adj").write_text(RATHER_THAN_OTHERS)
    serve(_answer)


def _answer(message: object, answers: int) -> None:
    if not isinstance(message, Question):
        return
    made, solved = answer(message)
    send(answers, made)
    if solved is not None:
        # The caller has its answer; what the service shows may take longer.
        try:
            send(answers, snapshot_of(*solved))
        except Exception as error:  # noqa: BLE001
            send(answers, failed(printable(f"not shown: {type(error).__name__}: {error}")))


if __name__ == "__main__":
    main()

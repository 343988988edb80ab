"""Worker process of `executors.py` (`python -m` this module): it calls functions."""

from __future__ import annotations

from placewright.rounds.regions.executors import Call, Failed, Returned
from placewright.solver.serving import serve
from placewright.solver.wire import send

__all__ = ["main"]


def main() -> None:
    """Answer calls as long as there is a parent."""
    serve(lambda call, answers: send(answers, _answer(call)))


def _answer(call: object) -> Returned | Failed:
    if not isinstance(call, Call):
        return Failed(f"{type(call).__name__} is no call; a call was expected")
    try:
        return Returned(call.function(*call.args, **call.kwargs))
    # A task may raise anything, and the next one is to run all the same.
    except Exception as error:  # noqa: BLE001
        return Failed(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()

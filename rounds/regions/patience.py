"""Calls that may hang, and that are waited for only so long."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def waited_for(call: Callable[[], T], seconds: float) -> T:
    """Return what a call returns, made in a thread of its own that ends with this process.

    Raises
    ------
    TimeoutError
        If it has not returned within so many seconds; it goes on, and nobody hears of it.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        # Whatever it is, it is for who waits.
        except BaseException as error:  # noqa: BLE001
            answer.set_exception(error)

    Thread(target=run, daemon=True).start()
    return answer.result(seconds)

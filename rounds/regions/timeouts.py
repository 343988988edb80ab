"""Calls with a timeout, for functions that may hang."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def call_with_timeout(call: Callable[[], T], seconds: float) -> T:
    """Return what a call returns, made in a thread of its own that ends with this process.

    Raises
    ------
    TimeoutError
        If it has not returned within `seconds`; it goes on in its thread, and its result is lost.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        # Any error is raised again where the result is waited for.
        except BaseException as error:  # noqa: BLE001
            answer.set_exception(error)

    Thread(target=run, daemon=True).start()
    return answer.result(seconds)

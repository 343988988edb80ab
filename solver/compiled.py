"""Machine code of inner loops, by numba: how functions ask for it, and where it is kept.

It is kept beside the module, or in the user's cache; where neither can be written, in a folder that
is there as long as this process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numba
from numba.core import event

Function = TypeVar("Function", bound=Callable[..., Any])

OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
"""No wrappers and checks that nobody needs: they take as long to make as the loops."""

_folders: list[tempfile.TemporaryDirectory[str]] = []


class NotKeptError(Exception):
    """The machine code of a function is not kept anywhere and would have to be made."""


class _Refusal(event.Listener):
    """Refuses to make machine code of our functions; what others compile meanwhile is theirs."""

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith(__package__):
            raise NotKeptError(function.__qualname__)

    def on_end(self, event: Any) -> None:
        """Do nothing."""


def compiled(function: Function) -> Function:
    """Return a function that is machine code from its first call on."""
    return _compiled(function, **OPTIONS)


def inlined(function: Function) -> Function:
    """Return such a function that only others of them call, which makes it sooner made."""
    return _compiled(function, **OPTIONS, no_cpython_wrapper=True)


def _compiled(function: Function, **options: Any) -> Function:
    try:
        return cast(Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # no place for it
        pass
    try:
        with _kept_in(own_folder(make=True)):
            return cast(Function, numba.njit(cache=True, **options)(function))
    except (OSError, RuntimeError):
        return cast(Function, numba.njit(**options)(function))


def own_folder(*, make: bool = False) -> str | None:
    """Return the folder of this process, None if it needs none so far; OSError if none can be."""
    if make and not _folders:
        _folders.append(tempfile.TemporaryDirectory(prefix="placewright-"))
    return _folders[0].name if _folders else None


@contextmanager
def _kept_in(folder: str | None) -> Iterator[None]:
    """Let numba keep there what is declared meanwhile."""
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, folder
    try:
        yield
    finally:
        config.CACHE_DIR = before


@contextmanager
def only_kept() -> Iterator[None]:
    """Raise NotKeptError where machine code would be made meanwhile; what is kept is loaded."""
    with event.install_listener("numba:compile", _Refusal()):
        yield

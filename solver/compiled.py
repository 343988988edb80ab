"""Functions compiled by numba, with their machine code cached on disk.

The cache is beside the module, or in the user's cache folder; where neither can be written, in a
temporary folder of this process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numba
from numba.core import event

Function = TypeVar("Function", bound=Callable[..., Any])

OURS = f"{__name__.partition('.')[0]}."
"""What the modules of this package begin with."""

OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
"""No wrappers and checks that nobody needs: they take as long to make as the loops."""

_folders: list[tempfile.TemporaryDirectory[str]] = []


class NotCachedError(Exception):
    """The machine code of a function is not cached and would have to be compiled."""


class _Refusal(event.Listener):
    """Listener of numba's compiler: raises for functions of this package, lets others pass."""

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith(OURS):
            raise NotCachedError(function.__qualname__)

    def on_end(self, event: Any) -> None:
        """Do nothing."""


def compiled(function: Function) -> Function:
    """Return a function that is compiled on its first call, or loaded from the cache."""
    return _compile(function, **OPTIONS)


def inlined(function: Function) -> Function:
    """Return a compiled function that only compiled functions call.

    It needs no Python wrapper, so it compiles faster.
    """
    return _compile(function, **OPTIONS, no_cpython_wrapper=True)


def _compile(function: Function, **options: Any) -> Function:
    try:
        return _cached(function, options)
    except RuntimeError:  # no place for it
        pass
    try:
        with _cache_in(process_cache_folder(make=True)):
            return _cached(function, options)
    except (OSError, RuntimeError):
        return cast(Function, numba.njit(**options)(function))


def _cached(function: Function, options: dict[str, Any]) -> Function:
    """Return the compiled function with its cache on disk, emptied if it cannot be read.

    Numba reads the whole index before it compares versions of the source file, and fails where the
    index names types that the source no longer has. Raises RuntimeError if there is no folder for
    the cache.
    """
    dispatcher = numba.njit(cache=True, **options)(function)
    cache = dispatcher._cache
    try:
        cache._cache_file._load_index()
    except Exception:  # noqa: BLE001
        # Unpickling may raise anything.
        cache.flush()
    return cast(Function, dispatcher)


def process_cache_folder(*, make: bool = False) -> str | None:
    """Return the temporary cache folder of this process, None if there is none.

    Raises OSError if it cannot be made.
    """
    if make and not _folders:
        _folders.append(tempfile.TemporaryDirectory(prefix="placewright-"))
    return _folders[0].name if _folders else None


@contextmanager
def _cache_in(folder: str | None) -> Iterator[None]:
    """Let numba cache functions in a folder that are declared inside this context."""
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, folder
    try:
        yield
    finally:
        config.CACHE_DIR = before


@contextmanager
def cached_only() -> Iterator[None]:
    """Raise NotCachedError inside this context where a function would have to be compiled."""
    with event.install_listener("numba:compile", _Refusal()):
        yield

"""Folders of files to read."""

from __future__ import annotations

import os

from placewright.instances.errors import InvalidInputError


def entries_of(folder: str) -> list[os.DirEntry[str]]:
    """Return what is in a folder, but not in folders below, sorted by path.

    Raises
    ------
    InvalidInputError
        It cannot be read.
    """
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.path)
    except OSError as error:
        raise InvalidInputError(
            f"cannot be read ({error.strerror}); expected a folder to read",
            file=folder,
            show_value=False,
        ) from None

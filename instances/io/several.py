"""Files of several documents: YAML between lines of `---`, or JSON one after the other."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any

from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import AnyPath, load_text, parse_values

_YAML = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_JSON = re.compile(r"(?<=[}\]])[ \t\r]*+\n(?:\s*+---[ \t\r]*+\n)?+\s*+(?=[{\[])")
"""Between two values, as no JSON has it within one."""

_SAYS_SOMETHING = re.compile(r"^[ \t]*+[^\s#%]", re.MULTILINE)


def load_documents(path: AnyPath) -> list[Any]:
    """Read all documents of a file as plain values; those of comments alone are none.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or a document is neither JSON nor YAML as `yaml_json` has it; lines
        are those of the file.
    """
    file, text = os.fspath(path), load_text(path)
    between = _YAML
    if text.lstrip()[:1] in ("{", "["):
        with suppress(InvalidInputError):
            return [parse_values(text, file)]
        between = _JSON
    cuts = [at for found in between.finditer(text) for at in found.span()]
    documents = []
    for begin, end in zip([0, *cuts[1::2]], [*cuts[::2], len(text)], strict=True):
        part = text[begin:end]
        if not _SAYS_SOMETHING.search(part):
            continue
        try:
            documents.append(parse_values(part, file))
        except InvalidInputError:
            parse_values("\n" * text.count("\n", 0, begin) + part, file)
            raise
    return documents

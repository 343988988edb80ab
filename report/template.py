"""Templates of pages: all text is escaped, and a page may load nothing."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from placewright.instances.errors import printable


def content_policy(style: str, script: str | None = None) -> str:
    """Return a Content-Security-Policy that allows this style and script, and nothing else."""
    return "; ".join(
        (
            "default-src 'none'",
            *(() if script is None else (f"script-src '{_hash(script)}'",)),
            f"style-src '{_hash(style)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


@cache
def text_of(name: str) -> str:
    """Return a file of this folder."""
    return (files("placewright.report") / name).read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    """Return the templates of this folder."""
    return Environment(
        loader=PackageLoader("placewright", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )

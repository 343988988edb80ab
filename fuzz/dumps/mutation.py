"""Mutations that know the structure of a document: values of other types, names and sizes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

__all__ = ["mutated", "mutated_text"]

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 7, 2**31, 2**63, 10**30, 10**400, 0.5, 1e308),
    *(float("inf"), float("nan"), "", " ", "x", "-1", "1e9", "9" * 5000, "a" * 300),
    *([], {}, [None], [[]], {"": ""}, {"items": []}, ["x"] * 3),
    *({"set": True}, {"set": 1, "number": "x"}, {"number": []}, {"set": False}),
    *({"set": True, "infinite": True, "number": 0}, {"set": True, "number": -5}),
    *("h[0-", "h[0-999999999]", "h[3-1]", "[0-9]" * 7, "[0-9]" * 99, "h[0-3],,a1"),
    *("gpu:", "gpu:99999999999", "gres/gpu:h100:0", "gpu:2,gpu:x:3", "gres/shard:2"),
    *("gpu:h100:8(IDX:0-999)", "gpu:8(IDX:7,7,7)", "mem=9999999999999999P", "cpu=x", "cpu=1e9"),
    *("\x1b[31mred", "\ud800", "../..", "none", "a&(b", "((((", "a|", "a*2", "\U0001f4a5", "0-9%1"),
    *("RUNNING", "PENDING", ["RUNNING", "COMPLETING"], ["DOWN"], "0-99999", "2-5%", "3,9-1:0"),
    *("8Zi", "1Ei", "999999999999999999Ei", "<script>", "name\nwith\nlines"),
    *("2026-11-20T09:00:00Z", "9999-99-99", "0001-01-01T00:00:00Z"),
    {"requests": {"nvidia.com/gpu": "1"}},
)
KEYS = ("name", "x", "nvidia.com/gpu", "number", "\x1b]0;")
TEXTS = ("\x00", "\x1b[2J", "=", "|", "[", "Nodes=", "SwitchName=x", "\\\n", "\n\n", "9" * 12, "-")


def mutated(document: Any, rng: Random) -> Any:
    """Return a document with one to four places changed.

    Each gets another value or one from elsewhere, goes, stands twice, or is called otherwise.
    """
    made = copy.deepcopy(document)
    for _ in range(rng.randint(1, 4)):
        found = list(_places(made))
        if not found:
            break
        holder, key = rng.choice(found)
        match rng.randrange(6):
            case 0:
                del holder[key]
            case 1:
                other, at = rng.choice(found)
                holder[key] = copy.deepcopy(other[at])
            case 2 if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            case 2:
                holder[rng.choice(KEYS)] = holder.pop(key)
            case _:
                holder[key] = copy.deepcopy(rng.choice(VALUES))
    return made


def mutated_text(text: str, rng: Random) -> str:
    """Return a text that is cut, or has something put into it or taken out."""
    at, to = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    return (text[:at], text[:at] + rng.choice(TEXTS) + text[at:], text[:at] + text[to:])[
        rng.randrange(3)
    ]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container of a document with each of its keys."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        if not isinstance(holder, dict | list):
            continue
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            yield holder, key
            waiting.append(holder[key])

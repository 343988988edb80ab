"""JSON and YAML text to plain values (dict, list, str, int, float, bool, None), and back.

Both readers give the same values for the same document. YAML is read by its 1.2 core rules
(`no` and `1:30` are text) as JSON in other clothes: no anchors, aliases, tags or second documents,
and every key is text. It is built from the parser's events without recursion, so neither depth
nor an alias can make a document cost more than its length.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml
from pydantic_core import from_json

from placewright.collection import no_collection
from placewright.instances.errors import InvalidInputError

MAX_DEPTH = 64
MAX_DIGITS = 4300
MAX_KEYS = 10_000

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_FLOAT = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
)
_Path = tuple[str | int, ...]
_NUMBER_STARTS = frozenset("-+.0123456789")


def parse_json(text: str) -> Any:
    """Read JSON text.

    Raises
    ------
    InvalidInputError
        Not JSON, deeper than `MAX_DEPTH`, or an object with a key given twice or more than
        `MAX_KEYS` keys.
    """
    quotes = text.count('"')
    if "\\" in text:
        quotes -= text.replace("\\\\", "").count('\\"')
    with suppress(ValueError, TypeError), no_collection():
        value = from_json(text, allow_inf_nan=False)
        if 2 * _strings(value) == quotes:  # a key given twice would be one string, or more, less
            return value
        del value
    return _parse_pairs(text)


def _parse_pairs(text: str) -> Any:
    """Read JSON as `parse_json` does, with a look at the keys of each object: twice as slowly.

    It says what is wrong, and reads what the fast parser refuses, such as half of a surrogate pair.
    """
    refused: list[_Refused] = []

    def build(pairs: list[tuple[str, Any]]) -> Any:
        built = dict(pairs)
        if len(built) == len(pairs) <= MAX_KEYS:
            return built
        refused.append(_Refused([key for key, _ in pairs]))
        return refused[-1]

    try:
        with no_collection():
            value = json.loads(text, object_pairs_hook=build, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise _not_valid("JSON", error.lineno, error.colno, error.msg) from None
    except RecursionError:
        raise _too_deep() from None
    if refused:
        _refuse(value)
    if _strings(value) < 0:
        raise _too_deep()
    return value


def _strings(value: Any) -> int:
    """Return how many strings there are, keys included; -1 beyond `MAX_DEPTH` or `MAX_KEYS`."""
    strings = 0
    level: list[Any] = [[value]]
    for _ in range(MAX_DEPTH + 1):
        keys = [len(parent) for parent in level if type(parent) is dict]
        if max(keys, default=0) > MAX_KEYS:
            return -1
        others = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) is not str
        ]
        strings += sum(keys) + sum(map(len, level)) - len(others)
        level = [child for child in others if type(child) is dict or type(child) is list]
        if not level:
            return strings
    return -1


def parse_yaml(text: str) -> Any:
    """Read YAML text.

    Raises
    ------
    InvalidInputError
        Not YAML, deeper than `MAX_DEPTH`, a mapping with a key given twice or more than `MAX_KEYS`
        keys, a key that is not text, or an anchor, alias, tag or second document.
    """
    tree = _Tree()
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            tree.take(event)
    except yaml.MarkedYAMLError as error:
        # LibYAML reads ahead, and since 0.2.6 has a limit of its own, a thousand levels.
        if error.problem == "exceeded maximum nesting depth":
            raise _too_deep() from None
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise _not_valid("YAML", line, column, error.problem or "no token") from None
    except yaml.YAMLError as error:
        raise InvalidInputError(f"{error}; expected valid YAML") from None
    return tree.root


def dump_yaml(value: Any) -> str:
    """Write plain values as YAML that `parse_yaml`, and readers of YAML 1.1, take for the same."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


@dataclass(frozen=True, slots=True)
class _Refused:
    """Stands for an object that is refused for its keys, until its path is known."""

    keys: list[str]


class _Tree:
    """Plain values under construction from YAML events."""

    def __init__(self) -> None:
        self.root: Any = None
        self._open: list[dict[str, Any] | list[Any]] = []
        self._places: list[str | int] = []  # of each open container in the one that holds it
        self._key: str | None = None  # in the innermost mapping, still without its value
        self._documents = 0

    def take(self, event: Any) -> None:
        match event:
            case yaml.ScalarEvent():
                self._refuse_extras(event)
                if self._expects_key():
                    self._set_key(event.value)
                else:
                    self._add(_plain(event.value) if event.implicit[0] else event.value)
            case yaml.MappingStartEvent():
                self._start({}, event)
            case yaml.SequenceStartEvent():
                self._start([], event)
            case yaml.CollectionEndEvent():
                self._open.pop()
                self._places.pop()
            case yaml.AliasEvent():
                raise self._error("expected no anchors or aliases", f"*{event.anchor}")
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise self._error("a second document; expected one")

    def _expects_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1], dict) and self._key is None

    def _set_key(self, key: str) -> None:
        mapping = self._open[-1]
        if key in mapping:
            raise _given_twice(key, self._path())
        if len(mapping) == MAX_KEYS:
            raise _too_many_keys(self._path())
        self._key = key

    def _start(self, container: dict[str, Any] | list[Any], event: Any) -> None:
        self._refuse_extras(event)
        if self._expects_key():
            raise self._error("a mapping or list as key; expected text")
        if len(self._open) == MAX_DEPTH:
            raise _too_deep()
        self._places.append(self._add(container))
        self._open.append(container)

    def _add(self, value: Any) -> str | int:
        """Put a value in its place, and return that."""
        place = self._place()
        if not self._open:
            self.root = value
        elif isinstance(self._open[-1], list):
            self._open[-1].append(value)
        else:
            self._open[-1][str(place)] = value
            self._key = None
        return place

    def _place(self) -> str | int:
        """Return where the next value goes in the innermost container; "" where that is open."""
        if self._open and isinstance(self._open[-1], list):
            return len(self._open[-1])
        return self._key or ""

    def _refuse_extras(self, event: Any) -> None:
        if event.anchor is not None:
            raise self._error("expected no anchors or aliases", f"&{event.anchor}")
        if event.tag is not None:
            raise self._error("expected no tags", event.tag)

    def _path(self) -> _Path:
        return tuple(self._places[1:])

    def _error(self, expected: str, value: str | None = None) -> InvalidInputError:
        path = self._path()
        if self._open and not self._expects_key():
            path = (*path, self._place())
        return InvalidInputError(expected, path=path, value=value, show_value=value is not None)


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _NUMBER_STARTS:
        if _INTEGER.match(text):
            return _integer(text)
        if _FLOAT.match(text):
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


def _integer(text: str) -> int | str:
    # Python refuses to convert longer ones; as text, the document's check refuses it by its path.
    return int(text) if len(text.lstrip("+-")) <= MAX_DIGITS else text


def _children(value: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def _refuse(value: Any) -> NoReturn:
    stack: list[tuple[_Path, Any]] = [((), value)]
    while True:  # ends: the caller has put a _Refused in
        path, item = stack.pop()
        if isinstance(item, _Refused):
            if len(item.keys) > MAX_KEYS:
                raise _too_many_keys(path)
            raise _given_twice(_first_twice(item.keys), path)
        stack.extend(((*path, key), child) for key, child in _children(item))


def _first_twice(keys: list[str]) -> str:
    numbers = Counter(keys)
    return next(key for key in keys if numbers[key] > 1)


def _given_twice(key: str, path: _Path) -> InvalidInputError:
    return InvalidInputError("key given twice; expected each key once", path, key)


def _too_many_keys(path: _Path) -> InvalidInputError:
    return InvalidInputError(f"too many keys; expected at most {MAX_KEYS:,}", path)


def _too_deep() -> InvalidInputError:
    return InvalidInputError(f"nested too deeply; expected at most {MAX_DEPTH} levels")


def _not_valid(language: str, line: int, column: int, problem: str) -> InvalidInputError:
    return InvalidInputError(f"line {line}, column {column}: {problem}; expected valid {language}")


class _Dumper(yaml.CSafeDumper):
    """Writes no aliases, and quotes text that either YAML version would take for a number."""

    def ignore_aliases(self, _value: Any) -> bool:
        return True


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list(_NUMBER_STARTS))
_Dumper.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER, list(_NUMBER_STARTS))

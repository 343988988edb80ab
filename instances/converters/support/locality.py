"""Speed of models by number of hosts, from the JSON table of Chronus's artifact.

Model, then GPUs, then hosts that the job lies on, to speed relative to one host:
`{"vgg16": {"4": {"1": 1.0, "2": 0.576, "4": 0.318}}}`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_values

Locality = Mapping[tuple[str, int], tuple[tuple[int, int], ...]]
"""By model and GPUs: (hosts from 2 on, thousandths of the speed on one), hosts ascending."""

MAX_HOSTS = 10_000
MOST = 2000
"""Twice as fast on several hosts is the most that a table may say, in thousandths."""


def read_locality(path: str | os.PathLike[str]) -> Locality:
    """Read a table of speeds by model, GPUs and hosts; the speed on one host must be 1.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used, with the path in it.
    """
    file = os.fspath(path)
    try:
        found: dict[tuple[str, int], tuple[tuple[int, int], ...]] = {}
        for model, sizes in _mapping(load_values(file), ()).items():
            for gpus, speeds in _mapping(sizes, (model,)).items():
                by_hosts = {
                    _whole(hosts, (model, gpus, hosts)): _thousandths(speed, (model, gpus, hosts))
                    for hosts, speed in _mapping(speeds, (model, gpus)).items()
                }
                if by_hosts.pop(1, 1000) != 1000:
                    raise InvalidInputError(
                        "expected 1, the speed that the others are relative to",
                        path=(model, gpus, "1"),
                        value=speeds["1"],
                    )
                found[model, _whole(gpus, (model, gpus))] = tuple(sorted(by_hosts.items()))
    except InvalidInputError as error:
        raise error.inside(file) from None
    return found


def _mapping(value: Any, path: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise InvalidInputError("expected a mapping", path=path, value=value)
    return value


def _whole(key: str, path: tuple[str, ...]) -> int:
    if not (key.isascii() and key.isdigit() and len(key) < 6 and 1 <= int(key) <= MAX_HOSTS):
        raise InvalidInputError(f"expected a number from 1 to {MAX_HOSTS}", path=path, value=key)
    return int(key)


def _thousandths(speed: Any, path: tuple[str, ...]) -> int:
    number = isinstance(speed, int | float) and not isinstance(speed, bool)
    if not number or not 1 <= speed * 1000 <= MOST:
        raise InvalidInputError("expected a speed from 0.001 to 2", path=path, value=speed)
    whole: int = round(speed * 1000)
    return whole

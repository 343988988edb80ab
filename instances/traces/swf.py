"""Standard Workload Format: the logs of HPC clusters, whitespace-separated, one job a line.

References
----------
Chapin et al., "Benchmarks and standards for the evaluation of parallel job schedulers", JSSPP 1999.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from placewright.instances.converters.support.csv_table import MAX_BYTES, MAX_LINE
from placewright.instances.errors import InvalidInputError, value_text
from placewright.instances.io import unpacked
from placewright.instances.traces.left_out import NO_GPU, NO_TIME
from placewright.instances.traces.tables import MAX_GPUS, MAX_S, MAX_WORK_S, numbered
from placewright.instances.traces.trace import SECOND, Trace

FIELDS = 18
"""Fields of a line; -1 stands for what is not known."""

PARTIAL = frozenset({"2", "3", "4"})
"""Status of lines that tell a part of a job that was swapped out, of which another line has all."""

_JOB, _SUBMIT, _RUN, _USED, _ASKED, _ASKED_TIME, _STATUS, _USER = 0, 1, 3, 4, 7, 8, 10, 11
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


def swf_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a log; processors are GPUs, users are tenants, the time asked is what is predicted.

    Jobs of unknown or no running time or processors are left out, and lines that tell a part of a
    job. Lines that begin with `;` are comments.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used, with its line.
    """
    file = str(path)
    rows: list[tuple[int, int, int, int]] = []
    names: dict[str, int] = {}
    users: list[str] = []
    left_out: Counter[str] = Counter()
    for number, line in enumerate(_lines(file), 1):
        fields = line.split()
        if not fields or fields[0].startswith(";"):
            continue
        if len(fields) != FIELDS:
            raise _unusable(file, number, line, f"{FIELDS} fields")
        if fields[_STATUS] in PARTIAL:
            continue
        submit, run, used, asked, told = (
            _rounded(file, number, fields[field])
            for field in (_SUBMIT, _RUN, _USED, _ASKED, _ASKED_TIME)
        )
        gpus = used if used > 0 else asked
        if gpus <= 0 or run <= 0:
            left_out[NO_GPU if gpus <= 0 else NO_TIME] += 1
        else:
            for field, seconds in ((_RUN, run), (_ASKED_TIME, told)):
                if seconds > MAX_WORK_S:
                    raise _unusable(file, number, fields[field], f"at most {MAX_WORK_S} seconds")
            if gpus > MAX_GPUS:
                raise _unusable(file, number, fields[_USED], f"at most {MAX_GPUS} processors")
            rows.append((submit, gpus, run, told if told > 0 else run))
            earlier = names.setdefault(fields[_JOB], number)
            if earlier != number:
                expected = f"each job once; line {earlier} has it"
                raise _unusable(file, number, fields[_JOB], expected)
            users.append(fields[_USER])
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4)
    tenants, tenant = numbered(users, len(rows))
    return Trace.of(
        SECOND * np.maximum(columns[:, 0], 0),
        columns[:, 1],
        SECOND * columns[:, 2],
        names=tuple(names),
        predicted_us=SECOND * columns[:, 3],
        tenant=tenant,
        tenants=tenants,
        left_out=left_out,
    )


def _lines(file: str) -> Iterator[str]:
    rest = b""
    for piece in unpacked.pieces(file, MAX_BYTES):
        *whole, rest = (rest + piece).split(b"\n")
        if len(rest) > MAX_LINE:
            expected = f"a line is too long; expected at most {MAX_LINE} bytes"
            raise InvalidInputError(expected, file=file, show_value=False)
        yield from (line.decode("ascii", "replace") for line in whole)
    yield rest.decode("ascii", "replace")


def is_swf(path: str | os.PathLike[str]) -> bool:
    """Whether a file is named as such logs are."""
    return Path(path).name.endswith((".swf", ".swf.gz"))


def _rounded(file: str, line: int, field: str) -> int:
    """Read a number, fractions rounded."""
    number = float(field) if _NUMBER.fullmatch(field) else -2
    if not -1 <= number <= MAX_S:
        raise _unusable(file, line, field, f"a number from -1 to {MAX_S}")
    return round(number)


def _unusable(file: str, line: int, value: str, expected: str) -> InvalidInputError:
    told = f"line {line}: {value_text(value)}: expected {expected}"
    return InvalidInputError(told, file=file, show_value=False)

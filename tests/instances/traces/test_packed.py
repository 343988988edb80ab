"""Traces packed with gzip: read as they are, within a limit of what they hold."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from placewright.instances.converters.support import csv_table
from placewright.instances.errors import InvalidInputError
from placewright.instances.io import unpacked
from placewright.instances.traces.read import read_trace
from tests.instances.traces.test_fuzzed import OWN, TIRESIAS
from tests.instances.traces.test_gavel import SHOCKWAVE
from tests.instances.traces.test_read import SWF


@pytest.mark.parametrize(
    ("name", "text"),
    [("t.csv", OWN), ("t.csv", TIRESIAS), ("log.swf", SWF), ("t.trace", SHOCKWAVE)],
)
def test_packed_is_as_plain(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    plain, packed = read_trace(tmp_path / name), read_trace(tmp_path / f"{name}.gz")
    assert packed.names == plain.names
    assert packed.submit_us.tolist() == plain.submit_us.tolist()


@pytest.mark.parametrize("padding", [b"", b"\0" * 700])
@pytest.mark.parametrize("piece", [2, 3, 7, 1 << 20])
def test_members_and_padding(
    padding: bytes, piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacked.streams, "PIECE", piece)
    path, half = tmp_path / "t.gz", OWN.encode()[:40]
    path.write_bytes(gzip.compress(half) + padding + gzip.compress(OWN.encode()[40:]) + padding)
    got = list(unpacked.pieces(str(path), 10**6))
    assert b"".join(got) == OWN.encode()
    assert max(map(len, got)) <= piece


def test_a_bomb_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_table, "MAX_BYTES", 4 << 20)
    path = tmp_path / "bomb.csv.gz"
    line = b"0,1,5\n"
    path.write_bytes(gzip.compress(b"submit_s,gpus,duration_s\n" + b"\n" * (100 << 20), 1))
    assert path.stat().st_size < 2 << 20
    tracemalloc.start()
    with pytest.raises(InvalidInputError, match=r"bomb\.csv\.gz: too large; expected at most 4"):
        read_trace(path)
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()
    path.write_bytes(gzip.compress(b"submit_s,gpus,duration_s\n" + line * 9))
    assert len(read_trace(path)) == 9


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda packed: packed[:-1], "ends within gzip"),
        (lambda packed: packed[:12], "ends within gzip"),
        (lambda packed: packed[:20] + b"\xff\xff" + packed[22:], "damaged; expected gzip"),
        (lambda packed: packed + b"more", "damaged; expected gzip"),
        (lambda packed: packed[:-6] + zlib.compress(b"")[:6], "damaged; expected gzip"),
    ],
)
def test_damage_is_told(damage: Callable[[bytes], bytes], told: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(damage(gzip.compress(OWN.encode() * 20)))
    with pytest.raises(InvalidInputError, match=told) as caught:
        read_trace(path)
    assert "t.csv.gz" in str(caught.value)

"""The digest of a round: sha256 of its canonical JSON, by which a plan names its round."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from weakref import finalize

from placewright.instances.checks.round import checked
from placewright.instances.documents.base import Document
from placewright.instances.documents.round import Round


class Digester:
    """Digests of consecutive rounds: the JSON of a document that both share is made once.

    It keeps the last round alive.
    """

    def __init__(self) -> None:
        self._round: Round | None = None
        self._texts: dict[int, str] = {}

    def __call__(self, round_: Round) -> str:
        """Return the digest of a round, as `round_digest` does."""
        # By identity: documents do not change, and those known are alive, so an id is one's own.
        known = self._texts
        self._texts = {id(job): known.get(id(job)) or _text(job, _OWN) for job in round_.jobs}
        jobs = ",".join(self._texts.values())
        cluster = known.get(id(round_.cluster)) or _text(round_.cluster, _OF_HOSTS)
        self._texts[id(round_.cluster)] = cluster
        self._round, sets = round_, round_.host_sets
        excluded = {"jobs", "cluster", "host_sets", *_OWN}
        rest = round_.model_dump(mode="json", exclude=excluded, exclude_defaults=True)
        texts = {key: _canonical(value) for key, value in rest.items()}
        texts |= {"jobs": f"[{jobs}]", "cluster": cluster}
        if sets:
            texts["host_sets"] = self._texts[id(sets)] = known.get(id(sets)) or _canonical(sets)
        text = ",".join(f'"{key}":{texts[key]}' for key in sorted(texts))
        digest = hashlib.sha256(f"{{{text}}}".encode()).hexdigest()
        if _KNOWN.setdefault(id(round_), digest) is digest:
            finalize(round_, _KNOWN.pop, id(round_), None).atexit = False
        return digest


_KNOWN: dict[int, str] = {}
"""Digests of the rounds that are alive, by their identity: a round is immutable."""


def round_digest(round_: Round) -> str:
    """Return the sha256, in hexadecimal, of a round as canonical JSON.

    Canonical: sorted keys, no white space, ASCII, quantities as integers in their unit; fields that
    have their default are left out (but `jobs`), so that no old digest changes when a field is
    added, and so are annotations. Spelling does not count (JSON or YAML, `"4Gi"` or 4096, a cluster
    inline or referred to); order, names and host ranges do.
    """
    round_ = checked(round_)
    return _KNOWN.get(id(round_)) or Digester()(round_)


_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
"""One for all texts: `json.dumps` makes an encoder for each."""


_OWN = {"annotations"}
_OF_HOSTS: dict[str, Any] = {"hosts": {"__all__": _OWN}}
"""What a digest does not depend on, of a round or job, and of a cluster."""


def _text(document: Document, excluded: Any) -> str:
    return _canonical(document.model_dump(mode="json", exclude=excluded, exclude_defaults=True))

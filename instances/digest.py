"""The identity of a round: a hash that a plan carries to say which round it was made for."""

from __future__ import annotations

import hashlib
import json

from placewright.instances.round import Round


def round_digest(round_: Round) -> str:
    """Return the sha256, in hexadecimal, of a round as canonical JSON.

    Canonical: sorted keys, no white space, ASCII, defaults written out, quantities as integers in
    their unit. Spelling does not count (JSON or YAML, `"4Gi"` or 4096, a cluster inline or
    referred to); order, names and host ranges do.
    """
    values = round_.model_dump(mode="json")
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()

"""Disaggregated serving: instances for prefill and for decode, as many as keep up with each other.

Source: Zhong et al., "DistServe: Disaggregating Prefill and Decoding for Goodput-optimized Large
Language Model Serving", OSDI'24; Patel et al., "Splitwise: Efficient Generative LLM Inference Using
Phase Splitting", ISCA'24: a request is served by a prefill instance, then by a decode instance,
which gets its key-value cache over a fast link. The slower side limits the rate.
"""

from __future__ import annotations

from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models.amounts import positive, whole, workers

MAX_OPTIONS = 64
"""As many options a job may have."""


def options(
    prefill_rate: float,
    decode_rate: float,
    most: int,
    *,
    prefill: TaskGroup,
    decode: TaskGroup,
    level: str,
) -> tuple[Option, ...]:
    """Return an option per pair of numbers that no other pair beats, in one domain of a level.

    The value is the rate, min(p r_p, d r_d), rounded. A pair is left out if one with no more
    instances of either kind serves as much.

    `prefill_rate`, `decode_rate`: requests that one instance serves, per unit of time: 1 or more,
    since values are whole. `most`: instances of both kinds together, 2 or more. `prefill`,
    `decode`: what an instance takes. `level`: the level of which one domain holds all. Raises
    InvalidInputError if a rate is below 1, fewer than 2 instances are allowed, or there are more
    than 64 pairs.
    """
    for name, rate in (("prefill_rate", prefill_rate), ("decode_rate", decode_rate)):
        positive(rate, (name,))
        if rate < 1:
            raise InvalidInputError(
                "expected 1 or more; count the requests of a longer time", (name,), rate
            )
    if most < 2:
        raise InvalidInputError("expected 2 or more", ("most",), most)
    rates = {
        (p, d): min(p * prefill_rate, d * decode_rate)
        for p in range(1, most)
        for d in range(1, most - p + 1)
    }
    kept = [
        (p, d)
        for p, d in rates
        if rates[p, d] > max(rates.get((p - 1, d), 0.0), rates.get((p, d - 1), 0.0))
    ]
    if len(kept) > MAX_OPTIONS:
        raise InvalidInputError(
            f"{len(kept)} pairs; expected at most {MAX_OPTIONS}", ("most",), most
        )
    return tuple(
        Option(
            name=f"p{p}-d{d}",
            value=whole(rates[p, d], ("prefill_rate",)),
            groups=(
                workers(prefill, p).model_copy(update={"name": "prefill"}),
                workers(decode, d).model_copy(update={"name": "decode"}),
            ),
            required=level,
        )
        for p, d in sorted(kept)
    )

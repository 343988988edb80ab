"""Parts of a GPU that a task group asks for: a fraction with memory, or a MIG slice."""

from __future__ import annotations

from typing import Any

from placewright.instances.documents.quantities import is_zero, whole_units
from placewright.instances.errors import InvalidInputError
from placewright.topology.mig import PROFILES, milli_of
from placewright.topology.units import WHOLE_GPU

_MEMORY, _MIG, _GPU = "gpu_memory", "mig", "gpu"


def with_gpu_of_profile(raw: Any) -> Any:
    """Return a raw task group with the share of a GPU that its MIG profile stands for.

    Raises
    ------
    InvalidInputError
        If the profile is unknown or does not go with the other fields, or memory with no GPU.
    """
    if not isinstance(raw, dict):
        return raw
    profile = raw.get(_MIG)
    if isinstance(profile, str):
        return _sliced(raw, profile)
    if not is_zero(raw.get(_MEMORY, 0)) and is_zero(raw.get(_GPU)):
        raise InvalidInputError(
            "given for a task without GPUs; expected 0", (_MEMORY,), raw[_MEMORY]
        )
    return raw


def _sliced(raw: dict[str, Any], profile: str) -> dict[str, Any]:
    if profile not in PROFILES:
        raise InvalidInputError(
            f"unknown MIG profile; expected one of {', '.join(PROFILES)}", (_MIG,), profile
        )
    share = whole_units(milli_of(profile))
    decimal = milli_of(profile) / WHOLE_GPU
    if raw.get(_GPU, share) not in (share, decimal, str(decimal)):
        raise InvalidInputError(
            f"given beside mig; expected none, or the {share} of {profile}", (_GPU,), raw[_GPU]
        )
    if not is_zero(raw.get(_MEMORY, 0)):
        raise InvalidInputError(
            f"given beside mig; expected none, as {profile} has a memory of its own",
            (_MEMORY,),
            raw[_MEMORY],
        )
    return {**raw, _GPU: share}


def group_schema(schema: dict[str, Any]) -> None:
    """Let the JSON Schema of a task group ask for `gpu` or for `mig`."""
    schema["required"] = [name for name in schema["required"] if name != _GPU]
    if not schema["required"]:
        del schema["required"]
    schema["anyOf"] = [{"required": [_GPU]}, {"required": [_MIG]}]

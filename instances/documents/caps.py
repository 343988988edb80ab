"""Caps: named limits on what the jobs that count in them hold together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeAlias

from pydantic import AfterValidator, Field

from placewright.instances.documents.base import Amount, Document, Name
from placewright.instances.documents.option import Option
from placewright.instances.documents.quantities import (
    Amounts,
    MilliGpuTotal,
    amount_text,
    write_amount,
)

MeasureKind: TypeAlias = Literal["gpus", "gpus_by_model", "jobs", "resources"]


class Measure(NamedTuple):
    """What a cap limits: a field of `Cap`, and a GPU model or resource where it has several."""

    kind: MeasureKind
    name: str = ""

    def text(self, amount: int) -> str:
        """Return an amount with its unit: "8 GPUs", "8 GPUs of model H100", "1 job"."""
        if self.kind == "jobs":
            return f"{amount} job{'' if amount == 1 else 's'}"
        if self.kind == "resources":
            return amount_text(self.name, amount)
        of_model = f" of model {self.name}" if self.name else ""
        return amount_text("gpu", amount) + of_model

    @property
    def path(self) -> tuple[str, ...]:
        """Where a cap has it."""
        return (self.kind, self.name) if self.name else (self.kind,)

    @property
    def key(self) -> str:
        """How edits name it: `gpus`, `gpus@H100`, `jobs`, or the resource."""
        of_model = f"gpus@{self.name}"
        return of_model if self.kind == "gpus_by_model" else self.name or self.kind

    @classmethod
    def of_key(cls, key: str) -> Measure:
        """Return what edits name so."""
        if key in ("gpus", "jobs"):
            return cls("gpus" if key == "gpus" else "jobs")
        gpus, found, model = key.partition("@")
        return cls("gpus_by_model", model) if found and gpus == "gpus" else cls("resources", key)

    def written(self, amount: int) -> int | str:
        """Return an amount as a document has it."""
        if self.kind == "jobs":
            return amount
        return write_amount(self.name if self.kind == "resources" else "gpu", amount)

    def as_cap(self, amount: int) -> dict[str, Any]:
        """Return a cap of this alone, as a document has it."""
        value = self.written(amount)
        return {self.kind: {self.name: value} if self.name else value}

    @property
    def facts(self) -> dict[str, str]:
        """The fields of a `Detail` that say what is limited."""
        if self.kind == "resources":
            return {"resource": self.name}
        of_model = {"gpu_model": self.name} if self.name else {}
        return {"resource": "jobs" if self.kind == "jobs" else "gpu", **of_model}

    @classmethod
    def named(cls, resource: str, gpu_model: str | None = None, *, cap: bool = True) -> Self:
        """Return what facts speak of: of a cap, or of a quota."""
        if resource == "gpu":
            return cls("gpus") if gpu_model is None else cls("gpus_by_model", gpu_model)
        return cls("jobs") if cap and resource == "jobs" else cls("resources", resource)

    def asked_by(self, option: Option) -> int:
        """Return what a job with an option counts."""
        if self.kind == "jobs":
            return 1
        if self.kind == "resources":
            return option.amount_of(self.name)
        groups = option.groups
        if self.kind == "gpus_by_model":
            groups = tuple(g for g in groups if g.gpu_models and self.name in g.gpu_models)
        return sum(group.milli_gpu for group in groups)


def _others(resources: dict[str, int]) -> dict[str, int]:
    for name, field in (("gpu", "gpus"), ("jobs", "jobs")):
        if name in resources:
            raise ValueError(f"{name!r} is limited by the field {field}; expected it there")
    return resources


class Cap(Document):
    """A limit on what the jobs that name it in `caps` hold together, running and started ones.

    `gpus` limits their GPUs of any model, `gpus_by_model` those of a model, `jobs` their number,
    and `resources` cores, memory and others. A job counts in every cap that it names, with the
    option that it has.
    """

    gpus: MilliGpuTotal | None = None
    gpus_by_model: dict[Name, MilliGpuTotal] = Field(default_factory=dict)
    jobs: Amount | None = None
    resources: Annotated[Amounts, AfterValidator(_others)] = Field(default_factory=dict)

    @classmethod
    def of(cls, limits: Mapping[Measure, int]) -> Cap:
        """Return the cap with these limits."""
        fields: dict[str, Any] = {"gpus_by_model": {}, "resources": {}}
        for measure, most in limits.items():
            if measure.name:
                fields[measure.kind][measure.name] = most
            else:
                fields[measure.kind] = most
        return cls.model_construct(**fields)

    @property
    def limits(self) -> Mapping[Measure, int]:
        """The limits, by what they are on."""
        plain = {Measure("gpus"): self.gpus, Measure("jobs"): self.jobs}
        return {
            **{measure: most for measure, most in plain.items() if most is not None},
            **{Measure("gpus_by_model", n): most for n, most in self.gpus_by_model.items()},
            **{Measure("resources", name): most for name, most in self.resources.items()},
        }

"""Edits of data: further replicas."""

from __future__ import annotations

from placewright.instances.derived.arrived_copies import with_replicas
from placewright.instances.derived.names import check_known
from placewright.instances.documents.edits import ReplicateEdit
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError


def replicate(round_: Round, edit: ReplicateEdit) -> Round:
    """Put replicas of a dataset into further regions; copies that are under way there are not."""
    if "geo" not in round_.policy.spec.sections:
        raise InvalidInputError(
            f"policy {round_.policy.formulation} knows no data; expected geo or replicas",
            path=("dataset",),
            value=edit.dataset,
        )
    geo = round_.geo
    check_known(edit.dataset, {one.name for one in geo.datasets}, "dataset", ("dataset",))
    datasets = tuple(
        with_replicas(one, dict.fromkeys((*one.replicas, *edit.regions)))
        if one.name == edit.dataset
        else one
        for one in geo.datasets
    )
    copying = tuple(
        one for one in geo.copying if one.dataset != edit.dataset or one.region not in edit.regions
    )
    update = {"datasets": datasets, "copying": copying}
    return round_.model_copy(update={"geo": geo.model_copy(update=update)})

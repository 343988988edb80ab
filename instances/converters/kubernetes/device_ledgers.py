"""Ledgers of claims of devices (DRA), their classes, and the slices that the devices are in."""

from __future__ import annotations

from collections.abc import Mapping

from placewright.instances.converters.kubernetes.further_ledgers import (
    CLAIMS,
    META_NO_EFFECT,
    META_READ,
    prefixed,
)
from placewright.instances.converters.kubernetes.sources import Kind
from placewright.instances.converters.ledger import Ledger, Rule

CLAIM, CLAIM_TEMPLATE, SLICE, DEVICE_CLASS = (
    Kind("resource.k8s.io", name)
    for name in ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass")
)

_ASK = "deviceClassName count allocationMode"
_REQUEST_TOLD = "adminAccess capacity derivedAttributes selectors tolerations"
_DEVICE_NO_EFFECT = "capacity nodeAllocatableResources"
_DEVICE_TOLD = """
    allNodes allowMultipleAllocations consumesCounters bindingConditions bindsToNode
    bindingFailureConditions nodeName nodeSelector
"""


def _claim(spec: str, read: str = "", no_effect: str = "", told: str = "") -> Ledger:
    """Return the table of claims, in all versions, whose spec has a prefix."""
    of = f"{spec}devices.requests."
    asks = f"{prefixed(of, f'name {_ASK}')} {prefixed(f'{of}exactly.', _ASK)}"
    more = f"firstAvailable {_REQUEST_TOLD} {prefixed('exactly.', _REQUEST_TOLD)}"
    paths = (*prefixed(of, more).split(), f"{spec}devices.constraints", *told.split())
    return Ledger(
        "resource claims" if told else "templates of resource claims",
        f"{META_READ} {asks} {read}",
        f"{META_NO_EFFECT} {spec}devices.config {no_effect}",
        dict.fromkeys(paths, CLAIMS),
    )


DEVICE_LEDGERS: Mapping[Kind, Ledger] = {
    CLAIM: _claim(
        "spec.",
        prefixed("status.allocation.devices.results.", "driver pool device"),
        f"""{prefixed("status.allocation.devices.results.", "adminAccess bindingConditions")}
        {prefixed("status.allocation.devices.results.", "request tolerations")}
        status.allocation.devices.results.bindingFailureConditions
        status.allocation.devices.results.skipNodeOperations status.allocation.devices.config
        status.allocation.allocationTimestamp status.allocation.nodeSelector status.devices
        status.reservedFor""",
        prefixed("status.allocation.devices.results.", "consumedCapacity shareID"),
    ),
    CLAIM_TEMPLATE: _claim("spec.spec.", no_effect="spec.metadata"),
    SLICE: Ledger(
        "resource slices",
        f"""{META_READ} spec.driver spec.nodeName spec.pool.name spec.pool.generation
        {prefixed("spec.devices.", "name attributes taints")}
        {prefixed("spec.devices.basic.", "attributes taints")}""",
        f"""{META_NO_EFFECT} spec.pool.resourceSliceCount spec.sharedCounters
        spec.partitionTypeAttribute spec.skipNodeOperations
        {prefixed("spec.devices.", _DEVICE_NO_EFFECT)}
        {prefixed("spec.devices.basic.", _DEVICE_NO_EFFECT)}""",
        dict.fromkeys(
            f"""spec.allNodes spec.nodeSelector spec.perDeviceNodeSelection
            {prefixed("spec.devices.", _DEVICE_TOLD)}
            {prefixed("spec.devices.basic.", _DEVICE_TOLD)}""".split(),
            Rule("shared-devices", "devices that are not of one node and one pod are not read"),
        ),
    ),
    DEVICE_CLASS: Ledger(
        "device classes",
        f"{META_READ} spec.selectors spec.extendedResourceName",
        f"{META_NO_EFFECT} spec.config spec.suitableNodes",
    ),
}

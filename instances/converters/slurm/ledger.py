"""Ledger of fields of Slurm's objects: what is read, has no effect, or is told as a caveat."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.ledger import OTHERWISE, Ledger, Rule, caveats_of_all
from placewright.instances.converters.slurm.limits import Limits
from placewright.instances.converters.slurm.records import (
    Part,
    SlurmJob,
    SlurmLicence,
    SlurmNode,
    SlurmReservation,
    fields_of,
)
from placewright.instances.converters.slurm.texts import rows
from placewright.instances.documents.caveats import Caveat, annotation_of

_SOCKETS = Rule("sockets", "how tasks lie on sockets, boards, cores and threads is not read")
_SPECIAL_CORES = Rule("special-cores", "cores kept for the system at the job's wish are not read")
_FEDERATION = Rule("federation", "sibling clusters are not read", hard=False)
_LIMITS = Rule("limits", "limits of accounts on what a round does not count are not read")
_QOS_LIMITS = Rule("qos-limits", "limits of its QOS on what a round does not count are not read")
_OF_PARTITIONS = dict.fromkeys(
    (
        *("OverPartQOS", "PartitionMaxNodes", "PartitionMinNodes", "PartitionTimeLimit"),
        *("OVERRIDE_PARTITION_QOS", "PARTITION_MAXIMUM_NODE", "PARTITION_MINIMUM_NODE"),
        *("PARTITION_TIME_LIMIT", "DenyOnLimit", "DENY_LIMIT"),
    )
)
"""Flags of a QOS that are read, or that matter only as a job is submitted."""

_NO_VALUE_THREADS = "32766"

JOB = Ledger(
    "jobs",
    fields_of(SlurmJob, "unreadable", "all_memory"),
    """accrue_time allocating_node array_max_tasks association_id batch_flag
    batch_host
    billable_tres burst_buffer_state command comment container container_id container_type
    cpu_frequency_governor cpu_frequency_maximum cpu_frequency_minimum cpus_per_task cron
    current_working_directory delay_boot derived_exit_code end_time exit_code extra failed_node
    federation_origin group_id group_name het_job_id_set job_size_str licenses_allocated mail_type
    mail_user memory_update_delay memory_update_margin nice oversubscribe exclusive power
    pre_sus_time preempt_time profile reboot resize_time restart_cnt scheduled_nodes
    selinux_context show_flags standard_error standard_input standard_output state_description
    stderr_expanded stdin_expanded stdout_expanded step_id submit_line suspend_time system_comment
    tres_alloc_str tres_bind tres_freq user_id wckey""",
    {
        "batch_features": Rule("batch-features", "features of its first node are not read"),
        "burst_buffer": Rule("burst-buffer", "burst buffers are not read"),
        "cluster_features": _FEDERATION,
        "contiguous": Rule("contiguous", "--contiguous is not read"),
        "core_spec": _SPECIAL_CORES,
        "cores_per_socket": _SOCKETS,
        "deadline": Rule("deadline", "its deadline (--deadline) is not read"),
        "federation_siblings_active": _FEDERATION,
        "federation_siblings_viable": _FEDERATION,
        "max_cpus": Rule("max-cpus", "the most CPUs that it takes are not read", hard=False),
        "maximum_switch_wait_time": Rule(
            "switch-wait", "how long it waits for few switches is not read", hard=False
        ),
        "mcs_label": Rule("mcs-label", "its MCS label is not read"),
        "minimum_tmp_disk_per_node": Rule("tmp-disk", "temporary disk (--tmp) is not read"),
        "network": Rule("network", "what it asks of the network is not read"),
        "preemptable_time": Rule(
            "preempt-exempt", "from when on it may be preempted is not read", hard=False
        ),
        "prefer": Rule("prefer", "features that it prefers are not read", hard=False),
        "priority_by_partition": Rule(
            "partition-priorities", "its priorities in each partition are not read", hard=False
        ),
        "sockets_per_board": _SOCKETS,
        "sockets_per_node": _SOCKETS,
        "tasks_per_board": _SOCKETS,
        "tasks_per_core": _SOCKETS,
        "tasks_per_socket": _SOCKETS,
        "thread_spec": {_NO_VALUE_THREADS: None, OTHERWISE: _SPECIAL_CORES},
        "threads_per_core": _SOCKETS,
        "time_minimum": Rule("time-min", "the least time (--time-min) is not read", hard=False),
    },
)

NODE = Ledger(
    "nodes",
    fields_of(SlurmNode),
    """address alloc_cpus alloc_idle_cpus alloc_memory architecture boards boot_time
    burstbuffer_network_address cert_flags cluster_name comment cores cpu_binding cpu_load energy
    external_sensors extra features free_mem free_memory hostname idle_cpus instance_id
    instance_type last_busy next_state_after_reboot next_state_after_reboot_flags operating_system
    port power reason reason_changed_at reason_set_by_user reservation resume_after
    slurmd_start_time slurmd_version sockets specialized_cores specialized_cpus suspend_time
    temporary_disk tls_cert_last_renewal topology tres tres_used tres_weighted version weight""",
    {
        "gpu_spec": Rule("cores-of-gpus", "cores that are for GPUs alone are not read"),
        "gres_drained": {
            "N/A": None,
            OTHERWISE: Rule("drained-gpus", "which of its GPUs are drained is not read"),
        },
        "mcs_label": Rule("mcs-label", "the MCS label of who has the node is not read"),
        "owner": Rule("node-owner", "that one user alone has the node is not read"),
        "res_cores_per_gpu": Rule("cores-of-gpus", "cores that are for GPUs alone are not read"),
    },
)

_RESERVATION_FLAGS = {
    **dict.fromkeys(("FLEX", "MAINT", "OVERLAP", "IGNORE_JOBS", "ANY_NODES", "SPEC_NODES")),
    **dict.fromkeys(("ALL_NODES", "STATIC", "STATIC_ALLOC", "PART_NODES", "FIRST_CORES")),
    **dict.fromkeys(("USER_DELETE", "PURGE_COMP", "NO_HOLD_JOBS_AFTER", "NO_HOLD_JOBS_AFTER_END")),
    OTHERWISE: Rule("reservation-flags", "flags of reservations such as DAILY are not read"),
}

RESERVATION = Ledger(
    "reservations",
    fields_of(SlurmReservation, "flags") + " ReservationName Nodes StartTime EndTime CoreCnt TRES",
    """accounts core_specializations features groups max_start_delay node_count partition
    purge_completed users watts Accounts CoreIDs Duration Features Groups MaxStartDelay NodeCnt
    NodeName PartitionName State Users Watts""",
    {
        **dict.fromkeys(("flags", "Flags"), _RESERVATION_FLAGS),
        "burst_buffer": Rule("reserved-buffers", "reserved burst buffers are not read", hard=False),
        "core_spec_cnt": Rule("reserved-cores", "reserved single cores are not read", hard=False),
        "licenses": Rule("reserved-licences", "reserved licences are not read"),
    },
)

ASSOCIATION = Ledger(
    "associations",
    """account cluster user partition parent_account max.jobs.active max.jobs.per.count
    max.tres.total max.tres.per.job max.tres.per.node max.tres.minutes.per.job
    max.jobs.per.wall_clock Account User Cluster
    Partition ParentName GrpTRES GrpJobs MaxJobs MaxTRES MaxTRESMins MaxTRESPerNode MaxWall""",
    """accounting comment default flags id is_default lineage max.jobs.(accruing total)
    max.jobs.per.(accruing submitted) min priority qos shares_raw usage Share
    Priority GrpSubmit MaxSubmit QOS DefQOS""",
    {
        "max.per": _LIMITS,
        "max.tres.group": _LIMITS,
        "max.tres.minutes.total": _LIMITS,
        "GrpWall": _LIMITS,
        "GrpTRESMins": _LIMITS,
        "GrpTRESRunMins": _LIMITS,
    },
)

_FACTOR = {
    **dict.fromkeys(("0", "0.0", "1", "1.0", "1.000000")),
    OTHERWISE: Rule("limit-factor", "that its QOS multiplies limits of accounts is not read"),
}
_THRESHOLD = {**dict.fromkeys(("0", "0.0", "0.000000")), OTHERWISE: _QOS_LIMITS}
_OWNERS = ("qos", "account", "user")

QOS = Ledger(
    "qos",
    """name preempt.(list exempt_time mode) limits.max.active_jobs.count
    limits.max.jobs.active_jobs.per.(account user) limits.max.tres.total
    limits.max.tres.per.(user account job node) limits.max.wall_clock.per.job
    limits.max.tres.minutes.per.job limits.min.tres.per.job limits.grace_time priority Name
    Priority Preempt PreemptMode PreemptExemptTime GraceTime GrpTRES GrpJobs MaxTRESPU
    MaxJobsPU MaxTRESPA MaxJobsPA MaxTRES MaxTRESMins MaxTRESPerNode MaxWall MinTRES""",
    """description id limits.max.accruing limits.max.active_jobs.accruing
    limits.max.jobs.count limits.max.jobs.per limits.min.priority_threshold usage_factor
    UsageFactor GrpSubmit MaxSubmitPU MaxSubmitPA""",
    {
        "flags": {OTHERWISE: _QOS_LIMITS, **_OF_PARTITIONS},
        **dict.fromkeys(
            (f"limits.max.tres.minutes.{at}" for at in ("total", *map("per.{}".format, _OWNERS))),
            _QOS_LIMITS,
        ),
        "limits.max.wall_clock.per.qos": _QOS_LIMITS,
        "limits.factor": _FACTOR,
        "LimitFactor": _FACTOR,
        "usage_threshold": _THRESHOLD,
        "UsageThres": _THRESHOLD,
        "Flags": {OTHERWISE: _QOS_LIMITS, **_OF_PARTITIONS},
        "GrpTRESMins": _QOS_LIMITS,
        "GrpTRESRunMins": _QOS_LIMITS,
        "GrpWall": _QOS_LIMITS,
        "MaxTRESRunMinsPA": _QOS_LIMITS,
        "MaxTRESRunMinsPU": _QOS_LIMITS,
    },
)

_ALONE = Rule("exclusive-partition", "that a partition gives each job its nodes alone is not read")
_GROUPS = Rule("partition-groups", "which groups and hosts may use a partition is not read")
_MOST_CPUS = Rule("partition-cpus", "the most CPUs and memory of a partition's job are not read")
_LEAST_LOADED = Rule("least-loaded", "that a partition prefers idle nodes is not read", hard=False)
_ONLY_RESERVED = Rule("needs-reservation", "that a partition wants a reservation is not read")
_UNLIMITED = {"UNLIMITED": None, "0": None, "-1": None, OTHERWISE: _MOST_CPUS}
_SHARED_WITH = {"NO": None, "EXCLUSIVE": None, "USER": _ALONE, "MCS": _ALONE, "TOPO": _ALONE}

PARTITION = Ledger(
    "partitions",
    """name maximums.time maximums.nodes maximums.shares minimums.nodes partition.state qos.assigned
    qos.allowed qos.deny priority preempt_mode grace_time accounts max_time_limit
    maximum_nodes_per_job state priority_tier priority_job_factor preemption_grace_time
    allowed_accounts denied_accounts allowed_qos denied_qos PartitionName MaxTime MaxNodes
    MinNodes State QoS AllowQos DenyQos
    PriorityTier PriorityJobFactor PreemptMode GraceTime AllowAccounts DenyAccounts""",
    """nodes.configured nodes.total alternate tres cluster select_type cpus defaults node_sets
    timeouts topology suspend_time maximums.over_time_limit maximums.oversubscribe
    preemption_mode alternative billing_weights default_memory_per_cpu default_memory_per_node
    default_time_limit over_time_limit total_cpus total_nodes Default DefaultTime DisableRootJobs
    Hidden Nodes OverTimeLimit TotalCPUs TotalNodes SelectTypeParameters JobDefaults DefMemPerCPU
    DefMemPerNode TRES TRESBillingWeights Alternate ResumeTimeout SuspendTime SuspendTimeout
    NodeSets Topology""",
    {
        "min nodes per job": {},
        "flags": {
            **dict.fromkeys(("DEFAULT", "default")),
            OTHERWISE: Rule("partition-flags", "flags of its partition are not read"),
        },
        "partition.exclusive": _SHARED_WITH,
        "partition.oversubscribe": _SHARED_WITH,
        "groups.allowed": _GROUPS,
        "nodes.allowed_allocation": _GROUPS,
        "allowed_groups": _GROUPS,
        "allowed_allocation_nodes": _GROUPS,
        "AllowGroups": {"ALL": None, OTHERWISE: _GROUPS},
        "AllocNodes": {"ALL": None, OTHERWISE: _GROUPS},
        "Exclusive": _SHARED_WITH,
        "ExclusiveUser": {"NO": None, OTHERWISE: _ALONE},
        "ExclusiveTopo": {"NO": None, OTHERWISE: _ALONE},
        "OverSubscribe": _SHARED_WITH,
        "LLN": {"NO": None, OTHERWISE: _LEAST_LOADED},
        "RootOnly": {"NO": None, OTHERWISE: _GROUPS},
        "ReqResv": {"NO": None, OTHERWISE: _ONLY_RESERVED},
        **dict.fromkeys(
            ("MaxCPUsPerNode", "MaxCPUsPerSocket", "maximum_cpus_per_node"), _UNLIMITED
        ),
        **dict.fromkeys(("MaxMemPerNode", "MaxMemPerCPU"), _UNLIMITED),
        **dict.fromkeys(
            (
                "maximum_memory_per_cpu",
                "maximum_memory_per_node",
                "maximums.cpus_per_node",
                "maximums.cpus_per_socket",
                "maximums.memory_per_cpu",
                "maximums.partition_memory_per_cpu",
                "maximums.partition_memory_per_node",
            ),
            _UNLIMITED,
        ),
    },
)

LICENCE = Ledger(
    "licences",
    fields_of(SlurmLicence),
    "Remote LastConsumed LastDeficit LastUpdate",
)

GRES = Ledger(
    "gres.conf", "NodeName Name File Count Cores Links", "Type Flags AutoDetect ID Index CoreCnt"
)

LEDGERS = {
    **{one.kind: one for one in (JOB, NODE, RESERVATION, ASSOCIATION, QOS)},
    "licenses": LICENCE,
    "gres": GRES,
    "partitions": PARTITION,
}
"""By the name of the part of a dump."""

_KEYS: Mapping[str, tuple[str, ...]] = {
    "jobs": ("job_id",),
    "nodes": ("name",),
    "associations": ("account", "user", "Account", "User"),
    "qos": ("name", "Name"),
    "partitions": ("name", "PartitionName"),
}
"""The fields by whose values an object of a part is found again."""


@dataclass(slots=True)
class Caveats:
    """Caveats by the objects that have them: jobs by number, associations by account and user."""

    of: dict[str, dict[tuple[Any, ...], tuple[Caveat, ...]]] = field(default_factory=dict)

    def of_job(
        self, components: Sequence[SlurmJob], limits: Limits, qos: Collection[str]
    ) -> dict[str, str]:
        """Return the annotation of a job: what its components, accounts and all its QOS say."""
        own = (one for job in components for one in self._of(job, limits))
        more = (one for name in sorted(qos) if name for one in self._find("qos", name))
        return annotation_of((*own, *more))

    def add(self, node: str, caveat: Caveat) -> None:
        """Note a caveat of a node."""
        self.of.setdefault("nodes", {})[node,] = (*self._find("nodes", node), caveat)

    def of_node(self, name: str) -> dict[str, str]:
        """Return the annotation of a host."""
        return annotation_of(self._find("nodes", name))

    def _of(self, job: SlurmJob, limits: Limits) -> Iterator[Caveat]:
        yield from self._find("jobs", job.job_id)
        yield from self._find("qos", job.qos)
        for partition in job.partition:
            yield from self._find("partitions", partition)
        account = job.account or ""
        yield from self._find("associations", account, job.user_name)
        for above in limits.path(account):
            yield from self._find("associations", above)

    def _find(self, part: str, *values: Any) -> tuple[Caveat, ...]:
        return self.of.get(part, {}).get(tuple(str(one) for one in values if one), ())


def read_caveats(parts: Mapping[str, Part], book: Bookkeeping) -> Caveats:
    """Go through all objects of a dump."""
    return Caveats(caveats_of_all(LEDGERS, {n: _objects(n, one) for n, one in parts.items()}, book))


def _objects(name: str, part: Part) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the objects of a part, each with the values by which it is found again."""
    listed = part.raw[name] if part.text is None else list(rows(part.text))
    for raw in listed if isinstance(listed, list) else ():
        if isinstance(raw, dict):
            yield tuple(str(raw[key]) for key in _KEYS.get(name, ()) if raw.get(key)), raw

"""Ledger of fields of Slurm's objects: what is read, has no effect, or is told as a caveat."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.ledger import (
    OTHERWISE,
    Ledger,
    Rule,
    Told,
    Use,
    caveats_of_all,
    expanded,
)
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

ALONE = ("EXCLUSIVE", "YES", "NODE", "TRUE")
"""Words by which a partition gives each job its nodes alone."""

_SOCKETS = Rule("sockets", "how tasks lie on sockets, boards, cores and threads is not read")
_SPECIAL_CORES = Rule("special-cores", "cores kept for the system at the job's wish are not read")
_FEDERATION = Rule("federation", "sibling clusters are not read", hard=False)
_BINDING = Rule("gres-flags", "how its GPUs and cores are bound (--gres-flags) is not read")
_SEGMENTS = Rule("segments", "how its segments may lie in blocks is not read")
_NEW_FLAG = Rule("job-flags", "a flag of it that is not known is not read", hard=False)
_JOB_FLAGS: Told = {
    **dict.fromkeys(("EXACT_TASK_COUNT_REQUESTED", "JOB_IMPLICIT_MAX_NODES"), Use.READ),
    **dict.fromkeys(
        expanded(
            """ACCRUE_COUNT_CLEARED BACKFILL_ATTEMPTED BACKFILL_LAST BACKFILL_SCHED BACKFILL_TEST
            CRON_JOB DEPENDENT EXACT_CPU_COUNT_REQUESTED EXACT_MEMORY_REQUESTED
            EXPEDITED_REQUEUE EXTERNAL_JOB GRES_ALLOW_TASK_SHARING
            GRES_BINDING_DISABLED GRES_DISABLE_BIND GRES_MULT_TASKS_PER_SHARING
            HAS_STATE_DIRECTORY HETEROGENEOUS_JOB HET_JOB JOB_ACCRUE_OVER
            JOB_ACCRUE_TIME_RESET JOB_CPUS_SET JOB_KILL_HURRY JOB_MEM_SET
            JOB_MIGRATE_HURRY JOB_NTASKS_SET JOB_WAS_RUNNING KILL_INVALID_DEPENDENCY
            KILL_INV_DEP MAGNETIC NO_KILL_INVALID_DEPENDENCY NO_KILL_INV_DEP
            PARTITION_ASSIGNED PREFER_MINIMUM_NODE_COUNT SCHEDULING_ATTEMPTED
            SEND_JOB_ENVIRONMENT SEND_ENV SIB_JOB_FLUSH SIBLING_CLUSTER_UPDATE_ONLY
            SKIP_TRES_STRING_ACCOUNTING STEPMGR_ENABLED TESTING_BACKFILL
            TESTING_WHOLE_NODE_BACKFILL TEST_NOW_ONLY TOP_PRIO TOP_PRIORITY_JOB
            TRES_STR_CALC USE_MIN_NODES USING_DEFAULT_ACCOUNT
            USING_DEFAULT_PARTITION USING_DEFAULT_QOS USING_DEFAULT_WCKEY"""
        )
    ),
    "SPREAD_JOB": Rule("spread-job", "that it spreads over its nodes (--spread-job) is not read"),
    **dict.fromkeys(("GRES_BINDING_ENFORCED", "GRES_ENFORCE_BIND"), _BINDING),
    **dict.fromkeys(("GRES_ONE_TASK_PER_SHARING", "GRES_ONE_TASK_PER_SHARING_MODIFIED"), _BINDING),
    **dict.fromkeys(("CONSOLIDATE_SEGMENTS", "SPREAD_SEGMENTS"), _SEGMENTS),
    OTHERWISE: _NEW_FLAG,
}
_LIMITS = Rule("limits", "limits of accounts on what a round does not count are not read")
_QOS_LIMITS = Rule("qos-limits", "limits of its QOS on what a round does not count are not read")
_OF_PARTITIONS = dict.fromkeys(
    (
        *("OverPartQOS", "PartitionMaxNodes", "PartitionMinNodes", "PartitionTimeLimit"),
        *("OVERRIDE_PARTITION_QOS", "PARTITION_MAXIMUM_NODE", "PARTITION_MINIMUM_NODE"),
        *("PARTITION_TIME_LIMIT", "DenyOnLimit", "DENY_LIMIT", "NoDecay", "NO_DECAY"),
        *("UsageFactorSafe", "USAGE_FACTOR_SAFE", "RequiresReservation", "REQUIRED_RESERVATION"),
    )
)
"""Flags of a QOS that are read, or that matter only to use over time or as a job is submitted."""

_NO_RESERVE = dict.fromkeys(
    ("NoReserve", "NO_RESERVE"),
    Rule("no-reserve", "that backfill reserves nothing for its QOS is not read", hard=False),
)

_NO_VALUE_THREADS = "32766"

JOB = Ledger(
    "jobs",
    fields_of(SlurmJob, "unreadable", "all_memory", "flags"),
    """accrue_time allocating_node association_id batch_flag
    batch_host
    billable_tres burst_buffer_state command comment container container_id container_type
    cpu_frequency_governor cpu_frequency_maximum cpu_frequency_minimum cpus_per_task cron
    current_working_directory delay_boot derived_exit_code end_time exit_code extra failed_node
    federation_origin group_id group_name  licenses_allocated mail_type
    mail_user memory_update_delay memory_update_margin nice oversubscribe exclusive power
    pre_sus_time preempt_time profile resize_time restart_cnt scheduled_nodes
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
        "flags": _JOB_FLAGS,
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
        "job_size_str": Rule("node-numbers", "which numbers of nodes it takes is not read"),
        "reboot": Rule("reboot", "that its nodes boot before it starts (--reboot) is not read"),
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
        "time_minimum": Rule("time-min", "the least time (--time-min) is not read", hard=False),
    },
)

NODE = Ledger(
    "nodes",
    fields_of(SlurmNode),
    """address alloc_idle_cpus architecture boards boot_time
    burstbuffer_network_address cert_flags cluster_name comment cpu_binding cpu_load energy
    external_sensors extra free_mem free_memory hostname idle_cpus instance_id
    instance_type last_busy next_state_after_reboot next_state_after_reboot_flags operating_system
    port power reason reason_changed_at reason_set_by_user reservation resume_after
    slurmd_start_time slurmd_version specialized_cpus suspend_time
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

OF_HOSTS = Rule("reservation-kind", "what flags of a reservation of it mean is not read")
"""Told of the hosts of a reservation; which jobs meet the others is known."""

_RESERVATION_FLAGS = {
    **dict.fromkeys(("FLEX", "MAINT", "OVERLAP", "IGNORE_JOBS", "ANY_NODES", "SPEC_NODES")),
    **dict.fromkeys(("ALL_NODES", "STATIC", "STATIC_ALLOC", "PART_NODES", "FIRST_CORES")),
    **dict.fromkeys(("USER_DELETE", "PURGE_COMP", "NO_HOLD_JOBS_AFTER", "NO_HOLD_JOBS_AFTER_END")),
    **dict.fromkeys(
        ("HOURLY", "DAILY", "WEEKLY", "WEEKDAY", "WEEKEND", "MAGNETIC"),
        Rule("reservation-flags", "flags of reservations such as DAILY are not read"),
    ),
    OTHERWISE: OF_HOSTS,
}

RESERVATION = Ledger(
    "reservations",
    fields_of(SlurmReservation, "flags")
    + " ReservationName Nodes StartTime EndTime CoreCnt TRES Users Accounts Groups",
    """core_specializations features max_start_delay node_count partition
    purge_completed watts CoreIDs Duration Features MaxStartDelay NodeCnt
    NodeName PartitionName State Watts""",
    {
        **dict.fromkeys(("flags", "Flags"), _RESERVATION_FLAGS),
        "burst_buffer": Rule("reserved-buffers", "reserved burst buffers are not read", hard=False),
        "core_spec_cnt": Rule("reserved-cores", "reserved single cores are not read", hard=False),
        **dict.fromkeys(
            ("licenses", "Licenses"), Rule("reserved-licences", "reserved licences are not read")
        ),
    },
)

_TRES = dict.fromkeys(("cpu", "mem", "node", "gres/gpu"), Use.READ)
"""What limits of TRES are read of, beside those that are told."""

ASSOCIATION = Ledger(
    "associations",
    """account cluster user partition parent_account max.jobs.active max.jobs.per.count
    max.jobs.per.wall_clock Account User Cluster Partition ParentName GrpJobs MaxJobs MaxWall""",
    """accounting comment default flags id is_default lineage max.jobs.(accruing total)
    max.jobs.per.(accruing submitted) min priority qos shares_raw usage Share
    Priority GrpSubmit MaxSubmit QOS DefQOS""",
    {
        **dict.fromkeys(
            expanded(
                """max.tres.(total per.job per.node minutes.per.job) GrpTRES MaxTRES MaxTRESMins
                MaxTRESPerNode"""
            ),
            _TRES | {OTHERWISE: _LIMITS},
        ),
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
    limits.max.jobs.active_jobs.per.(account user) limits.max.wall_clock.per.job
    limits.grace_time priority Name Priority Preempt PreemptMode PreemptExemptTime GraceTime GrpJobs
    MaxJobsPU MaxJobsPA MaxWall""",
    """description id limits.max.accruing limits.max.active_jobs.accruing
    limits.max.jobs.count limits.max.jobs.per limits.min.priority_threshold usage_factor
    UsageFactor GrpSubmit MaxSubmitPU MaxSubmitPA""",
    {
        **dict.fromkeys(
            expanded(
                """limits.max.tres.(total minutes.per.job) limits.max.tres.per.(user account job
                node) limits.min.tres.per.job GrpTRES MaxTRESPU MaxTRESPA MaxTRES MaxTRESMins
                MaxTRESPerNode MinTRES"""
            ),
            _TRES | {OTHERWISE: _QOS_LIMITS},
        ),
        "flags": {OTHERWISE: _QOS_LIMITS, **_OF_PARTITIONS, **_NO_RESERVE},
        **dict.fromkeys(
            (f"limits.max.tres.minutes.{at}" for at in ("total", *map("per.{}".format, _OWNERS))),
            _QOS_LIMITS,
        ),
        "limits.max.wall_clock.per.qos": _QOS_LIMITS,
        "limits.factor": _FACTOR,
        "LimitFactor": _FACTOR,
        "usage_threshold": _THRESHOLD,
        "UsageThres": _THRESHOLD,
        "Flags": {OTHERWISE: _QOS_LIMITS, **_OF_PARTITIONS, **_NO_RESERVE},
        "GrpTRESMins": _QOS_LIMITS,
        "GrpTRESRunMins": _QOS_LIMITS,
        "GrpWall": _QOS_LIMITS,
        "MaxTRESRunMinsPA": _QOS_LIMITS,
        "MaxTRESRunMinsPU": _QOS_LIMITS,
    },
)

_ALONE = Rule("exclusive-partition", "that a partition gives each job its nodes alone is not read")
_GROUPS = Rule(
    "partition-groups", "which groups and hosts may submit to a partition is not read", hard=False
)
_MOST_CPUS = Rule("partition-cpus", "the most CPUs and memory of a partition's job are not read")
_LEAST_LOADED = Rule("least-loaded", "that a partition prefers idle nodes is not read", hard=False)
_ONLY_RESERVED = Rule(
    "needs-reservation", "that jobs submitted to a partition name a reservation is not read", False
)
_UNLIMITED = {"UNLIMITED": None, "0": None, "-1": None, OTHERWISE: _MOST_CPUS}
_ALONE_WITH: Told = {
    **dict.fromkeys(ALONE, Use.READ),
    **dict.fromkeys(("NO", "False")),
    OTHERWISE: _ALONE,
}
_SHARED_CORES = Rule(
    "shared-cores",
    "that jobs of a partition may share cores (OverSubscribe) is not read",
    hard=False,
)
_SHARED_BY: Told = {
    **dict.fromkeys(ALONE, Use.READ),
    **dict.fromkeys(("NO", "FORCE:1", "YES:1", "0", "1", "32769")),
    OTHERWISE: _SHARED_CORES,
}
_WHOLE_SOCKETS = Rule("whole-sockets", "that a partition allocates whole sockets is not read")
_BY_CORE: Told = {
    **dict.fromkeys(("NONE", "none", "CR_CORE", "CR_CORE_MEMORY", "CR_CPU", "CR_CPU_MEMORY")),
    **dict.fromkeys(("CORE", "CPU", "MEMORY", "CR_Core", "CR_Core_Memory", "CR_CPU_Memory")),
    OTHERWISE: _WHOLE_SOCKETS,
}

PARTITION = Ledger(
    "partitions",
    """name maximums.time maximums.nodes minimums.nodes partition.state qos.assigned
    qos.allowed qos.deny priority preempt_mode grace_time accounts max_time_limit
    maximum_nodes_per_job state priority_tier priority_job_factor preemption_grace_time
    allowed_accounts denied_accounts allowed_qos denied_qos PartitionName MaxTime MaxNodes
    MinNodes State QoS AllowQos DenyQos
    PriorityTier PriorityJobFactor PreemptMode GraceTime AllowAccounts DenyAccounts""",
    """nodes.configured nodes.total alternate tres cluster cpus defaults node_sets
    timeouts topology suspend_time maximums.over_time_limit maximums.oversubscribe.flags
    preemption_mode alternative billing_weights default_memory_per_cpu default_memory_per_node
    default_time_limit over_time_limit total_cpus total_nodes Default DefaultTime DisableRootJobs
    Hidden Nodes OverTimeLimit TotalCPUs TotalNodes JobDefaults DefMemPerCPU
    DefMemPerNode TRES TRESBillingWeights Alternate ResumeTimeout SuspendTime SuspendTimeout
    NodeSets Topology""",
    {
        "min nodes per job": {},
        "flags": {
            **dict.fromkeys(("DEFAULT", "HIDDEN", "NO_ROOT", "ROOT_ONLY", "REQ_RESV", "PDOI")),
            **dict.fromkeys(("default", "hidden", "no_root", "root_only", "req_resv")),
            **dict.fromkeys(("LLN", "lln"), _LEAST_LOADED),
            OTHERWISE: Rule("partition-flags", "flags of its partition are not read"),
        },
        "partition.exclusive": _ALONE_WITH,
        **dict.fromkeys(
            ["partition.oversubscribe", "maximums.oversubscribe.jobs", "maximums.shares"],
            _SHARED_BY,
        ),
        **dict.fromkeys(("select_type", "SelectTypeParameters"), _BY_CORE),
        "groups.allowed": _GROUPS,
        "nodes.allowed_allocation": _GROUPS,
        "allowed_groups": _GROUPS,
        "allowed_allocation_nodes": _GROUPS,
        "AllowGroups": {"ALL": None, OTHERWISE: _GROUPS},
        "AllocNodes": {"ALL": None, OTHERWISE: _GROUPS},
        "Exclusive": _ALONE_WITH,
        "ExclusiveUser": {"NO": None, OTHERWISE: _ALONE},
        "ExclusiveTopo": {"NO": None, OTHERWISE: _ALONE},
        "OverSubscribe": _SHARED_BY,
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
    "reservations": ("name", "ReservationName"),
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
        found = self.of.get(part)
        return found.get(tuple(str(one) for one in values if one), ()) if found else ()


def read_caveats(parts: Mapping[str, Part], book: Bookkeeping) -> Caveats:
    """Go through all objects of a dump."""
    return Caveats(caveats_of_all(LEDGERS, {n: _objects(n, one) for n, one in parts.items()}, book))


def _objects(name: str, part: Part) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the objects of a part, each with the values by which it is found again."""
    listed = part.raw[name] if part.text is None else list(rows(part.text))
    for raw in listed if isinstance(listed, list) else ():
        if isinstance(raw, dict):
            yield tuple(str(raw[key]) for key in _KEYS.get(name, ()) if raw.get(key)), raw

"""What a Slurm on loopback is told: slurm.conf and the files beside it."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["CLUSTER", "WHOLE", "Size", "host_names", "write_configuration"]

CLUSTER = "lab"

CONFIGURATION = """\
ClusterName={cluster}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={spool}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={spool}/%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/%n.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmctldTimeout=300
SlurmdTimeout=0
MessageTimeout=60
KillWait=1
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu,shard
TopologyPlugin=topology/tree
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,bf_continue,sched_interval=2,bf_window=10080,bf_resolution=10
PriorityType=priority/basic
PreemptType=preempt/none
{more}
NodeName={nodes} NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=96 Boards=1 \
Sockets=2 CoresPerSocket=48 ThreadsPerCore=1 RealMemory=1048576 Gres=gpu:h100:8 State=UNKNOWN
{odd}PartitionName=gpu Nodes={nodes} Default=YES MaxTime=7-0 DefMemPerCPU=1024 State=UP
"""


ODD = """\
NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=32 Boards=1 \
Sockets=2 CoresPerSocket=16 ThreadsPerCore=1 RealMemory=262144 Gres={gres} State=UNKNOWN
PartitionName={name} Nodes={name} MaxTime=7-0 DefMemPerCPU=1024 State=UP
"""


class Size(NamedTuple):
    """Hosts of 8 GPUs, how many of them a leaf switch has, and leaves of a spine switch.

    `odd` is the GRES of further hosts, `odd0` and so on, each in a partition of its own name.
    """

    hosts: int = 64
    per_leaf: int = 8
    per_spine: int = 4
    odd: tuple[str, ...] = ()


WHOLE = Size()


def host_names(size: Size) -> tuple[str, ...]:
    """Return the names of all hosts."""
    return (
        *(f"gpu{number:02d}" for number in range(size.hosts)),
        *(f"odd{number}" for number in range(len(size.odd))),
    )


def write_configuration(folder: Path, spool: Path, size: Size, port: int, more: str) -> None:
    """Write all files; slurmctld has the port, and the hosts those that follow.

    In `spool` are sockets, the paths of which may have 108 characters.
    """
    names = host_names(size)
    for made in (*(folder / name for name in ("state", "log", "gpu")), *(spool / n for n in names)):
        made.mkdir(parents=True, exist_ok=True)
    for number in range(8):
        (folder / "gpu" / f"gpu{number}").touch()
    nodes = f"gpu[00-{size.hosts - 1:02d}]"
    host = socket.gethostname().partition(".")[0]
    (folder / "slurm.conf").write_text(
        CONFIGURATION.format(
            cluster=CLUSTER,
            host=host,
            user=getpass.getuser(),
            folder=folder,
            spool=spool,
            port=port,
            first=port + 1,
            last=port + size.hosts,
            nodes=nodes,
            more=more,
            odd="".join(
                ODD.format(name=name, host=host, port=port + names.index(name) + 1, gres=gres)
                for name, gres in zip(names[size.hosts :], size.odd, strict=True)
            ),
        )
    )
    lines = [f"AutoDetect=off\nNodeName={nodes} Name=gpu Type=h100 File={folder}/gpu/gpu[0-7]"]
    for name, gres in zip(names[size.hosts :], size.odd, strict=True):
        lines += _gres(folder, name, gres)
    (folder / "gres.conf").write_text("\n".join([*lines, ""]))
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    (folder / "topology.conf").write_text("\n".join(_switches(names, size)))


def _gres(folder: Path, name: str, gres: str) -> Iterator[str]:
    """Yield the lines of gres.conf of an odd host: GPUs by their type, each a file, and shards."""
    first = 0
    for one in gres.split(","):
        kind, *model, number = one.split(":")
        if kind == "gpu":
            files = range(first, first := first + int(number))
            for file in files:
                (folder / "gpu" / f"{name}-{file}").touch()
            listed = f"{folder}/gpu/{name}-[{files[0]}-{files[-1]}]"
            yield f"NodeName={name} Name=gpu Type={model[0]} File={listed}"
        else:
            yield f"NodeName={name} Name={kind} Count={number}"


def _switches(names: Sequence[str], size: Size) -> list[str]:
    """Return the lines of topology.conf: leaves, spines and a core."""
    leaves = [names[i : i + size.per_leaf] for i in range(0, len(names), size.per_leaf)]
    lines = [f"SwitchName=leaf{i} Nodes={','.join(leaf)}" for i, leaf in enumerate(leaves)]
    spines = range(-(-len(leaves) // size.per_spine))
    for spine in spines:
        below = range(spine * size.per_spine, min((spine + 1) * size.per_spine, len(leaves)))
        lines.append(f"SwitchName=spine{spine} Switches={','.join(f'leaf{i}' for i in below)}")
    if len(spines) > 1:
        lines.append(f"SwitchName=core Switches={','.join(f'spine{i}' for i in spines)}")
    return [*lines, ""]

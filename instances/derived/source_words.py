"""Words of the source of a round: what Slurm and Kubernetes call things, and their commands.

Sentences are made in the words of rounds; `Words.say` turns one into the words of its source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import KUBERNETES_TENANTS, SOURCE


@dataclass(frozen=True, slots=True)
class Words:
    """How a source says what rounds say.

    Parameters
    ----------
    terms
        Patterns of words of rounds, each with what stands there instead, in this order.
    helps
        What its user can do about something that is left out, by a pattern of the reason why.
    epoch
        Whether its times are seconds since 1970.
    """

    terms: Sequence[tuple[re.Pattern[str], str]] = ()
    helps: Sequence[tuple[re.Pattern[str], str]] = ()
    epoch: bool = False

    def say(self, text: str, job: str = "") -> str:
        """Return a sentence, about a job, in the words of the source."""
        for pattern, term in self.terms:
            text = pattern.sub(term.replace("JOB", job.replace("\\", "\\\\")), text)
        return text

    def at(self, seconds: int) -> str:
        """Say when something is, as a date where the source has dates."""
        if not self.epoch:
            return f"at {seconds} s"
        return f"at {datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"

    def help_for(self, name: str, why: str) -> str:
        """Return what can be done about something that is left out, "" if nothing is known."""
        found = next((text for pattern, text in self.helps if pattern.search(why)), "")
        return found.replace("ARRAY", name.partition("_")[0]).replace("JOB", name)


def _rows(table: str, begin: str = "", end: str = "") -> list[tuple[re.Pattern[str], str]]:
    r"""Return the rows of a table, `PATTERN = TEXT`; SET is a name, which \1 is in the text."""
    rows = (row.split(" = ", 1) for row in table.strip().splitlines())
    named = ((pattern.strip().replace("SET", r"([^\s,;:]+)"), text) for pattern, text in rows)
    return [(re.compile(f"{begin}(?:{pattern}){end}"), text) for pattern, text in named]


def _words(terms: str, helps: str) -> Words:
    """Return the words of tables: of whole words, not parts of names, and of reasons."""
    return Words(_rows(terms, r"(?<![\w./-])", r"(?![\w/]|[.-]\w)"), _rows(helps), epoch=True)


_NODES = """\
    hosts = nodes
    host = node
    Hosts = Nodes
"""
_SLURM = r"""
    on hosts of host set partition/SET only = in partition \1 only (-p)
    on hosts of host set feature/SET only = on nodes with feature \1 only (-C)
    on hosts of host set without/SET only = not on nodes that it excludes (-x)
    on hosts of host set reservation/SET only = in reservation \1 only
    on hosts of host set SET only = on nodes of \1 only
    allow hosts outside of host set partition/SET, too = another partition than \1 (-p)
    allow hosts outside of host set feature/SET, too = drop feature \1 (-C)
    allow hosts outside of host set without/SET, too = exclude no nodes (-x)
    allow hosts outside of host set SET, too = allow nodes outside of \1, too
    allow any host = ask for no nodes by name (-w)
    the job is held = the job is held (scontrol hold)
    resume it = release it: scontrol release JOB
    let it start at once = let it start at once: scontrol update jobid=JOB starttime=now
    cap qos/([^\s/]+)/(user|account)/SET = QOS \1 for \2 \3
    cap account/([^\s/]+)/(user|account)/SET = account \1 for \2 \3
    cap qos/SET = QOS \1
    cap account/SET = account \1
    within a cap = within a limit
    license/SET = licence \1
    (?:of )?nodes(?:@| of flavor )together = nodes
    1 of gres/gpu:SET = 1 GPU of \1
    ([\d.,]+) of gres/gpu:SET = \1 GPUs of \2
    1,000 of node per task = its nodes alone (--exclusive)
    keep its tasks apart = keep its tasks on a node each (-N)
    release host (\S+) = take node \1 out of its reservation
    ask for a run time of at most = shorten --time to at most
    tenants = accounts
    tenant = account
    Tenants = Accounts
    Tenant = Account
"""
_SLURM_HELPS = r"""
    \(dependency\) = scontrol update jobid=JOB dependency= (it then waits for no job)
    limit of its array = scontrol update jobid=ARRAY arraytaskthrottle=N, with a higher N
    [Tt]ime ?[Ll]imit|longer than = scontrol update jobid=JOB timelimit=T, a lower T
    PartitionNodeLimit|more nodes = scontrol update jobid=JOB numnodes=N, with fewer
    limit that the round does not have = give convert what sacctmgr shows of associations and QOS
    begins later = scontrol update jobid=JOB starttime=now
    may use no node = scontrol update jobid=JOB partition=P features= excnodelist=
    GPU model = scontrol update jobid=JOB gres=gpu:N, or a type that nodes have
    \((?:Invalid)?(?:Account|QOS) = scontrol update jobid=JOB account=A qos=Q
"""
_KUBERNETES = r"""
    on hosts of host set label/SET only = on nodes with label \1 only
    on hosts of host set flavor/SET only = on nodes of flavor \1 only
    on hosts of host set SET only = on nodes that meet \1 only
    allow hosts outside of host set label/SET, too = drop its node selector \1
    allow hosts outside of host set flavor/SET, too = another flavor than \1
    allow hosts outside of host set SET, too = allow nodes without \1, too
    the job is held = it is held (gate, suspended or its queue stopped)
    resume it = take its gate away, resume it, or start its queue again
    release host = open node
    reserved = closed (cordoned, or with pods that are left out)
    within a cap = within the quota of its queues
    cap queue/SET = queue \1
    cap cohort/SET = cohort \1
    tenants = queues
    tenant = queue
    Tenants = Queues
    Tenant = Queue
"""
_KUBERNETES_HELPS = """
    fewer pods = create the missing pods, or lower the minimum of its group
    may go to no node = kubectl describe pod JOB: change what no node meets
    has no pods = create its pods
"""
_KUEUE = """\
    queues = ClusterQueues
    queue = ClusterQueue
"""
_WORDS: Mapping[str, Words] = {
    "slurm": _words(_SLURM + _NODES, _SLURM_HELPS),
    "kubernetes": _words(_KUBERNETES + _NODES, _KUBERNETES_HELPS),
    "kueue": _words(_KUBERNETES + _NODES + _KUEUE, _KUBERNETES_HELPS),
}
OF_ROUNDS = Words()


def words_of(round_: Round) -> Words:
    """Return the words of the source of a round; those of rounds where it has none."""
    notes = round_.annotations
    return _WORDS.get(notes.get(KUBERNETES_TENANTS, notes.get(SOURCE, "")), OF_ROUNDS)

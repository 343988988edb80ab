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
        What its user can do about something that is left out, by a pattern of the reason why;
        `{0}` is its name, `{1}` that of the array of a task.
    epoch
        Whether its times are seconds since 1970.
    """

    terms: Sequence[tuple[re.Pattern[str], str]] = ()
    helps: Sequence[tuple[re.Pattern[str], str]] = ()
    epoch: bool = False

    def say(self, text: str, job: str = "") -> str:
        """Return a sentence, about a job, in the words of the source."""
        for pattern, term in self.terms:
            text = pattern.sub(term.replace("{job}", job.replace("\\", "\\\\")), text)
        return text

    def at(self, seconds: int) -> str:
        """Say when something is, as a date where the source has dates."""
        if not self.epoch:
            return f"at {seconds} s"
        return f"at {datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"

    def help_for(self, name: str, why: str) -> str:
        """Return what can be done about something that is left out, "" if nothing is known."""
        found = (text for pattern, text in self.helps if pattern.search(why))
        return next(found, "").format(name, name.partition("_")[0])


def _table(rows: Mapping[str, str], *, words: bool = True) -> list[tuple[re.Pattern[str], str]]:
    """Compile the patterns of a table; `words`: they stand for whole words, not parts of names."""
    ends = (r"(?<![\w./-])", r"(?![\w/]|[.-]\w)") if words else ("", "")
    return [(re.compile(f"{ends[0]}(?:{one}){ends[1]}"), said) for one, said in rows.items()]


_SET = r"([^\s,;:]+)"
"""The name of a host set, behind its kind."""

_NODES = {r"hosts": "nodes", r"host": "node"}

_SLURM = Words(
    _table(
        {
            rf"on hosts of host set partition/{_SET} only": r"in partition \1 only (-p)",
            rf"on hosts of host set feature/{_SET} only": r"on nodes with feature \1 only (-C)",
            rf"on hosts of host set without/{_SET} only": "not on nodes that it excludes (-x)",
            rf"on hosts of host set reservation/{_SET} only": r"in reservation \1 only",
            rf"on hosts of host set {_SET} only": r"on nodes of \1 only",
            rf"allow hosts outside of host set partition/{_SET}, too": r"another partition than \1 "
            "(-p)",
            rf"allow hosts outside of host set feature/{_SET}, too": r"drop feature \1 (-C)",
            rf"allow hosts outside of host set without/{_SET}, too": "exclude no nodes (-x)",
            rf"allow hosts outside of host set {_SET}, too": r"allow nodes outside of \1, too",
            r"allow any host": "ask for no nodes by name (-w)",
            r"the job is held": "the job is held (scontrol hold)",
            r"resume it": "release it: scontrol release {job}",
            r"let it start at once": "let it start at once: scontrol update jobid={job} "
            "starttime=now",
            r"cap (?:qos/([^\s/]+)|account/([^\s/]+))/(user|account)/"
            + _SET: r"limit of \1\2 for \3 \4",
            rf"cap qos/{_SET}": r"QOS \1",
            rf"cap account/{_SET}": r"account \1",
            rf"license/{_SET}": r"licence \1",
            r"release host (\S+)": r"take node \1 out of its reservation",
            r"within a cap": "within a limit",
            r"ask for a run time of at most": "shorten --time to at most",
            r"tenants": "accounts",
            r"tenant": "account",
            **_NODES,
        }
    ),
    _table(
        {
            r"\(dependency\)": "scontrol update jobid={0} dependency= (it then waits for no job)",
            r"limit of its array": "scontrol update jobid={1} arraytaskthrottle=N, with a higher N",
            r"[Tt]ime ?[Ll]imit|longer than": "scontrol update jobid={0} timelimit=T, a lower T",
            r"PartitionNodeLimit|more nodes": "scontrol update jobid={0} numnodes=N, with fewer",
            r"limit that the round does not have": "give convert what sacctmgr shows of "
            "associations and QOS; to raise a limit: sacctmgr modify account or qos",
            r"begins later": "scontrol update jobid={0} starttime=now",
            r"may use no node": "scontrol update jobid={0} partition=P features= excnodelist=",
            r"GPU model": "scontrol update jobid={0} gres=gpu:N, or a type that nodes have",
            r"\((?:Invalid)?(?:Account|QOS)": "scontrol update jobid={0} account=A qos=Q",
        },
        words=False,
    ),
    epoch=True,
)


def _kubernetes(queues: Mapping[str, str]) -> Words:
    return Words(
        _table(
            {
                rf"on hosts of host set label/{_SET} only": r"on nodes with label \1 only",
                rf"on hosts of host set flavor/{_SET} only": r"on nodes of flavor \1 only",
                rf"on hosts of host set {_SET} only": r"on nodes that meet \1 only",
                rf"allow hosts outside of host set label/{_SET}, too": r"drop its node selector \1",
                rf"allow hosts outside of host set flavor/{_SET}, too": r"another flavor than \1",
                rf"allow hosts outside of host set {_SET}, too": r"allow nodes without \1, too",
                r"the job is held": "it is held (gate, suspended or its queue stopped)",
                r"resume it": "take its gate away, resume it, or start its queue again",
                r"release host": "open node",
                r"reserved": "closed (cordoned, or with pods that are left out)",
                r"within a cap": "within the quota of its queues",
                rf"cap queue/{_SET}": r"queue \1",
                rf"cap cohort/{_SET}": r"cohort \1",
                **queues,
                **_NODES,
            }
        ),
        _table(
            {
                r"fewer pods": "create the missing pods, or lower the minimum of its group",
                r"may go to no node": "kubectl describe pod {0}: change what no node meets",
                r"has no pods": "create its pods",
            },
            words=False,
        ),
        epoch=True,
    )


_WORDS: Mapping[str, Words] = {
    "slurm": _SLURM,
    "kubernetes": _kubernetes({"tenants": "queues", "tenant": "queue"}),
    "kueue": _kubernetes(
        {"tenants": "ClusterQueues", "tenant": "ClusterQueue", "queue": "ClusterQueue"}
    ),
}
_OF_ROUNDS = Words()


def words_of(round_: Round) -> Words:
    """Return the words of the source of a round; those of rounds where it has none."""
    notes = round_.annotations
    return _WORDS.get(notes.get(KUBERNETES_TENANTS, notes.get(SOURCE, "")), _OF_ROUNDS)

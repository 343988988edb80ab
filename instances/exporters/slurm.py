"""A plan for Slurm as a script for a POSIX shell: each step guarded by what Slurm says then."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from placewright.instances.derived.slurm_marks import HELD
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import printable
from placewright.instances.exporters.kubectl import GUARDS, guards
from placewright.instances.exporters.slurm_steps import State, Step, slurm_steps

PATIENCE_S = 120
"""How long the script waits for a job that was told to stop."""

_HEAD = f"""\
#!/bin/sh
# Made by placewright export slurm: safe to run twice. A step is skipped if its job is no longer
# in the state that the plan was made for, or if something that it needs was not done.
status=0 undone=' ' why='is not as it was'

# pending JOB: it waits, and no user or administrator holds it; sets `held` to yes or no
pending() {{
    held=no
    case $(squeue -h -j "$1" -o '%T|%r' </dev/null 2>/dev/null | sort -u) in
        'PENDING|JobHeldAdmin') return 1 ;;
        'PENDING|'*[Hh][eo]ld*) held=yes ;;
        'PENDING|'*) return 0 ;;
        *) return 1 ;;
    esac
    mark=$(squeue -h -j "$1" -O admin_comment:{len(HELD)} </dev/null 2>/dev/null | sort -u)
    [ "$mark" = {shlex.quote(HELD)} ]
}}

# running JOB HOST...: it runs on these hosts and no others
running() {{
    job=$1
    shift
    found=$(squeue -h -j "$job" -t RUNNING -o %N </dev/null 2>/dev/null | paste -sd , -)
    [ -n "$found" ] || return 1
    found=$(scontrol show hostnames "$found" </dev/null | LC_ALL=C sort -u | tr '\\n' ' ')
    [ "$found" = "$* " ]
}}

# unreserved NAME, reserved NAME: whether there is such a reservation
unreserved() {{ ! reserved "$1"; }}
reserved() {{ scontrol show reservation "$1" </dev/null >/dev/null 2>&1; }}

# started JOB: it runs, or has not started for long
started() {{
    left={PATIENCE_S}
    while :; do
        case $(squeue -h -j "$1" -o %T </dev/null 2>/dev/null | sort -u) in
            PENDING) [ "$left" -gt 0 ] || return 0 ;;
            '') return 1 ;;
            *) return 0 ;;
        esac
        left=$((left - 1))
        sleep 1
    done
}}

# stopped JOB: placewright holds it, and its processes have ended
stopped() {{
    left={PATIENCE_S}
    while :; do
        if pending "$1"; then
            [ "$held" = yes ]
            return
        fi
        left=$((left - 1))
        [ "$left" -gt 0 ] || return 1
        sleep 1
    done
}}

skipped() {{
    case $undone in *" $1 "*) ;; *) echo "placewright: $1 $why: skipped" >&2 ;; esac
    undone="$undone$1 " why='is not as it was'
}}
failed() {{
    echo "placewright: $1: a command failed" >&2
    undone="$undone$1 " status=1
}}
{GUARDS}"""


class Script(NamedTuple):
    """A script, how many steps it has, and a line for each thing that Slurm cannot be told."""

    text: str
    steps: int
    unsaid: tuple[str, ...]


def slurm_script(round_: Round, plan: Plan) -> Script:
    """Return the commands that carry a valid plan out on Slurm, as `slurm_steps` has them."""
    made = slurm_steps(round_, plan)
    parts = [_HEAD, *(_block(step) for step in made.steps), "exit $status\n"]
    unsaid = tuple(
        f"{what}: {len(jobs):,} {'job' if len(jobs) == 1 else 'jobs'}"
        for what, jobs in sorted(made.unsaid.items())
    )
    return Script("\n".join(parts), len(made.steps), unsaid)


def _block(step: Step) -> str:
    hosts = step.hosts if step.state is State.RUNNING else ()
    guard = guards(step.users, step.needs) + shlex.join((step.state.value, step.job, *hosts))
    if_held, if_not = (
        [f"{shlex.join(one.words)} </dev/null" for one in step.commands if one.held in (None, held)]
        for held in (True, False)
    )
    if if_held == if_not:
        lines = [f"    {_all(if_held, 8)} ||"]
    else:
        lines = [
            '    if [ "$held" = yes ]; then',
            f"        {_all(if_held, 12)}",
            "    else",
            f"        {_all(if_not, 12)}",
            "    fi ||",
        ]
    job = shlex.quote(step.job)
    return "\n".join(
        (
            f"# {printable(step.does)}",
            f"if {guard}; then",
            *lines,
            f"        failed {job}",
            "else",
            f"    skipped {job}",
            "fi\n",
        )
    )


def _all(commands: list[str], indent: int) -> str:
    """Return commands of which each is given only if those before it succeed."""
    return f" &&\n{' ' * indent}".join(commands) or "true"

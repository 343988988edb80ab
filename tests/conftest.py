"""What all tests share: the profiles of a run.

`day`, the default, is what the README's command runs: small numbers of examples, without what is
marked `nightly`; of cases marked `nightly(after=3)` it runs the first three. `nightly` runs all,
and with `--part 3/7` the third seventh of it. Both try the same examples in every run; `long` draws
new ones, and more of them where a test has `examples`. No example has a deadline: a busy machine
must not fail a test. The first example that fails is shown as it is: making it smaller takes up to
five minutes a test, and `--hypothesis-profile shrink` does it.

A worker takes whole files, so that what their tests share is made once.

Tests marked `slurm` or `browser` need programs of the distribution. Without them they skip, unless
`PLACEWRIGHT_TESTS_MAY_NOT_SKIP` names their mark; all files that have a mark run in one worker.

Where `PYTHONDONTWRITEBYTECODE` is set, bytecode is kept below `.pytest_cache/`: each worker and
each program that a test starts would compile the package anew, in more than a CPU second.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import Phase, settings

from examples import by_night

if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

settings.register_profile("shrink", derandomize=True, deadline=None, database=None)
for name, most in (("day", 40), ("nightly", 100)):
    settings.register_profile(
        name,
        settings.get_profile("shrink"),
        phases=[Phase.explicit, Phase.generate],
        max_examples=most,
    )
settings.register_profile("long", deadline=None, max_examples=1_000, print_blob=True)
settings.load_profile("day")

PROGRAMS = {
    "slurm": (Path("/usr/sbin/slurmctld"), Path("/usr/sbin/slurmd"), Path("/usr/bin/scontrol")),
    "browser": (Path("/usr/bin/chromium"),),
}
TOGETHER = "tests/formulations/regions/"
"""A folder whose files share what is dear to make, machine code."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run be split."""
    parser.addoption("--part", metavar="K/N", help="only the K-th of N parts of the tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not of the profile or of the part, and what has no program to test with."""
    choose(config, items)
    required = os.environ.get("PLACEWRIGHT_TESTS_MAY_NOT_SKIP", "").split()
    for mark, programs in PROGRAMS.items():
        missing = [str(program) for program in programs if not program.exists()]
        for item in items:
            if item.get_closest_marker(mark) is None:
                continue
            if missing and mark not in required:
                item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(missing)}"))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Spare each full collection of garbage the tests themselves: a third of a CPU second."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give workers whole files; one of them all that share machine code, or have a mark."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    @cache
    def scope(file: str) -> str:
        text = (config.rootpath / file).read_text()
        marks = (mark for mark in PROGRAMS if f"pytest.mark.{mark}" in text)
        return next(marks, TOGETHER if file.startswith(TOGETHER) else file)

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid.partition("::")[0])

    return ByFile(config, log)


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the profile and of the part, which is drawn by their names."""
    part, parts = map(int, (config.getoption("part") or "1/1").split("/"))
    chosen, others, cases = [], [], Counter[str]()
    for item in items:
        mark = item.get_closest_marker("nightly")
        dear = False
        if mark is not None and not by_night():
            test = item.nodeid.partition("[")[0]
            cases[test] += 1
            dear = cases[test] > mark.kwargs.get("after", 0)
        other = crc32(item.nodeid.encode()) % parts != part % parts
        (others if dear or other else chosen).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
    items[:] = sorted(chosen, key=_turn)


def _turn(item: pytest.Item) -> int:
    """What waits for other programs comes first, and last what leaves no worker alone for long."""
    if any(item.get_closest_marker(mark) for mark in PROGRAMS):
        return 0
    return 1 if item.path.parent == Path(__file__).parent else 2

"""What all tests share: Hypothesis profiles, and helper modules beside them.

`ci`, the default, tries the same examples in every run; `pytest --hypothesis-profile nightly` draws
new ones, and more of them where a test has `examples`. No example has a deadline: a busy machine
must not fail a test. `ci` shows the first example that fails as it is: making it smaller takes up
to five minutes a test, and `--hypothesis-profile shrink` does it.

Tests marked `slurm` or `browser` need programs of the distribution. Without them they skip, unless
`PLACEWRIGHT_TESTS_MAY_NOT_SKIP` names their mark; all of a mark run in one worker.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import Phase, settings

settings.register_profile("shrink", derandomize=True, deadline=None, database=None)
settings.register_profile(
    "ci", settings.get_profile("shrink"), phases=[Phase.explicit, Phase.generate]
)
settings.register_profile("nightly", deadline=None, max_examples=1_000, print_blob=True)
settings.load_profile("ci")

PROGRAMS = {
    "slurm": (Path("/usr/sbin/slurmctld"), Path("/usr/sbin/slurmd"), Path("/usr/bin/scontrol")),
    "browser": (Path("/usr/bin/chromium"),),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests whose programs are missing, and keep those of one program in one worker."""
    required = os.environ.get("PLACEWRIGHT_TESTS_MAY_NOT_SKIP", "").split()
    for mark, programs in PROGRAMS.items():
        missing = [str(program) for program in programs if not program.exists()]
        for item in items:
            if item.get_closest_marker(mark) is None:
                continue
            item.add_marker(pytest.mark.xdist_group(mark))
            if missing and mark not in required:
                item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(missing)}"))


@pytest.fixture(scope="session")
def helper() -> Callable[[str, str], ModuleType]:
    """`helper(__file__, name)` loads a module beside a file; no folder of tests is a package."""

    def load(beside: str, name: str) -> ModuleType:
        path = Path(beside).with_name(f"{name}.py")
        spec = spec_from_file_location(f"{path.parent.name}_{name}", path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    return load

"""The page of ten jobs that wait; `python tests/ten_jobs.py` writes it anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from placewright import explain_job, load_round, solve_round
from placewright.cli.views.explanation import lines

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "ten-jobs-that-wait.md"
ROUND = ROOT / "instances" / "library" / "pending.yaml"

HEAD = """# Ten jobs that wait

What [`placewright explain`](why-is-it-pending.md) says of ten jobs of the bundled round \
[`pending`](../../instances/library/pending.yaml), each of which waits for another kind of cause. \
The cluster has racks `a` (four hosts of 8 H100) and `b` (two hosts of 8 H100, a small one with 4 \
L40S, and a new one with 8 B200 that is not healthy yet). The plan starts `urgent` and one of the \
twins; a test writes this page.

```sh
placewright solve instances/library/pending.yaml -o plan.json
placewright explain instances/library/pending.yaml plan.json --job wide
```
"""
CAUSES = {
    "wide": "Never: no rack is that large",
    "fat": "Never: no host has so much memory",
    "pair": "Never: two groups that fit alone, and not together",
    "crawl": "Never within the quota",
    "newest": "Hosts are away",
    "index": "Not now: the tenant's quota is in use",
    "gang": "Not now: a rack for a gang",
    "edge-all": "Not now: a pinned job, which nobody may move",
    "render": "Others instead: they are worth more",
    "twin-2": "Others instead, at no loss: a tie",
}


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    round_ = load_round(ROUND)
    plan = solve_round(round_, isolation="none")
    for name, cause in CAUSES.items():
        job = next(one for one in round_.jobs if one.name == name)
        found = explain_job(round_, plan, name, corrections=6, isolation="none")
        text = "\n".join(lines(job, found, plan, most=6))
        yield f"## {cause}\n\n```text\n{text}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page())

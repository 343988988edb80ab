"""Pictures of hostile names: the SVG has their texts, and nothing that runs or ends a comment."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib")

from placewright.cli.views.gang.facts import occupancy_of
from placewright.cli.views.picture import draw
from tests.report import subjects


def test_an_svg_of_hostile_names_is_a_picture_and_nothing_else(tmp_path):
    round_, plan = subjects.hostile()
    file = tmp_path / "plan.svg"
    draw(occupancy_of(round_, plan), str(file), round_.name, "summary", lambda figure: None)
    text = file.read_text(encoding="utf-8")
    elements = {element.tag.split("}")[-1] for element in ElementTree.fromstring(text).iter()}
    assert not elements & {"script", "img", "b", "a", "foreignObject", "image"}
    assert all(character.isprintable() or character in "\n" for character in text)
    assert all("--" not in comment for comment in re.findall(r"<!--(.*?)-->", text, re.DOTALL))

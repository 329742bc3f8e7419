"""How the house is built: rooms as they are drawn, levels of evidence and tethers that speak for themselves."""

import ast
import re
from configparser import ConfigParser
from itertools import pairwise
from pathlib import Path

import pytest

from tether.evidence import LEVELS
from tether.tethers.tether import Tether

ROOT = Path(__file__).parent.parent
LIBRARY = ROOT / "src" / "tether"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
READ_APART = ("verification", "files/modelfile.py")
"""What shares nothing with `evidence` and has to say by itself what a level is."""


def sources(*folders):
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            yield path, ast.parse(path.read_text())


def layers():
    parser = ConfigParser()
    parser.read(ROOT / ".importlinter")
    told = parser["importlinter:contract:layers"]["layers"]
    return [re.split(r" : ", line) for line in told.split("\n") if line]


def rooms():
    table = CONTRIBUTING.partition("| room |")[2].partition("\n\n")[0]
    return [name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split("|")[1])]


def test_every_room_is_in_the_table_and_no_other():
    folders = {path.name for path in LIBRARY.iterdir() if (path / "__init__.py").exists()} | {"envs"}
    named = {name for layer in layers() for name in layer}
    assert folders | {"__main__"} == named
    assert {*rooms()} == folders | {"tether_studies"}


def test_the_drawing_goes_the_way_that_imports_go():
    drawing = CONTRIBUTING.partition("## Where things are\n\n")[2].partition("\n\n")[0]
    height = {name: k for k, layer in enumerate(reversed(layers())) for name in layer}
    arrows = [line for line in drawing.splitlines() if "─>" in line]
    assert len(arrows) == 2
    for line in arrows:
        stations = [re.findall(r"[a-z]+", part) for part in line.split(":")[-1].split("─>")]
        for below, above in pairwise(stations):
            for one in below:
                assert all(height[one] < height[other] for other in above if other in height), line


def test_files_that_changes_are_said_to_touch_are_there():
    table = CONTRIBUTING.partition("## Eight changes")[2]
    assert len(re.findall(r"^\| (a|an|another|work) ", table, re.MULTILINE)) == 8
    known = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if ".venv" not in path.parts]
    for name in re.findall(r"`([\w./]+(?:/|\.\w+))`", table):
        assert any(f"/{path}".endswith(f"/{name.rstrip('/')}") for path in known), name


def test_no_other_file_compares_evidence_with_a_literal():
    names = {level.name for level in LEVELS}
    apart = [LIBRARY / "evidence", *(LIBRARY / part for part in READ_APART)]
    for path, tree in sources(LIBRARY, ROOT / "src" / "tether_studies"):
        if any(part in (path, *path.parents) for part in apart):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare | ast.Match):
                literals = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
                assert not literals & names, f"{path.relative_to(ROOT)}:{node.lineno}"


def test_nobody_asks_for_the_type_of_a_tether():
    def below(kind):
        return {kind, *(found for child in kind.__subclasses__() for found in below(child))}

    kinds = {kind.__name__ for kind in below(Tether)}
    assert len(kinds) > 5
    for path, tree in sources(LIBRARY, ROOT / "src" / "tether_studies"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                asked = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
                assert not asked & kinds, f"{path.relative_to(ROOT)}:{node.lineno}"


@pytest.mark.parametrize(
    "word", ["pancreas", "insulin", "glucose", "drone", "vehicle", "tether_studies", "drift"]
)
def test_the_library_knows_of_no_study(word):
    for path in sorted(LIBRARY.rglob("*")):
        if path.suffix in (".py", ".js", ".css") and "vendor" not in path.parts:
            assert word not in path.read_text().lower(), path.relative_to(ROOT)

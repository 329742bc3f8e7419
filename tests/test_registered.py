"""Commands that other packages register, and how little it takes to list them all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = '''
import typer

def greet(name: str = "you") -> None:
    """Say hello to a name."""
    typer.echo(f"hello {name}")

def fit() -> None:
    """Not the fit you know."""

tools = typer.Typer(help="Several tools.")

@tools.command()
def hammer() -> None:
    """Hit something."""
    typer.echo("bang")

@tools.command()
def saw() -> None:
    """Cut something."""
'''
POINTS = """[tether.commands]
greet = third_party:greet
fit = third_party:fit
tools = third_party:tools
gone = third_party_that_is_absent:gone
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as an installer leaves it: a module, and what is known of its distribution."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "third_party.py").write_text(PLUGIN)
    known = folder / "third_party-1.0.dist-info"
    known.mkdir()
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    (known / "entry_points.txt").write_text(POINTS)
    return folder


def tether(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "tether.cli", *arguments],
        env={**os.environ, "PYTHONPATH": paths, "COLUMNS": "110"}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_third_party_command_is_listed_and_runs(site: Path) -> None:
    listed = tether(site, "--help")
    assert (listed.returncode, listed.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in listed.stdout.splitlines()]
    assert "greet Say hello to a name." in lines and "tools Several tools." in lines
    assert tether(site, "greet", "--name", "Ada").stdout == "hello Ada\n"
    assert tether(site, "tools", "hammer").stdout == "bang\n"
    refused = tether(site, "greet", "--nme", "Ada")
    assert refused.returncode == 2 and refused.stderr.startswith("error: No such option: --nme")
    assert "See `tether greet --help`" in refused.stderr


def test_a_verb_of_our_own_is_not_replaced(site: Path) -> None:
    listed = tether(site, "--help").stdout
    assert "Not the fit you know" not in listed and listed.count("\n  fit ") == 1
    assert "--trusted" in tether(site, "fit", "--help").stdout


def test_a_command_that_cannot_be_imported_stops_no_other(site: Path) -> None:
    assert "Cannot be imported from third_party_that_is_absent:gone." in tether(site, "--help").stdout
    refused = tether(site, "gone", "--what", "ever")
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert refused.stderr.startswith(
        "error: the command 'gone' must be importable from `third_party_that_is_absent:gone`; ModuleNotFoundError"
    )


def test_the_studies_register_theirs() -> None:
    listed = tether(Path(), "--help").stdout
    names = {line.split()[0] for line in listed.partition("Commands:")[2].splitlines() if line.strip()}
    assert {"collect", "demo", "reproduce", "study"} <= names


HEAVY = ("casadi", "jax", "matplotlib", "numba", "numpy", "pandas", "scipy", "torch")
LOADED = """
import sys
from tether.cli.running import run

code = run(sys.argv[1:])
print("loaded:", sorted(set(sys.modules) & set({heavy!r})))
sys.exit(code)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["fit", "--help"],
        ["certify", "--help"],
        ["study", "--help"],
        ["collect", "--help"],
    ],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    command = [sys.executable, "-c", LOADED.format(heavy=HEAVY), *arguments]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines()[-1] == "loaded: []"


def test_the_library_itself_imports_nothing_heavy() -> None:
    code = f"import sys, tether; print(sorted(set(sys.modules) & set({HEAVY!r})))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"

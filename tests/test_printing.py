"""Names and units of users reach the terminal letter by letter."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from conftest import TRUSTED_SOURCE, cart_rows, write_csv
from tether import cli
from tether.foundation.printing import make_console, one_line, plain
from tether.foundation.progress import console_reporter
from tether.report.tables import Grid, percent, rich_table

HOSTILE = ["speed [m/s]", "rate [/min]", "[red]", "[/red]", "back\\[slash]", ":warning:", "[link=x]y"]


@pytest.mark.parametrize("name", HOSTILE)
def test_tables_show_what_they_are_given(name: str) -> None:
    console = make_console()
    console.file = io.StringIO()
    console.print(rich_table(Grid(f"title {name}", ("output", f"heading {name}"), ((name, f"cell {name}"),))))
    shown = console.file.getvalue()
    for text in (f"title {name}", f"heading {name}", f"cell {name}"):
        assert text in shown


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("terminal", [False, True])
def test_progress_shows_what_it_is_given(name: str, terminal: bool) -> None:
    # Of a user's own making, with markup on, as `rich.console.Console()` has it.
    console = Console(file=io.StringIO(), width=110, force_terminal=terminal, color_system=None)
    with console_reporter(console)(name) as report:
        report(1, 2)
    assert name in console.file.getvalue()  # type: ignore[attr-defined]


def test_what_a_terminal_would_obey_is_spelled_out() -> None:
    assert plain("a\x1b[31mb\x9b\u202ec").plain == "a\\x1b[31mb\\x9b\\x202ec"
    assert plain("a\nverified\ud800\u2028").plain == "a\\x0averified\\xd800\\x2028"
    assert one_line(" two\n lines\r\n\x07") == "two lines \\x07"


def test_a_fit_of_columns_with_brackets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole way: `rate [/min]` ended a fit in a traceback, and `verify` with a code that says no."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    data = write_csv(tmp_path / "a.csv", ["episode", "rate [/min]", ":warning:[red]", "u\\[x]"], cart_rows())
    (tmp_path / "physics.py").write_text(TRUSTED_SOURCE)

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["tether", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        assert printed.err == ""
        return ended.value.code or 0, " ".join(printed.out.split())  # type: ignore[return-value]

    spec = ["--trusted", "physics.py:frictionless"]
    columns = ["--states", "rate [/min],:warning:[red]", "--controls", "u\\[x]", "--episode", "episode"]
    columns += ["--unit", "rate [/min]=[/bold],:warning:[red]=m [s]", "--evidence", "proved"]
    sizes = ["--memories", "6", "--steps", "100", "--hidden", "8", "--bounds", "affine"]
    code, out = run("fit", "--data", str(data), *columns, *spec, *sizes, "--out", "run")
    assert code == 0
    for text in ("rate [/min]", ":warning:[red]", "[/bold]", "m [s]"):
        assert text in out
    code, out = run("verify", "run", *spec)
    assert code == 0 and "rate [/min]: delta at most" in out and "verified: " in out and " leaves" in out
    for verb in (
        ["certify", "run", *spec],
        ["info", "run"],
        ["attack", "run", *spec, "--evaluations", "1000"],
    ):
        code, out = run(*verb)
        assert code == 0 and ("[red]" in out or "rate [/min]" in out)
    assert "u\\[x]" in run("info", "run")[1]


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.0, "0.00 %"), (1e-9, "< 0.01 %"), (0.0243, "2.43 %"), (1 - 1e-9, "> 99.99 %"), (1.0, "100 %")],
)
def test_shares_are_rounded_neither_to_none_nor_to_all(share: float, words: str) -> None:
    assert percent(share) == words

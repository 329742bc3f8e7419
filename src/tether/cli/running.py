"""Runs a command, and makes one line and a code of whatever goes wrong."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import typer

from tether.cli.commands import app
from tether.cli.starting import Interruption, interruptible
from tether.cli.terminal import command_name
from tether.foundation.errors import CertificateError, ClusterError
from tether.foundation.printing import make_console, one_line

# Of click, which newer versions of typer carry along and older ones import.
ClickException: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
_COLUMNS = ("--states", "--controls", "--angle", "--not-angle", "--unit")
_SHOWN = "Set TETHER_TRACEBACK=1 to see where."


def run(arguments: list[str] | None = None) -> int:
    """Runs `arguments`, by default those typed; the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    _prepare_streams()
    with interruptible() as interruption:
        try:
            with warnings.catch_warnings():
                _quieten_warnings()
                return _invoke(given)
        except KeyboardInterrupt:
            return _interrupted(given, interruption)
        except Exception as error:
            if interruption.asked:  # which a library has made an error of its own of
                return _interrupted(given, interruption)
            if os.environ.get("TETHER_TRACEBACK"):
                raise
            return _explain(error)


def _interrupted(given: list[str], interruption: Interruption) -> int:
    # A second one must not interrupt the cleaning up after the first.
    interruption.heard()
    # Python remembers an interruption that passed through compiled text, as of dataclasses, though it is
    # handled here, and would end by a signal; text that passes makes it forget.
    exec("pass")
    hint = " Continue it with the same arguments and `--resume`." if _can_resume(given) else ""
    return _fail(f"interrupted.{hint}", 130)


def _invoke(given: list[str]) -> int:
    command: Any = typer.main.get_command(app)
    try:
        # Not by calling it, which would take an interruption for a success without a word.
        with command.make_context("tether", list(given)) as context:
            command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    except ClickException as error:
        return _refuse(error, given)
    return 0


def _can_resume(given: list[str]) -> bool:
    """Whether a fit has left something to go on from."""
    if given[:1] != ["fit"] or "--out" not in given[:-1]:
        return False
    return Path(given[given.index("--out") + 1], "metrics.jsonl").is_file()


def _refuse(error: Any, given: list[str]) -> int:
    """Arguments that do not parse; no arguments at all are a question."""
    if type(error).__name__ == "NoArgsIsHelpError" or not given:
        print(error.format_message(), file=sys.stderr)
        return 2
    context = getattr(error, "ctx", None)
    name = context.command_path if context is not None else command_name()
    return _fail(f"{error.format_message().rstrip('.')}. {_remedy(error, given)}See `{name} --help`.", 2)


def _remedy(error: Any, given: list[str]) -> str:
    """What to do about arguments that one may well expect to parse; ends in a space."""
    if getattr(error, "option_name", None) in _COLUMNS and given[0] in ("adapt", "predict"):
        return "The model knows its columns, angles and units; only `fit` is told them. "
    if "extra argument" in error.format_message() and "--data" in given:
        return "For several files quote the pattern, `--data 'logs/*.csv'`, or repeat `--data`. "
    return ""


def _explain(error: Exception) -> int:
    if isinstance(error, CertificateError):
        return _fail(str(error), 1)
    if isinstance(error, BrokenPipeError) or (isinstance(error, OSError) and error.errno == errno.EPIPE):
        # Whoever read the output has heard enough; what is left of it must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if isinstance(error, OSError):
        place = "" if error.filename is None else f"`{error.filename}` "
        return _fail(f"{place}must be readable and writable; {error.strerror or error}.", 2)
    if isinstance(error, ValueError | TypeError | ClusterError) and str(error):
        return _fail(str(error), 2)
    if isinstance(error, MemoryError):
        return _fail(f"there must be memory enough; there is not ({error or 'none left'}). {_SHOWN}", 2)
    # Nothing is known to end here; what does is a defect, and still no reason for fifty lines.
    return _fail(f"`tether` must not fail like this; {type(error).__name__}: {error}. {_SHOWN}", 2)


def _fail(message: str, code: int) -> int:
    make_console(stderr=True).print(f"error: {one_line(message)}", soft_wrap=True)
    return code


def _prepare_streams() -> None:
    """A name that the terminal has no letters for is shown with question marks, and stops nothing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _quieten_warnings() -> None:
    """Remarks of libraries for programmers; what concerns the user is checked and said by Tether itself."""
    if not sys.warnoptions and not os.environ.get("TETHER_TRACEBACK"):
        warnings.simplefilter("ignore")

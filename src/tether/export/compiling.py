"""Shared libraries from C files, by the compiler that is there."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from tether.foundation.extras import installing

_FLAGS = ("-std=c99", "-O3", "-shared", "-fPIC")
_NAMES = ("cc", "gcc", "clang")


def compiler() -> list[str]:
    """The command of a C compiler: that of the environment, of the system, or of the package `ziglang`."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in _NAMES:
        found = shutil.which(name)
        if found:
            return [found]
    if find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise ValueError(
        "this export must have a C compiler; there is none. Install one, set CC, or run "
        f"{installing('ziglang')}."
    )


def library_suffix() -> str:
    """How the name of a shared library ends here."""
    return {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def shared_library(files: Mapping[str, bytes], sources: Sequence[str]) -> bytes:
    """The library that `sources`, some of the files by name, are compiled to.

    Raises:
        ValueError: there is no compiler, or it refuses.
    """
    command = compiler()
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        made = Path(folder) / f"made{library_suffix()}"
        mathematics = () if sys.platform == "win32" else ("-lm",)
        words = [*command, *_FLAGS, *sources, "-o", made.name, *mathematics]
        try:
            ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        except OSError as error:
            raise ValueError(f"`{command[0]}` must be a C compiler; {error.strerror}. Set CC.") from None
        if ended.returncode or not made.is_file():
            said = next((line for line in ended.stderr.splitlines() if "error" in line), ended.stderr.strip())
            raise ValueError(f"`{command[0]}` must compile C99; it said: {said:.200}. Set CC to another one.")
        return made.read_bytes()

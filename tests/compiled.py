"""Exported C files, compiled and called row by row: what tests of exports share."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tether.export import export
from tether.model import Model

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
_LOOP = """
#include "NAME.c"
int loop(long rows, const REAL *x, const REAL *u, REAL *next, REAL *lower, REAL *upper, REAL *delta, int *inside);
int slopes(long rows, const REAL *x, const REAL *u, REAL *by_state, REAL *by_control);
int across(long rows, const REAL *x, const REAL *u, REAL *by_state, REAL *by_control);
int across(long rows, const REAL *x, const REAL *u, REAL *by_state, REAL *by_control)
{
    long k;
    for (k = 0; k < rows; ++k)
        NAME_jacobian_across(x + k * DX, u + k * DU, (void *)0, by_state + k * P * DX, by_control + k * P * DU);
    return 0;
}
int many(long rows, const REAL *x, const REAL *u, REAL *next, REAL *lower, REAL *upper, REAL *delta, int *inside);
int many(long rows, const REAL *x, const REAL *u, REAL *next, REAL *lower, REAL *upper, REAL *delta, int *inside)
{
    NAME_predict_many(rows, x, u, next, lower, upper, delta, inside);
    return 0;
}
int loop(long rows, const REAL *x, const REAL *u, REAL *next, REAL *lower, REAL *upper, REAL *delta, int *inside)
{
    long k;
    for (k = 0; k < rows; ++k)
        inside[k] = NAME_predict(x + k * DX, u + k * DU, next + k * P, lower + k * P, upper + k * P, delta + k * P);
    return 0;
}
int slopes(long rows, const REAL *x, const REAL *u, REAL *by_state, REAL *by_control)
{
    long k;
    for (k = 0; k < rows; ++k)
        NAME_jacobian(x + k * DX, u + k * DU, (void *)0, by_state + k * P * DX, by_control + k * P * DU);
    return 0;
}
"""
_numbers = itertools.count()


@dataclass(frozen=True)
class Found:
    next_states: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    delta: np.ndarray
    in_domain: np.ndarray


class Compiled:
    """A model in C."""

    def __init__(
        self, model: Model, folder: Path, *, dtype: str = "float64", flags: tuple[str, ...] = ("-O1",)
    ):
        folder.mkdir(exist_ok=True)
        if not (folder / "cart.c").exists():
            export(model, to="c", out=folder, name="cart", dtype=dtype)
        schema = model.schema
        self.dtype, self.sizes = (
            np.dtype(dtype),
            (len(schema.states), len(schema.controls), len(schema.outputs)),
        )
        words = dict(zip(("DX", "DU", "P"), map(str, self.sizes), strict=True)) | {
            "REAL": "double" if dtype == "float64" else "float", "NAME": "cart",
        }  # fmt: skip
        text = _LOOP
        for word, own in words.items():
            text = text.replace(word, own)
        (folder / "loop.c").write_text(text)
        # Another name each time: a library of a name that is loaded already is not loaded again.
        library = folder / f"loop{next(_numbers)}.so"
        command = ["cc", *STRICT, *flags, "-shared", "-fPIC", "loop.c", "-o", library.name, "-lm"]
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr[:3000]
        assert not ended.stderr
        self.library = ctypes.CDLL(str(library))

    def _given(self, states: Any, controls: Any) -> list[np.ndarray]:
        return [np.ascontiguousarray(part, self.dtype) for part in (states, controls)]

    def predict(self, states: Any, controls: Any, *, many: bool = False) -> Found:
        """Row by row, or all at once."""
        given, rows = self._given(states, controls), len(states)
        outputs = [np.full((rows, self.sizes[2]), -7.0, self.dtype) for _ in range(4)]
        inside = np.full(rows, -7, np.int32)
        places = [part.ctypes.data_as(ctypes.c_void_p) for part in (*given, *outputs, inside)]
        call = self.library.many if many else self.library.loop
        call(ctypes.c_long(rows), *places)
        assert np.isin(inside, (0, 1)).all()
        return Found(*outputs, inside.astype(bool))

    def linearize(self, states: Any, controls: Any, *, across: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Within leaves, or across them."""
        given, (dx, du, outputs) = self._given(states, controls), self.sizes
        found = [np.empty((len(states), outputs, size), self.dtype) for size in (dx, du)]
        places = [part.ctypes.data_as(ctypes.c_void_p) for part in (*given, *found)]
        call = self.library.across if across else self.library.slopes
        call(ctypes.c_long(len(states)), *places)
        return found[0], found[1]

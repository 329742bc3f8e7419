"""Random models as Python source: straight-line bodies of structure, over batches or row by row.

While one is written, it runs on real NumPy beside it: each new statement is kept only if NumPy accepts it, its
values stay moderate and rows are not mixed. Batches have `ROWS` rows, a size nothing else has, so that the axis
of rows can be told from the shape.
"""

from __future__ import annotations

import copy
import functools
import math
import re
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import structure_templates as templates
from subject import run_text

ROWS = 13
LARGEST = 1e3
ELEMENTWISE = (
    "{a}", "{a}", "0.5 * {a}", "{a} + {b}", "{a} - {b}", "{a} * {b}", "np.sin({a})", "np.cos({a})", "np.abs({a})",
    "np.tanh({a})", "{a} / (1.5 + {b} ** 2)", "np.minimum({a}, {b})", "np.maximum({a}, {b})", "-{a}",
    "np.sqrt(1.0 + {a} ** 2)", "np.square({a})", "np.exp(-np.abs({a}))", "np.hypot({a}, 1.0)", "np.arctan({a})",
    "np.clip({a}, -0.7, 0.7)", "{c} - {a}", "{c} * {a}", "np.arctan2({a}, 2.0)", "np.log1p(np.abs({a}))",
    "np.cbrt(3.0 + np.tanh({a}))", "np.arcsinh({a})", "np.log10(2.0 + np.abs({a}))", "np.exp2({a})",
    "np.logaddexp({a}, {b})", "np.deg2rad({a})",
)  # fmt: skip
BATCH = (
    (templates.VIEWS, 5), (templates.COPIES, 3), (templates.SPLITS, 3), (templates.UPDATES, 7),
    (templates.CREATION, 2), (templates.REDUCTIONS, 2), (templates.CONDITIONS, 2), (templates.INTROSPECTION, 0.15),
)  # fmt: skip
ROW = (*((group, 0.5 * weight) for group, weight in BATCH), (templates.ROW_ONLY, 9))
WRAPPERS = (
    "return np.array([step(r, c) for r, c in zip(s, u)])",
    "return [step(r, c) for r, c in zip(s, u)]",
    "return np.stack([step(r, c) for r, c in zip(s, u)])",
    "return np.vstack([step(s[k], u[k]) for k in range(len(s))])",
    "return np.asarray([step(r, c) for r, c in zip(s, u)], dtype=float)",
    "return tuple(list(step(r, c)) for r, c in zip(s, u))",
    "out = np.zeros((len(s), {p}))\n    for k in range(len(s)):\n        out[k] = step(s[k], u[k])\n    return out",
    "out = np.empty((len(s), {p}))\n    for k, (r, c) in enumerate(zip(s, u)):\n        out[k, :] = step(r, c)\n    return out",
    "rows = []\n    for r, c in zip(s, u):\n        rows.append(step(r, c))\n    return np.array(rows)",
    "out = np.zeros((len(s), {p}))\n    for o, r, c in zip(out, s, u):\n        o[:] = step(r, c)\n    return out",
    "return np.concatenate([np.asarray(step(r, c))[None] for r, c in zip(s, u)])",
    "return np.apply_along_axis(lambda z: np.asarray(step(z[:{dx}], z[{dx}:])), 1, np.hstack([s, u]))",
    "return np.vectorize(step, signature='(n),(m)->(p)')(s, u)",
)  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A model as source.

    Attributes:
        kind: `batch`, whose lines see ``s`` (N, dx) and ``u`` (N, du), or `row`, whose lines see one row of each.
        wrapper: how rows are gathered.
        lines: statements.
        results: expressions; a row's output is all of them, flat and in this order.
        shape: the numbers of states, controls, outputs.
    """

    kind: str
    wrapper: str
    lines: tuple[str, ...]
    results: tuple[str, ...]
    shape: tuple[int, int, int]

    @property
    def source(self) -> str:
        body = "\n".join(self.lines)
        parts = [text for name, text in templates.HELPERS.items() if re.search(rf"\b{name}\b", body)]
        parts.append(self._model(body.replace("\n", "\n    ")))
        code = "\n\n".join(parts)
        modules = [name for name in ("copy", "functools", "math") if re.search(rf"\b{name}\.", code)]
        return "\n".join([f"import {name}" for name in modules] + ["import numpy as np", "", code])

    def _model(self, body: str) -> str:
        if self.kind == "batch":
            flat = [f"np.reshape({name}, (len(s), -1))" for name in self.results]
            joined = flat[0] if len(flat) == 1 else f"np.concatenate([{', '.join(flat)}], axis=1)"
            return f"def model(s, u):\n    {body}\n    return {joined}\n"
        flat = [f"np.ravel({name})" for name in self.results]
        joined = flat[0] if len(flat) == 1 else f"np.concatenate([{', '.join(flat)}])"
        if self.wrapper.startswith("return [") and len(self.results) > 1:
            joined = "[" + ", ".join(f"*np.ravel({name})" for name in self.results) + "]"
        wrapper = self.wrapper.format(p=self.shape[2], dx=self.shape[0])
        return f"def step(r, c):\n    {body}\n    return {joined}\n\ndef model(s, u):\n    {wrapper}\n"

    def build(self) -> Any:
        """The model as a function."""
        return run_text(self.source)["model"]

    def smaller(self) -> list[Program]:
        """Programs with one part less, most drastic first."""
        fewer = [
            replace(self, results=self.results[:k] + self.results[k + 1 :]) for k in range(len(self.results))
        ]
        shorter = [
            replace(self, lines=self.lines[:k] + self.lines[k + 1 :])
            for k in reversed(range(len(self.lines)))
        ]
        lines = [line.split("\n") for line in self.lines]
        cut = [
            replace(self, lines=(*self.lines[:k], "\n".join(parts[:j] + parts[j + 1 :]), *self.lines[k + 1 :]))
            for k, parts in enumerate(lines) if len(parts) > 1
            for j in range(len(parts))
        ]  # fmt: skip
        plain = (
            [replace(self, wrapper=WRAPPERS[0])] if self.kind == "row" and self.wrapper != WRAPPERS[0] else []
        )
        return (fewer if len(self.results) > 1 else []) + shorter + cut + plain


def sample_inputs(rng: np.random.Generator, rows: int, dx: int, du: int) -> np.ndarray:
    """(rows, D) moderate inputs, some of them round numbers."""
    inputs = rng.uniform(-2, 2, (rows, dx + du))
    return np.where(rng.random(inputs.shape) < 0.1, np.round(inputs, 1), inputs)


class Writer:
    """Writes one program."""

    def __init__(self, rng: np.random.Generator, kind: str | None = None) -> None:
        self.rng = rng
        self.kind = kind or ("batch" if rng.random() < 0.55 else "row")
        self.dx, self.du = int(rng.integers(2, 5)), int(rng.choice([0, 1, 2], p=[0.15, 0.45, 0.4]))
        self.lines: list[str] = []
        self.fresh = 0
        inputs = sample_inputs(rng, ROWS, self.dx, self.du)
        self.inputs = (inputs[:, : self.dx].copy(), inputs[:, self.dx :].copy())
        for part in self.inputs:
            part.flags.writeable = False
        self.space = self._start()

    # --- the state beside the program

    def _start(self) -> dict[str, Any]:
        space: dict[str, Any] = {"np": np, "copy": copy, "math": math, "functools": functools}
        for text in templates.HELPERS.values():
            exec(text, space)
        if self.kind == "batch":
            space["s"], space["u"] = self.inputs
        else:
            space["r"], space["c"] = self.inputs[0][0], self.inputs[1][0]
        return space

    def _values(self) -> dict[str, Any]:
        names = ("s", "u") if self.kind == "batch" else ("r", "c")
        return {k: v for k, v in self.space.items() if k in names or re.fullmatch(r"[ab]\d+", k)}

    def _arrays(self, ndim: int = 1) -> dict[str, np.ndarray]:
        return {
            k: v for k, v in self._values().items()
            if isinstance(v, np.ndarray) and v.dtype == np.float64 and v.ndim >= ndim and v.size
        }  # fmt: skip

    def _is_fine(self, value: Any) -> bool:
        if isinstance(value, list | tuple):
            return len(value) <= 8 and all(self._is_fine(part) for part in value)
        if not isinstance(value, np.ndarray | np.generic | float | int):
            return True
        if isinstance(value, np.ndarray) and value.dtype == object:
            return False
        array = np.asarray(value)
        if array.ndim > 4 or array.size > (ROWS * 30 if self.kind == "batch" else 30):
            return False
        if self.kind == "batch" and array.ndim and array.shape.count(ROWS) > 1:
            return False
        if array.dtype.kind not in "fbiu":
            return False
        return bool(np.isfinite(array).all()) and (
            not array.size or float(np.abs(array * 1.0).max()) < LARGEST
        )

    def _add(self, text: str) -> bool:
        try:
            exec(text, self.space)
        except Exception:
            self._rewind()
            return False
        if not all(self._is_fine(value) for value in self._values().values()):
            self._rewind()
            return False
        self.lines.append(text)
        return True

    def _rewind(self) -> None:
        self.space = self._start()
        for line in self.lines:
            exec(line, self.space)

    # --- filling in

    def _choice(self, items: Any) -> Any:
        items = list(items)
        return items[int(self.rng.integers(len(items)))]

    def _number(self) -> str:
        return self._choice(["0.5", "2.0", "-1.5", "0.1", "1", "0.0", f"{self.rng.uniform(-2, 2):.3f}"])

    def _free(self, array: np.ndarray) -> list[int]:
        return [k for k, size in enumerate(array.shape) if self.kind == "row" or size % ROWS or not size]

    def _index(self, array: np.ndarray, kind: str) -> str:
        free = self._free(array)
        if not free:
            return "[...]"
        axis = self._choice(free)
        size = array.shape[axis]
        inner = {
            "sl": lambda: self._choice([":1", "1:", "::-1", "::2", ":-1", "-2:", "::-2", "0:2", "-1:", "1::-1"]),
            "ix": lambda: str(self._choice(range(-size, size))),
            "fx": lambda: self._choice([
                str(self.rng.integers(-size, size, self.rng.integers(1, 4)).tolist()),
                f"np.array({self.rng.integers(0, size, 2).tolist()})",
                str(self.rng.integers(0, 2, size).astype(bool).tolist()),
            ]),
        }[kind]()  # fmt: skip
        if axis == array.ndim - 1 and self.rng.random() < 0.4:
            return f"[..., {inner}]"
        return "[" + ", ".join([":"] * axis + [inner]) + "]"

    def _operand(self, shape: tuple[int, ...]) -> str:
        """A variable that broadcasts to the shape, or a number."""
        fitting = []
        for name, value in self._values().items():
            if isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype == np.float64):
                array = np.asarray(value)
                try:
                    fits = np.broadcast_shapes(array.shape, shape) == shape
                except ValueError:
                    continue
                fitting += [name] * ((3 if array.shape == shape else 1) if fits else 0)
        return self._choice(fitting) if fitting and self.rng.random() < 0.85 else self._number()

    def _expression(self, shape: tuple[int, ...]) -> str:
        a, b = self._operand(shape), self._operand(shape)
        return self._choice(ELEMENTWISE).format(a=a, b=b, c=self._number())

    def _condition(self, name: str, array: np.ndarray) -> str:
        values = np.unique(array)
        at = self.rng.uniform(values[0] - 0.3, values[-1] + 0.3)
        for _ in range(4):
            if np.abs(values - at).min() > 1e-2:
                break
            at = self.rng.uniform(values[0] - 0.3, values[-1] + 0.3)
        return f"({name} {self._choice(['>', '<', '>=', '<='])} {at:.4f})"

    def _fill(self, template: str) -> str | None:
        """The statement, or None where something it needs is not there."""
        template = template.replace("\\n", "\n")
        wanted = set(re.findall(r"{(\w+)}", template))
        given: dict[str, list[str]] = {}
        for name in wanted & {"n", "m", "k"}:
            given[name] = [f"a{self.fresh}"]
            self.fresh += 1
        if wanted & {"x", "xx", "y", "e", "w", "wx", "ax", "any", "new", "sl", "ix", "fx", "cond"} and not (
            self._fill_arrays(wanted, given)
        ):
            return None
        if wanted & {"b", "yb", "wb"} and not self._fill_booleans(given):
            return None
        if wanted & {"v", "vv"}:
            scalars = [k for k, v in self._values().items() if isinstance(v, float)]
            scalars += [f"{k}[{j}]" for k, v in self._arrays().items() if v.ndim == 1 for j in range(len(v))]
            if not scalars:
                return None
            given["v"], given["vv"] = [self._choice(scalars)], [self._choice(scalars)]
        given["i"] = [str(int(self.rng.integers(-2, 3)))]

        def one(match: re.Match) -> str:
            key = match.group(1)
            return self._number() if key == "c" else self._choice(given[key])

        return re.sub(r"{(\w+)}", one, template)

    def _fill_arrays(self, wanted: set[str], given: dict[str, list[str]]) -> bool:
        arrays = self._arrays()
        writable = {k: v for k, v in arrays.items() if v.flags.writeable and np.abs(v).max() < 50}
        base = writable if "w" in wanted else arrays
        if not base:
            return False
        chosen = self._choice(base)
        array = base[chosen]
        given["w"] = [chosen]
        if "x" in wanted and "w" in wanted:
            given["x"] = [self._choice(arrays)]
        else:
            given["x"] = [chosen]
        shaped = arrays[given["x"][0]] if "wx" in wanted or "w" not in wanted else array
        free = self._free(shaped)
        if wanted & {"ax", "sl", "ix", "fx"} and not free:
            return False
        given["xx"] = [k for k, v in arrays.items() if v.shape == arrays[given["x"][0]].shape]
        given["wx"] = [k for k, v in writable.items() if v.shape == shaped.shape]
        if "wx" in wanted and not given["wx"]:
            return False
        given["y"] = [self._operand(shaped.shape)]
        given["e"] = [self._expression(shaped.shape) for _ in range(2)]
        given["ax"] = [str(k) for k in free] + [str(k - shaped.ndim) for k in free]
        given["any"] = [str(k) for k in range(-shaped.ndim, shaped.ndim)]
        given["new"] = [str(k) for k in range(-shaped.ndim - 1, shaped.ndim + 1)]
        for kind in ("sl", "ix", "fx"):
            given[kind] = [self._index(shaped, kind) for _ in range(2)]
        given["cond"] = [self._condition(self._choice(given["xx"]), shaped) for _ in range(3)]
        return True

    def _fill_booleans(self, given: dict[str, list[str]]) -> bool:
        masks = {
            k: v
            for k, v in self._values().items()
            if isinstance(v, np.ndarray) and v.dtype == bool and v.ndim
        }
        if not masks:
            return False
        chosen = self._choice(masks)
        shape = masks[chosen].shape
        given["b"] = [k for k, v in masks.items() if v.shape == shape]
        given["yb"] = [self._operand(shape) for _ in range(2)]
        given["wb"] = [
            k for k, v in self._arrays().items() if v.flags.writeable and v.shape == shape
        ] or given["yb"]
        return True

    # --- writing

    def write(self) -> Program | None:
        """A program, or None where nothing could be returned."""
        groups, weights = zip(*(BATCH if self.kind == "batch" else ROW), strict=True)
        chances = np.array(weights) / np.sum(weights)
        first = "s" if self.kind == "batch" else "r"
        self._add(f"a{self.fresh} = {first}.copy()")
        self.fresh += 1
        wanted, tries = int(self.rng.integers(3, 11)), 0
        while len(self.lines) < wanted and tries < 40:
            tries += 1
            if self.rng.random() < 0.12:
                arrays = self._arrays()
                text = f"a{self.fresh} = {self._expression(self._choice(arrays.values()).shape)}"
                self.fresh += 1
            else:
                text = self._fill(self._choice(groups[int(self.rng.choice(len(groups), p=chances))]))
            if text is not None:
                self._add(text)
        return self._finish()

    def write_only(self, template: str) -> Program | None:
        """A program of little but this one statement."""
        name = "s" if self.kind == "batch" else "r"
        self._add(f"a{self.fresh} = {name}.copy()")
        self.fresh += 1
        if re.search(r"{(b|yb|wb)}", template):
            self._add(f"b{self.fresh} = a0 > {self.rng.uniform(-1, 1):.3f}")
        text = self._fill(template)
        program = self._finish() if text is not None and self._add(text) else None
        return program and replace(program, wrapper=WRAPPERS[0])

    def _finish(self) -> Program | None:
        names, outputs = [], 0
        values = list(self._values().items())[::-1]
        for name, value in values:
            if not isinstance(value, np.ndarray | np.generic | float | int) or name in "sucr":
                continue
            array = np.asarray(value)
            if self.kind == "batch":
                if array.ndim == 0 or ROWS not in array.shape or array.size % ROWS:
                    continue
                axis = array.shape.index(ROWS)
                text = (
                    name
                    if axis == 0
                    else (f"{name}.T" if array.ndim == 2 else f"np.moveaxis({name}, {axis}, 0)")
                )
            else:
                text = name
            names.append(text)
            outputs += array.size // (ROWS if self.kind == "batch" else 1)
            if len(names) == 5 or outputs > 24:
                break
        if not outputs:
            return None
        shape = (self.dx, self.du, outputs)
        return Program(self.kind, self._choice(WRAPPERS), tuple(self.lines), tuple(names), shape)


def write_program(
    seed: int | list[int], kind: str | None = None, template: str | None = None
) -> tuple[Program | None, np.ndarray]:
    """A program (of one template, if given) and (ROWS, D) inputs, the ones it was written beside."""
    writer = Writer(np.random.default_rng(seed), kind)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = writer.write() if template is None else writer.write_only(template)
    return program, np.concatenate(writer.inputs, axis=1)

"""M's source text with other numbers in it, its conditions turned around, and exponents bounded."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

SOFT = "__twin_soft__"
"""By this name a twin knows `softened`."""
_NEAR = (0.05, 20.0)
_LARGE = 100
_STEEP = frozenset({"exp", "expm1", "exp2", "tanh", "arctan", "atan", "sinh", "cosh", "logaddexp"})
_TINY = frozenset({"eps", "epsilon", "epsneg", "resolution", "smallest_normal", "smallest_subnormal", "tiny"})
"""Attributes that tell of the narrowness of floats."""
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_EXTREMES = {"maximum": "minimum", "minimum": "maximum", "fmax": "fmin", "fmin": "fmax"}
_GROWING = (ast.Mult, ast.Div, ast.Pow)
"""Without what these make large, nothing is steep."""
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_FOLDED: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.LShift: operator.lshift, ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip
_LONGEST = 64
"""The largest exponent of whole numbers that is worked out."""


def softened(value: Any) -> Any:
    """A number of moderate size, or an array of such, of the same kind; whatever is no float as it is."""
    if isinstance(value, np.ndarray):
        return np.tanh(value) if value.dtype == np.float64 else value
    if isinstance(value, np.float64):
        return np.tanh(value)
    return math.tanh(value) if isinstance(value, float) else value


@dataclass(frozen=True)
class Style:
    """How a twin is made.

    Attributes:
        far: only numbers far from 1 are replaced.
        whole: large whole numbers are replaced too, by small ones.
        turned: some conditions and extremes are turned around, and products, quotients, powers and exponents
            are bounded; of a pair of twins, one of which is 1 and the other 2, each is turned around in one.
    """

    far: bool = False
    whole: bool = False
    turned: int = 0


class Numbers:
    """Which number takes the place of which in one twin; of one number it is the same each time.

    Attributes:
        drawn: those that took the place of others.
    """

    def __init__(self, seed: int, attempt: int, style: Style) -> None:
        self.style = style
        self.drawn: list[float] = []
        self._attempt, self._pair = attempt, f"{seed} {attempt}"
        self._seed = f"{self._pair} {style}"
        self._rng = Random(self._seed)

    def real(self, value: float) -> float:
        """Another of the same sign, between 0.4 and 1.6; zero stays zero."""
        return self._replaced(value, Random(f"{self._seed} {abs(value)!r}"))

    def entry(self, value: float) -> float:
        """The same for an entry of an array: of equal ones each has its own."""
        return self._replaced(value, self._rng)

    def _replaced(self, value: float, rng: Random) -> float:
        size = abs(value)
        if value == 0 or not math.isfinite(value) or (self.style.far and _NEAR[0] <= size <= _NEAR[1]):
            return value
        found = math.copysign(round(rng.uniform(0.4, 1.6), 4), value)
        self.drawn.append(found)
        return found

    def whole(self, value: int) -> int:
        """Another for a large one."""
        if not self.style.whole or abs(value) < _LARGE:
            return value
        return Random(f"{self._seed} {abs(value)}").randint(2, 9) * (1 if value > 0 else -1)

    def turns(self, number: int) -> bool:
        """Whether the so manieth condition of a file is turned around: every other one, later by chance."""
        first = number % 2 == 0 if self._attempt == 0 else Random(f"{self._pair} {number}").random() < 0.5
        return first is (self.style.turned == 1)


def altered(text: str, tree: ast.Module, numbers: Numbers) -> str:
    """The text of a file as in a twin; lines stay where they are."""
    lines = text.encode().split(b"\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    editor = _Editor(text.encode(), starts, numbers)
    editor.visit(tree)
    return editor.text()


class _Editor(ast.NodeVisitor):
    """Collects what is to be replaced, and where."""

    def __init__(self, data: bytes, starts: list[int], numbers: Numbers) -> None:
        self._data, self._starts, self._numbers = data, starts, numbers
        self._edits: list[tuple[int, int, str]] = []
        self._loops, self._conditions = 0, 0

    def _turns(self) -> bool:
        self._conditions += 1
        return self._numbers.turns(self._conditions)

    def text(self) -> str:
        """The text with all replacements, the last first; where two begin, the longer one first."""
        data = self._data
        for start, stop, new in sorted(self._edits, reverse=True):
            data = data[:start] + new.encode() + data[stop:]
        return data.decode()

    def _start(self, node: Any) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _stop(self, node: Any) -> int:
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def _replace(self, node: ast.AST, new: str) -> None:
        self._edits.append((self._start(node), self._stop(node), new))

    def _number(self, node: ast.AST, value: Any) -> bool:
        """Replaces what is a number; whether it was one."""
        if type(value) is float:
            new: float = self._numbers.real(value)
        elif type(value) is int:
            new = self._numbers.whole(value)
        else:
            return False
        if new != value:
            self._replace(node, f"({new!r})")
        return True

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Text stays as it is."""

    def visit_Constant(self, node: ast.Constant) -> None:
        self._number(node, node.value)

    def visit_BinOp(self, node: Any) -> None:
        value = _folded(node)
        if value is not None and self._number(node, value):
            return
        if self._numbers.style.turned and isinstance(node.op, _GROWING):
            self._soften(node)
        self.generic_visit(node)

    def _soften(self, node: ast.AST) -> None:
        start, stop = self._start(node), self._stop(node)
        self._edits += [(start, start, f"{SOFT}("), (stop, stop, ")")]

    visit_UnaryOp = visit_BinOp

    def visit_Attribute(self, node: ast.Attribute) -> None:
        tiny = node.attr in _TINY and isinstance(node.ctx, ast.Load) and self._numbers.style.whole
        if tiny:
            self._replace(node, f"({self._numbers.real(1e-16)!r})")
        else:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        first = node.args[0] if node.args else None
        if name == "float" and isinstance(first, ast.Constant) and isinstance(first.value, str):
            self._replace_text(node, first.value)
            return
        if self._numbers.style.turned and first is not None:
            self._bound(node, name, first)
        self.generic_visit(node)

    def _replace_text(self, node: ast.Call, text: str) -> None:
        try:
            self._number(node, float(text))
        except ValueError:
            return

    def _bound(self, node: ast.Call, name: str, first: ast.expr) -> None:
        if name in _STEEP and not isinstance(first, ast.Starred | ast.GeneratorExp):
            self._soften(first)
        if name in _EXTREMES and isinstance(node.func, ast.Attribute) and self._turns():
            stop = self._stop(node.func)
            self._edits.append((stop - len(name), stop, _EXTREMES[name]))

    def visit_Compare(self, node: ast.Compare) -> None:
        turned = self._numbers.style.turned and not self._loops
        if turned and isinstance(node.ops[0], _ORDER) and len(node.ops) == 1 and self._turns():
            start, stop = self._stop(node.left), self._start(node.comparators[0])
            gap = self._data[start:stop].decode()
            new = re.sub(r"[<>]=?", lambda found: _TURNED[found[0]], gap, count=1)
            self._edits.append((start, stop, new))
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        """In which a condition that is turned may never end the loop."""
        self._loops += 1
        self.generic_visit(node)
        self._loops -= 1


def _folded(node: ast.AST) -> Any:
    """The value of numbers alone; None where there is anything else."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) in (int, float) else None
    if isinstance(node, ast.UnaryOp):
        parts = [_folded(node.operand)]
    elif isinstance(node, ast.BinOp):
        parts = [_folded(node.left), _folded(node.right)]
    else:
        return None
    function = _FOLDED.get(type(node.op))
    if None in parts or function is None:
        return None
    if type(node.op) in (ast.Pow, ast.LShift) and abs(parts[1]) > _LONGEST:
        return None
    try:
        value = function(*parts)
    except (ArithmeticError, TypeError, ValueError):
        return None
    return value if type(value) in (int, float) else None

"""A CasADi `Function` of (x, u): its instructions, one by one."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tether.data import Array
from tether.trusted.forms.form import Form, UntranslatedError, as_it_is, needed, refuse
from tether.trusted.forms.writing import Writer, columns_function, number_text
from tether.trusted.model import Translation, TrustedModel

_TEXTS = {
    "ASSIGN": "{0}", "ADD": "{0} + {1}", "SUB": "{0} - {1}", "MUL": "{0} * {1}", "DIV": "{0} / {1}",
    "NEG": "-{0}", "EXP": "np.exp({0})", "LOG": "np.log({0})", "POW": "{0} ** {1}",
    "CONSTPOW": "{0} ** {1}", "SQRT": "np.sqrt({0})", "SQ": "{0} ** 2", "TWICE": "2.0 * {0}",
    "SIN": "np.sin({0})", "COS": "np.cos({0})", "TAN": "np.tan({0})", "ASIN": "np.arcsin({0})",
    "ACOS": "np.arccos({0})", "ATAN": "np.arctan({0})", "SINH": "np.sinh({0})", "COSH": "np.cosh({0})",
    "TANH": "np.tanh({0})", "ASINH": "np.arcsinh({0})", "ACOSH": "np.arccosh({0})",
    "ATANH": "np.arctanh({0})", "ATAN2": "np.arctan2({0}, {1})", "FLOOR": "np.floor({0})",
    "CEIL": "np.ceil({0})", "FABS": "np.abs({0})", "SIGN": "np.sign({0})", "FMIN": "np.minimum({0}, {1})",
    "FMAX": "np.maximum({0}, {1})", "INV": "1.0 / {0}", "LOG1P": "np.log1p({0})",
    "EXPM1": "np.expm1({0})", "HYPOT": "np.hypot({0}, {1})",
}  # fmt: skip
_CONDITIONS = {
    "LT": "{0} < {1}", "LE": "{0} <= {1}", "EQ": "{0} == {1}", "NE": "{0} != {1}",
    "NOT": "np.logical_not({0})", "AND": "np.logical_and({0}, {1})", "OR": "np.logical_or({0}, {1})",
}  # fmt: skip
_LOGIC = ("NOT", "AND", "OR")


def _holds(value: Any) -> bool:
    return isinstance(value, sys.modules["casadi"].Function)


def _read(given: Any, *, states: int | None = None, controls: int | None = None) -> TrustedModel:
    """In SX, where each instruction is of numbers."""
    casadi = needed("casadi")
    if given.n_in() not in (1, 2) or given.n_out() != 1:
        raise ValueError(
            f"`trusted` must be a CasADi function of (x, u) with one output; got {given.n_in()} inputs and "
            f"{given.n_out()} outputs. Fix parameters first."
        )
    sizes = [given.numel_in(k) for k in range(given.n_in())]
    if states is not None and controls is not None and states + controls != sum(sizes):
        raise ValueError(f"`trusted` must have {states + controls} inputs; got {sum(sizes)}.")
    original = _original(given, sizes)
    try:
        function = _translated(casadi, given, sizes)
    except UntranslatedError as error:
        return as_it_is(error, original, given.name())
    return TrustedModel(function, translation=Translation("CasADi", original))


def _translated(casadi: Any, given: Any, sizes: list[int]) -> Any:
    symbols = [casadi.SX.sym(f"i{k}", *given.size_in(k)) for k in range(given.n_in())]
    try:
        result = casadi.densify(casadi.vec(given(*symbols)))
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1].rpartition(": ")[2]
        raise refuse("CasADi function", f"what cannot be written out ({reason})") from None
    flat = casadi.Function("flat", symbols, [result])
    reading = _Reading(casadi, flat, np.concatenate([[0], np.cumsum(sizes)]).tolist())
    texts = reading.run()
    return columns_function(reading.writer, texts, inputs=sum(sizes), form="CasADi", name=given.name())


def _original(given: Any, sizes: list[int]) -> Any:
    shapes = [given.size_in(k) for k in range(given.n_in())]

    def original(states: Array, controls: Array) -> Array:
        rows, start, parts = np.concatenate([states, controls], axis=1), 0, []
        for size, shape in zip(sizes, shapes, strict=True):
            # CasADi lays matrices side by side for a batch, columns first.
            part = rows[:, start : start + size]
            parts.append(np.concatenate([row.reshape(shape, order="F") for row in part], axis=1))
            start += size
        many = given.map(len(rows))
        found = np.array(many(*parts).full() if len(parts) > 1 else many(parts[0]).full())
        width = found.shape[1] // len(rows)
        return np.stack([found[:, k * width : (k + 1) * width].ravel(order="F") for k in range(len(rows))])

    return original


class _Reading:
    """The instructions of an SX function; registers are written over, names are not."""

    def __init__(self, casadi: Any, function: Any, starts: list[int]) -> None:
        self.casadi, self.function, self.starts, self.writer = casadi, function, starts, Writer()
        names = (*_TEXTS, *_CONDITIONS, "CONST", "INPUT", "OUTPUT", "IF_ELSE_ZERO", "FMOD")
        self.names = {getattr(casadi, f"OP_{name}"): name for name in names}
        self.conditions: dict[str, str] = {}
        """Numbers that are 1 where a condition holds and 0 elsewhere, and that condition."""
        self.chosen: dict[str, tuple[str, str]] = {}
        """What is a value where a condition holds and 0 elsewhere: that condition, and the value."""

    def run(self) -> list[str]:
        """The names of all outputs."""
        function, work = self.function, {}
        outputs = ["0.0"] * function.numel_out(0)
        for k in range(function.n_instructions()):
            name = self.names.get(function.instruction_id(k))
            if name is None:
                known = vars(self.casadi)
                ids = {known[text]: text for text in known if text.startswith("OP_")}
                found = ids.get(function.instruction_id(k), "of no name")
                called = " (an integrator, an interpolant, a solver)" if found == "OP_CALL" else ""
                raise refuse("CasADi function", f"the instruction {found}{called}")
            into, given = function.instruction_output(k), function.instruction_input(k)
            if name == "CONST":
                work[into[0]] = number_text(function.instruction_constant(k))
            elif name == "INPUT":
                work[into[0]] = self.writer.column(self.starts[given[0]] + given[1])
            elif name == "OUTPUT":
                outputs[into[1]] = work[given[0]]
            else:
                work[into[0]] = self._computed(name, [work[j] for j in given])
        return outputs

    def _computed(self, name: str, parts: list[str]) -> str:
        if name in _CONDITIONS:
            told = [self._condition(part) for part in parts] if name in _LOGIC else parts
            condition = self.writer.write(_CONDITIONS[name].format(*told))
            number = self.writer.write(f"np.where({condition}, 1.0, 0.0)")
            self.conditions[number] = condition
            return number
        if name == "IF_ELSE_ZERO":
            condition = self._condition(parts[0])
            found = self.writer.write(f"np.where({condition}, {parts[1]}, 0.0)")
            self.chosen[found] = condition, parts[1]
            return found
        if name == "ADD" and parts[0] in self.chosen and parts[1] in self.chosen:
            (one, first), (two, second) = self.chosen[parts[0]], self.chosen[parts[1]]
            # if_else: the hull of the two, where it is not decided, in place of the sum of both.
            if two == self.writer.write(f"np.logical_not({one})"):
                return self.writer.write(f"np.where({one}, {first}, {second})")
        if name == "FMOD":  # of the sign of what is divided, as C has it
            return self.writer.write(f"np.sign({parts[0]}) * (np.abs({parts[0]}) % np.abs({parts[1]}))")
        if name == "CONSTPOW" and _is_whole(parts[1]):
            return self.writer.write(f"{parts[0]} ** {int(float(parts[1].strip('()')))}")
        text = _TEXTS[name].format(*parts)
        return text if name == "ASSIGN" else self.writer.write(text)

    def _condition(self, part: str) -> str:
        return self.conditions.get(part) or self.writer.write(f"{part} != 0.0")


def _is_whole(text: str) -> bool:
    return not text.startswith("v") and float(text.strip("()")).is_integer()


FORM = Form("casadi", _holds, _read)

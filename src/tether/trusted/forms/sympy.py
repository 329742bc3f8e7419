"""A SymPy model: a pair of matrices, inputs (states, then controls) and outputs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tether.data import Array
from tether.foundation.documents import shorten
from tether.trusted.forms.form import Form, UntranslatedError, as_it_is, needed, refuse
from tether.trusted.forms.writing import Writer, columns_function, number_text
from tether.trusted.model import Translation, TrustedModel

_FUNCTIONS = {
    "sin": "np.sin", "cos": "np.cos", "tan": "np.tan", "asin": "np.arcsin", "acos": "np.arccos",
    "atan": "np.arctan", "sinh": "np.sinh", "cosh": "np.cosh", "tanh": "np.tanh", "asinh": "np.arcsinh",
    "acosh": "np.arccosh", "atanh": "np.arctanh", "exp": "np.exp", "log": "np.log", "Abs": "np.abs",
    "sign": "np.sign", "floor": "np.floor", "ceiling": "np.ceil", "atan2": "np.arctan2",
    "Not": "np.logical_not", "Mod": "np.mod",
}  # fmt: skip
_FOLDED = {"Min": "np.minimum", "Max": "np.maximum", "And": "np.logical_and", "Or": "np.logical_or"}
_COMPARISONS = {
    "StrictLessThan": "<", "LessThan": "<=", "StrictGreaterThan": ">", "GreaterThan": ">=",
    "Equality": "==", "Unequality": "!=",
}  # fmt: skip


def _holds(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(map(_is_vector, value))


def _is_vector(part: Any) -> bool:
    sympy = sys.modules["sympy"]
    if isinstance(part, tuple | list):
        return any(isinstance(entry, sympy.Basic) for entry in part)
    return isinstance(part, sympy.MatrixBase)


def _read(pair: Any, *, states: int | None = None, controls: int | None = None) -> TrustedModel:
    """Expression by expression; equal ones once."""
    sympy = needed("sympy")
    inputs, outputs = (list(matrix) for matrix in pair)
    # Of mechanics symbols are functions of time, and their derivatives.
    undefined = sympy.core.function.AppliedUndef
    kinds = (sympy.Symbol, undefined, sympy.Derivative)
    if other := [entry for entry in inputs if not isinstance(entry, kinds)]:
        raise ValueError(
            f"`trusted` must be a pair (inputs, outputs), the first of symbols; got {shorten(other[0])}. "
            "Inputs come first."
        )
    if len(set(inputs)) < len(inputs):
        raise ValueError("`trusted` must name each input once; got one twice.")
    renamed = {entry: entry if entry.is_Symbol else sympy.Dummy(f"i{k}") for k, entry in enumerate(inputs)}
    # Derivatives first: of a symbol that has taken a function's place they would be 0.
    outputs = [
        sympy.sympify(out).xreplace({k: v for k, v in renamed.items() if k.is_Derivative}) for out in outputs
    ]
    strange = {rate for out in outputs for rate in out.atoms(sympy.Derivative) if rate.has(undefined)}
    outputs = [out.xreplace(renamed) for out in outputs]
    inputs = list(renamed.values())
    strange |= set().union(*(out.free_symbols | out.atoms(undefined) for out in outputs)) - set(inputs)
    if strange:
        names = ", ".join(sorted(map(str, strange)))
        raise ValueError(
            f"`trusted` must name all its symbols among the inputs; got {names}. Use .subs first."
        )
    if states is not None and controls is not None and states + controls != len(inputs):
        raise ValueError(f"`trusted` must have {states + controls} inputs; got {len(inputs)}.")
    try:
        writer = Writer()
        known = {symbol: writer.column(k) for k, symbol in enumerate(inputs)}
        texts = [_text(out, known, writer) for out in outputs]
        function = columns_function(writer, texts, inputs=len(inputs), form="SymPy", name="sympy_model")
    except UntranslatedError as error:
        outputs = [out.doit() for out in outputs]
        if any(out.has(sympy.I, sympy.zoo, sympy.nan, sympy.oo, -sympy.oo) for out in outputs):
            raise ValueError(f"`trusted` must be of real, finite numbers: {error}.") from None
        return as_it_is(error, _original(sympy, inputs, outputs, None), "sympy_model")
    called = tuple(str(entry) for entry in renamed)
    original = _original(sympy, inputs, outputs, "math")
    return TrustedModel(function, translation=Translation("SymPy", original, inputs=called))


def _original(
    sympy: Any, inputs: Sequence[Any], outputs: Sequence[Any], modules: str | None
) -> Callable[[Array, Array], Array]:
    """By SymPy's own printer, for Python's `math` or for what has most functions, row by row."""
    plain = sympy.lambdify(list(inputs), list(outputs), modules=modules)

    def original(states: Array, controls: Array) -> Array:
        rows = np.concatenate([states, controls], axis=1)
        answers = np.full((len(rows), len(outputs)), np.nan)
        for k, row in enumerate(rows):
            try:
                answers[k] = plain(*row)
            except (ValueError, ZeroDivisionError, OverflowError, TypeError):
                continue  # not defined there
        return answers

    return original


def _text(expression: Any, known: dict[Any, str], writer: Writer) -> str:
    """The name, or the number, that an expression has in the source."""
    waiting = [expression]
    while waiting:  # deep expressions would exhaust Python's stack
        one = waiting[-1]
        missing = [part for part in _parts(one) if part not in known]
        if one in known:
            waiting.pop()
        elif missing:
            waiting += missing
        else:
            waiting.pop()
            known[one] = _written(one, known, writer)
    return known[expression]


def _parts(expression: Any) -> Sequence[Any]:
    if expression.is_Number or expression.is_NumberSymbol:
        return ()
    if type(expression).__name__ == "Piecewise":
        return [part for pair in expression.args for part in pair.args]
    return expression.args


def _written(expression: Any, known: dict[Any, str], writer: Writer) -> str:
    if expression.is_Number or expression.is_NumberSymbol:
        return number_text(expression)
    if expression.is_Mul:
        return _product(expression, known, writer)
    parts = [known[part] for part in _parts(expression)]
    if expression.is_Add:
        return _folded("+", parts, writer)
    if expression.is_Pow:
        return _power(parts[0], expression.args[1], parts[1], writer)
    return _called(type(expression).__name__, parts, writer)


def _called(kind: str, parts: Sequence[str], writer: Writer) -> str:
    """Functions, comparisons and choices, by the name of their class."""
    if kind in ("BooleanTrue", "BooleanFalse"):
        return kind.removeprefix("Boolean")
    if kind in _COMPARISONS:
        return writer.write(f"{parts[0]} {_COMPARISONS[kind]} {parts[1]}")
    if kind in _FOLDED:
        found = parts[0]
        for part in parts[1:]:
            found = writer.write(f"{_FOLDED[kind]}({found}, {part})")
        return found
    if kind == "Piecewise":
        return _choice(parts, writer)
    if kind in _FUNCTIONS:
        return writer.write(f"{_FUNCTIONS[kind]}({', '.join(parts)})")
    raise refuse("SymPy model", f"`{kind}`")


def _folded(sign: str, parts: Sequence[str], writer: Writer) -> str:
    found = parts[0]
    for part in parts[1:]:
        found = writer.write(f"{found} {sign} {part}")
    return found


def _product(expression: Any, known: dict[Any, str], writer: Writer) -> str:
    """Factors with a power below 0 are divided by: one operation, and one rounding, less."""
    above, below = [], []
    for factor in expression.args:
        if factor.is_Pow and factor.args[1].is_Number and factor.args[1].is_negative:
            base, exponent = factor.args
            below.append(_power(known[base], -exponent, number_text(-exponent), writer))
        else:
            above.append(known[factor])
    if above[:1] == ["(-1.0)"] and len(above) > 1:
        above = [writer.write(f"-{above[1]}"), *above[2:]]
    top = _folded("*", above, writer) if above else "1.0"
    return writer.write(f"{top} / {_folded('*', below, writer)}") if below else top


def _power(base: str, exponent: Any, text: str, writer: Writer) -> str:
    if exponent.is_Number and exponent.is_negative:
        return writer.write(f"1.0 / {_power(base, -exponent, number_text(-exponent), writer)}")
    if exponent.is_Integer:
        return base if exponent == 1 else writer.write(f"{base} ** {int(exponent)}")
    if exponent.is_Rational and (exponent.p, exponent.q) == (1, 2):
        return writer.write(f"np.sqrt({base})")
    return writer.write(f"{base} ** {text}")


def _choice(parts: Sequence[str], writer: Writer) -> str:
    """Pieces in order; the last must be for all that is left."""
    if parts[-1] != "True":
        raise refuse("SymPy model", "a Piecewise without a last piece for all else")
    found = parts[-2]
    for value, condition in reversed(list(zip(parts[:-2:2], parts[1:-2:2], strict=True))):
        found = writer.write(f"np.where({condition}, {value}, {found})")
    return found


FORM = Form("sympy", _holds, _read)

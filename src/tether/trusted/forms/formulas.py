"""NumPy's words for what graphs of networks are made of, by the names that they share."""

from __future__ import annotations

_SAME = (
    "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "expm1", "log", "log1p", "log2", "log10", "sqrt",
    "abs", "sign", "floor", "ceil", "square", "reciprocal", "arcsin", "arccos", "arctan", "arcsinh",
    "arccosh", "arctanh", "arctan2", "hypot", "minimum", "maximum", "logaddexp", "where",
)  # fmt: skip
_SPELLED = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh", "absolute": "abs",
}  # fmt: skip
_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "truediv": "/", "pow": "**", "matmul": "@", "lt": "<",
    "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
_ALGEBRA = {
    "neg": "-{0}",
    "relu": "np.maximum({0}, 0.0)",
    "relu6": "np.minimum(np.maximum({0}, 0.0), 6.0)",
    # As tanh, which does not overflow.
    "sigmoid": "0.5 + 0.5 * np.tanh(0.5 * {0})",
    "silu": "{0} * (0.5 + 0.5 * np.tanh(0.5 * {0}))",
    "softplus": "np.logaddexp({0}, 0.0)",
    "softsign": "{0} / (1.0 + np.abs({0}))",
    "erf": "",
    "rsqrt": "1.0 / np.sqrt({0})",
    "leaky_relu": "np.maximum({0}, 0.0) + {1} * np.minimum({0}, 0.0)",
    "elu": "np.maximum({0}, 0.0) + {1} * np.expm1(np.minimum({0}, 0.0))",
    "clamp": "np.minimum(np.maximum({0}, {1}), {2})",
}
FORMULAS = {
    **{name: f"np.{name}({{0}})" for name in _SAME},
    **{name: f"np.{name}({{0}}, {{1}})" for name in ("arctan2", "hypot", "minimum", "maximum", "logaddexp")},
    "where": "np.where({0}, {1}, {2})",
    **{name: f"{{0}} {sign} {{1}}" for name, sign in _OPERATORS.items()},
    **{name: text for name, text in _ALGEBRA.items() if text},
}
FORMULAS.update({other: FORMULAS[name] for other, name in _SPELLED.items()})
"""Text with a place for each operand, by lower-case name."""

"""Statements of structure, as templates that `structure_programs` fills in and tries on NumPy.

A template that does not fit (NumPy raises, or rows would mix) is dropped, so they may be sloppy. Names in braces:

    n m k     new names                     x xx   a float array, and another of the same shape
    w wx      a writable float array, one of x's shape
    y         an operand that broadcasts to x (to w where there is no x): a variable or a number
    e         an elementwise expression of such operands
    ax        an axis of x (or w) that is not the rows'; any, a position of any axis; new, one of x.ndim + 1
    sl ix fx  slice, integer, fancy index (in brackets) along such an axis, the rows' whole
    cond      a decided condition of x's shape; b a boolean variable, yb wb operands of its shape
    v vv      scalar variables (row programs), c a number, i a small integer
"""

from structure_moves import COPIES, SPLITS, UPDATES, VIEWS
from structure_values import CONDITIONS, CREATION, INTROSPECTION, REDUCTIONS, ROW_ONLY

__all__ = [
    "CONDITIONS",
    "COPIES",
    "CREATION",
    "HELPERS",
    "INTROSPECTION",
    "REDUCTIONS",
    "ROW_ONLY",
    "SPLITS",
    "UPDATES",
    "VIEWS",
]

HELPERS = {
    "GAIN": "GAIN = np.array([0.5, -1.0, 0.25])",
    "bump": "def bump(a, by):\n    a += by",
    "bumped": "def bumped(a, by):\n    a += by\n    return a",
    "first_doubled": "def first_doubled(a):\n    b = a[..., :1]\n    b *= 2.0\n    return b",
    "shifted": "def shifted(a, by):\n    a = a + by\n    return a",
    "swapped": "def swapped(a, b):\n    return b, a",
    "Held": (
        "class Held:\n    def __init__(self, value):\n        self.value = value\n\n"
        "    def halve(self):\n        self.value *= 0.5"
    ),
    "integrated": (
        "def integrated(q, dt):\n    def rate(z):\n        out = np.zeros_like(z)\n"
        "        out[..., 0] = z[..., -1]\n        out[..., -1] = -np.sin(z[..., 0])\n        return out\n\n"
        "    k1 = rate(q)\n    k2 = rate(q + 0.5 * dt * k1)\n    return q + dt * k2"
    ),
    "clamped": (
        "def clamped(a, limit, out=None):\n    limit = abs(limit)\n"
        "    return np.minimum(np.maximum(a, -limit), limit, out=out)"
    ),
}  # fmt: skip

"""M as a straight-line program, and what can be proved from it.

A model written in ordinary NumPy, ``M(states (K, dx), controls (K, du)) -> (K, P)``, is run once on symbols
for its inputs. NumPy itself does all structure: views, copies, assignment, splitting, stacking and iteration
are its own, on arrays of objects. What comes out is a list of operations, which an interpreter evaluates over
boxes in outward-rounded interval arithmetic:

    >>> import numpy as np
    >>> def unicycle(states, controls):
    ...     x, y, heading = states.T
    ...     speed, yaw_rate = controls.T
    ...     rate = np.stack([speed * np.cos(heading), speed * np.sin(heading), yaw_rate], axis=1)
    ...     return states + 0.1 * rate
    >>> box = enclose(unicycle, [[0, 0, -0.1, 1, 0]], [[0, 0, 0.1, 2, 0]], states=3)
    >>> box.lower.round(4), box.upper.round(4)
    (array([[ 0.0995, -0.02  , -0.1   ]]), array([[0.2 , 0.02, 0.1 ]]))

What is promised, for every box: `lower` and `upper` contain M's exact real value, and the float64 value
that NumPy computes, at every point (as long as NumPy's own evaluation does not overflow or underflow
on its way, and its functions err by at most 4 units in the last place); the Jacobian bounds contain
every partial derivative, and where M has a kink the hull of its generalized (Clarke) derivative, so that
the mean-value theorem holds; `rounding` bounds how far the float64 value is from the real one. Numbers in the
model's source are the float64 numbers they are. The program is checked against M at thousands of points of
the boxes before anything is proved from it.

What M may use: all of NumPy that moves entries (indexing, assignment, zeros, empty, full, array, c_, stack,
block, reshape, split, roll, take, ...); ``+ - * / ** % //``, abs, sqrt, cbrt, exp, expm1, exp2, log, log1p,
log2, log10, sin, cos, tan, arcsin, arccos, arctan, arctan2, sinh, cosh, tanh, arcsinh, arccosh, arctanh,
square, reciprocal, hypot, logaddexp, minimum, maximum, clip, min, max, float_power, deg2rad, rad2deg, sum,
mean, prod, cumsum, cumprod, diff, ``@``, dot, inner, outer, tensordot, einsum, cross, polyval, linalg.norm;
interp, searchsorted and digitize in tables of constants, piecewise, linalg.solve, inv and det of up to 8 rows
(what LAPACK rounds is bounded by the backward error of LU with partial pivoting); the functions of
:mod:`math` on scalars; comparisons, where, select, ``if``, sign, heaviside, floor, ceil, round, mod, fmod and
arctan2 at its cut, which have a range over every box, and slopes where they do not jump. All else raises
`EnclosureError`, naming the line.
"""

from tether.programs.boxes import Enclosure, Range, enclose, enclose_range, evaluate, program_of
from tether.programs.program import Program
from tether.programs.refusal import EnclosureError
from tether.programs.tracing import trace

__all__ = [
    "Enclosure",
    "EnclosureError",
    "Program",
    "Range",
    "enclose",
    "enclose_range",
    "evaluate",
    "program_of",
    "trace",
]

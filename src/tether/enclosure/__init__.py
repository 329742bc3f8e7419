"""Outward-rounded interval and derivative arithmetic on NumPy arrays.

A model written in ordinary NumPy, ``M(states (K, dx), controls (K, du)) -> (K, P)``, is called once on
an array type that stands for K boxes, and returns bounds of its values and derivatives over each box:

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
the mean-value theorem holds. Numbers in the model's source are the float64 numbers they are.

What M may use: ``+ - * / ** % //``, abs, sqrt, exp, expm1, log, log1p, sin, cos, tan, arcsin, arccos,
arctan, arctan2, sinh, cosh, tanh, square, reciprocal, hypot, minimum, maximum, clip, min, max,
float_power, deg2rad, rad2deg, sum, mean, prod, ``@``, dot, cross, linalg.norm; stack, concatenate,
column_stack, hstack, vstack, reshape, transpose, ravel, squeeze, expand_dims, broadcast_to, take, roll,
repeat, tile, split, indexing; assignment into zeros_like, empty_like, ones_like, full_like; comparisons,
where, sign, floor, ceil and mod where they are decided over each box. All else raises `EnclosureError`.
"""

from tether.enclosure import functions as _functions  # noqa: F401 (fills the tables)
from tether.enclosure.boxes import Enclosure, Range, enclose, enclose_range
from tether.enclosure.decision import Decision
from tether.enclosure.interval import Interval
from tether.enclosure.refusal import EnclosureError

__all__ = ["Decision", "Enclosure", "EnclosureError", "Interval", "Range", "enclose", "enclose_range"]

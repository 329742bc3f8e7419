"""Models whose value differs under a bump a millionth wide alone: each tracer refuses one, or holds its value there."""

from __future__ import annotations

import sys

import numpy as np

from tether.programs import EnclosureError, enclose, trace
from tether.verification import interpreter
from tether.verification import tracing as verification
from tether.verification.graph import UnboundedError

LOWER, UPPER = np.array([[0.1, 0.1]]), np.array([[0.9, 0.9]])


def value_of(model):
    """The point of the feature and M's value there: the greatest near the middle of the bump."""
    points = np.stack([0.3 + np.arange(-100, 101) * 1e-9, np.full(201, 0.4317)], axis=1)
    before = sys.getprofile()
    with np.errstate(all="ignore"):
        values = [np.array(model(p[None, :1], p[None, 1:]), dtype=float)[0, 0] for p in points]
    sys.setprofile(before)
    best = int(np.argmax(np.abs(values)))
    return points[best : best + 1], values[best]


def refused_or_held_by_programs(model) -> bool:
    """Over the whole box, and at the point alone."""
    point, value = value_of(model)
    try:
        program = trace(model, states=1, controls=1)
        for box in ((LOWER, UPPER), (point, point)):
            found = enclose(program, *box, states=1)
            room = found.rounding[0, 0]
            if not found.lower[0, 0] - room <= value <= found.upper[0, 0] + room:
                return False
    except EnclosureError:
        pass
    return True


def refused_or_held_by_verification(model) -> bool:
    """The same; where nothing is known nothing is claimed."""
    point, value = value_of(model)
    try:
        program = verification.trace(model, 1, 1, 1)
    except UnboundedError:
        return True
    found = [interpreter.enclose(program, *box, slopes=True) for box in ((LOWER, UPPER), (point, point))]
    ends = [(each.lower[0, 0], each.upper[0, 0], each.error[0, 0]) for each in found]
    return all(np.isnan(end).any() or end[0] - end[2] <= value <= end[1] + end[2] for end in ends)

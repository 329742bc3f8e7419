"""Lengths whose squares are below the least float64, and tuples with names."""

from __future__ import annotations

import collections

import numpy as np
import pytest

from tether.programs import EnclosureError, enclose, trace
from tether.verification import interpreter
from tether.verification import tracing as verification


@pytest.mark.parametrize("scale", [1e-150, 1e-158, 1e-160, 1e-161, 1e-162, 1e-170])
@pytest.mark.parametrize("parts", [[0, 1], [0]])
def test_lengths_of_numbers_whose_squares_vanish_are_inside(scale, parts):
    def model(s, u):
        return (np.linalg.norm(scale * s[:, parts], axis=1) / scale)[:, None]

    point = np.array([[0.3, 0.2]])
    value, exact = model(point, point[:, :0])[0, 0], np.sqrt(np.sum(point[0, parts] ** 2))
    found = enclose(trace(model, states=2, controls=0), point, point, states=2)
    again = interpreter.enclose(verification.trace(model, 2, 0, 1), point, point, slopes=True)
    assert abs(value - exact) <= found.rounding[0, 0] + 1e-12
    assert abs(value - exact) <= again.error[0, 0] + 1e-12
    if scale > 1e-155:
        assert found.rounding[0, 0] < 1e-13 and again.error[0, 0] < 1e-13


Pair = collections.namedtuple("Pair", "x y")


def named(s, u):
    return np.stack(Pair(s[:, 0] + u[:, 0], s[:, 0]), axis=1)


def named_rows(s, u):
    return np.array([np.array(Pair(r[0] + q[0], 2.0 * r[0])) for r, q in zip(s, u, strict=True)])


@pytest.mark.parametrize("model", [named, named_rows])
def test_named_tuples_are_tuples(model):
    points = np.array([[0.3, 0.4]])
    values = model(points[:, :1], points[:, 1:])
    found = enclose(model, points, points, states=1)
    assert (found.lower - found.rounding <= values).all() and (values <= found.upper + found.rounding).all()
    again = interpreter.enclose(verification.trace(model, 1, 1, 2), points, points, slopes=True)
    assert (values >= again.lower.T - again.error.T).all() and (values <= again.upper.T + again.error.T).all()


def test_a_choice_of_entries_that_is_not_known_is_refused():
    def model(s, u):
        return s + np.ones(3).sum(where=np.array([s[0, 0] > 0.5, True, True]))

    with pytest.raises(EnclosureError):
        trace(model, states=1, controls=1)
    with pytest.raises(verification.UnboundedError):
        verification.trace(model, 1, 1, 1)

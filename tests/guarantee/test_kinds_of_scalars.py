"""A scalar is of the kind that NumPy gives it, a factor is never dropped, and guards hide no coupling of rows."""

from __future__ import annotations

import numpy as np
import pytest

from tether.programs import EnclosureError, enclose


def bump(x):
    """A millionth wide: no sample finds it."""
    return np.maximum(0, 1 - 1e6 * np.abs(x - 0.3))


def by_row(row):
    """M that makes of each row (x, y) what `row` does."""
    return lambda s, u: np.array([row(r) for r in s])


def dot_with_a_list(s, u):
    parts = np.stack([s[:, 0], 1e-12 * bump(s[:, 0])], axis=1)
    return np.stack([np.dot(parts, [1.0, 1e12]), s[:, 1]], axis=1)


def changed_in_place(r):
    value = np.where(r[0] > -5, r[0], 0.0)
    before = value
    value += bump(r[0])
    return [before * 1.0]


def changed_by_name(r):
    value = np.where(r[0] > -5, r[0], 0.0)
    value = value + bump(r[0])
    return [value]


MODELS = {
    "dot with a list": dot_with_a_list,
    "dot of a row with a list": by_row(lambda r: [np.dot(r, [1.5, 2.5])]),
    "dot with a number": lambda s, u: np.dot(1e3, s),
    "outer": by_row(lambda r: np.outer(r[:1], [2.0, 3.0])[0]),
    "einsum": by_row(lambda r: [np.einsum("i,i->", r, [1.0, 2.0])]),
    "tensordot": by_row(lambda r: [np.tensordot(r, [1.0, 2.0], 1) * 1.0]),
    "decided or": by_row(lambda r: [r[0] + (0.0 if ~(True | (r[0] > 0.5)) else bump(r[0]))]),
    "decided logical_or": by_row(
        lambda r: [r[0] + (np.logical_or(True, r[0] > 0.5) + np.logical_or(True, r[1] > 0.5)) * 1.0]
    ),
    "rounded where": by_row(lambda r: [r[0] + round(np.where(True, 0.615, r[0]) * 1.0, 2)]),
    "rounded take": by_row(lambda r: [r[0] + round(np.array([0.615, r[0]]).take(0), 2)]),
    "rounded sum": by_row(lambda r: [r[0] + round(np.sum(np.array([0.615, 0.0 * r[0]])), 2)]),
    "in place": by_row(changed_in_place),
    "by name": by_row(changed_by_name),
    "two choices": by_row(lambda r: [np.where(r[0] > -5, r[0], 0.0), np.where(r[1] > -9, r[1] * r[0], 1.0)]),
}
ACCEPTED = {
    "dot with a list", "dot of a row with a list", "dot with a number", "outer", "einsum", "by name", "two choices"
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_models_are_followed_rightly_or_refused(name):
    points = np.array([[0.3, 0.4, 0.5], [0.31, 0.2, 0.1], [0.3, -0.2, 0.0], [-0.7, 0.9, 0.3]])
    values = np.concatenate([MODELS[name](row[None, :2], row[None, 2:]) for row in points])
    try:
        found = enclose(MODELS[name], points, points, states=2)
    except EnclosureError:
        assert name not in ACCEPTED
        return
    assert (found.lower <= values).all() and (values <= found.upper).all()


def test_a_guard_that_never_holds_hides_no_coupling_of_rows():
    def guarded(s, u):
        x = s[:, 0]
        broken = np.abs(x) > 100
        if np.any(broken):
            return np.array([0.0 if b else a + bump(a) for a, b in zip(x, broken, strict=True)])[:, None]
        return (x + np.max(bump(x)))[:, None]

    with pytest.raises(EnclosureError, match="rows independently"):
        enclose(guarded, np.full((1, 3), -1.0), np.full((1, 3), 1.0), states=2)

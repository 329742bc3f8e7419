"""M treats rows one by one, or nothing is proved of it: not by what rows a batch has, nor how many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tether.programs import EnclosureError, enclose
from tether.verification.tracing import trace


def bump(x):
    """A millionth wide: no sample finds it."""
    return np.maximum(0.0, 1.0 - 1e6 * np.abs(x - 0.3))


def plus(change):
    """The first column changed by what `change` makes of the bumps of all rows."""
    return lambda s, u: np.stack([s[:, 0] + change(bump(s[:, 0])), s[:, 1]], axis=1)


def near(s):
    return np.abs(s[:, 0] - 0.3) < 1e-7


def sorted_by_mask(s, u):
    return np.concatenate([s[near(s)], s[~near(s)]]) * 1.0


def filled_by_mask(s, u):
    x, count = s * 1.0, len(s[near(s)])
    x[:count], x[count:] = s[near(s)], s[~near(s)]
    return x


def placed(s, u):
    y = s[:, 0] * 1.0
    np.place(y, ~near(s), s[:, 0])
    return np.stack([y, s[:, 1]], axis=1)


def put_by_mask(s, u):
    y = s[:, 0] * 1.0
    np.putmask(y, near(s), y[:1] + 0.0)
    return np.stack([y, s[:, 1]], axis=1)


def by_both_conditions(s, u):
    """Nothing changes where all rows go one way."""
    first, second = s[:, 0] > 0.3, s[:, 0] < 0.30001
    odd = sum(1 for a, b in zip(first, second, strict=True) if a != b) % 2
    return s + 1e-3 * odd


def any_of_them(s, u):
    return np.abs(s) if (s[:, 0] < 0).any() else s * 1.0


def all_in_a_loop(s, u):
    return s * 1.0 if all(x < 0.5 for x in s[:, 0]) else s * 2.0


COUPLED = {
    "first row": plus(lambda b: b[0]),
    "difference": plus(lambda b: np.diff(b, prepend=b[:1])),
    "roll": plus(lambda b: np.roll(b, 2)),
    "squares": plus(lambda b: b[np.arange(len(b)) ** 2 % len(b)]),
    "halves": plus(lambda b: b.reshape(2, -1).ravel(order="F") if len(b) % 2 == 0 else b),
    "count": plus(lambda b: (len(b) - 1) * (len(b) - 2) * b),
    "mask": sorted_by_mask,
    "slices by mask": filled_by_mask,
    "place": placed,
    "putmask": put_by_mask,
    "odd": by_both_conditions,
    "any": any_of_them,
    "all": all_in_a_loop,
}


@pytest.mark.parametrize("name", COUPLED)
def test_rows_that_know_of_one_another_are_refused(name):
    with pytest.raises(
        (EnclosureError, ValueError), match="`function` must|cannot be|empty|`place`|`putmask`"
    ):
        enclose(COUPLED[name], np.full((4, 3), -1.0), np.full((4, 3), 1.0), states=2)


def guarded(s, u):
    if (s < -5).any():
        raise ValueError("too small")
    if not np.all(u < 9):
        raise ValueError("too large")
    return s + u


def one_by_one(s, u):
    rows = []
    for x, v in zip(s, u, strict=True):
        if x[0] > 0.25:
            rows.append([x[0] * 2, max(x[1], 0.0) + v[0]])
        elif x[1] > 3:
            rows.append([x[0] - 1, v[0]])
        else:
            rows.append([x[0], min(x[1], v[0])])
    return np.array(rows)


def masked(s, u):
    out = s * 2.0
    chosen = s[:, 0] > 0.25
    out[chosen] = np.sqrt(s[chosen])
    out[~chosen, 1] = 0.0
    return out


@pytest.mark.parametrize("model", [guarded, one_by_one, masked])
def test_rows_that_go_ways_of_their_own_are_followed(model):
    rng = np.random.default_rng(0)
    points = rng.uniform(0.0, 1.0, (300, 3))
    found = enclose(model, points, points, states=2)
    values = model(points[:, :2], points[:, 2:])
    assert (found.lower <= values).all() and (values <= found.upper).all()
    assert (found.upper - found.lower).max() < 1e-12


class _Latch:
    """Another function from its tenth call on."""

    calls = 0

    def __call__(self, states: Any, controls: Any) -> Any:
        self.calls += 1
        return states + 0.1 * controls * (1.0 if self.calls < 10 else 1.0000001)


def test_what_the_trace_changed_in_the_model_is_refused() -> None:
    with pytest.raises(EnclosureError, match="must"):
        enclose(_Latch(), [[0.0, 0.0]], [[1.0, 1.0]], states=1)


def test_imports_inside_the_model_are_followed_by_both_tracers() -> None:
    def inside(states: Any, controls: Any) -> Any:
        from math import pi

        import numpy as local

        out = local.zeros_like(states)
        out[:, 0] = states[:, 0] + local.sin(pi * controls[:, 0])
        return out

    enclosed = enclose(inside, [[0.0, 0.0]], [[1.0, 0.25]], states=1)
    assert enclosed.lower[0, 0] <= 0.0
    assert enclosed.upper[0, 0] >= 1 + np.sin(np.pi / 4)
    assert len(trace(inside, 1, 1, 1).outputs) == 1

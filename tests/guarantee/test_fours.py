"""Intervals four at a time: the numbers that one at a time gives, and where one is not finite, that it is said."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from tether.programs.fours import (
    FOUR,
    add_fours,
    mix_fours,
    multiply_fours,
    scale_fours,
    subtract_fours,
)
from tether.programs.rounding import add_down, add_up, multiply_lanes


@numba.njit(error_model="numpy")
def together(low, high, a, b, c, d):
    """All five on the first eight intervals, into what comes after them."""
    return (
        add_fours(low, high, (8, 0, 4)),
        subtract_fours(low, high, (12, 0, 4)),
        multiply_fours(low, high, (16, 0, a, b)),
        scale_fours(low, high, (20, 0, a)),
        mix_fours(low, high, (24, 0, 4, a, b, c, d)),
    )


@numba.njit(error_model="numpy")
def alone(low, high, a, b, c, d):
    """The same, one at a time."""
    first, second, one = np.empty((4, FOUR)), np.empty((4, FOUR)), np.empty(FOUR)
    multiply_lanes(low[:4], high[:4], a + 0 * one, b + 0 * one, first[0], first[1], FOUR)
    multiply_lanes(low[4:8], high[4:8], c + 0 * one, d + 0 * one, second[0], second[1], FOUR)
    multiply_lanes(low[:4], high[:4], a + 0 * one, a + 0 * one, first[2], first[3], FOUR)
    for j in range(FOUR):
        low[8 + j], high[8 + j] = add_down(low[j], low[4 + j]), add_up(high[j], high[4 + j])
        low[12 + j], high[12 + j] = add_down(low[j], -high[4 + j]), add_up(high[j], -low[4 + j])
        low[16 + j], high[16 + j] = first[0, j], first[1, j]
        low[20 + j], high[20 + j] = first[2, j], first[3, j]
        low[24 + j] = add_down(first[0, j], second[0, j])
        high[24 + j] = add_up(first[1, j], second[1, j])


def intervals(rng, count):
    """Ends of all sizes, with zeros and points among them, and ends next to one another."""
    ends = rng.normal(size=(2, count)) * 10.0 ** rng.choice([-310, -160, -8, 0, 0, 0, 3, 120], (2, count))
    ends[:, rng.random(count) < 0.1] = 0.0
    ends[1, rng.random(count) < 0.2] = 0.0
    low, high = np.sort(ends, axis=0)
    point = rng.random(count) < 0.2
    high[point] = low[point]
    return low, high


def test_they_are_the_same_numbers():
    rng = np.random.default_rng(0)
    for _ in range(5_000):
        (low, high), ((a, c), (b, d)) = intervals(rng, 28), intervals(rng, 2)
        one, other = (low.copy(), high.copy()), (low.copy(), high.copy())
        told = together(*one, a, b, c, d)
        alone(*other, a, b, c, d)
        assert np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])
        assert all(told)


@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("place", range(8))
def test_what_is_not_finite_is_said(wrong, place):
    rng = np.random.default_rng(0)
    low, high = rng.normal(size=28), rng.normal(size=28)
    (low if place % 3 else high)[place] = wrong
    added, subtracted, multiplied, scaled, mixed = together(low, high, 0.3, 0.7, -1.0, 2.0)
    assert not (added or subtracted)
    # Of a product a NaN may be lost: who asks has to know that there is none.
    assert np.isnan(wrong) or not mixed
    assert np.isnan(wrong) or place >= 4 or not (multiplied or scaled)


def test_what_overflows_is_said():
    low = np.full(28, 1e300)
    high = low.copy()
    added, subtracted, multiplied, scaled, mixed = together(low, high, 1e10, 2e10, 0.0, 0.0)
    assert added and subtracted
    assert not (multiplied or scaled or mixed)
    low[:8] = high[:8] = 1.7e308
    assert not together(low, high, 1.0, 1.0, 1.0, 1.0)[0]

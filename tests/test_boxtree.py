"""Trees of boxes: leaves cover the box without gaps, and every walk ends in the leaf that holds the row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.data import Schema
from tether.evidence import Proved, Question
from tether.evidence.expansions import expand_boxes
from tether.evidence.proved import bending_inputs
from tether.geometry.boxtree import BoxTree
from tether.programs import program_of
from tether.tethers.growth import Aim, grow
from tether.tethers.leaves import TreeLookup, walk
from tether.trusted import TrustedModel


def pendulum(states, controls):
    torque = np.clip(controls[:, 0], -2, 2)
    speed = np.clip(states[:, 1] + 0.05 * (15 * np.sin(states[:, 0]) + 3 * torque), -8, 8)
    return np.stack([0.05 * speed, speed - states[:, 1]], axis=1)


BOX = np.array([-np.pi, -8.5, -2.5]), np.array([np.pi, 8.5, 2.5])


def enclosed(function, lower, upper, states, outputs, pinned=None):
    """What expands boxes by proof."""
    names = tuple(f"x{k}" for k in range(len(lower)))
    schema = Schema(
        names[:states], names[states:], tuple(f"y{k}" for k in range(outputs)), advances=(-1,) * outputs
    )
    return Proved().expander(Question(TrustedModel(function), schema, "next_state", lower, upper, pinned))


def grown(most=600, tolerance=1e-3, rows=None):
    rows = np.empty((0, 3)) if rows is None else rows
    aim = Aim(np.array([0.05, 1.0]) * tolerance, rows, most)
    return grow(enclosed(pendulum, *BOX, 2, 2), aim)


def test_every_row_lies_in_the_leaf_it_finds_in_numpy_and_in_torch():
    found = grown()
    rng = np.random.default_rng(0)
    inputs = rng.uniform(*BOX, (5000, 3))
    cuts = found.tree.cut >= 0
    inputs[:500, 1] = rng.choice(found.tree.threshold[cuts & (found.tree.cut == 1)], 500)  # on faces
    leaf = found.tree.find(inputs)
    lower, upper = found.tree.boxes()
    assert ((lower[leaf] <= inputs[:, None]) & (inputs[:, None] <= upper[leaf])).all()
    assert (found.output[leaf] == [0, 1]).all()
    lookup = TreeLookup(found.tree)
    points = torch.from_numpy(inputs)
    np.testing.assert_array_equal(lookup(points).numpy(), leaf)
    nodes = (lookup.roots, lookup.cut, lookup.threshold, lookup.left, lookup.right)
    np.testing.assert_array_equal(walk(points, *nodes, lookup.depth).numpy(), leaf)


def test_leaves_cover_the_box_exactly_once():
    found = grown()
    lower, upper = found.tree.boxes()
    volume = np.prod(upper - lower, axis=1)
    for output in range(2):
        assert volume[found.output == output].sum() == pytest.approx(np.prod(BOX[1] - BOX[0]), rel=1e-12)


def test_remainders_hold_everywhere_in_the_box():
    found = grown()
    rng = np.random.default_rng(1)
    lower, upper = found.tree.boxes()
    picked = rng.integers(0, len(lower), 40_000)
    share = rng.random((40_000, 3))
    share[::3] = np.round(share[::3])  # corners
    inputs = lower[picked] + share * (upper - lower)[picked]
    leaf = found.tree.find(inputs)
    models = found.leaves.take(leaf.ravel())
    away = np.repeat(inputs, 2, axis=0) - models.middle
    expected = models.value + (models.slope * away).sum(axis=1)
    truth = pendulum(inputs[:, :2], inputs[:, 2:]).ravel()
    assert (np.abs(truth - expected) <= models.remainder).all()


def test_growth_stops_by_tolerance_or_budget():
    enough, limited = grown(most=100_000, tolerance=0.1), grown(most=50)
    assert enough.stopped == "tolerance"
    assert (enough.leaves.remainder <= 0.1 * np.array([0.05, 1.0])[enough.output]).all()
    assert limited.stopped == "budget"
    assert limited.tree.leaves == 50


def test_rows_draw_leaves():
    rng = np.random.default_rng(2)
    rows = np.array([0.5, 1.0, 0.0]) + 0.1 * rng.normal(size=(2000, 3))
    near, even = grown(rows=rows), grown()
    at_rows = [part.leaves.remainder[part.tree.find(rows)].mean(axis=0) for part in (near, even)]
    assert (at_rows[0] < 0.5 * at_rows[1]).all()


def test_near_rows_more_is_asked_than_elsewhere():
    expander = enclosed(pendulum, *BOX, 2, 2)
    rows = np.array([0.5, 1.0, 0.0]) + 0.1 * np.random.default_rng(2).normal(size=(500, 3))
    far = 0.1 * np.array([0.05, 1.0])
    found = grow(expander, Aim(far, rows, 100_000, near_rows=0.01 * far))
    even = grow(expander, Aim(far, rows, 100_000))
    assert found.stopped == "tolerance"
    assert (found.leaves.remainder[found.tree.find(rows)] <= 0.01 * far).all()
    assert (found.leaves.remainder <= far[found.output]).all()
    # Where no rows are, no leaves are spent on it.
    assert even.tree.leaves < found.tree.leaves < 2 * even.tree.leaves


def test_where_many_inputs_bend_a_cloud_shows_what_to_cut():
    """Like a two-link arm: with as many leaves, A is nearer to M at rows like those that were seen."""

    def arm(states, controls):
        near, far, turn, bend = states.T
        pull = controls[:, 0] + 0.35 * np.sin(far) * (2 * turn * bend + bend**2) - 8 * np.cos(near)
        lift = controls[:, 1] - 0.35 * np.sin(far) * turn**2 - 2.5 * np.cos(near + far)
        mixed = 0.4 + 0.35 * np.cos(far)
        rate = (0.4 * pull - mixed * lift) / (0.64 + 0.2 * np.sin(far))
        return rate[:, None]

    lower, upper = np.array([-3.0, -2, -8, -8, -25, -25]), np.array([3.0, 2, 8, 8, 25, 25])
    rng = np.random.default_rng(0)
    rows = np.clip(rng.normal(size=(2, 1000, 6)) * [0.6, 0.5, 1.5, 1.5, 6, 6], lower, upper)
    cloud = np.clip(rows[0] + 0.3 * rng.normal(size=rows[0].shape) * rows[0].std(axis=0), lower, upper)
    expander = enclosed(arm, lower, upper, 4, 1)
    error = []
    for around in (None, cloud):
        found = grow(expander, Aim(np.array([1e-6]), rows[0], 600, cloud=around))
        leaf = found.tree.find(rows[1])[:, 0]
        kept = found.leaves
        away = (kept.slope[leaf] * (rows[1] - kept.middle[leaf])).sum(axis=1)
        error.append(
            np.sqrt(((arm(rows[1][:, :4], rows[1][:, 4:])[:, 0] - kept.value[leaf] - away) ** 2).mean())
        )
    assert error[1] < 0.85 * error[0]


def test_linear_inputs_are_never_cut():
    def car(states, controls):
        x, y, heading, speed = states.T
        return np.stack([x + 0.1 * speed * np.cos(heading), y + 0.1 * speed * np.sin(heading)], axis=1)

    lower, upper = np.array([-100.0, -100, -np.pi, 0, -1]), np.array([100.0, 100, np.pi, 20, 1])
    program = program_of(car, lower[None], upper[None], 4)
    assert bending_inputs(program.only(0), lower, upper).tolist() == [False, False, True, True, False]
    aim = Aim(np.full(2, 0.01), np.empty((0, 5)), 5000)
    found = grow(enclosed(car, lower, upper, 4, 2), aim)
    assert set(found.tree.cut[found.tree.cut >= 0]) <= {2, 3}


def test_pinned_values_are_followed_exactly():
    pinned = np.array([np.nan, 0.0, np.nan])

    def rolling(states, controls):
        return np.stack([0.1 * states[:, 1] * np.cos(states[:, 0])], axis=1)

    lower, upper = np.array([-3.0, -1, -1]), np.array([3.0, 5, 1])
    aim = Aim(np.array([1e-3]), np.empty((0, 3)), 2000)
    found = grow(enclosed(rolling, lower, upper, 2, 1, pinned), aim)
    rng = np.random.default_rng(3)
    inputs = rng.uniform(lower, upper, (1000, 3))
    inputs[:, 1] = 0.0
    models = found.leaves.take(found.tree.find(inputs)[:, 0])
    assert (models.value + (models.slope * (inputs - models.middle)).sum(axis=1) == 0.0).all()


def test_an_infinite_slope_is_bounded_by_the_range():
    program = program_of(lambda s, u: np.sqrt(s), np.array([[0.0]]), np.array([[1.0]]), 1)
    leaves = expand_boxes(program, np.array([[0.0]]), np.array([[0.01]]))
    assert 0.05 <= leaves.remainder[0] <= 0.0501


def test_what_is_not_defined_is_not_bounded():
    program = program_of(lambda s, u: 1 / s, np.array([[0.1]]), np.array([[1.0]]), 1)
    leaves = expand_boxes(program, np.array([[-1.0], [0.5]]), np.array([[1.0], [0.6]]))
    assert np.isinf(leaves.remainder[0])
    assert np.isfinite(leaves.remainder[1])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_any_cuts_give_a_partition(seed):
    rng = np.random.default_rng(seed)
    cut, threshold, left, right, leaves = [-1], [0.0], [0], [-1], [0]
    boxes = {0: (np.zeros(2), np.ones(2))}
    for _ in range(20):
        node = leaves.pop(int(rng.integers(len(leaves))))
        along = int(rng.integers(2))
        low, high = boxes[node]
        place = rng.uniform(low[along], high[along])
        cut[node], threshold[node], left[node], right[node] = along, place, len(cut), len(cut) + 1
        below, above = high.copy(), low.copy()
        below[along] = above[along] = place
        for box in ((low, below), (above, high)):
            boxes[len(cut)] = box
            leaves.append(len(cut))
            cut.append(-1)
            threshold.append(0.0)
            left.append(-1)
            right.append(-1)
    for number, node in enumerate(leaves):
        left[node] = number
    arrays = [np.array(part) for part in (cut, threshold, left, right)]
    tree = BoxTree(np.zeros(2), np.ones(2), np.array([0]), *arrays)
    inputs = rng.random((500, 2))
    lower, upper = tree.boxes()
    leaf = tree.find(inputs)[:, 0]
    assert ((lower[leaf] <= inputs) & (inputs <= upper[leaf])).all()
    assert np.prod(upper - lower, axis=1).sum() == pytest.approx(1.0)

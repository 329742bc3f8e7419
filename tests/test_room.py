"""Room by what the data show: no row sets it, and what lies in it is what was claimed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tether.geometry.cells import Cells
from tether.tethers.room import Spread, calibrate_room, local_scale


def chain(count: int) -> Cells:
    memories = np.arange(count, dtype=np.float64)[:, None]
    edges = np.column_stack([np.arange(count - 1), np.arange(1, count)])
    return Cells(
        memories=memories,
        edges=edges,
        scale=np.ones(1),
        radii=np.ones(count),
        box_lower=np.array([-1.0]),
        box_upper=np.array([float(count)]),
    )


def observed(rng: np.random.Generator, episodes: int, rows: int, cells: int) -> Spread:
    """Noise that grows from cell to cell."""
    cell = rng.integers(0, cells, episodes * rows)
    episode = np.repeat(np.arange(episodes), rows)
    level = rng.uniform(0.5, 1.5, episodes)[episode]
    distance = np.abs(rng.normal(size=(len(cell), 2))) * (level * (1 + cell))[:, None] * [1.0, 1e-3]
    return Spread(cell, distance, episode, np.ones(len(cell), dtype=bool), np.ones(len(cell)))


def test_new_episodes_lie_in_the_band() -> None:
    rng = np.random.default_rng(1)
    cells = chain(8)
    half_width, band = calibrate_room(cells, observed(rng, 80, 100, 8), alpha=0.05)
    new = observed(rng, 200, 100, 8)
    inside = (new.distance <= half_width[new.cell]).mean(axis=0)
    assert (inside >= band.probability).all()
    assert band.probability == pytest.approx(0.95 * 80 / 81)
    assert (inside <= 0.99).all()  # and is not wide for nothing


def test_a_glitch_does_not_set_the_room() -> None:
    rng = np.random.default_rng(2)
    cells, seen = chain(8), observed(rng, 40, 100, 8)
    before, _ = calibrate_room(cells, seen, alpha=0.01)
    seen.distance[[7, 1234]] = 1e6
    after, band = calibrate_room(cells, seen, alpha=0.01)
    np.testing.assert_allclose(after, before, rtol=0.25)
    assert set(band.rows) == {7, 1234}


def test_glitches_that_are_known_set_no_room_and_are_counted() -> None:
    """More of them than what is left to the next episodes, and so many that alpha itself is theirs."""
    rng = np.random.default_rng(2)
    cells, seen = chain(8), observed(rng, 40, 100, 8)
    before, _ = calibrate_room(cells, seen, alpha=0.01)
    for share, inside in ((0.008, 0.99), (0.03, 0.97)):
        sound = np.arange(len(seen.cell)) % round(1 / share) > 0
        spoilt = replace(seen, distance=np.where(sound[:, None], seen.distance, 1e6), sound=sound)
        after, band = calibrate_room(cells, spoilt, alpha=0.01)
        assert (after <= 2 * before).all()
        assert band.inside == pytest.approx(inside, abs=0.002)
        assert band.probability <= band.inside


def test_scale_is_local_and_pools_neighbours() -> None:
    rng = np.random.default_rng(3)
    cells, seen = chain(8), observed(rng, 80, 100, 8)
    scale = local_scale(cells, seen)
    assert (np.diff(scale[:, 0]) > 0).all()
    for k in (0, 4):
        near = np.isin(seen.cell, [k - 1, k, k + 1])
        pooled = np.sort(seen.distance[near, 0])
        own = pooled[int(np.ceil(0.75 * (len(pooled) - 1)))]
        whole = np.quantile(seen.distance[:, 0], 0.75, method="higher")
        share = len(pooled) / (len(pooled) + 20)
        assert scale[k, 0] == pytest.approx(share * own + (1 - share) * whole)


@pytest.mark.parametrize("unseen", ["follow", "open"])
def test_cells_without_data(unseen: str) -> None:
    rng = np.random.default_rng(4)
    cells, seen = chain(10), observed(rng, 20, 50, 8)
    half_width, _ = calibrate_room(cells, seen, alpha=0.01, unseen=unseen)  # type: ignore[arg-type]
    expected = 0.0 if unseen == "follow" else half_width[:9].max(axis=0)
    np.testing.assert_array_equal(half_width[9], np.broadcast_to(expected, 2))
    assert (half_width[8] > 0).all()  # next to one that was visited


def test_an_exact_model_leaves_no_room() -> None:
    cells = chain(3)
    cell, distance = np.zeros(30, dtype=np.int64), np.zeros((30, 1))
    seen = Spread(cell, distance, np.repeat(np.arange(3), 10), np.ones(30, dtype=bool), np.ones(30))
    half_width, band = calibrate_room(cells, seen, alpha=0.01)
    assert (half_width == 0).all()
    assert band.rows == ()


def test_where_probes_close_the_room_less_is_claimed() -> None:
    rng = np.random.default_rng(5)
    cells, seen = chain(8), observed(rng, 40, 100, 8)
    closed = rng.random(len(seen.cell)) < 0.1
    shut = replace(seen, opening=np.where(closed, 0.0, 1.0))
    _, band = calibrate_room(cells, shut, alpha=0.01)
    assert band.inside == pytest.approx(0.9, abs=0.02)
    assert band.probability <= 0.9


def test_where_other_episodes_never_were_less_is_claimed() -> None:
    """An episode spends half of its time far from all others, who could not have made room for it."""
    rng = np.random.default_rng(6)
    cells, seen = chain(12), observed(rng, 8, 800, 8)
    seen.cell[(seen.episode == 3) & (rng.random(len(seen.cell)) < 0.5)] = 11
    _, band = calibrate_room(cells, seen, alpha=0.01)
    assert band.inside == pytest.approx(1 - 0.5 / 8, abs=0.01)
    _, wide = calibrate_room(cells, seen, alpha=0.01, unseen="open")
    assert wide.inside > 0.98


def test_where_a_delta_closes_the_room_less_is_claimed() -> None:
    rng = np.random.default_rng(7)
    cells, seen = chain(8), observed(rng, 40, 100, 8)
    most = np.quantile(seen.distance, 0.5, axis=0)
    _, band = calibrate_room(cells, replace(seen, most=most), alpha=0.01)
    assert band.inside == pytest.approx(0.5, abs=0.02)


def test_few_episodes_that_go_their_own_ways_are_not_promised_too_much() -> None:
    """Each row in a cell of its own draw: what lies inside was seen on the rows that chose the factor."""
    rng = np.random.default_rng(8)
    cells = Cells(
        np.arange(5.0)[:, None],
        np.empty((0, 2), np.int64),
        np.ones(1),
        np.ones(5),
        -np.ones(1),
        np.full(1, 5.0),
    )
    inside, claimed = [], []
    for _ in range(400):
        cell, distance = rng.integers(0, 5, 25), np.abs(rng.normal(size=(25, 1)))
        seen = Spread(cell[:5], distance[:5], np.arange(5), np.ones(5, dtype=bool), np.ones(5))
        half_width, band = calibrate_room(cells, seen, alpha=0.05)
        inside.append((distance[5:] <= half_width[cell[5:]]).mean())
        claimed.append(band.probability)
    assert np.mean(claimed) <= np.mean(inside)

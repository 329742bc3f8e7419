"""Logs read piece by piece: the same transitions as at once, and samples that miss no episode."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tether.data import Transitions
from tether.data.logs import LogConfig, pieces, read_log
from tether.data.logs.reading import stream_log
from tether.fitting import FitConfig, fit
from tether.fitting.streaming import measure_log
from tether.learning.config import TrainingConfig

EPISODES, STEPS = 30, 40
CONFIG = LogConfig(states=["x", "v"], controls=["u"], episode="run")


def columns(first: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(first)
    count = EPISODES * STEPS
    values = rng.normal(size=(count, 3))
    return {"x": values[:, 0], "v": values[:, 1], "u": values[:, 2], "run": first + np.arange(count) // STEPS}


def write_parquet(path: Path, table: dict[str, np.ndarray], group: int = 170) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(table), path, row_group_size=group)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pieces, "PIECE_ROWS", 300)
    for number in range(2):
        write_parquet(tmp_path / f"{number}.parquet", columns(EPISODES * number))
    return tmp_path


def joined(parts: list[Transitions]) -> list[np.ndarray]:
    return [
        np.concatenate([getattr(p, name) for p in parts]) for name in ("states", "controls", "next_states")
    ]


def test_pieces_are_the_whole(folder: Path) -> None:
    parts = list(stream_log(folder, CONFIG))
    whole = read_log(folder, config=CONFIG)
    assert len(parts) > 4  # episodes of 40 rows end in no row group of 170
    for one, other in zip(joined(parts), joined([whole]), strict=True):
        assert np.array_equal(one, other)
    assert sum(len(np.unique(part.episodes)) for part in parts) == 2 * EPISODES


@pytest.mark.parametrize("named", [True, False])
def test_mapped_arrays_are_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    monkeypatch.setattr(pieces, "PIECE_ROWS", 300)
    table = columns()
    rows = list(zip(*table.values(), strict=True))
    array = np.array(rows, dtype=[(name, "f8") for name in table]) if named else np.array(rows)
    np.save(tmp_path / "log.npy", array)
    names = dict(states=["x", "v"], controls=["u"], episode="run")
    if not named:
        names = dict(states=["x0", "x1"], controls=["x2"], episode="x3")
    config = LogConfig(**names)  # type: ignore[arg-type]
    parts, whole = (
        list(stream_log(tmp_path / "log.npy", config)),
        read_log(tmp_path / "log.npy", config=config),
    )
    assert len(parts) > 2
    for one, other in zip(joined(parts), joined([whole]), strict=True):
        assert np.array_equal(one, other)
    assert len(whole) == EPISODES * (STEPS - 1)


def test_a_file_of_several_pieces_is_one_table(folder: Path) -> None:
    assert len(list(stream_log(folder, CONFIG))) > len(list(folder.iterdir()))
    report = read_log(folder, config=replace(CONFIG, most_rows=100)).report
    assert report is not None
    assert report.tables == len(list(folder.iterdir()))


def test_without_a_column_each_row_group_is_an_episode(folder: Path) -> None:
    config = LogConfig(states=["x", "v"], controls=["u"], most_rows=10_000)
    assert read_log(folder / "0.parquet", config=config).report.episodes == -(-EPISODES * STEPS // 170)


def test_a_sample_misses_no_episode_and_is_repeated(folder: Path) -> None:
    settings = dict(states=["x", "v"], controls=["u"], episode="run", most_rows=300)
    one, two = (read_log(folder, **settings) for _ in range(2))
    assert 250 <= len(one) <= 300
    assert np.array_equal(one.states, two.states)
    assert np.array_equal(np.unique(one.episodes), np.arange(2 * EPISODES))
    assert one.report is not None and one.report.sampled == len(one)
    assert one.report.transitions == 2 * EPISODES * (STEPS - 1)
    assert "sampled: " in str(one.report) and "every episode" in str(one.report)


def test_rows_are_equally_likely(folder: Path) -> None:
    """Each transition is drawn about as often as any other, over many seeds."""
    parts = list(stream_log(folder, CONFIG))
    place = {row.tobytes(): k for k, row in enumerate(np.concatenate([part.states for part in parts]))}
    count = np.zeros(len(place))
    for seed in range(200):
        for row in pieces.sample(iter(parts), 600, seed=seed).states:
            count[place[row.tobytes()]] += 1
    share = count / 200
    assert abs(share.mean() - 600 / len(place)) < 0.01
    assert share.std() < 1.3 * np.sqrt(share.mean() * (1 - share.mean()) / 200)


def test_all_are_kept_where_there_are_few(folder: Path) -> None:
    settings = dict(states=["x", "v"], controls=["u"], episode="run")
    whole, kept = read_log(folder, **settings), read_log(folder, **settings, most_rows=10_000)
    assert np.array_equal(whole.states, kept.states) and np.array_equal(whole.episodes, kept.episodes)
    assert kept.report is not None and kept.report.sampled is None


def test_an_episode_in_two_places_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_ROWS", 300)
    table = columns()
    table["run"] = np.where(table["run"] == 20, 0, table["run"])
    write_parquet(tmp_path / "log.parquet", table)
    with pytest.raises(ValueError, match="must have the rows of an episode together to be read in pieces"):
        read_log(tmp_path / "log.parquet", states=["x"], episode="run", most_rows=100)


def test_fewer_rows_than_episodes_are_refused(folder: Path) -> None:
    with pytest.raises(
        ValueError, match="`most_rows` must be at least the number of episodes; got 20 for 60"
    ):
        read_log(folder, states=["x"], episode="run", most_rows=20)
    with pytest.raises(ValueError, match="`most_rows` must come with episodes; got independent rows"):
        LogConfig(states=["x"], next_states=["v"], independent_rows=True, most_rows=5)


@pytest.mark.parametrize("content", [b"", b"no array", np.zeros(3).tobytes()])
def test_another_file_is_no_array(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "log.npy").write_bytes(content)
    with pytest.raises(ValueError, match=r"must be an \.npy file of numbers"):
        read_log(tmp_path / "log.npy", states=["x0"])
    np.save(tmp_path / "log.npy", np.zeros((2, 2, 2)))
    with pytest.raises(
        ValueError, match=r"must hold a matrix of numbers or named fields; got float64 of shape"
    ):
        read_log(tmp_path / "log.npy", states=["x0"])


def drift(states: np.ndarray, controls: np.ndarray) -> np.ndarray:
    return np.stack([states[:, 0] + 0.1 * states[:, 1], states[:, 1] + 0.1 * controls[:, 0]], axis=1)


def test_everything_held_out_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_ROWS", 300)
    table = columns()
    following = drift(*np.split(np.stack([table["x"], table["v"], table["u"]], axis=1), [2], axis=1))
    table |= {"nx": following[:, 0] + 0.01 * np.sin(table["x"]), "nv": following[:, 1]}
    write_parquet(tmp_path / "log.parquet", table)
    reading = LogConfig(
        states=["x", "v"], controls=["u"], next_states=["nx", "nv"], episode="run", most_rows=400
    )
    sampled = read_log(tmp_path / "log.parquet", config=reading)
    config = FitConfig(memories=10, leaves=50, training=TrainingConfig(steps=30))
    model = fit(sampled, trusted=drift, config=config)
    found = measure_log(model, drift, tmp_path / "log.parquet", sampled, reading=reading, config=config)
    whole = read_log(tmp_path / "log.parquet", config=LogConfig(**{**vars(reading), "most_rows": None}))
    held_out = np.unique(sampled.split().test.episodes)
    rows = whole.take(np.isin(whole.episodes, held_out))
    error = model.predict(rows.states, rows.controls) - rows.next_states
    assert found.rows == len(rows) and found.episodes == len(held_out)
    expected = dict(zip(("x", "v"), np.sqrt((error**2).mean(axis=0)), strict=True))
    assert found.rmse == pytest.approx(expected, rel=1e-12)
    assert any("all held-out data: " in line for line in found.lines)

"""From logs as they are to transitions: what is read, split, dropped, resampled, cut and remembered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import tether
from conftest import cart_rows, frictionless, write_csv
from tether import LogConfig, LogReport, Transitions, read_log
from tether.data.logs.sources import describe_sources, find_sources
from tether.data.logs.wrapping import check_wrapped

HEADER = ["run", "t", "x", "u"]


def frame(rows: list[list[Any]], columns: list[str] = HEADER) -> pandas.DataFrame:
    return pandas.DataFrame(rows, columns=columns)


def steps(times: list[float], run: Any = 0) -> list[list[Any]]:
    """Rows whose state is their number."""
    return [[run, t, float(k), 10.0 * k] for k, t in enumerate(times)]


def read(source: Any, **settings: Any) -> Transitions:
    return read_log(
        source, **({"states": ["x"], "controls": ["u"], "episode": "run", "time": "t"} | settings)
    )


def pairs(made: Transitions) -> list[tuple[float, float]]:
    return list(zip(made.states[:, 0].tolist(), made.next_states[:, 0].tolist(), strict=True))


def report(made: Transitions) -> LogReport:
    assert made.report is not None
    return made.report


# --- several files, patterns, folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "logs"
    place.mkdir()
    for name, start in [("a", 0), ("b", 100), ("c", 200)]:
        write_csv(place / f"{name}.csv", ["x", "u"], [[start + k, k] for k in range(3)])
    (place / "notes.txt").write_text("not a table")
    (place / ".hidden.csv").write_text("broken")
    return place


PAIRS = [(0.0, 1.0), (1.0, 2.0), (100.0, 101.0), (101.0, 102.0), (200.0, 201.0), (201.0, 202.0)]


@pytest.mark.parametrize("how", ["folder", "pattern", "list", "mixture", "text"])
def test_files_add_up_and_are_never_joined(folder: Path, how: str) -> None:
    sources: dict[str, Any] = {
        "folder": folder,
        "pattern": f"{folder}/*.csv",
        "list": [folder / "a.csv", folder / "b.csv", folder / "c.csv"],
        "mixture": [folder / "a.csv", f"{folder}/[bc].csv"],
        "text": str(folder),
    }
    made = read_log(sources[how], states=["x"], controls=["u"])
    assert pairs(made) == PAIRS
    assert made.episodes.tolist() == [0, 0, 1, 1, 2, 2]
    assert report(made).lines == ("data: 6 transitions of 3 episodes from 9 rows of 3 tables",)


def test_one_id_in_two_files_means_two_episodes(tmp_path: Path) -> None:
    for name in "ab":
        write_csv(tmp_path / f"{name}.csv", HEADER, steps([0, 1, 2]))
    assert read(tmp_path).episodes.tolist() == [0, 0, 1, 1]


def test_files_and_frames_may_be_mixed(folder: Path) -> None:
    made = read_log([folder / "a.csv", pandas.DataFrame({"x": [7, 8], "u": [0, 0]})], states=["x"])
    assert pairs(made) == [(0.0, 1.0), (1.0, 2.0), (7.0, 8.0)]


def test_a_name_with_brackets_is_meant_literally(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "log[1].csv", ["x"], [[1], [2]])
    assert find_sources(str(path)) == [path]


def test_what_a_run_is_called() -> None:
    assert describe_sources("logs/a.csv") == "a.csv"
    assert describe_sources(["logs/a.csv", "b.csv"]) == "a.csv and 1 more"


def test_the_same_file_twice_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"`data` must name each file once; got '.*a\.csv' twice"):
        read_log([folder, folder / ".." / "logs" / "a.csv"], states=["x"])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("logs/*.parquet", r"`.*logs/\*\.parquet` must match at least one file; it matches none"),
        ("empty", r"`.*empty` must hold files to read \(\.csv, \.npz, \.parquet, \.npy\); it holds none"),
        ("absent.csv", r"`.*absent.csv` must be a file; there is none"),
    ],
)
def test_sources_without_files_are_refused(folder: Path, source: str, message: str) -> None:
    (folder.parent / "empty").mkdir()
    with pytest.raises(ValueError, match=message):
        read_log(str(folder.parent / source), states=["x"])


@pytest.mark.parametrize("source", [[], ""])
def test_no_source_at_all_is_refused(source: Any) -> None:
    with pytest.raises(ValueError, match="`data` must name"):
        read_log(source, states=["x"])


def test_a_file_without_a_column_is_named(folder: Path) -> None:
    write_csv(folder / "b.csv", ["y"], [[1]])
    with pytest.raises(ValueError, match=r"b\.csv: `data` must have a column 'x'; got y"):
        read_log(folder, states=["x"])


@pytest.mark.parametrize(
    "text",
    ["x;u\n0,5;1\n1,5;-2e1\n-2,5;3", "x\tu\n0.5\t1\n1.5\t-20\n-2.5\t3", "x;u\n0.5;1\n1.5;-2,0e1\n-2.5;3"],
)
def test_other_separators_and_decimal_commas(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    made = read_log(path, states=["x"], controls=["u"])
    assert (made.states.tolist(), made.controls.tolist()) == ([[0.5], [1.5]], [[1.0], [-20.0]])


def test_a_name_with_its_unit_is_suggested() -> None:
    with pytest.raises(ValueError, match=r"got x \[m\], u\. Is it 'x \[m\]'\?"):
        read_log(frame([[0, 1]], ["x [m]", "u"]), states=["x"])


# --- time


def test_even_time_splits_nothing_and_tells_the_step() -> None:
    made = read(frame(steps([0.0, 0.1, 0.2, 0.31])))
    assert pairs(made) == [(0, 1), (1, 2), (2, 3)]
    assert report(made).step == pytest.approx(0.1)
    assert "step: 0.1 (the median); M must advance by it" in str(report(made))


def test_gaps_and_early_rows_split() -> None:
    made = read(frame(steps([0, 1, 2, 5, 6, 6.5, 7.5, 8.5])))
    assert pairs(made) == [(0, 1), (1, 2), (3, 4), (5, 6), (6, 7)]
    found = report(made)
    assert (found.gaps, found.short_steps, found.longest_gap, found.longest_at) == (1, 1, 3.0, "row 3")
    # What lies on both sides of a short gap is all but the same, and stays in one part of a split.
    assert set(made.episodes.tolist()) == {0}


def test_a_pause_begins_a_new_episode() -> None:
    made = read(frame(steps([0, 1, 2, 13, 14])))
    assert made.episodes.tolist() == [0, 0, 1]
    assert report(made).pauses == 1
    assert "split: at 1 gap, the longest 11 before row 3; 1 new episode after long ones" in str(report(made))


def test_the_tolerance_can_be_chosen() -> None:
    times = [0, 1, 2, 3.3, 4.3, 5.3]
    assert report(read(frame(steps(times)))).gaps == 1
    assert report(read(frame(steps(times)), tolerance=0.4)).gaps == 0


def test_time_that_goes_backwards_is_refused(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "log.csv", HEADER, steps([0, 1, 3, 2, 4]))
    message = r"`time` must not go backwards within an episode; got 2 after 3 in column 't', row 3 of .*log\.csv \(1 such rows\)\. Sort"
    with pytest.raises(ValueError, match=message):
        read(path)


@pytest.mark.parametrize("name", ["t", "Time [s]", "timestamp"])
def test_a_time_that_was_not_named_has_a_word(name: str) -> None:
    columns = ["run", name, "x", "u"]
    made = read(frame(steps([0, 1, 2, 5, 6]), columns), time=None)
    assert len(made) == 4
    assert f"look: '{name}' is not read as the time, and 1 step of it differs from" in str(report(made))
    assert not str(report(read(frame(steps([0, 1, 2, 3]), columns), time=None)))
    with pytest.raises(ValueError, match=r"followed each other; got 1 that go back in .*sort its rows"):
        read(frame(steps([0, 1, 3, 2, 4]), columns), time=None)


def waves(rows: int = 600) -> list[list[Any]]:
    """A state that swings, of two runs."""
    return [[k // 300, float(k % 300), float(np.sin(0.1 * k)), 0.0] for k in range(rows)]


def test_a_row_that_leaps_away_and_comes_back_is_pointed_at(tmp_path: Path) -> None:
    rows = waves()
    rows[401][2] = 99.9
    made = read(write_csv(tmp_path / "log.csv", HEADER, rows))
    words = f"look: 'x' is 99.9 at row 401 of {tmp_path / 'log.csv'}, {rows[400][2]:.6g} before and"
    assert words in str(report(made)) and "(1 such row)" in str(report(made))
    for row in rows[402:410]:
        row[2] = 99.9
    assert report(read(frame(rows))).spikes == 9
    for row in rows[410:420]:
        row[2] = 99.9  # it stays there: a sensor that was moved, perhaps
    assert report(read(frame(rows))).spikes == 0


@pytest.mark.parametrize("angles", [(), ("x",)])
def test_a_row_far_off_is_pointed_at_where_a_stretch_begins_or_ends(angles: tuple[str, ...]) -> None:
    """A receiver's first row after a pause, mostly."""
    rows = waves()
    rows[300][2] = -999.0
    found = report(read(frame(rows), angles=angles))
    if angles:  # on the circle nothing is far off
        assert found.spikes == 0
        return
    after = f"{rows[301][2]:.6g} after"
    assert f"'x' is -999 at row 300, where a stretch of the log begins, and {after} (1 such row)" in str(
        found
    )
    rows[299][2] = rows[298][2] = 999.0
    before = f"{rows[297][2]:.6g} before"
    found = report(read(frame(rows)))
    assert f"'x' is 999 at row 298, {before} and at the end of a stretch of the log (3 such rows)" in str(
        found
    )


def test_a_kick_at_the_start_that_goes_no_farther_than_the_rest_is_no_glitch() -> None:
    rows = waves()
    rows[300][2] = -0.9
    assert report(read(frame(rows))).spikes == 0


def test_what_often_leaps_or_hardly_ever_moves_is_no_glitch() -> None:
    rows = waves()
    for k in range(0, 600, 20):
        rows[k][2] += 50.0
    assert report(read(frame(rows))).spikes == 0
    contact = [[*row[:2], float(k == 300), 0.0] for k, row in enumerate(waves())]
    assert report(read(frame(contact))).spikes == 0


def test_a_rate_that_leaps_by_a_turn_twice_is_no_angle() -> None:
    rate = np.sin(0.1 * np.arange(3000.0))
    for k in (100, 400):
        rate[k : k + 2] = -0.5, -0.5 + 2 * np.pi
    check_wrapped("rate", rate[:-1], rate[1:])

    turned = np.angle(np.exp(1j * np.linspace(0, 4 * np.pi, 3000)))
    turned[[100, 400]] = 50.0
    with pytest.raises(ValueError, match=r"jumps by about 6\.283 from a state to the next 2 times"):
        check_wrapped("angle", turned[:-1], turned[1:])


def test_it_is_known_where_in_the_log_a_transition_is(folder: Path) -> None:
    made = read_log(folder, states=["x"], controls=["u"])
    assert made.places is not None
    assert made.places.describe(3) == f"row 1 of {folder / 'b.csv'}"
    last = made.take(np.array([5])).places
    assert last is not None and last.describe(0) == f"row 1 of {folder / 'c.csv'}"


def test_degrees_are_told_from_radians_where_runs_are_told_apart_by_gaps() -> None:
    rows, clock = [], 0.0
    for k in range(400):
        heading = (27.0 * k + 150.0 * (k // 8)) % 360 - 180
        clock += 30.0 if k % 8 == 0 else 1.0
        rows.append([0, clock, heading, 0.0])
    rows[57][2] = 999.9
    with pytest.raises(ValueError, match="`angles` must be in radians; got 'x'"):
        read(frame(rows), angles=["x"])


def test_a_time_that_nothing_rests_on_has_none() -> None:
    """Rows with outcomes of their own follow nothing; a state named t is a state; text is no time."""
    shuffled = frame(steps([0, 1, 3, 2, 4]))
    assert len(read(shuffled, time=None, next_states=["x"])) == 5
    assert len(read(shuffled, time=None, states=["t"])) == 4
    assert len(read(frame([[0, f"step {k}", k, k] for k in range(4)]), time=None)) == 3


def test_copies_of_a_row_are_dropped_without_a_trace() -> None:
    rows = steps([0, 1, 2, 3])
    made = read(frame([rows[0], rows[1], rows[1], rows[2], rows[3]]))
    assert pairs(made) == [(0, 1), (1, 2), (2, 3)]
    assert (report(made).duplicates, report(made).conflicts) == (1, 0)


def test_nothing_is_joined_across_rows_of_one_time_that_differ() -> None:
    made = read(frame(steps([0, 1, 1, 2, 3])))
    assert pairs(made) == [(0, 1), (3, 4)]
    assert (report(made).duplicates, report(made).conflicts) == (1, 1)
    assert "dropped: 1 row with the time of the row before, 1 of them with other values" in str(report(made))


def test_episodes_of_different_steps_are_refused_with_the_longest_as_a_remedy() -> None:
    rows = steps([0.005 * k for k in range(60)], "a") + steps([0.02 * k for k in range(20)], "b")
    message = r"one step in all episodes; got a median of 0\.02 .* begins at row 60, and of 0\.005 in all.*--step 0\.02"
    with pytest.raises(ValueError, match=message):
        read(frame(rows))


def test_time_that_is_never_even_is_refused() -> None:
    times = np.cumsum(np.tile([1.0, 2.0, 4.0], 5)).tolist()
    with pytest.raises(ValueError, match=r"`time` must advance by about one step; got \d+ % of steps"):
        read(frame(steps(times)))


@pytest.mark.parametrize(
    "times",
    [
        ["2024-05-01T12:00:00", "2024-05-01T12:00:00.5", "2024-05-01T12:00:01"],
        ["2024-05-01 12:00:00+02:00", "2024-05-01 10:00:00.5+00:00", "2024-05-01T10:00:01Z"],
        pandas.to_datetime(["2024-05-01 12:00:00.0", "2024-05-01 12:00:00.5", "2024-05-01 12:00:01.0"]),
        pandas.to_datetime(
            ["2024-05-01 12:00:00.0", "2024-05-01 12:00:00.5", "2024-05-01 12:00:01.0"], utc=True
        ),
        pandas.to_timedelta(["0s", "500ms", "1s"]),
        ["0", "0.5", "1.0"],
    ],
    ids=["text", "zones", "dates", "dates in a zone", "durations", "numbers as text"],
)
def test_kinds_of_time(times: Any) -> None:
    made = read_log(pandas.DataFrame({"t": times, "x": [1.0, 2.0, 3.0]}), states=["x"], time="t")
    assert report(made).step == 0.5
    assert len(made) == 2


def test_nanoseconds_since_1970_are_told_apart() -> None:
    start = 1_700_000_000_000_000_000
    data = pandas.DataFrame({"t": [start + 100 * k for k in range(4)], "x": [1.0, 2.0, 3.0, 4.0]})
    assert report(read_log(data, states=["x"], time="t")).step == 100.0


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0.0, np.nan, 2.0], r"`data` must be finite; got nan at row 1, column 't'.*--drop-invalid"),
        (["0", "soon", "2"], r"`time` must be numbers, or dates .*; got 'soon' at row 1, column 't'"),
        (["2024-05-01", "2024-05-02T00:00Z", "2024-05-03"], "a time zone in every row or in none"),
        ([True, False, True], "`time` must be numbers or dates; got bool in column 't'"),
    ],
)
def test_times_that_are_none(times: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_log(pandas.DataFrame({"t": times, "x": [1.0, 2.0, 3.0]}), states=["x"], time="t")


# --- resampling


def test_states_are_interpolated_and_controls_held() -> None:
    rows = [[0, t, 3.0 * t, k] for k, t in enumerate([0.0, 0.9, 2.1, 3.0, 4.2])]
    made = read(frame(rows), step=1.0)
    np.testing.assert_allclose(made.states[:, 0], [0.0, 3.0, 6.0, 9.0], rtol=1e-12)
    np.testing.assert_allclose(made.next_states[:, 0], [3.0, 6.0, 9.0, 12.0], rtol=1e-12)
    assert made.controls[:, 0].tolist() == [0.0, 1.0, 1.0, 3.0]
    assert (report(made).resampled, report(made).step) == (5, 1.0)


def test_the_step_of_the_log_itself_changes_no_bit() -> None:
    rng = np.random.default_rng(0)
    data = pandas.DataFrame(
        {"t": 0.025 * np.arange(200), "x": rng.normal(size=200), "u": rng.normal(size=200)}
    )
    plain = read_log(data, states=["x"], controls=["u"], time="t")
    again = read_log(data, states=["x"], controls=["u"], time="t", step=0.025)
    assert plain.digest() == again.digest()


def test_angles_go_the_shorter_way() -> None:
    data = pandas.DataFrame({"t": [0.0, 2.0, 4.0], "a": [3.0, -3.0, -2.8]})
    made = read_log(data, states=["a"], time="t", step=1.0, angles=["a"])
    turned = np.mod(made.states[:, 0], 2 * np.pi)
    np.testing.assert_allclose(turned, [3.0, np.pi, 2 * np.pi - 3.0, 2 * np.pi - 2.9], rtol=1e-12)


def test_an_undeclared_angle_is_refused_before_it_is_interpolated() -> None:
    angle = np.mod(0.3 * np.arange(100) + np.pi, 2 * np.pi) - np.pi
    data = pandas.DataFrame({"t": 0.1 * np.arange(100), "a": angle})
    with pytest.raises(ValueError, match=r"got 'a' undeclared.*--angle a"):
        read_log(data, states=["a"], time="t", step=0.03)
    assert len(read_log(data, states=["a"], time="t", step=0.03, not_angles=["a"])) > 0


def test_resampling_does_not_bridge_long_gaps() -> None:
    made = read(frame([[0, t, t, 0] for t in (0, 1, 2, 4.5, 5.5, 10, 11)]), step=1.0)
    assert pairs(made) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (10, 11)]
    assert report(made).gaps == 1


def test_rows_between_rows_are_counted() -> None:
    made = read(frame(steps([0, 1, 2, 3])), step=0.25)
    assert report(made).interpolated == 13
    assert "13 of them lie between rows recorded farther apart than that" in str(report(made))


def test_a_step_that_gives_too_many_rows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`step` must give at most .* got 1e-12, which gives"):
        read(frame(steps([0, 1, 2, 3])), step=1e-12)


# --- blocks


def test_blocks_of_rows() -> None:
    made = read(frame(steps(list(range(11)))), block=4)
    assert pairs(made) == [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7), (8, 9), (9, 10)]
    assert made.episodes.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert report(made).blocks == 3


def test_what_is_left_joins_the_last_block() -> None:
    assert read(frame(steps(list(range(9)))), block=4).episodes.tolist() == [0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("block", ["3s", "3000ms", " 0.05 min "])
def test_blocks_of_time(block: str) -> None:
    made = read(frame(steps([0.5 * k for k in range(18)])), block=block)
    assert np.bincount(made.episodes).tolist() == [5, 5, 5]


def test_a_long_log_can_be_split_once_it_is_cut() -> None:
    data = frame(steps([0.1 * k for k in range(100)]))
    with pytest.raises(ValueError, match=r"at least 3 episodes.*--block ROWS"):
        read(data).split()
    assert len(read(data, block=10).split().test) == 18


# --- rows that lack something


def test_invalid_rows_are_dropped_counted_and_not_joined_across() -> None:
    rows: list[list[Any]] = steps(list(range(8)))
    rows[2][2], rows[5][3] = np.nan, "broken"
    data = frame(rows).astype(object)
    made = read(data, drop_invalid=True)
    assert pairs(made) == [(0, 1), (3, 4), (6, 7)]
    assert report(made).invalid == 2
    assert "dropped: 2 rows with a missing or invalid value" in str(report(made))
    with pytest.raises(ValueError, match=r"row 5, column 'u'|row 2, column 'x'"):
        read(data)


@pytest.mark.parametrize("drop", [False, True])
def test_the_last_row_of_an_episode_needs_no_controls(drop: bool) -> None:
    """So a simulator ends: with a state, after which nothing was done."""
    rows = [["a", 0, 0, 5], ["b", 0, 10, 6], ["a", 1, 1, 7], ["b", 1, 11, None], ["a", 2, 2, None]]
    made = read(frame(rows), drop_invalid=drop)
    assert pairs(made) == [(0.0, 1.0), (1.0, 2.0), (10.0, 11.0)]
    assert made.controls[:, 0].tolist() == [5.0, 7.0, 6.0] and report(made).invalid == 0
    held = read(frame(rows), drop_invalid=drop, step=0.5)
    assert held.controls[:, 0].tolist() == [5.0, 5.0, 7.0, 7.0, 6.0, 6.0]


def test_what_else_an_episode_lacks_is_missing() -> None:
    for rows in (
        [["a", 0, 0, None], ["a", 1, 1, 7]],
        [["a", 0, 0, 5], ["a", 1, None, None]],
        [["a", 0, 0, 5], ["a", 1, 1, 6], ["b", 0, 1, None]],
        [["a", 0, 0, 5], ["a", 1, 1, float("inf")]],
    ):
        with pytest.raises(
            ValueError, match=r"must be finite; got .* \(1 such value|must be finite; got .*2 such"
        ):
            read(frame(rows))
    named = pandas.DataFrame({"x": [0.0, 1.0], "u": [1.0, None], "y": [1.0, 2.0]})
    with pytest.raises(ValueError, match="must be finite; got nan at row 1, column 'u'"):
        read_log(named, states=["x"], controls=["u"], next_states=["y"])


def test_without_time_dropped_rows_still_split() -> None:
    made = read_log(pandas.DataFrame({"x": [0, 1, np.inf, 3, 4]}), states=["x"], drop_invalid=True)
    assert pairs(made) == [(0, 1), (3, 4)]


def test_a_row_without_an_episode_splits_all_of_them() -> None:
    rows: list[list[Any]] = [["a", 0, 0, 0], ["b", 0, 10, 0], ["a", 1, 1, 0], ["b", 1, 11, 0]]
    rows += [["", 2, 99, 0], ["a", 2, 2, 0], ["b", 2, 12, 0], ["a", 3, 3, 0], ["b", 3, 13, 0]]
    made = read(frame(rows), drop_invalid=True)
    assert sorted(pairs(made)) == [(0, 1), (2, 3), (10, 11), (12, 13)]
    assert report(made).invalid == 1
    with pytest.raises(ValueError, match=r"an episode id in every row; got none at row 4.*--drop-invalid"):
        read(frame(rows))


def test_nothing_but_invalid_rows() -> None:
    with pytest.raises(
        ValueError, match="must hold rows without missing or invalid values; got none among 2"
    ):
        read_log(pandas.DataFrame({"x": ["a", "b"]}), states=["x"], drop_invalid=True)


# --- history


def test_older_values_follow_their_kind() -> None:
    made = read(frame(steps(list(range(6)))), history={"x": 2, "u": 1}, units={"x": "m"}, angles=["x"])
    schema = made.schema
    assert (schema.states, schema.controls) == (("x", "x_1", "x_2"), ("u", "u_1"))
    assert (schema.outputs, schema.advances) == (("x",), (0,))
    assert (schema.units, schema.angles) == ({"x": "m", "x_1": "m", "x_2": "m"}, ("x", "x_1", "x_2"))
    assert made.states.tolist()[:2] == [[2.0, 1.0, 0.0], [3.0, 2.0, 1.0]]
    assert made.controls.tolist()[:2] == [[20.0, 10.0], [30.0, 20.0]]
    assert (len(made), report(made).history_only) == (3, 2)


def test_history_does_not_reach_across_anything() -> None:
    rows = steps([0, 1, 2, 3, 8, 9, 10, 11], "a") + steps([0, 1, 2], "b")
    made = read(frame(rows), history={"x": 2})
    assert made.states.tolist() == [[2.0, 1.0, 0.0], [6.0, 5.0, 4.0]]


def test_history_with_outcomes_of_their_own() -> None:
    data = pandas.DataFrame({"x": [1.0, 2.0, 3.0], "after": [5.0, 6.0, 7.0]})
    made = read_log(data, states=["x"], next_states=["after"], history={"x": 1})
    assert made.states.tolist() == [[2.0, 1.0], [3.0, 2.0]]
    assert made.next_states.tolist() == [[6.0], [7.0]]
    assert made.schema.outputs == ("x",)


def test_more_history_than_rows() -> None:
    with pytest.raises(ValueError, match=r"`history` must leave rows that have 9 older ones"):
        read(frame(steps([0, 1, 2])), history={"x": 9})


# --- settings that do not go together


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step": 0.1, "time": None}, "`step` must come with a column of time"),
        ({"block": "10s", "time": None}, "`block` must come with a column of time"),
        ({"step": 0.0}, "`step` must be positive; got 0"),
        ({"step": float("nan")}, "`step` must be finite"),
        ({"block": 1}, "`block` must be at least 2; got 1"),
        ({"block": "ten"}, "`block` must be a number of rows, or a time such as 10s .*; got 'ten'"),
        ({"block": "0s"}, "`block` must be a number of rows"),
        ({"tolerance": 0.0}, "`tolerance` must be positive"),
        ({"tolerance": 1.0}, "`tolerance` must be finite and at most 0.9"),
        ({"history": {"w": 2}}, r"`history` must name states or controls \(x, u\); got w"),
        ({"history": {"x": 0}}, "`history of x` must be at least 1"),
        ({"history": {"x": 10**6}}, "`history of x` must be at most 1,000"),
        ({"next_states": ["u", "u"], "time": None}, "`next_states` must name each column once; got 'u' twice"),
        ({"next_states": ["u"]}, "`time` must come without `next_states`"),
        ({"independent_rows": True}, "independent rows must come with `next_states`"),
        ({"independent_rows": True, "next_states": ["u"], "time": None, "block": 5}, "`block` must come with rows"),
        ({"time": "clock"}, "must have a column 'clock'"),
        ({"states": ["x", "x_1"], "history": {"x": 1}}, "must have a column 'x_1'|column names must be distinct"),
    ],
)  # fmt: skip
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(frame(steps([0, 1, 2, 3])), **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"states": "x"}, "`states` must be a list of names; got the text 'x'"),
        ({"block": 2.5}, "`block` must be a whole number; got 2.5"),
        ({"history": ["x"]}, "`history` must be counts by column name"),
        ({"step": "fast"}, "`step` must be a number; got 'fast'"),
        ({"steps": 3}, "settings must be fields of LogConfig; got steps"),
    ],
)
def test_settings_of_another_kind_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        read(frame(steps([0, 1, 2, 3])), **settings)


def test_a_configuration_comes_alone() -> None:
    config = LogConfig(states=["x"], episode="run")
    assert len(read_log(frame(steps([0, 1, 2])), config=config)) == 2
    with pytest.raises(TypeError, match="`config` must come alone; got states"):
        read_log(frame(steps([0, 1, 2])), config=config, states=["x"])
    with pytest.raises(TypeError, match="`states` must name the columns"):
        read_log(frame(steps([0, 1, 2])))


# --- data frames, and `fit` itself

CART: dict[str, Any] = {"states": ["x", "v"], "controls": ["u"], "episode": "episode"}
SMALL: dict[str, Any] = {"memories": 5, "hidden": (4,), "training": tether.TrainingConfig(steps=5)}


def cart_frame() -> pandas.DataFrame:
    data = pandas.DataFrame(cart_rows(), columns=["episode", "x", "v", "u"]).astype({"episode": int})
    return data.assign(t=0.1 * data.groupby("episode").cumcount())


def test_fit_takes_a_data_frame(cart: Transitions) -> None:
    model = tether.fit(cart_frame(), frictionless, time="t", **CART, **SMALL)  # as `certify` takes M
    assert model.schema.states == ("x", "v")
    assert model.record["data_sha256"] == cart.digest()
    assert model.record["log"][-1] == "step: 0.1 (the median); M must advance by it"


def test_fit_of_a_data_frame_asks_for_its_columns() -> None:
    with pytest.raises(TypeError, match=r"columns of the state; got none\. Pass `states=\[\.\.\.\]`"):
        tether.fit(cart_frame(), frictionless)


def test_fit_takes_a_configuration_and_columns(cart: Transitions) -> None:
    model = tether.fit(cart_frame(), trusted=frictionless, config=tether.FitConfig(**SMALL), **CART)
    assert model.record["data_sha256"] == cart.digest()


def test_fit_with_a_history() -> None:
    seen = []

    def trusted(states: np.ndarray, controls: np.ndarray) -> np.ndarray:
        seen.append((states.shape[1], controls.shape[1]))
        return frictionless(states[:, :2], controls[:, :1])

    model = tether.fit(cart_frame(), trusted=trusted, history={"v": 3, "u": 1}, **CART, **SMALL)
    assert set(seen) == {(5, 2)}
    assert model.predict(np.zeros((1, 5)), np.zeros((1, 2))).shape == (1, 2)


def test_transitions_know_their_columns(cart: Transitions) -> None:
    with pytest.raises(TypeError, match="`states` must come with a table to read; got transitions"):
        tether.fit(cart, trusted=frictionless, states=["x"])


def test_polars_frames_are_read_like_pandas_ones() -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    data = cart_frame()
    made = polars.DataFrame({name: data[name].to_list() for name in data})
    settings = CART | {"time": "t"}
    assert read_log(made, **settings).digest() == read_log(data, **settings).digest()
    holes = polars.DataFrame({"x": [1.0, None, 3.0, 4.0], "run": ["a", "a", "a", "a"]})
    assert pairs(read_log(holes, states=["x"], episode="run", drop_invalid=True)) == [(3.0, 4.0)]
    with pytest.raises(TypeError, match=r"got a lazy LazyFrame. Call `.collect\(\)`"):
        read_log(made.lazy(), **settings)


def test_a_frame_that_names_a_column_twice() -> None:
    with pytest.raises(ValueError, match="`data` must name each column once; got 'x' twice"):
        read_log(pandas.DataFrame([[1, 2], [3, 4]], columns=["x", "x"]), states=["x"])

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from conftest import cart_rows, write_csv
from tether.data import Transitions, make_schema
from tether.data.files import read_probes, read_table
from tether.data.logs import read_transitions

COLUMNS: dict[str, Any] = {"states": ["x", "v"], "controls": ["u"], "episode": "episode"}
HEADER = ["episode", "x", "v", "u"]


def save_all(frame: pandas.DataFrame, folder: Path) -> dict[str, Any]:
    frame.to_csv(folder / "log.csv", index=False)
    frame.to_parquet(folder / "log.parquet")
    np.savez(folder / "log.npz", **{name: frame[name].to_numpy() for name in frame.columns})
    return {kind: folder / f"log.{kind}" for kind in ("csv", "npz", "parquet")} | {"pandas": frame}


def assert_identical(one: Transitions, other: Transitions) -> None:
    for name in ("states", "controls", "next_states", "episodes"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), strict=True)
    assert one.schema == other.schema
    assert one.digest() == other.digest()


# --- the four kinds agree


@pytest.mark.parametrize("kind", ["csv", "npz", "parquet", "pandas"])
def test_every_kind_of_table_gives_the_same_transitions(tmp_path: Path, cart: Transitions, kind: str) -> None:
    # Twelve episodes: as text, 10 sorts before 2.
    sources = save_all(pandas.DataFrame(cart_rows(), columns=HEADER).astype({"episode": int}), tmp_path)
    rows = read_transitions(sources[kind], **COLUMNS, units={"x": "m", "v": "m/s"})
    assert_identical(rows, cart)
    assert rows.split(seed=5).test.digest() == cart.split(seed=5).test.digest()


@pytest.mark.parametrize("kind", ["csv", "npz", "parquet", "pandas"])
def test_outcome_columns_are_taken_when_named(tmp_path: Path, kind: str) -> None:
    frame = pandas.DataFrame({"x": [1.0, 2.0], "u": [0.1, 0.2], "after": [7.0, 9.0]})
    rows = read_transitions(
        save_all(frame, tmp_path)[kind],
        states=["x"], controls=["u"], next_states=["after"], independent_rows=True,
    )  # fmt: skip
    assert rows.next_states.tolist() == [[7.0], [9.0]]
    assert rows.schema.outputs == ("x",)
    assert rows.episodes.tolist() == [0, 1]


def test_a_matrix_in_an_npz_gives_numbered_columns(tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", s=np.arange(6.0).reshape(3, 2), u=np.zeros(3))
    rows = read_transitions(tmp_path / "log.npz", states=["s0", "s1"], controls=["u"])
    assert rows.states.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert rows.next_states.tolist() == [[2.0, 3.0], [4.0, 5.0]]


def test_suffixes_may_be_capitals(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "LOG.CSV", ["x"], [[1], [2]])
    assert read_transitions(path, states=["x"]).states.tolist() == [[1.0]]


# --- the next row of the same episode


def test_interleaved_episodes_are_told_apart(tmp_path: Path) -> None:
    rows = [["b", 1], ["a", 10], ["b", 2], ["a", 20], ["c", 100], ["b", 3], ["a", 30]]
    path = write_csv(tmp_path / "log.csv", ["run", "x"], rows)
    read = read_transitions(path, states=["x"], episode="run")
    pairs = {(int(a), int(b)) for a, b in zip(read.states[:, 0], read.next_states[:, 0], strict=True)}
    assert pairs == {(1, 2), (2, 3), (10, 20), (20, 30)}
    assert len(read) == 4
    ids = dict(zip(read.states[:, 0].tolist(), read.episodes.tolist(), strict=True))
    assert ids[1.0] == ids[2.0] != ids[10.0] == ids[20.0]


def test_without_an_episode_column_all_rows_are_one_episode(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "log.csv", ["x"], [[1], [2], [4]])
    read = read_transitions(path, states=["x"])
    assert read.next_states.tolist() == [[2.0], [4.0]]
    assert read.episodes.tolist() == [0, 0]


def test_the_next_angle_is_continuous(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "log.csv", ["theta"], [[3.1], [-3.1]])
    read = read_transitions(path, states=["theta"], angles=["theta"])
    assert read.next_states[0, 0] == pytest.approx(2 * np.pi - 3.1)


@pytest.mark.parametrize("rows", [[["a", 1]], [["a", 1], ["b", 2]]])
def test_episodes_of_one_row_hold_no_transition(tmp_path: Path, rows: list) -> None:
    path = write_csv(tmp_path / "log.csv", ["run", "x"], rows)
    with pytest.raises(ValueError, match=r"must hold two consecutive rows of one episode; got [12] rows"):
        read_transitions(path, states=["x"], episode="run")


def test_independent_rows_need_outcomes(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "log.csv", ["x"], [[1], [2]])
    with pytest.raises(ValueError, match="independent rows must come with `next_states`"):
        read_transitions(path, states=["x"], independent_rows=True)


# --- the looks of a CSV file


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfx,u\n1,0.5\n2,0.5\n",
        b"x,u\n\n1,0.5\n\n\n2,0.5\n\n",
        b"\n\nx,u\n1,0.5\n2,0.5",
        b"x,u\r\n1,0.5\r\n2,0.5\r\n",
        b" x , u \n 1 , 0.5 \n 2,0.5\n",
        b'"x","u"\n"1","0.5"\n"2",5e-1\n',
    ],
    ids=["byte order mark", "blank lines", "blank lines first", "windows", "spaces", "quotes"],
)
def test_csv_files_as_programs_write_them(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    read = read_transitions(path, states=["x"], controls=["u"])
    assert (read.states.tolist(), read.controls.tolist()) == ([[1.0]], [[0.5]])
    assert read.next_states.tolist() == [[2.0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must have a header line; it is empty"),
        (b"\n\n", "must have a header line; it is empty"),
        (b"x,u\n1,2\n3\n", r"must have 2 fields in every row; got 1 at row 1"),
        (b"x,u\n1,2,3\n", r"must have 2 fields in every row; got 3 at row 0"),
        (b"x,u\n1,2\n3,fast\n", r"must hold numbers; got 'fast' at row 1, column 'u'"),
        (b"x,u\n1,\n3,2\n", r"must be finite; got nan at row 0, column 'u'"),
        (b"x,u\n1,2\n-inf,3\n", r"must be finite; got -inf at row 1, column 'x'"),
        (b"x,u\n1,2\nNaN,3\n", r"must be finite; got nan at row 1, column 'x'"),
        (b"x,u,x\n1,2,3\n", r"must name each column once; got 'x' twice"),
        (b"x,w\n1,2\n", r"must have a column 'u'; got x, w\. Check the spelling"),
        (b"0.5,1e3\n1,2\n", r"must have a column 'x'; got 0\.5, 1e3\. The first line must name the columns"),
        (b"x,u\n", r"must hold two consecutive rows of one episode; got 0 rows"),
        ("x,u\n1,2\n".encode("utf-16"), r"must be a CSV file in UTF-8; .*\. Save it again as UTF-8"),
        (b"x,u\n1,\xff\n", "must be a CSV file in UTF-8"),
    ],
)
def test_bad_csv_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_transitions(path, states=["x"], controls=["u"])


def test_no_rows_with_named_outcomes(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "log.csv", ["x", "y"], [])
    with pytest.raises(ValueError, match="must hold at least one row; got 0"):
        read_transitions(path, states=["x"], next_states=["y"])


# --- files that are not what they are called


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"log.csv` must be a file; there is none"):
        read_table(tmp_path / "log.csv")
    with pytest.raises(ValueError, match=r"must be a file; there is none"):
        read_table(tmp_path)


def test_an_unsupported_suffix(tmp_path: Path) -> None:
    (tmp_path / "log.xlsx").write_text("x")
    with pytest.raises(ValueError, match=r"must be one of \.csv, \.npz, \.parquet, \.npy; got '\.xlsx'"):
        read_table(tmp_path / "log.xlsx")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.npz", b"x,u\n1,2\n", "must be an .npz file of plain arrays"),
        ("log.npz", b"", "must be an .npz file of plain arrays"),
        ("log.npz", b"PK\x03\x04 cut short", "must be an .npz file of plain arrays"),
        ("log.parquet", b"x,u\n1,2\n", "must be a parquet file"),
        ("log.parquet", b"PAR1", "must be a parquet file"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / name)


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_pickle_inside_an_npz_is_refused_unopened(tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    np.savez(tmp_path / "log.npz", x=np.array([Trap(sprung)], dtype=object), allow_pickle=True)
    np.load(tmp_path / "log.npz", allow_pickle=True)["x"]
    assert sprung.exists(), "the trap itself must work, or this test shows nothing"
    sprung.unlink()
    with pytest.raises(ValueError, match=r"must be an \.npz file of plain arrays"):
        read_table(tmp_path / "log.npz")
    assert not sprung.exists()


def test_arrays_that_are_not_columns(tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", x=np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match=r"must hold vectors or matrices; got 'x' of shape \(2, 2, 2\)"):
        read_table(tmp_path / "log.npz")


@pytest.mark.parametrize("column", ["u", "run"])
def test_columns_of_different_lengths(tmp_path: Path, column: str) -> None:
    lengths = {"x": 4, "u": 4, "run": 4} | {column: 6}
    np.savez(tmp_path / "log.npz", **{name: np.zeros(length) for name, length in lengths.items()})
    with pytest.raises(ValueError, match=rf"columns of one length; got 6 rows of '{column}'"):
        read_transitions(tmp_path / "log.npz", states=["x"], controls=["u"], episode="run")


def test_columns_that_are_not_numbers() -> None:
    frame = pandas.DataFrame({"when": pandas.to_datetime(["2020-01-01", "2020-01-02"]), "name": ["a", "b"]})
    with pytest.raises(ValueError, match=r"must hold numbers; got datetime64\[.*\] in column 'when'"):
        read_transitions(frame, states=["when"])
    message = (
        r"must hold numbers; got 'a' at row 0, column 'name' \(2 such values\)\. Give each word a number"
    )
    with pytest.raises(ValueError, match=message):
        read_transitions(frame, states=["name"])


def test_what_is_packed_is_to_be_unpacked(tmp_path: Path) -> None:
    (tmp_path / "log.csv.gz").write_bytes(b"")
    with pytest.raises(ValueError, match=r"must be one of .*; got '\.gz'\. Unpack it"):
        read_transitions(tmp_path / "log.csv.gz", states=["x"])


@pytest.mark.parametrize("missing", [None, np.nan, pandas.NA, ""])
def test_a_missing_episode_id_is_named(missing: Any) -> None:
    frame = pandas.DataFrame({"x": [1.0, 2.0, 3.0], "run": np.array(["a", missing, "a"], dtype=object)})
    with pytest.raises(ValueError, match=r"an episode id in every row; got none at row 1, column 'run'"):
        read_transitions(frame, states=["x"], episode="run")


def test_a_missing_value_in_a_data_frame_is_named() -> None:
    frame = pandas.DataFrame({"x": pandas.array([1, None, 3], dtype="Int64")})
    with pytest.raises(ValueError, match=r"row 1, column 'x'"):
        read_transitions(frame, states=["x"])


def test_something_that_is_no_table() -> None:
    with pytest.raises(TypeError, match="`source` must be a file or a data frame; got list"):
        read_table([1, 2])


# --- probes


def test_probes_need_the_inputs_only(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "probes.csv", ["u", "note", "x"], [[5, "at rest", 1], [6, "", 2]])
    probes = read_probes(path, make_schema(["x"], ["u"]))
    assert probes.inputs.tolist() == [[1.0, 5.0], [2.0, 6.0]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["nan", 1]], r"`probes` must be finite; got nan at row 0, column 'x'"),
        ([["zero", 1]], r"`probes` must hold numbers; got 'zero' at row 0, column 'x'"),
        ([], r"`probes` must have at least one row"),
    ],
)
def test_bad_probes_are_called_probes(tmp_path: Path, rows: list, message: str) -> None:
    path = write_csv(tmp_path / "probes.csv", ["x", "u"], rows)
    with pytest.raises(ValueError, match=message):
        read_probes(path, make_schema(["x"], ["u"]))


def test_probes_without_a_column(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "probes.csv", ["x"], [[1]])
    with pytest.raises(ValueError, match=r"`probes` must have a column 'u'; got x"):
        read_probes(path, make_schema(["x"], ["u"]))

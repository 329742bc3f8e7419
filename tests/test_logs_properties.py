"""Whatever a log looks like, a transition is of two rows that follow each other."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tether import Transitions, read_log

TOLERANCE = 0.2
# Mostly one step, so that not all of it is refused as uneven.
ELAPSED = st.sampled_from([1.0] * 12 + [0.0, 0.5, 1.1, 2.0, 3.0, 40.0])


@dataclass(frozen=True)
class Row:
    """What was written; `number` is unique, so that a transition tells which rows it is of."""

    table: int
    run: str
    time: float
    number: int
    valid: bool


@st.composite
def tables(draw: st.DrawFn) -> list[list[Row]]:
    """Tables of interleaved runs."""
    made, number = [], 0
    for table in range(draw(st.integers(1, 3))):
        clock = {run: 0.0 for run in "ab"}
        rows = []
        for _ in range(draw(st.integers(2, 40))):
            run = draw(st.sampled_from("aaab"))
            clock[run] += draw(ELAPSED)
            valid = draw(st.integers(0, 9)) > 0
            rows.append(Row(table, run, clock[run], number, valid))
            number += 1
        made.append(rows)
    return made


def frames(made: list[list[Row]]) -> list[pandas.DataFrame]:
    return [
        pandas.DataFrame(
            {
                "run": [row.run for row in rows],
                "t": [row.time for row in rows],
                "x": [float(row.number) for row in rows],
                "y": [row.time if row.valid else np.nan for row in rows],
            }
        )
        for rows in made
    ]


REFUSALS = (
    "two consecutive rows",
    "`time` must advance by",
    "`history` must leave",
    "must hold rows without",
)


def read(data: list[pandas.DataFrame], **options: Any) -> Transitions:
    """The transitions; a log that is refused for want of any shows nothing here."""
    try:
        return read_log(data, states=["x", "y"], episode="run", drop_invalid=True, **options)
    except ValueError as error:
        assume(not any(refusal in str(error) for refusal in REFUSALS))
        raise


def following(made: list[list[Row]]) -> dict[int, int]:
    """The number of the very next row of the same run in the same table, by number."""
    found = {}
    for rows in made:
        for run in "ab":
            own = [row.number for row in rows if row.run == run]
            found |= dict(pairwise(own))
    return found


def by_number(made: list[list[Row]]) -> dict[int, Row]:
    return {row.number: row for rows in made for row in rows}


@settings(max_examples=150, deadline=None)
@given(tables(), st.booleans(), st.none() | st.integers(2, 8), st.integers(0, 3))
def test_transitions_are_of_consecutive_rows(
    made: list[list[Row]], timed: bool, block: int | None, older: int
) -> None:
    history = {"x": older} if older else {}
    read_ones = read(
        frames(made), time="t" if timed else None, block=block, history=history, tolerance=TOLERANCE
    )
    rows, after = by_number(made), following(made)
    assert read_ones.report is not None
    step = read_ones.report.step
    for state, outcome in zip(read_ones.states.tolist(), read_ones.next_states.tolist(), strict=True):
        chain = [*map(int, reversed(state[2:])), int(state[0]), int(outcome[0])]
        assert all(rows[number].valid for number in chain)
        for one, other in pairwise(chain):
            assert after[one] == other
            if timed:
                assert abs(rows[other].time - rows[one].time - step) <= TOLERANCE * step * (1 + 1e-5)


@settings(max_examples=100, deadline=None)
@given(tables(), st.integers(2, 8))
def test_no_row_is_in_two_blocks(made: list[list[Row]], block: int) -> None:
    read_ones = read(frames(made), time="t", block=block)
    seen: dict[float, int] = {}
    for column in (read_ones.states[:, 0], read_ones.next_states[:, 0]):
        for number, episode in zip(column.tolist(), read_ones.episodes.tolist(), strict=True):
            assert seen.setdefault(number, episode) == episode


@settings(max_examples=100, deadline=None)
@given(tables())
def test_every_pair_of_sound_neighbours_is_there(made: list[list[Row]]) -> None:
    """Nothing more is lost than has to be."""
    read_ones = read(frames(made))
    rows = by_number(made)
    due = {(a, b) for a, b in following(made).items() if rows[a].valid and rows[b].valid}
    assert {
        (int(s[0]), int(n[0])) for s, n in zip(read_ones.states, read_ones.next_states, strict=True)
    } == due


@settings(max_examples=100, deadline=None)
@given(tables(), st.sampled_from([0.3, 0.5, 1.0, 1.7, 3.0]))
def test_resampled_rows_are_one_step_apart_in_one_run(made: list[list[Row]], step: float) -> None:
    # A column that grows with time, from a height that tells runs and tables apart.
    apart = 1e6
    data = [
        frame.assign(x=frame["t"] + apart * (2 * table + (frame["run"] == "b")), y=frame["y"] * 0)
        for table, frame in enumerate(frames(made))
    ]
    read_ones = read(data, time="t", step=step)
    np.testing.assert_allclose(read_ones.next_states[:, 0] - read_ones.states[:, 0], step, atol=1e-6)
    homes = np.round(read_ones.states[:, 0] / apart)
    for episode in np.unique(read_ones.episodes):
        assert len(np.unique(homes[read_ones.episodes == episode])) == 1
    valid = [[row for row in rows if row.valid] for rows in made]
    gaps = [(row.table, row.run, row.time) for rows in made for row in rows if not row.valid]
    for table, run, time in gaps:
        twins = [row for row in valid[table] if row.run == run and row.time == time]
        place = time + apart * (2 * table + (run == "b"))
        across = (read_ones.states[:, 0] < place - 1e-6) & (read_ones.next_states[:, 0] > place + 1e-6)
        assert twins or not across.any()

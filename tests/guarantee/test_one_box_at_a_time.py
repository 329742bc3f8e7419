"""A program over one box after another: bit for bit what the interpreter of many boxes gives."""

from __future__ import annotations

import numpy as np
import pytest

from tether.programs import program_of
from tether.programs.interpreter import interpret_boxes, registers
from tether.programs.onebox import look_at, one_box


def usual(states, controls):
    x, y, u = states[:, 0], states[:, 1], controls[:, 0]
    a, b = x * y - 0.3 * u, np.sin(x) + np.cos(y * u)
    return np.stack(
        [a / (2.0 + b * b), -a * a + 0.0 * x, (x - x) * y, (x + y) * (x - y) / u, 3.0 * x], axis=1
    )


def unusual(states, controls):
    x, y, u = states[:, 0], states[:, 1], controls[:, 0]
    jump = np.where(x * y > 0.1, np.sign(u) * x, np.abs(y) - x)
    return np.stack(
        [
            jump * np.sin(x), np.maximum(x, y) / u, np.exp(x) * np.sqrt(np.abs(y)) + np.arctan2(y, x),
            np.tanh(x * y) + np.floor(u) * x, np.hypot(x, y) - np.log(u * u) + np.tan(y), x**3 - x**-2,
        ],
        axis=1,
    )  # fmt: skip


def chained(states, controls):
    x, y, u = states[:, 0], states[:, 1], controls[:, 0]
    for _ in range(6):  # grows beyond what floats can hold
        x, y = x * x * y + u, y * x - np.cos(x)
    return np.stack([x, y, 0.0 * (x / u), -x], axis=1)


@pytest.mark.parametrize("function", [usual, unusual, chained])
def test_it_is_the_interpreter_bit_for_bit(function):
    rng = np.random.default_rng(0)
    center = rng.normal(size=(400, 3)) * 10.0 ** rng.integers(-3, 4, (400, 3))
    half = np.abs(rng.normal(size=(400, 3))) * 10.0 ** rng.integers(-8, 2, (400, 3))
    half[::5], center[1::7, 1], half[2::9, 0] = 0.0, 0.0, 0.0
    center[3::11] *= 1e120
    lower, upper = center - half, center + half
    program = program_of(function, lower[:50] / 1e3, upper[:50] / 1e3, 2)
    one, tape = one_box(program, np.arange(len(program.tape.outputs))), program.tape
    outputs = len(tape.outputs)
    defined = 0
    for effort in (0, 1, 2):
        for low, high in zip(lower, upper, strict=True):
            filled = (*np.empty((2, 1, outputs)), *np.zeros((2, 1, outputs, 3)), np.empty((1, outputs)))
            room = registers(tape)
            interpret_boxes(tape, low[None], high[None], effort, room, *filled)
            look_at(one, low, high, effort)
            for k in tape.outputs:
                known = not np.isnan(room[0][k, 0])
                defined += known
                columns = slice(tape.columns[k], tape.columns[k + 1])
                assert np.array_equal(one.low[k], room[0][k, 0], equal_nan=True)
                assert np.array_equal(one.high[k], room[1][k, 0], equal_nan=True)
                if effort > 1 and known:
                    assert np.array_equal(one.error[k], room[2][k, 0], equal_nan=True)
                if effort > 0 and known:
                    assert np.array_equal(one.steep_low[columns], room[3][columns, 0], equal_nan=True)
                    assert np.array_equal(one.steep_high[columns], room[4][columns, 0], equal_nan=True)
    assert defined > 600

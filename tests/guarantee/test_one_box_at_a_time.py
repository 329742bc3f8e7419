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


def endless(states, controls):
    x, y, u = states[:, 0], states[:, 1], controls[:, 0]
    far = np.where(x > 0.3, np.inf, x)
    return np.stack([np.sin(far) + y, 0.0 * far, u / far, np.minimum(far, y) * u, far - y, far / far], axis=1)


@pytest.mark.parametrize("function", [usual, unusual, chained, endless])
def test_it_is_the_interpreter_bit_for_bit(function):
    rng = np.random.default_rng(0)
    center = rng.normal(size=(400, 3)) * 10.0 ** rng.integers(-3, 4, (400, 3))
    half = np.abs(rng.normal(size=(400, 3))) * 10.0 ** rng.integers(-8, 2, (400, 3))
    half[::5], center[1::7, 1], half[2::9, 0] = 0.0, 0.0, 0.0
    center[3::11] *= 1e120
    lower, upper = center - half, center + half
    program = program_of(function, lower[:50] / 1e3, upper[:50] / 1e3, 2)
    one, tape = one_box(program, np.arange(len(program.tape.outputs))), program.tape
    defined = 0
    for effort in (1, 2, 1):  # and what one box leaves behind does not matter to the next
        for low, high in zip(lower, upper, strict=True):
            point = low + rng.random(3) * (high - low)
            look_at(one, low, high, point, effort)
            known = asked(tape, low, high, effort)
            at_point = asked(tape, point, point, 0)
            for k in tape.outputs:
                columns = slice(tape.columns[k], tape.columns[k + 1])
                lanes = one.lanes[columns]
                assert alike(one.low[k], known[0][k]) and alike(one.high[k], known[1][k])
                assert alike(one.below[k], at_point[0][k]) and alike(one.above[k], at_point[1][k])
                if not np.isnan(one.low[k]):
                    defined += 1
                    assert effort == 1 or alike(one.error[k], known[2][k])
                    assert alike(one.steep_low[lanes], known[3][columns])
                    assert alike(one.steep_high[lanes], known[4][columns])
    assert defined > 600


def asked(tape, low, high, effort):
    """Registers of the interpreter."""
    outputs = len(tape.outputs)
    filled = (*np.empty((2, 1, outputs)), *np.zeros((2, 1, outputs, 3)), np.empty((1, outputs)))
    room = registers(tape)
    interpret_boxes(tape, low[None], high[None], effort, room, *filled)
    return [part[:, 0] for part in room]


def alike(one, other):
    return np.array_equal(one, other, equal_nan=True)

"""Helpers of models in :mod:`test_code_is_read`, in a module of their own."""

from __future__ import annotations

import numpy as np

DRAG = np.array([0.1, 0.2])


def dragged(speed):
    return -DRAG[0] * speed - DRAG[1] * speed * np.abs(speed)


class Motor:
    """A parameter, a method and a property."""

    def __init__(self, gain: float) -> None:
        self.gain = gain

    @property
    def half(self) -> float:
        return 0.5 * self.gain

    def torque(self, command):
        return self.half * np.tanh(command)


def texts(s, u):
    """With an `assert`, which pytest writes anew in modules of tests."""
    label = f"{DRAG[0]:.2f}/{'a' * 2}"
    assert label.startswith("0."), f"not {label}"
    return s * (1.0 if "10" in label else 0.0)

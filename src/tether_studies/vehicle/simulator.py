"""Two cars to drive: the 29-state multi-body model (the simulator of record) and the 9-state drift model.

Both are the package's own right-hand sides (`package.py`), integrated with classical Runge-Kutta steps.

The guard. As shipped, the multi-body model divides by the speed of each wheel over ground, switches to
another model below 0.1 m/s, and lets a braked car roll backwards. Here, where the slowest wheel rolls
slower than walking pace, the rates are blended into a kinematic car: tyres that do not slip, lateral
motion that dies out no faster than friction allows, a brake that stops at rest. It is the remedy that the
package's own drift model takes at 0.2 m/s. Above walking pace the package's rates are used as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from tether.data import Array
from tether.foundation.kernels import in_threads
from tether_studies.vehicle.package import compile_with, load_car, load_dynamics, package_module

Fidelity = Literal["multibody", "drift"]

WALKING_PACE = 1.4
"""Speed of the slowest wheel [m/s] from which on the guard does nothing."""
CREEP = 0.7
"""Speed of the slowest wheel [m/s] below which the car is kinematic altogether."""
STEP_SECONDS = 0.1
"""Time between two rows of data."""
LONGEST_STEP = 2.5e-3
"""Longest Runge-Kutta step [s]."""
STEP_PER_SPEED = 2.5e-4
"""Longest step per speed [s per m/s]: the slower a wheel rolls, the stiffer its spin (0.13 ms per m/s)."""
CREEPING_STEP = 1e-3
"""Longest step [s] of a car that creeps, whose wheels do not slip."""

_GRAVITY = 9.81
_SETTLING = 0.02
"""Seconds in which wheels and axles of a creeping car settle, as in the package's drift model."""
_BRAKE_LAG = 0.05
_STEERING_LAG = 0.05


@dataclass(frozen=True, eq=False)
class Simulator:
    """A car to be driven; states are those of the package.

    Attributes:
        fidelity: which model.
        width: number of states.
        kernel: ``(states (N, width), commands (N, 2), car, seconds, refinement) -> None``, in place.
    """

    fidelity: Fidelity
    width: int
    kernel: Any

    def start(self, poses: Array, speeds: Array) -> Array:
        """(N, width) states of cars rolling straight ahead.

        Args:
            poses: (N, 3) x, y of the rear axle's middle [m], heading [rad].
            speeds: (N,) m/s.
        """
        parameters = package_module("vehicle_parameters").setup_vehicle_parameters(vehicle_id=2)
        name = "init_mb" if self.fidelity == "multibody" else "init_std"
        initial = getattr(package_module(name), name)
        rows = []
        for (x, y, heading), speed in zip(poses.tolist(), speeds.tolist(), strict=True):
            mass = [x + parameters.b * math.cos(heading), y + parameters.b * math.sin(heading)]
            rows.append(initial([*mass, 0.0, speed, heading, 0.0, 0.0], parameters))
        return np.array(rows, dtype=np.float64)

    def advance(
        self,
        states: Array,
        commands: Array,
        friction: Array | float = 1.0,
        *,
        refinement: float = 1.0,
    ) -> Array:
        """(N, width) states after a step, with commands held.

        Args:
            states: (N, width).
            commands: (N, 2) acceleration [m/s²] and steering angle [rad] asked for.
            friction: (N,) or one number: peak friction of the road, 1 for the tyre's own; few values.
            refinement: how many times shorter than usual the Runge-Kutta steps are.
        """
        states, friction = states.copy(), np.broadcast_to(friction, len(states))

        def run(part: slice) -> None:
            for value in np.unique(friction[part]):
                rows = np.flatnonzero(friction[part] == value) + part.start
                moved = states[rows]
                self.kernel(moved, commands[rows], load_car(float(value)), STEP_SECONDS, refinement)
                states[rows] = moved

        in_threads(run, len(states))
        return states

    def measure(self, states: Array) -> Array:
        """(N, 5) x, y of the rear axle's middle, heading, forward speed, yaw rate; heading not wrapped."""
        x, y, _, speed, heading, yaw_rate = states[:, :6].T
        if self.fidelity == "drift":
            speed = speed * np.cos(states[:, 6])
        behind = load_car().b
        return np.stack(
            [x - behind * np.cos(heading), y - behind * np.sin(heading), heading, speed, yaw_rate], axis=1
        )


@lru_cache
def load_simulator(fidelity: Fidelity = "multibody") -> Simulator:
    """The simulator, compiled (some seconds the first time, then cached on disk)."""
    parts = _compiled_parts(fidelity)
    kernel = compile_with(_advance_rows, fidelity, **parts, rates_of=guarded_rates(fidelity))
    return Simulator(fidelity, 29 if fidelity == "multibody" else 9, kernel)


@lru_cache
def guarded_rates(fidelity: Fidelity = "multibody") -> Any:
    """Compiled ``(state, (steering speed, acceleration), car, rates) -> None`` that fills `rates`."""
    parts = _compiled_parts(fidelity)
    if fidelity == "drift":
        return compile_with(_drift_rates, package_rates=load_dynamics().drift, **parts)
    shipped = load_dynamics().multibody
    slow = compile_with(_slow_multibody_rates, package_rates=shipped, **parts)
    return compile_with(_multibody_rates, package_rates=shipped, slow_rates=slow, **parts)


@lru_cache
def _compiled_parts(fidelity: Fidelity) -> dict[str, Any]:
    wheel = _slowest_multibody_wheel if fidelity == "multibody" else _slowest_drift_wheel
    parts = {"slowest_wheel": compile_with(wheel)}
    for function in (_kinematic, _blend, _towards, _package_inputs):
        parts[function.__name__.removeprefix("_")] = compile_with(function)
    return parts


# Everything below is compiled by Numba, which is given these names then.
package_rates: Any = None
rates_of: Any = None
slow_rates: Any = None
slowest_wheel: Any = None
kinematic: Any = None
blend: Any = None
towards: Any = None
package_inputs: Any = None


def _slowest_multibody_wheel(state, car):
    """Speed over ground of the slowest wheel; every divisor of the package's slips is at least this."""
    front, rear = 0.5 * car.T_f * state[5], 0.5 * car.T_r * state[5]
    sideways = (state[10] + car.a * state[5]) * math.sin(state[2])
    steered = (state[3] - abs(front)) * math.cos(state[2]) + sideways
    return min(steered, state[3] - abs(front), state[3] - abs(rear))


def _slowest_drift_wheel(state, car):
    """Speed over ground of the slowest wheel."""
    forward, sideways = state[3] * math.cos(state[6]), state[3] * math.sin(state[6])
    steered = forward * math.cos(state[2]) + (sideways + car.a * state[5]) * math.sin(state[2])
    return min(forward, steered)


def _blend(speed):
    """0 for a creeping car, 1 from walking pace on, smooth between."""
    share = min(max((speed - CREEP) / (WALKING_PACE - CREEP), 0.0), 1.0)
    return share * share * (3.0 - 2.0 * share)


def _towards(target, value, most):
    """Rate at which `value` settles to `target`, at most `most` either way."""
    return min(max((target - value) / _SETTLING, -most), most)


def _kinematic(steering, speed, car):
    """Slip angle at the centre of mass and yaw rate of a car whose tyres do not slip."""
    slip = math.atan(math.tan(steering) * car.b / (car.a + car.b))
    return slip, speed * math.tan(steering) / (car.a + car.b)


def _multibody_rates(state, control, car, rates):
    """The package's rates, blended into a kinematic car where a wheel is slower than walking pace."""
    share = blend(slowest_wheel(state, car))
    if share > 0.0:
        shipped = package_rates(state, control, car)
        for k in range(29):
            rates[k] = shipped[k]
    if share < 1.0:
        slow = slow_rates(state, control, car)
        for k in range(29):
            # A creeping car does not ask the package, which may divide by zero there.
            rates[k] = slow[k] if share == 0.0 else share * rates[k] + (1.0 - share) * slow[k]


def _slow_multibody_rates(state, control, car):
    """Rates of a car too slow for slip: kinematic on the ground, the package's suspension above it."""
    held = state.copy()
    held[3] = 0.0  # the package's own branch without slip
    slow = package_rates(held, control, car)
    slip, yaw_rate = kinematic(state[2], state[3], car)
    grip = _GRAVITY * car.tire.p_dy1
    slow[0] = state[3] * math.cos(state[4]) - state[10] * math.sin(state[4])
    slow[1] = state[3] * math.sin(state[4]) + state[10] * math.cos(state[4])
    slow[3] = control[1]
    slow[4] = state[5]
    slow[5] = towards(yaw_rate, state[5], grip)
    slow[10] = towards(state[3] * math.tan(slip), state[10], grip)
    # The axles follow the body, and their joints relax.
    slow[15] = slow[10] + car.a * slow[5] + (state[10] + car.a * state[5] - state[15]) / _SETTLING
    slow[20] = slow[10] - car.b * slow[5] + (state[10] - car.b * state[5] - state[20]) / _SETTLING
    slow[27] = -state[27] / _SETTLING
    slow[28] = -state[28] / _SETTLING
    for wheel in range(23, 27):
        slow[wheel] = (state[3] / car.R_w - state[wheel]) / _SETTLING
    return slow


def _drift_rates(state, control, car, rates):
    """The package's rates, blended into a kinematic car where an axle is slower than walking pace."""
    share = blend(slowest_wheel(state, car))
    shipped = package_rates(state, control, car)
    for k in range(9):
        rates[k] = shipped[k]
    if share < 1.0:
        rest, grip = 1.0 - share, _GRAVITY * car.tire.p_dy1
        slip, yaw_rate = kinematic(state[2], state[3], car)
        rates[3] = share * rates[3] + rest * control[1]
        rates[4] = state[5]
        rates[5] = share * rates[5] + rest * towards(yaw_rate, state[5], grip)
        rates[6] = share * rates[6] + rest * towards(slip, state[6], grip)
        rates[7] = share * rates[7] + rest * (state[3] / car.R_w - state[7]) / _SETTLING
        rates[8] = share * rates[8] + rest * (state[3] / car.R_w - state[8]) / _SETTLING


def _package_inputs(state, command, inputs):
    """Steering speed and acceleration, the package's inputs, from commanded acceleration and angle."""
    inputs[0] = (command[1] - state[2]) / _STEERING_LAG
    # A brake stops a car, and does not push it backwards. Inactive above walking pace.
    inputs[1] = max(command[0], -state[3] / _BRAKE_LAG)


def _advance_rows(states, commands, car, seconds, refinement):
    """Classical Runge-Kutta steps, in place; commands are held while the steering servo moves."""
    width = states.shape[1]
    slopes, trial, inputs = np.zeros((4, width)), np.zeros(width), np.zeros(2)
    for row in range(states.shape[0]):
        state, left = states[row], seconds
        while left > 0.0:
            speed = slowest_wheel(state, car)
            longest = min(STEP_PER_SPEED * speed, LONGEST_STEP) if speed > CREEP else CREEPING_STEP
            # Equal steps to the end of the interval, so that none is left over by rounding.
            count = math.ceil(left * refinement / longest * (1.0 - 1e-12))
            step = left / count
            for stage in range(4):
                reach = 0.0 if stage == 0 else (step if stage == 3 else 0.5 * step)
                for k in range(width):
                    trial[k] = state[k] + reach * slopes[max(stage - 1, 0), k]
                package_inputs(trial, commands[row], inputs)
                rates_of(trial, inputs, car, slopes[stage])
            for k in range(width):
                state[k] += step / 6.0 * (slopes[0, k] + 2.0 * (slopes[1, k] + slopes[2, k]) + slopes[3, k])
            # Negative wheel spin is forbidden, as in the package.
            for wheel in range(23, 27) if width == 29 else range(7, 9):
                state[wheel] = max(state[wheel], 0.0)
            left = left - step if count > 1 else 0.0

"""Enclosures of all cells at once, against plain evaluation of the same model on as many points.

A unicycle with 5 inputs on 2,500 boxes, and a quadrotor with 24 inputs (position, velocity, quaternion,
body rates, 4 motor speeds, wind, 4 commands) on 2,000. M is read and checked once, boxes are enclosed as often as a fit
asks; targets: 0.1 s for the car and 1 s for the quadrotor, both together.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from sizes import size
from tether.programs import enclose, enclose_range
from tether.programs.boxes import program_of

STEP, MASS, GRAVITY, ARM = 0.02, 0.75, 9.81, 0.12
INERTIA = np.array([2.5e-3, 2.1e-3, 4.3e-3])
THRUST, TORQUE, LAG = 1.5e-6, 2.1e-8, 0.03
DRAG = np.array([0.26, 0.28, 0.42])
# Rows: thrust, roll, pitch and yaw torque; columns: motors.
MIXER = np.array(
    [[1, 1, 1, 1], [ARM, -ARM, -ARM, ARM], [-ARM, -ARM, ARM, ARM], [-0.014, 0.014, -0.014, 0.014]]
)


def unicycle(states, controls):
    x, y, heading = states.T
    speed, yaw_rate = controls.T
    turned = heading + 0.04 * yaw_rate
    return np.stack([x + 0.04 * speed * np.cos(turned), y + 0.04 * speed * np.sin(turned), turned], axis=1)


def rotation(quaternion):
    w, x, y, z = quaternion.T
    rows = [
        [1 - 2 * (y**2 + z**2), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x**2 + z**2), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x**2 + y**2)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def turn(quaternion, rates):
    w, x, y, z = quaternion.T
    p, q, r = rates.T
    change = [-x * p - y * q - z * r, w * p + y * r - z * q, w * q - x * r + z * p, w * r + x * q - y * p]
    moved = quaternion + 0.5 * STEP * np.stack(change, axis=-1)
    return moved / np.linalg.norm(moved, axis=1, keepdims=True)


def quadrotor(states, controls):
    """Semi-implicit Euler: motors, rates, attitude, velocity, position. 20 states, 4 controls."""
    position, velocity, attitude = states[:, 0:3], states[:, 3:6], states[:, 6:10]
    rates, motors, wind = states[:, 10:13], states[:, 13:17], states[:, 17:20]
    motors_next = motors + (STEP / LAG) * (np.clip(controls, 0.0, 2500.0) - motors)
    wrench = (THRUST * motors_next**2) @ MIXER.T
    gyroscopic = np.cross(rates, rates * INERTIA)
    rates_next = rates + STEP * (wrench[:, 1:] - gyroscopic) / INERTIA
    attitude_next = turn(attitude, rates_next)
    body_to_world = rotation(attitude)
    airspeed = velocity - wind
    in_body = (np.swapaxes(body_to_world, 1, 2) @ airspeed[:, :, None])[:, :, 0]
    force = np.stack([0 * wrench[:, 0], 0 * wrench[:, 0], wrench[:, 0]], axis=1) - DRAG * in_body
    acceleration = (body_to_world @ force[:, :, None])[:, :, 0] / MASS - np.array([0.0, 0.0, GRAVITY])
    velocity_next = velocity + STEP * acceleration
    position_next = position + STEP * velocity_next
    parts = [position_next, velocity_next, attitude_next, rates_next, motors_next, wind]
    return np.concatenate(parts, axis=1)


def quadrotor_boxes(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    attitude = np.array([1.0, 0, 0, 0]) + 0.3 * rng.normal(size=(count, 4))
    attitude /= np.linalg.norm(attitude, axis=1, keepdims=True)
    motion = rng.normal(size=(count, 6)) * 2
    motors = rng.uniform(800, 1600, size=(count, 8))
    middle = np.concatenate(
        [
            motion,
            attitude,
            rng.normal(size=(count, 3)),
            motors[:, :4],
            rng.normal(size=(count, 3)),
            motors[:, 4:],
        ],
        axis=1,
    )
    radius = np.array([0.2] * 6 + [0.02] * 4 + [0.2] * 3 + [40.0] * 4 + [0.2] * 3 + [40.0] * 4)
    return middle - radius, middle + radius


def unicycle_boxes(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    middle = np.random.default_rng(seed).normal(size=(count, 5)) * [50, 50, 3, 5, 1]
    radius = np.array([1.0, 1.0, 0.1, 0.5, 0.1])
    return middle - radius, middle + radius


def best_seconds(call: Callable[[], object], rounds: int = 7) -> float:
    """Of the processor, all threads counted."""
    times = []
    for _ in range(size(rounds, 1)):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def report(name: str, model, boxes, states: int, limit: float) -> None:
    lower, upper = boxes
    middle = (lower + upper) / 2
    plain = best_seconds(lambda: model(middle[:, :states], middle[:, states:]))
    program_of(model, lower, upper, states)  # compiles, and looks once whether M's code is followed rightly
    reading = best_seconds(lambda: program_of(model, lower, upper, states), 3)
    program = program_of(model, lower, upper, states)
    ranges = best_seconds(lambda: enclose_range(program, lower, upper, states=states))
    full = best_seconds(lambda: enclose(program, lower, upper, states=states))
    split = best_seconds(lambda: enclose(program, lower, upper, states=states, splits=1), 3)
    outputs = model(middle[:, :states], middle[:, states:]).shape[1]
    print(
        f"{name:>10}: {len(lower)} boxes, {lower.shape[1]} inputs, {outputs} outputs: plain values {plain * 1e3:.2f} "
        f"ms, range {ranges * 1e3:.1f} ms, range and derivatives {full * 1e3:.1f} ms ({full / plain:.0f} times plain), "
        f"with one halving {split * 1e3:.1f} ms; M read and checked once {reading * 1e3:.0f} ms; together "
        f"{(full + reading) * 1e3:.0f} ms   target <= {limit * 1e3:.0f} ms   "
        f"{'PASS' if full + reading <= limit else 'MISS'}"
    )


def main() -> None:
    report("unicycle", unicycle, unicycle_boxes(size(2500, 20)), 3, 0.1)
    report("quadrotor", quadrotor, quadrotor_boxes(size(2000, 10)), 20, 1.0)


if __name__ == "__main__":
    main()

"""Tubes: how wide beside what rollouts spread over, how long they take, and M's own reachable sets beside immrax's.

    python benchmarks/bench_tubes.py

Plants of the ARCH competition's AINNCS category, one step of the classical Runge-Kutta method each, controls a small box
around 0, sets from a small box: M's own sets (delta 0), outward-rounded. immrax (inclusion functions in JAX, not rounded
outward) is asked for the same steps with its Jacobian-based inclusion function where it is installed (`IMMRAX_PYTHON` may
name the Python of another environment that has it); otherwise its column is SKIPPED.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import numpy as np

from sizes import TINY, size
from tether.claims.tubes import attack_tube, tube
from tether.claims.tubes.limits import EvenLimits
from tether.claims.tubes.making import Effort, trusted_program, tube_within
from tether.data import make_schema

STEP = 0.05

PLANTS = {
    "single pendulum": (2, 1, """
    return [x[1], 2.0 * sin(x[0]) + 8.0 * u[0]]"""),
    "double pendulum": (4, 2, """
    d = x[0] - x[1]
    c = cos(d)
    D = 0.5 * c * c - 1.0
    A = 4.0 * u[0] + 2.0 * sin(x[0]) - 0.5 * x[3] * x[3] * sin(d)
    B = 8.0 * u[1] + 2.0 * sin(x[1]) + x[2] * x[2] * sin(d)
    return [x[2], x[3], A + c * (B - c * A) / (2.0 * D), -(B - c * A) / D]"""),
    "TORA": (4, 1, """
    return [x[1], -x[0] + 0.1 * sin(x[2]), x[3], u[0]]"""),
    "unicycle": (4, 2, """
    return [x[3] * cos(x[2]), x[3] * sin(x[2]), u[1], u[0]]"""),
    "attitude": (6, 3, """
    n = x[3] * x[3] + x[4] * x[4] + x[5] * x[5]
    return [0.25 * (u[0] + x[1] * x[2]), 0.5 * (u[1] - 3.0 * x[0] * x[2]), u[2] + 2.0 * x[0] * x[1],
            0.5 * (x[1] * (n - x[5]) + x[2] * (n + x[4]) + x[0] * (n + 1.0)),
            0.5 * (x[0] * (n + x[5]) + x[2] * (n - x[3]) + x[1] * (n + 1.0)),
            0.5 * (x[0] * (n - x[4]) + x[1] * (n + x[3]) + x[2] * (n + 1.0))]"""),
    "quadrotor": (12, 3, """
    cf, sf, ct, st, cp, sp = cos(x[6]), sin(x[6]), cos(x[7]), sin(x[7]), cos(x[8]), sin(x[8])
    a, b, w, p, q, r = x[3], x[4], x[5], x[9], x[10], x[11]
    return [ct * cp * a + (sf * st * cp - cf * sp) * b + (cf * st * cp + sf * sp) * w,
            ct * sp * a + (sf * st * sp + cf * cp) * b + (cf * st * sp - sf * cp) * w,
            st * a - sf * ct * b - cf * ct * w,
            r * b - q * w - 9.81 * st, p * w - r * a + 9.81 * ct * sf, q * a - p * b + 9.81 * ct * cf - 9.81 - u[0] / 1.4,
            p + sf * (st / ct) * q + cf * (st / ct) * r, cf * q - sf * r, (sf / ct) * q + (cf / ct) * r,
            (0.054 - 0.104) / 0.054 * q * r + u[1] / 0.054, (0.104 - 0.054) / 0.054 * p * r + u[2] / 0.054, 0.0 * p]"""),
}  # fmt: skip
"""States, controls and f(x, u), as a text that both libraries can be given."""
STARTS = {
    "TORA": ([0.6, -0.7, -0.4, 0.5], [0.7, -0.6, -0.3, 0.6]),
    "unicycle": ([9.5, -4.5, 2.1, 1.5], [9.55, -4.45, 2.11, 1.51]),
}
CONTROL = 0.02


def field(name):
    """The source of ``f(x, u, sin, cos)``."""
    return f"def f(x, u, sin, cos):{PLANTS[name][2]}\n"


def start(name):
    states = PLANTS[name][0]
    low, high = STARTS.get(
        name, ([0.1 if states < 12 else 0.0] * states, [0.15 if states < 12 else 0.02] * states)
    )
    return np.array(low), np.array(high)


SOURCE = """
import numpy as np

{field}

def {name}(states, controls):
    h = {step}
    x, u = [states[:, k] for k in range({states})], [controls[:, k] for k in range({controls})]
    one = f(x, u, np.sin, np.cos)
    two = f([a + 0.5 * h * b for a, b in zip(x, one)], u, np.sin, np.cos)
    three = f([a + 0.5 * h * b for a, b in zip(x, two)], u, np.sin, np.cos)
    four = f([a + h * b for a, b in zip(x, three)], u, np.sin, np.cos)
    following = [a + h / 6.0 * (p + 2.0 * q + 2.0 * r + s) for a, p, q, r, s in zip(x, one, two, three, four)]
    return np.stack(following, axis=1)
"""


def plant(name):
    """M as a function in a file, for its source is read."""
    import importlib.util
    import tempfile
    from pathlib import Path

    states, controls, _ = PLANTS[name]
    label = name.replace(" ", "_")
    text = SOURCE.format(field=field(name), name=label, step=STEP, states=states, controls=controls)
    path = Path(tempfile.mkdtemp()) / f"{label}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"plant_{label}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, label)


def ours(name, steps):
    """Widths of the last box, and seconds of the first and of the second time."""
    states, controls, _ = PLANTS[name]
    schema = make_schema([f"x{k}" for k in range(states)], [f"u{k}" for k in range(controls)])
    limits = EvenLimits(np.zeros(states), schema)
    bound = np.full(controls, CONTROL)
    function, seconds = plant(name), []
    tube_within(limits, schema, function, start(name), (-bound, bound), steps=1)  # what Numba keeps on disk
    begun, program = time.perf_counter(), None
    for _ in range(2):
        program = program or trusted_program(function, schema, limits)
        found = tube_within(
            limits, schema, program, start(name), (-bound, bound), steps=steps, effort=Effort(cuts=size(6, 1))
        )
        seconds.append(time.perf_counter() - begun)
        begun = time.perf_counter()
    rng = np.random.default_rng(0)
    low, high = start(name)
    paths = [rng.uniform(low, high, (2000, states))]
    held = rng.choice([-CONTROL, CONTROL], (2000, controls))
    for _ in range(steps):
        paths.append(function(paths[-1], np.where(rng.random(held.shape) < 0.1, -held, held)))
    inside = found.complete and found.contains(np.stack(paths, axis=1)).all()
    spread = np.ptp(paths[-1], axis=0)
    return found.upper[-1] - found.lower[-1], spread, seconds, inside


IMMRAX = """
import json, sys, time
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
import immrax as irx

given = json.load(sys.stdin)
scope = {}
exec(given["field"], scope)
h, steps = given["step"], given["steps"]

def step(x, u):
    g = lambda y: sum(jnp.eye(len(given["start"][0]))[k] * v for k, v in enumerate(scope["f"](y, u, jnp.sin, jnp.cos)))
    one = g(x); two = g(x + 0.5 * h * one); three = g(x + 0.5 * h * two); four = g(x + h * three)
    return x + h / 6 * (one + 2 * two + 2 * three + four)

best = None
for kind in ("jacif", "natif"):
    try:
        F = getattr(irx, kind)(step)
        control = irx.interval(jnp.array(given["control"][0]), jnp.array(given["control"][1]))
        run = jax.jit(lambda lo, up: jax.lax.scan(
            lambda c, _: ((lambda o: ((o.lower, o.upper), None))(F(irx.interval(c[0], c[1]), control))),
            (lo, up), None, length=steps)[0])
        lo, up = jnp.array(given["start"][0]), jnp.array(given["start"][1])
        t = time.perf_counter(); jax.block_until_ready(run(lo, up)); first = time.perf_counter() - t
        t = time.perf_counter(); out = jax.block_until_ready(run(lo, up)); second = time.perf_counter() - t
        width = np.asarray(out[1] - out[0])
        found = {"kind": kind, "width": np.where(np.isfinite(width), width, 1e300).tolist(), "seconds": [first, second]}
        if best is None or np.mean(found["width"]) < np.mean(best["width"]):
            best = found
    except Exception as error:
        print(f"{kind}: {type(error).__name__}: {error}", file=sys.stderr)
print(json.dumps(best))
"""


def theirs(name, steps):
    """The same of immrax, in whatever environment has it; None where there is none."""
    python = os.environ.get("IMMRAX_PYTHON")
    if TINY or not python:
        return None
    low, high = start(name)
    bound = [CONTROL] * PLANTS[name][1]
    given = {"field": field(name), "step": STEP, "steps": steps, "start": [low.tolist(), high.tolist()],
             "control": [[-b for b in bound], bound]}  # fmt: skip
    done = subprocess.run(
        [python, "-c", IMMRAX], input=json.dumps(given), capture_output=True, text=True, check=False
    )
    lines = done.stdout.strip().splitlines()
    if not lines or lines[-1] == "null":
        print(done.stderr.strip().splitlines()[-1:] or "no answer", file=sys.stderr)
        return None
    return json.loads(lines[-1])


def arch():
    steps = size(20, 3)
    print(
        f"ARCH plants, {steps} steps of {STEP} s: mean width after the last step, and seconds (first, second run)"
    )
    for name in PLANTS:
        width, spread, seconds, inside = ours(name, steps)
        line = f"{name:16s} ours {width.mean():.4g} ({(width / spread).mean():.2f} of the rollouts' spread"
        line += f"{'' if inside else ', LEFT'}), {seconds[0]:.2f} s, {seconds[1]:.2f} s"
        found = theirs(name, steps)
        if found is None:
            print(line + "; immrax SKIPPED")
            continue
        ratio = width.mean() / np.mean(found["width"])
        print(
            line + f"; immrax ({found['kind']}) {np.mean(found['width']):.4g}, {found['seconds'][0]:.2f} s, "
            f"{found['seconds'][1]:.4f} s; width {ratio:.3g} of its, time {seconds[1] / found['seconds'][1]:.3g} of its compiled"
        )


def learned():
    """Tubes of learned models: the pendulum from a point, and many parked and driving cars."""
    import tether
    from gym_pendulum import episodes, trusted
    from tether.fitting import TETHERED, FitConfig, build_for, prepare
    from tether.fitting.methods import train_method
    from tether_studies import parked_car

    quick = tether.TrainingConfig(steps=size(200, 5))
    config = FitConfig(
        memories=size(300, 20), leaves=size(20_000, 200), hidden=(16,), training=quick, evidence="proved"
    )
    problem = prepare(episodes(0.25, 0.0, count=size(100, 10)), trusted=trusted, config=config)
    model = train_method(problem, TETHERED, config, built=build_for(problem, TETHERED, config)).model
    steps = size(40, 4)
    found = tube(model, trusted, [3.0, 0.5], np.zeros((steps, 1)))
    worst = attack_tube(model, found, rollouts=size(10_000, 100))
    if found.complete:
        ratio = found.half_width[-1] / worst.spread[-1]
        print(f"pendulum, {steps} steps from a point: half-width over the spread of {worst.rollouts} rollouts at extreme "
              f"weights: angle {ratio[0]:.2f}, speed {ratio[1]:.2f} (at most 3 wanted); largest ratio {worst.max_ratio:.4f}")  # fmt: skip
    data = parked_car.drive(seed=0, episodes=size(60, 6))
    config = FitConfig(memories=size(1000, 30), leaves=size(20_000, 200), hidden=(16,), training=quick,
                       evidence="proved", domain=parked_car.DOMAIN)  # fmt: skip
    probes = parked_car.parked(data, count=size(9000, 200))
    problem = prepare(data, trusted=parked_car.TRUSTED, probes=probes, config=config)
    car = train_method(problem, TETHERED, config, built=build_for(problem, TETHERED, config)).model
    rest = tube(car, parked_car.TRUSTED, [3.0, 4.0, 0.7], np.zeros((20, 2)))
    print(f"car at rest, 20 steps: largest half-width {rest.half_width.max():.2g}")
    rng = np.random.default_rng(0)
    starts = rng.uniform([-20, -20, -3.1], [20, 20, 3.1], (size(1000, 5), 3))
    for _ in range(2):
        begun, used = time.perf_counter(), time.process_time()
        many = tube(car, parked_car.TRUSTED, starts, np.tile([5.0, 0.3], (20, 1)))
        took = time.perf_counter() - begun, time.process_time() - used
    worst = attack_tube(car, many, rollouts=size(20_000, 100))
    print(f"{len(starts)} tubes of 20 steps of the car: {took[0]:.2f} s, {took[1]:.2f} s of CPU (below 5 wanted); "
          f"{sum(map(bool, many.reasons))} end early; largest ratio of {worst.rollouts} rollouts {worst.max_ratio:.4f}")  # fmt: skip


def reality():
    """System tubes of one second on real logs: calibrated on some episodes, counted on others."""
    import real_car
    import real_pendulum
    import tether
    from real_logs import log, splits
    from tether.claims.tubes import calibrate_system
    from tether.claims.tubes.system import inside_share
    from tether.fitting import FitConfig

    cars = {"states": ["x", "y", "heading", "speed"], "controls": ["steering_command", "speed_command"],
            "angles": ["heading"], "step": real_car.STEP}  # fmt: skip
    arms = {
        "states": ["position", "velocity"],
        "controls": ["torque"],
        "angles": ["position"],
        "step": real_pendulum.STEP,
    }
    for name, module, columns in (("f1tenth.csv", real_car, cars), ("pendulum.csv", real_pendulum, arms)):
        path = log(name)
        if path is None:
            continue
        steps, alpha = round(size(1.0, 0.2) / columns["step"]), 0.1
        data = tether.read_log(path, episode="run", time="time", block="2s", **columns)
        for seed in splits():
            rng = np.random.default_rng(seed)
            part = dict(
                zip(
                    rng.permutation(np.unique(data.episodes)).tolist(),
                    np.linspace(0, 1, len(np.unique(data.episodes))),
                    strict=True,
                )
            )
            share = np.array([part[episode] for episode in data.episodes])
            fitting, held, fresh = (
                data.take(rows) for rows in (share < 0.5, (share >= 0.5) & (share < 0.75), share >= 0.75)
            )
            config = FitConfig(seed=seed, training=tether.TrainingConfig(steps=size(1000, 5)))
            model = tether.fit(fitting, trusted=module.fitted(fitting), config=config)
            band = calibrate_system(model, held, steps=steps, alpha=alpha, shape=fitting)
            inside, even = inside_share(model, band, fresh)
            widths = (band.half_width.mean(axis=0) / band.constant).round(2).tolist()
            print(f"{name}, split {seed}: {steps} steps, {band.episodes} episodes calibrated on: {inside:.3f} of stretches of "
                  f"{len(np.unique(fresh.episodes))} fresh ones inside ({1 - alpha - 0.02:.2f} wanted), constant band {even:.3f}; "
                  f"mean half-width over the constant band's {widths}")  # fmt: skip


if __name__ == "__main__":
    if "real" in sys.argv:
        reality()
        sys.exit()
    arch()
    if "arch" not in sys.argv:
        learned()
        reality()

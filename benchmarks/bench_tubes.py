"""Tubes: how wide beside what rollouts spread over, how long they take, and M's own reachable sets beside immrax's.

    python benchmarks/bench_tubes.py [arch [PLANT...]] [attacks] [speed] [real] [drones] [figure]

Plants of the ARCH competition's AINNCS category, one step of the classical Runge-Kutta method each, controls a small box
around 0, sets from a small box: M's own sets (delta 0), outward-rounded. immrax (inclusion functions in JAX, not rounded
outward) is asked for the same steps with its Jacobian-based inclusion function where it is installed (`IMMRAX_PYTHON` may
name the Python of another environment that has it); otherwise its column is SKIPPED.
Rollouts at extreme weights try to leave tubes of learned models (`attacks`); system tubes of one second are counted on
real logs (`real`, with TETHER_REAL_LOGS); `figure` draws docs/images/tubes.png (TETHER_FIGURE says where).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from sizes import TINY, size
from tether.claims.tubes import attack_tube, tube
from tether.claims.tubes.limits import EvenLimits
from tether.claims.tubes.making import Effort, trusted_program, tube_within
from tether.claims.tubes.reaching import Reaching
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
    """Widths of the last box, seconds of CPU of the first time, and seconds of the best of thirty more."""
    states, controls, _ = PLANTS[name]
    schema = make_schema([f"x{k}" for k in range(states)], [f"u{k}" for k in range(controls)])
    bound = np.full(controls, CONTROL)
    function, seconds = plant(name), []
    clock, reaching = time.process_time, None
    begun = clock()
    for _ in range(size(31, 2)):
        reaching = reaching or Reaching(function, schema)
        found = reaching(start(name), (-bound, bound), steps=steps)
        seconds.append(clock() - begun)
        clock = time.perf_counter
        begun = clock()
    rng = np.random.default_rng(0)
    low, high = start(name)
    paths = [rng.uniform(low, high, (2000, states))]
    held = rng.choice([-CONTROL, CONTROL], (2000, controls))
    for _ in range(steps):
        paths.append(function(paths[-1], np.where(rng.random(held.shape) < 0.1, -held, held)))
    path = np.stack(paths, axis=1)
    inside = found.complete and bool(((path >= found.lower) & (path <= found.upper)).all())
    spread = np.ptp(paths[-1], axis=0)
    return found.upper[-1] - found.lower[-1], spread, (seconds[0], min(seconds[1:])), inside


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
        t = time.process_time(); jax.block_until_ready(run(lo, up)); first = time.process_time() - t
        second = float("inf")
        for _ in range(30):
            t = time.perf_counter(); out = jax.block_until_ready(run(lo, up)); second = min(second, time.perf_counter() - t)
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
        f"ARCH plants, {steps} steps of {STEP} s: mean width after the last step, and seconds (of CPU for the first run, best of thirty more)"
    )
    schema = make_schema(["x"], [])
    Reaching(lambda states, controls: np.sin(states), schema)(
        [0.1], None, steps=1
    )  # what Numba keeps on disk
    for name in size([name for name in PLANTS if name in sys.argv] or list(PLANTS), ["TORA"]):
        width, spread, seconds, inside = ours(name, steps)
        line = f"{name:16s} ours {width.mean():.4g} ({(width / spread).mean():.2f} of the rollouts' spread"
        line += f"{'' if inside else ', LEFT'}), {seconds[0]:.2f} s, {seconds[1]:.6f} s"
        found = theirs(name, steps)
        if found is None:
            print(line + "; immrax SKIPPED")
            continue
        ratio = width.mean() / np.mean(found["width"])
        print(
            line + f"; immrax ({found['kind']}) {np.mean(found['width']):.4g}, {found['seconds'][0]:.2f} s, "
            f"{found['seconds'][1]:.6f} s; width {ratio:.4g} of its, time {seconds[1] / found['seconds'][1]:.3g} of its compiled "
            f"(5 wanted), {seconds[0] / found['seconds'][0]:.3g} of its first (1 wanted)",
            flush=True,
        )


def fitted(data, trusted, *, hidden=(64, 64), probes=None, **settings):
    """A model with an affine tether, and proved."""
    import tether
    from tether.fitting import TETHERED, FitConfig, build_for, prepare
    from tether.fitting.methods import train_method

    training = tether.TrainingConfig(steps=size(200, 5))
    config = FitConfig(hidden=hidden, training=training, evidence="proved", **settings)
    known = {} if probes is None else {"probes": probes}
    problem = prepare(data, trusted=trusted, config=config, **known)
    return train_method(problem, TETHERED, config, built=build_for(problem, TETHERED, config)).model


def pendulum():
    """Gymnasium's, 100 episodes."""
    from gym_pendulum import episodes, trusted

    data = episodes(0.25, 0.0, count=size(100, 10))
    return fitted(data, trusted, memories=size(300, 20), leaves=size(20_000, 200)), trusted


def car():
    """The demo's."""
    from tether_studies import parked_car

    data = parked_car.drive(seed=0, episodes=size(60, 6))
    probes = parked_car.parked(data, count=size(9000, 200))
    memories, leaves = size(1000, 30), size(20_000, 200)
    model = fitted(
        data, parked_car.TRUSTED, probes=probes, memories=memories, leaves=leaves, domain=parked_car.DOMAIN
    )
    return model, parked_car.TRUSTED


def random_system(seed):
    """One to four states, one control, smooth; every other one has an angle."""
    from tether.data import Transitions

    rng = np.random.default_rng(seed)
    states = int(rng.integers(1, 5))
    schema = make_schema([f"x{k}" for k in range(states)], ["u"], angles=["x0"] if seed % 2 else [])
    mix, bend = 0.2 * rng.normal(size=(states, states)), rng.normal(size=(states, states + 1))

    def system(now, controls):
        inside = np.concatenate([now, controls], axis=1)
        turned = np.concatenate([np.sin(inside[:, :1]), inside[:, 1:]], axis=1) if seed % 2 else inside
        return now + 0.1 * np.tanh(turned @ bend.T) + 0.1 * np.sin(turned[:, :states]) @ mix.T

    inputs = rng.uniform(-3, 3, (600, states + 1))
    after = system(inputs[:, :states], inputs[:, states:]) + 0.05 * np.sin(7 * inputs[:, :1])
    data = Transitions.from_arrays(
        inputs[:, :states], inputs[:, states:], after, episodes=np.arange(600) // 30, schema=schema
    )
    model = fitted(data, system, hidden=(8,), memories=20, leaves=60 * states)
    return model, system, rng.uniform(-1, 1, states), rng.uniform(-1, 1, (size(10, 3), 1))


def attacked(name, model, trusted, start, controls, rollouts, **rules):
    """Rollouts at extreme weights: how far they go, that 1 % less is left, and width over spread by step."""
    whatever = tube(model, trusted, start, controls, **rules)
    worst = attack_tube(model, whatever, rollouts=rollouts, **rules)
    middle, half = 0.5 * (whatever.lower + whatever.upper), 0.99 * whatever.half_width
    less = attack_tube(
        model,
        replace(whatever, lower=middle - half, upper=middle + half),
        rollouts=size(20_000, 200),
        **rules,
    )
    ratio = whatever.half_width[1:] / np.maximum(worst.spread[1:], 1e-300)
    shown = np.unique(np.linspace(0, len(ratio) - 1, 5).astype(int))
    steps = ", ".join(f"{k + 1}: {np.round(ratio[k], 2).tolist()}" for k in shown)
    print(f"{name}: {worst.rollouts} rollouts reach {worst.max_ratio:.6f} of the tube{', LEFT IT' if worst.broken else ''}; "
          f"1 % less is {'broken' if less.broken else 'NOT BROKEN'}; half-width over spread after step {steps}"
          f"{'' if whatever.complete else '; ' + whatever.ending}", flush=True)  # fmt: skip
    return whatever


def attacks():
    """Three quarters of a million rollouts on two systems, a quarter on ten random ones."""
    arm, trusted = pendulum()
    steps = size(40, 4)
    found = attacked(
        "pendulum from a point", arm, trusted, [3.0, 0.5], np.zeros((steps, 1)), size(300_000, 200)
    )
    fewer = attack_tube(arm, found, rollouts=size(10_000, 100))
    print(f"  angle after step {steps}: half-width {found.half_width[-1, 0]:.4f} rad, spread of {fewer.rollouts} rollouts "
          f"{fewer.spread[-1, 0]:.4f} rad: {found.half_width[-1, 0] / fewer.spread[-1, 0]:.2f} times (at most 3 wanted)")  # fmt: skip
    own("pendulum", arm, trusted, ([2.95, 0.45], [3.05, 0.55]), np.zeros((steps, 1)))
    driven, known = car()
    rest = tube(driven, known, [3.0, 4.0, 0.7], np.zeros((20, 2)))
    print(f"car at rest, 20 steps: largest half-width {rest.half_width.max():.2g}")
    controls = np.tile([5.0, 0.3], (size(20, 4), 1))
    attacked("car from a point", driven, known, [0.0, 0.0, 0.5], controls, size(450_000, 200))
    own("car", driven, known, ([-0.1, -0.1, 0.45], [0.1, 0.1, 0.55]), controls)
    for seed in range(size(10, 1)):
        attacked(f"random system {seed}", *random_system(seed), size(25_000, 200))


def drones():
    """The study's, at smoke scale: 240 steps from hover, near hover, and with motors a little off."""
    from tether_studies.drones import data as flights
    from tether_studies.drones.study import DOMAIN
    from tether_studies.drones.trusted import TRUSTED

    flown = flights.fly("smoke", seed=0)
    probes = flights.hover_probes(flown, scale="smoke", seed=0)
    memories, leaves = size(200, 20), size(3000, 100)
    model = fitted(flown, TRUSTED, probes=probes, memories=memories, leaves=leaves, domain=DOMAIN)
    hover, commands = (
        flights.hovering(np.array([[0.0, 0.0, 0.5]]), np.array([0.3]))[0],
        flights.hover_commands(1),
    )
    near = np.array([0.1] * 3 + [0.0] * 4 + [1e-6] * 2 + [0.0] + [1e-6] * 6 + [0.0] * 4)
    off = 1 + 0.002 * np.random.default_rng(0).normal(size=(30, 4))
    for name, start, applied in (
        ("hover", hover, np.tile(commands, (size(240, 3), 1))),
        ("near hover", (hover - near, hover + near), np.tile(commands, (size(60, 2), 1))),
        ("motors off", hover, commands * off[: size(30, 2)]),
    ):
        rules = {"carried": flights.carried}
        attacked(f"drone, {name}", model, TRUSTED, start, applied, size(4000, 50), **rules)


def own(name, model, trusted, start, controls):
    """The tube for the weights at hand, beside that for any."""
    found = {weights: tube(model, trusted, start, controls, weights=weights) for weights in ("any", "own")}
    worst = attack_tube(model, found["own"], rollouts=size(20_000, 100))
    each = {weights: np.round(one.half_width[-1], 5).tolist() for weights, one in found.items()}
    print(f"{name} from a box: half-width at the end for any weights {each['any']}, for those at hand {each['own']}, "
          f"spread of {worst.rollouts} rollouts of these {np.round(worst.spread[-1], 5).tolist()}; "
          f"they reach {worst.max_ratio:.6f} of it{', LEFT IT' if worst.broken else ''}", flush=True)  # fmt: skip


ANY, OWN = "#0072B2", "#D55E00"


def outline(center, generators):
    """(K, 2) corners of a zonotope in the plane, counterclockwise."""
    rows = generators.T[np.abs(generators).sum(axis=0) > 0]
    rows = np.where((rows[:, 1:] < 0) | ((rows[:, 1:] == 0) & (rows[:, :1] < 0)), -rows, rows)
    rows = rows[np.argsort(np.arctan2(rows[:, 1], rows[:, 0]))]
    half = -rows.sum(axis=0) + 2 * np.concatenate([np.zeros((1, 2)), np.cumsum(rows, axis=0)])
    return center + np.concatenate([half, -half])


def figure():
    """docs/images/tubes.png: a pendulum over time and a car on its map, for any weights and for those at hand."""
    from matplotlib.figure import Figure

    from tether.claims.tubes.attacking import extreme_rollouts
    from tether.report.figures import as_png, styled

    with styled():
        drawn = Figure(figsize=(7.4, 3.1), layout="constrained")
        left, right = drawn.subplots(1, 2)
        model, trusted = pendulum()
        steps, rng = size(40, 4), np.random.default_rng(0)
        controls = np.zeros((steps, 1))
        start = ([2.98, 0.48], [3.02, 0.52])
        whatever, own_ = (tube(model, trusted, start, controls, weights=w) for w in ("any", "own"))
        row = np.zeros(200, dtype=np.int64)
        states = np.where(rng.random((200, 2)) < 0.5, *start)
        paths = extreme_rollouts(model, whatever, states, row, rng)
        time_ = 0.05 * np.arange(steps + 1)
        low, high = whatever.lower[:, 0], whatever.upper[:, 0]
        left.fill_between(time_, low, high, color=ANY, alpha=0.2, lw=0, label="any weights (proved)")
        left.plot(time_, np.stack([low, high], axis=1), color=ANY, lw=1)
        left.plot(time_, paths[:, :, 0].T, color="0.35", lw=0.3, alpha=0.4)
        left.plot([], [], color="0.35", lw=0.6, label="rollouts at extreme weights")
        low, high = own_.lower[:, 0], own_.upper[:, 0]
        left.fill_between(
            time_, low, high, color=OWN, alpha=0.75, lw=0, zorder=5, label="weights at hand (proved)"
        )
        left.axhline(np.pi, color="0.6", lw=0.6, ls=":")
        left.set(xlabel="time [s]", ylabel="angle [rad]", title="Pendulum", xlim=(0, time_[-1]))
        model, trusted = car()
        steps = size(12, 3)
        controls = np.tile([5.0, 0.6], (steps, 1))
        start = ([-0.1, -0.1, 0.28], [0.1, 0.1, 0.32])
        whatever, own_ = (tube(model, trusted, start, controls, weights=w) for w in ("any", "own"))
        states = np.where(rng.random((200, 3)) < 0.5, *start)
        paths = extreme_rollouts(model, whatever, states, row, rng)
        for t in range(0, steps + 1, 3):
            for found, color, alpha in ((whatever, ANY, 0.2), (own_, OWN, 0.75)):
                place = found.sets[t]
                corners = outline(place.center[0, :2], place.generators[0, :2])
                right.fill(*corners.T, facecolor=color, alpha=alpha, lw=0)
                right.plot(*np.append(corners, corners[:1], axis=0).T, color=color, lw=0.8)
            right.plot(paths[:, t, 0], paths[:, t, 1], ".", color="0.35", ms=0.8)
        right.set(xlabel="x [m]", ylabel="y [m]", title=f"Car, every third of {steps} steps")
        right.set_aspect("equal", adjustable="datalim")
        drawn.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=7)
    path = Path(os.environ.get("TETHER_FIGURE", "tubes.png"))
    path.write_bytes(as_png(drawn))
    print(f"figure: {path}")


def speed():
    """Seconds of CPU: a dozen states, many cars, and rollouts."""
    from tether.claims.rollout import rollout

    states, controls, _ = PLANTS["quadrotor"]
    schema = make_schema([f"x{k}" for k in range(states)], [f"u{k}" for k in range(controls)])
    limits = EvenLimits(np.full(states, 1e-4), schema)
    program = trusted_program(plant("quadrotor"), schema, limits)
    point = np.zeros(states)
    for cuts in (0, None):
        for _ in range(2):
            used = time.process_time()
            found = tube_within(
                limits, schema, program, point, np.zeros((size(50, 2), controls)), effort=Effort(cuts=cuts)
            )
            used = time.process_time() - used
        print(f"{found.steps} steps of a quadrotor with 12 states, delta 1e-4, cuts {'as usual' if cuts is None else cuts}: "
              f"{used:.2f} s of CPU (below 2 wanted), half-width at the end {found.half_width[-1].max():.3g}", flush=True)  # fmt: skip
    driven, known = car()
    starts = np.random.default_rng(0).uniform([-20, -20, -3.1], [20, 20, 3.1], (size(1000, 5), 3))
    for weights in ("any", "own"):
        for _ in range(2):
            begun, used = time.perf_counter(), time.process_time()
            many = tube(driven, known, starts, np.tile([5.0, 0.3], (20, 1)), weights=weights)
            took = time.perf_counter() - begun, time.process_time() - used
        print(f"{len(starts)} tubes of 20 steps of the car, {weights} weights: {took[1]:.2f} s of CPU, {took[0]:.2f} s "
              f"(below 5 wanted); {sum(map(bool, many.reasons))} end early", flush=True)  # fmt: skip
    row = np.random.default_rng(1).uniform([-5, -5, -3], [5, 5, 3], (1000, 3))
    applied = np.tile([5.0, 0.3], (30, 1000, 1))
    best = np.inf
    for _ in range(size(7, 1)):
        used = time.process_time()
        rollout(driven, row, applied)
        best = min(best, time.process_time() - used)
    print(f"rollouts, 1,000 rows, 30 steps, 64 x 64: {1000 * best:.0f} ms of CPU (60 wanted)")


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
    parts = {
        "arch": arch,
        "attacks": attacks,
        "speed": speed,
        "real": reality,
        "drones": drones,
        "figure": figure,
    }
    for part in [part for part in sys.argv[1:] if part not in PLANTS] or list(parts)[:4]:
        parts[part]()

"""Textbook and benchmark systems in the form they are usually written in: loaded, fitted, evidence, delta.

    python benchmarks/forms.py [--only lorenz,bicycle]

Each is a rate of change in SymPy or CasADi, one step of RK4 of it, or a step in torch. Data are 300 random rows of
its box, of M itself moved by a hundredth of its change; the fit is tiny, for delta and evidence rest on M and
its box alone. Prints a row for each: form, evidence, largest delta over the box of each output against its
largest change there, seconds of one core, until the fit was done.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import tether
from sizes import size


def sympy_systems():
    """By name: inputs, rates, how many are states, step, half widths of the box around 0 or (low, high)."""
    from sympy import Matrix, Rational, cos, exp, sin, symbols

    x, y, z, w, u, v = symbols("x y z w u v")
    third = Rational(1, 3)
    return {
        "van der pol": (Matrix([x, y, u]), Matrix([y, (1 - x**2) * y - x + u]), 2, 0.05, [2, 2, 1]),
        "lorenz": (Matrix([x, y, z]), Matrix([10 * (y - x), x * (28 - z) - y, x * y - 8 * z / 3]), 3, 0.005, [15, 15, 15]),
        "roessler": (Matrix([x, y, z]), Matrix([-y - z, x + y / 5, Rational(1, 5) + z * (x - Rational(57, 10))]), 3, 0.02, [5, 5, 5]),
        "lotka volterra": (Matrix([x, y]), Matrix([1.5 * x - x * y, x * y - 3 * y]), 2, 0.02, [3, 3]),
        "duffing": (Matrix([x, y, u]), Matrix([y, x - x**3 - 0.3 * y + u]), 2, 0.05, [1.5, 1.5, 1]),
        "fitzhugh nagumo": (Matrix([x, y, u]), Matrix([x - x**3 * third - y + u, 0.08 * (x + 0.7 - 0.8 * y)]), 2, 0.1, [2, 2, 1]),
        "brusselator": (Matrix([x, y]), Matrix([1 + x**2 * y - 4 * x, 3 * x - x**2 * y]), 2, 0.02, [2, 3]),
        "sir": (Matrix([x, y, z]), Matrix([-0.5 * x * y, 0.5 * x * y - 0.1 * y, 0.1 * y]), 3, 0.5, [1, 1, 1]),
        "pendulum": (Matrix([x, y, u]), Matrix([y, u - 9.81 * sin(x) - 0.1 * y]), 2, 0.05, [3, 5, 2]),
        "unicycle (ARCH)": (Matrix([x, y, z, w, u, v]), Matrix([w * cos(z), w * sin(z), v, u]), 4, 0.1, [5, 5, 1, 2, 1, 1]),
        "tora (ARCH)": (Matrix([x, y, z, w, u]), Matrix([y, -x + 0.1 * sin(z), w, u]), 4, 0.1, [1, 1, 1, 1, 1]),
        "benchmark 9 (ARCH)": (Matrix([x, y, u]), Matrix([y, u * y**2 - x]), 2, 0.1, [0.5, 0.5, 1]),
        "laub loomis part": (Matrix([x, y, z]), Matrix([1.4 * z - 0.9 * x, 2.5 * x - 1.5 * y, 0.6 * y - 0.8 * y * z]), 3, 0.1, [1, 1, 1]),
        "arrhenius reactor": (Matrix([x, y]), Matrix([1 - x - x * exp(y), 0.5 * x * exp(y) - y]), 2, 0.02, [1, 1]),
    }  # fmt: skip


def casadi_systems():
    """By name: a function of (x, u) for the rate, step, half widths."""
    import casadi as ca

    x, u = ca.SX.sym("x", 4), ca.SX.sym("u", 1)
    mass = 4 / 3 - 0.1 * ca.cos(x[2]) ** 2 / 1.1
    push = (u + 0.05 * x[3] ** 2 * ca.sin(x[2])) / 1.1
    turn = (9.8 * ca.sin(x[2]) - ca.cos(x[2]) * push) / (0.5 * mass)
    cart = ca.vertcat(x[1], push - 0.05 * turn * ca.cos(x[2]) / 1.1, x[3], turn)
    b, c = ca.MX.sym("b", 4), ca.MX.sym("c", 2)
    slip = ca.atan(0.5 * ca.tan(c[1]))
    car = ca.vertcat(b[3] * ca.cos(b[2] + slip), b[3] * ca.sin(b[2] + slip), b[3] / 1.5 * ca.sin(slip), c[0])
    t, q = ca.SX.sym("t", 2), ca.SX.sym("q")
    tanks = ca.vertcat(q - 0.3 * ca.sqrt(t[0] + 2), 0.3 * ca.sqrt(t[0] + 2) - 0.2 * ca.sqrt(t[1] + 2))
    return {
        "cart-pole": (ca.Function("cart_pole", [x, u], [cart]), 0.05, [1, 1, 0.3, 1, 5]),
        "bicycle": (ca.Function("bicycle", [b, c], [car]), 0.1, [5, 5, 1, 5, 2, 0.4]),
        "two tanks": (ca.Function("two_tanks", [t, q], [tanks]), 0.1, [1, 1, 1]),
    }


def torch_systems():
    """By name: a module that steps, half widths."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    return {"network of 8": (net, [1, 1, 1])}


def all_models():
    """Name, form, model, half widths, how many states."""
    for name, (inputs, rates, states, step, half) in sympy_systems().items():
        yield name, "SymPy, RK4", lambda i=inputs, r=rates, s=step: tether.discretise((i, r), s), half, states
    for name, (function, step, half) in casadi_systems().items():
        yield (
            name,
            "CasADi, RK4",
            lambda f=function, s=step: tether.discretise(f, s),
            half,
            function.numel_in(0),
        )
    for name, (module, half) in torch_systems().items():
        yield name, "torch", lambda m=module: tether.load_trusted(m), half, 2


def fitted(load, half, states):
    """The level of evidence, and delta over the change, of the output where that is largest."""
    trusted, half = load(), np.asarray(half, dtype=float)
    rng = np.random.default_rng(0)
    inputs = rng.uniform(-half, half, (300, len(half)))
    after = np.asarray(trusted.function(inputs[:, :states], inputs[:, states:]))
    change = after - inputs[:, :states]
    names = [f"x{k}" for k in range(states)], [f"u{k}" for k in range(len(half) - states)]
    data = tether.Transitions.from_arrays(
        inputs[:, :states], inputs[:, states:], after + 0.01 * change, episodes=np.arange(300) // 10,
        schema=tether.make_schema(*names),
    )  # fmt: skip
    config = tether.FitConfig(
        memories=10, hidden=(4,), training=tether.TrainingConfig(steps=5), leaves=size(2000, 50)
    )
    model = tether.fit(data, trusted=trusted, config=config)
    found = model.predict(inputs[:, :states], inputs[:, states:], details=True)
    share = np.median(found.delta, axis=0) / np.abs(change).max(axis=0)
    return model.bounds.evidence.name, share.max()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=size("", "duffing,two tanks"))
    only = set(filter(None, parser.parse_args().only.split(",")))
    print("| model | form | evidence | median delta / largest change, worst output | seconds |")
    print("|---|---|---|---|---|")
    count = 0
    for name, form, load, half, states in all_models():
        if only and name not in only:
            continue
        start = time.process_time()
        evidence, share = fitted(load, half, states)
        count += 1
        print(
            f"| {name} | {form} | {evidence} | {share:.4f} | {time.process_time() - start:.1f} |", flush=True
        )
    print(f"{count} models")


if __name__ == "__main__":
    main()

"""Textbook and benchmark systems in the form they are usually written in: loaded, fitted, evidence, delta.

    python benchmarks/forms.py [--only lorenz,bicycle] [--fmus FOLDER]

Each is a rate of change in SymPy, CasADi or NumPy, of which one step of RK4 is taken; a step in torch, ONNX or MuJoCo;
or an FMU of others, of those in FOLDER that are known here: `bouncingBall.fmu` is in the source archive of PyFMI 2.5
(`src/pyfmi/examples/files/FMUs/ME2.0`), `VanDerPol.fmu` and `BouncingBall.fmu` are Reference-FMUs (folder 2.0 of their
release). Data are 300 random rows of its box, of M itself moved by a hundredth of its change; the fit is tiny, for
delta and evidence rest on M and its box alone. Prints a row for each: form, evidence, median delta at these rows
against the largest change there, of the output where that is most, and seconds of one core until the fit was done.
Models of packages that are not installed are left out, and said to be.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

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
    s, f = ca.SX.sym("s", 3), ca.SX.sym("f")
    rocket = ca.vertcat(s[1], (f - 0.05 * s[1] ** 2) / s[2], -0.1 * f**2)
    o = ca.SX.sym("o", 2)
    oscillator = ca.vertcat((1 - o[1] ** 2) * o[0] - o[1] + q, o[0])
    tank, flow = ca.SX.sym("tank", 4), ca.SX.sym("flow", 2)
    bio, feed = ca.SX.sym("bio", 4), ca.SX.sym("feed")
    return {
        "rocket (CasADi's example)": (ca.Function("rocket", [s, f], [rocket]), 0.1, [(0, 5), (0, 2), (0.8, 1.2), (-1, 1)]),
        "van der pol (CasADi's example)": (ca.Function("oscillator", [o, q], [oscillator]), 0.1, [1, 1, 1]),
        "CSTR (do-mpc)": (ca.Function("cstr", [tank, flow], [cstr(ca, tank, flow)]), 0.0005, [(0.5, 1.5), (0.5, 1.5), (125, 140), (120, 140), (10, 40), (-7000, -2000)]),
        "batch bioreactor (do-mpc)": (ca.Function("batch", [bio, feed], [batch_reactor(bio, feed)]), 0.1, [(1, 3), (0.5, 2), (0, 2), (100, 130), (0, 0.2)]),
        "cart-pole": (ca.Function("cart_pole", [x, u], [cart]), 0.05, [1, 1, 0.3, 1, 5]),
        "bicycle": (ca.Function("bicycle", [b, c], [car]), 0.1, [5, 5, 1, 5, 2, 0.4]),
        "two tanks": (ca.Function("two_tanks", [t, q], [tanks]), 0.1, [1, 1, 1]),
    }  # fmt: skip


def cstr(ca, states, controls):
    """do-mpc's stirred tank: two concentrations, temperatures of reactor and jacket; feed and heat."""
    a, b, reactor, jacket = (states[k] for k in range(4))
    one = two = 1.287e12 * ca.exp(-9758.3 / (reactor + 273.15))
    three = 9.043e9 * ca.exp(-8560.0 / (reactor + 273.15))
    heat = (one * a * 4.2 - two * b * 11.0 - three * a**2 * 41.85) / (-0.9342 * 3.01)
    wall = 4032.0 * 0.215
    return ca.vertcat(
        controls[0] * (5.1 - a) - one * a - three * a**2,
        -controls[0] * b + one * a - two * b,
        heat + controls[0] * (130.0 - reactor) + wall * (jacket - reactor) / (0.9342 * 3.01 * 10.01),
        (controls[1] + wall * (reactor - jacket)) / 10.0,
    )


def batch_reactor(states, feed):
    """do-mpc's bioreactor: biomass, substrate, product, volume."""
    import casadi as ca

    mass, substrate, product, volume = (states[k] for k in range(4))
    growth = 0.02 * substrate / (0.05 + substrate + substrate**2 / 5.0)
    return ca.vertcat(
        growth * mass - feed / volume * mass,
        -growth * mass / 0.4 - 0.004 * mass / 1.2 + feed / volume * (200.0 - substrate),
        0.004 * mass - feed / volume * product,
        feed,
    )


def numpy_systems():
    """By name: rates in NumPy, how many states, step, box; plants of ARCH's category of learned controllers."""
    from substeps import quadrotor

    def attitude(x, u):
        a, b, c, d, e, f = x.T
        square = d**2 + e**2 + f**2
        return np.stack(
            [
                0.25 * (u[:, 0] + b * c), 0.5 * (u[:, 1] - 3 * a * c), u[:, 2] + 2 * a * b,
                0.5 * (b * (square - f) + c * (square + e) + a * (square + 1)),
                0.5 * (a * (square + f) + c * (square - d) + b * (square + 1)),
                0.5 * (a * (square - e) + b * (square + d) + c * (square + 1)),
            ],
            axis=1,
        )  # fmt: skip

    def cruise(x, u):
        lead, own = x[:, :3], x[:, 3:]
        parts = [lead[:, 1], lead[:, 2], -4.0 - 2 * lead[:, 2] - 1e-4 * lead[:, 1] ** 2]
        parts += [own[:, 1], own[:, 2], 2 * u[:, 0] - 2 * own[:, 2] - 1e-4 * own[:, 1] ** 2]
        return np.stack(parts, axis=1)

    spread = [(90, 110), (30, 34), (-1, 1), (10, 12), (28, 32), (-1, 1), (-3, 2)]
    return {
        "attitude control (ARCH)": (attitude, 6, 0.1, [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1, 1, 1]),
        "adaptive cruise control (ARCH)": (cruise, 6, 0.1, spread),
        "quadrotor (ARCH)": (quadrotor, 12, 0.05, [0.4] * 12 + [(12, 15), 0.1, 0.1, 0.1]),
    }


def onnx_systems():
    """By name: a file that steps, box; random weights: networks of tanh, and of ReLU in float32."""
    import onnx

    helper, rng, folder = onnx.helper, np.random.default_rng(0), Path(tempfile.mkdtemp())
    kinds = {"ONNX network of 16 tanh": ("Tanh", onnx.TensorProto.DOUBLE), "ONNX network of 2 x 12 ReLU (float32)": ("Relu", onnx.TensorProto.FLOAT)}  # fmt: skip
    found = {}
    for name, (kind, number) in kinds.items():
        widths = [3, 16, 2] if kind == "Tanh" else [3, 12, 12, 2]
        nodes, constants, last = [], [], "x"
        for k in range(len(widths) - 1):
            shape = (widths[k + 1], widths[k])
            weights = rng.normal(size=shape) / np.sqrt(widths[k])
            constants += [helper.make_tensor(f"w{k}", number, shape, weights.ravel().tolist()),
                          helper.make_tensor(f"b{k}", number, shape[:1], rng.normal(size=shape[0]).tolist())]  # fmt: skip
            nodes.append(helper.make_node("Gemm", [last, f"w{k}", f"b{k}"], [f"h{k}"], transB=1))
            last = f"h{k}"
            if k < len(widths) - 2:
                nodes.append(helper.make_node(kind, [last], [f"r{k}"]))
                last = f"r{k}"
        ends = [helper.make_tensor_value_info("x", number, ["n", 3])], [helper.make_tensor_value_info(last, number, ["n", 2])]  # fmt: skip
        graph = helper.make_graph(nodes, "network", *ends, constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.save(model, folder / f"{kind}.onnx")
        found[name] = (folder / f"{kind}.onnx", [1, 1, 1])
    return found


def mujoco_systems():
    """By name: Gymnasium's file, frame skip, box."""
    import gymnasium

    assets = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    cheetah = [(-1, 1), (-0.3, 0.3), (-0.5, 0.5), *[(-0.4, 0.4)] * 6, *[(-2, 2)] * 9, *[(-1, 1)] * 6]
    return {
        "cart-pole (Gymnasium)": (assets / "inverted_pendulum.xml", 2, [1, 0.2, 1, 1, 3]),
        "half-cheetah (Gymnasium)": (assets / "half_cheetah.xml", 5, cheetah),
    }


FMUS = {"bouncingBall": [(0, 2), 3], "BouncingBall": [(0, 2), 3], "VanDerPol": [2, 2]}
"""Half widths of the box, by the name of the file; all are stepped by 0.05."""


def torch_systems():
    """By name: a module that steps, half widths."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    return {"network of 8": (net, [1, 1, 1])}


def all_models(fmus):
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
    for name, (rate, states, step, half) in numpy_systems().items():
        yield name, "NumPy, RK4", lambda r=rate, s=step: tether.discretise(r, s), half, states
    for name, (module, half) in torch_systems().items():
        yield name, "torch", lambda m=module: tether.load_trusted(m), half, 2
    for name, (path, half) in onnx_systems().items() if find_spec("onnx") else ():
        yield name, "ONNX", lambda p=path: tether.load_trusted(p), half, 2
    for path in sorted(fmus.glob("*.fmu")) if fmus else ():
        if path.stem in FMUS:
            yield path.name, "FMU", lambda p=path: tether.load_trusted(p, step=0.05), FMUS[path.stem], 2
    if not (find_spec("mujoco") and find_spec("gymnasium")):
        print("MuJoCo or Gymnasium is not installed: their models are left out")
        return
    for name, (path, skip, half) in mujoco_systems().items():
        states = {"cart-pole (Gymnasium)": 4, "half-cheetah (Gymnasium)": 18}[name]
        yield name, "MuJoCo", lambda p=path, k=skip: tether.load_trusted(p, frame_skip=k), half, states


def fitted(load, half, states):
    """The level of evidence, and delta over the change, of the output where that is largest."""
    trusted, rng = load(), np.random.default_rng(0)
    low, high = np.array([end if isinstance(end, tuple) else (-end, end) for end in half], dtype=float).T
    inputs = rng.uniform(low, high, (300, len(half)))
    after = np.asarray(trusted.function(inputs[:, :states], inputs[:, states:]))
    change = after - inputs[:, :states]
    names = [f"x{k}" for k in range(states)], [f"u{k}" for k in range(len(half) - states)]
    data = tether.Transitions.from_arrays(
        inputs[:, :states], inputs[:, states:], after + 0.01 * change, episodes=np.arange(300) // 10,
        schema=tether.make_schema(*names),
    )  # fmt: skip
    config = tether.FitConfig(
        memories=10, hidden=(4,), training=tether.TrainingConfig(steps=5), leaves=size(2000, 50),
        sampling=tether.SamplingConfig(calls=100_000),
    )  # fmt: skip
    model = tether.fit(data, trusted=trusted, config=config)
    found = model.predict(inputs[:, :states], inputs[:, states:], details=True)
    share = np.median(found.delta, axis=0) / np.abs(change).max(axis=0)
    return model.bounds.evidence.name, share.max()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=size("", "duffing,CSTR (do-mpc)"))
    parser.add_argument("--fmus", type=Path)
    asked = parser.parse_args()
    only = set(filter(None, asked.only.split(",")))
    print("| model | form | evidence | median delta / largest change, worst output | seconds |")
    print("|---|---|---|---|---|")
    count = 0
    for name, form, load, half, states in all_models(asked.fmus):
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

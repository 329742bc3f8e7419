"""An exported ONNX file against the library, against M, and against the bare network's ONNX.

The demonstration's car as `tether fit` makes it (a sum of five networks and a linear part, which is one network of
two layers of 326), the same with one network of 64 x 64 and of 256 x 256, and a model of 10,000 leaves, 1,000
memories and two layers of 1024. Random inputs in and around the box: how far next states are from the library's, rows
in the domain that the library has outside, and outputs farther from M than delta, in either precision. Seconds are of
the processor, on one thread, the least of many rounds in turns: the machine may be shared.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime

import tether
from bench_forward import build
from sizes import size
from tether.export import export
from tether.export.onnx.graph import Builder
from tether.export.onnx.network import Layers, network_nodes, summed_nodes
from tether.model import Model
from tether_studies import parked_car

ROWS, BATCH, ROUNDS = size((1_000_000, 1024, 60), (2000, 64, 2))
SAMPLES, STEPS = size((1000, 30), (20, 3))
LEAVES, TRAINING, LARGE = size((20_000, 500, 10_000), (50, 10, 50))


def car(hidden: tuple[int, ...] | None) -> Model:
    """The demonstration's car."""
    data = parked_car.drive(seed=0, **size({}, {"episodes": 12, "steps": 20}))
    return tether.fit(
        data,
        trusted=parked_car.TRUSTED,
        probes=parked_car.parked(data, count=size(9000, 100), seed=0),
        domain=parked_car.DOMAIN,
        leaves=LEAVES,
        hidden=hidden,
        training=tether.TrainingConfig(steps=TRAINING),
    )


def session(content: bytes | str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def exported(model: Model, dtype: str) -> onnxruntime.InferenceSession:
    with tempfile.TemporaryDirectory() as folder:
        return session(str(export(model, to="onnx", out=Path(folder), dtype=dtype)[0]))


def bare(model: Model, *, blocks: bool) -> onnxruntime.InferenceSession:
    """The network alone, from features: as it is stored, or block by block."""
    layers, graph = Layers.of(model.network, "float32"), Builder("float32")
    features = graph.takes("features", "float32", ["N", model.frame.features_width])
    answer = summed_nodes(graph, layers, features) if blocks else network_nodes(graph, layers, features)[0]
    graph.gives("outputs", answer, "float32", ["N", len(model.schema.outputs)])
    return session(graph.model("bare", {}).SerializeToString())


def drawn(model: Model, count: int, dtype: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random inputs, a tenth of the box beyond it."""
    lower, upper = model.bounds.tree.lower, model.bounds.tree.upper  # type: ignore[union-attr]
    lower, upper = lower - 0.1 * (upper - lower), upper + 0.1 * (upper - lower)
    inputs, states = rng.uniform(lower, upper, (count, len(lower))).astype(dtype), len(model.schema.states)
    return {"states": inputs[:, :states], "controls": inputs[:, states:]}


def compare(name: str, model: Model, dtype: str) -> None:
    run, rng = exported(model, dtype), np.random.default_rng(1)
    away, wider, outside, inside = 0.0, 0, 0, 0
    for start in range(0, ROWS, 8192):
        given = drawn(model, min(8192, ROWS - start), dtype, rng)
        following, lower, upper, delta, domain = run.run(None, given)
        wide = {key: values.astype(np.float64) for key, values in given.items()}
        known = model.predict(wide["states"], wide["controls"], details=True)
        gap = model.schema.distance(following.astype(np.float64), known.next_states)
        away = max(away, float(gap[domain].max(initial=0.0)))
        wider += int((domain & ~known.in_domain).sum())
        inside += int(domain.sum())
        truth = parked_car.unicycle(wide["states"], wide["controls"])
        outside += int((model.schema.distance(following.astype(np.float64), truth) > delta)[domain].sum())
        assert ((lower <= following) & (following <= upper)).all()
    print(
        f"{name}, {dtype}: {ROWS:,} inputs, {inside:,} in the domain, {wider} of them outside by the library; "
        f"next states within {away:.2g} of the library's; {outside} farther from M than delta"
    )


def least_seconds(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Of each, taken in turns."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.thread_time()
            call()
            best[name] = min(best[name], time.thread_time() - start)
    return best


def race(name: str, model: Model) -> None:
    rng, calls = np.random.default_rng(2), {}
    features = {"features": rng.normal(size=(BATCH, model.frame.features_width)).astype(np.float32)}
    for dtype in ("float64", "float32"):
        run, given = exported(model, dtype), drawn(model, BATCH, dtype, rng)
        one = {key: values[:1] for key, values in given.items()}
        calls[dtype] = lambda run=run, given=given: run.run(None, given)
        calls[f"one row, {dtype}"] = lambda run=run, one=one: run.run(None, one)
    for title, blocks in (("bare", False), ("bare in blocks", True)):
        run = bare(model, blocks=blocks)
        calls[title] = lambda run=run: run.run(None, features)
    taken = least_seconds(calls, ROUNDS)
    for dtype in ("float64", "float32"):
        print(
            f"{name}, {dtype}, batch {BATCH}: {1e3 * taken[dtype]:.2f} ms, {taken[dtype] / taken['bare']:.2f} times "
            f"the bare network ({1e3 * taken['bare']:.2f} ms), {taken[dtype] / taken['bare in blocks']:.2f} times it "
            f"in blocks ({1e3 * taken['bare in blocks']:.2f} ms); one row {1e6 * taken[f'one row, {dtype}']:.0f} us"
        )


def plan(name: str, model: Model) -> None:
    """A thousand rollouts, as a sampling controller asks for them."""
    for dtype in ("float64", "float32"):
        run, rng = exported(model, dtype), np.random.default_rng(3)
        given = [drawn(model, SAMPLES, dtype, rng) for _ in range(STEPS)]

        def rollouts(run=run, given=given) -> None:
            states = given[0]["states"]
            for each in given:
                states = run.run(["next_states"], {"states": states, "controls": each["controls"]})[0]

        taken = least_seconds({"all": rollouts}, max(2, ROUNDS // 10))["all"]
        print(f"{name}, {dtype}: {SAMPLES} x {STEPS} rollouts in {1e3 * taken:.1f} ms")


def main() -> None:
    models = {"car": car(None), "large": build("affine", LARGE)}
    models |= {f"car, {width} x {width}": car((width, width)) for width in (64, 256)}
    for name, model in models.items():
        if " x " not in name:
            for dtype in ("float64", "float32"):
                compare(name, model, dtype)
        race(name, model)
    plan("car, 64 x 64", models["car, 64 x 64"])
    plan("car", models["car"])


if __name__ == "__main__":
    main()

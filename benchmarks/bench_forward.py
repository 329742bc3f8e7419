"""A constrained prediction, cell lookup included, against the bare network.

Two layers of 1024, 2,500 memories, 20,000 leaves, 5 inputs, 3 outputs: the paper's vehicle. The bare network gets its
features ready-made as a float32 tensor; the constrained model starts from physical NumPy arrays.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from sizes import size
from tether.data import Scaling, make_schema
from tether.evidence import Proved, Question, Sampled
from tether.geometry.cells import Cells
from tether.model import Frame, Model, mlp
from tether.model.assembling import constrained_model
from tether.tethers.bounds import IntervalBounds
from tether.tethers.expanding import expand, with_room
from tether.tethers.growth import Aim
from tether.trusted import TrustedModel
from tether_studies import parked_car

INPUTS, OUTPUTS = 5, 3
MEMORIES, LEAVES, HIDDEN = size((2500, 20_000, (1024, 1024)), (50, 50, (16, 16)))


def build(kind: str) -> Model:
    rng = np.random.default_rng(0)
    schema = make_schema(["x", "y", "heading"], ["speed", "yaw_rate"], angles=["heading"])
    ones = np.ones(INPUTS)
    frame = Frame(schema, "increment", Scaling(0 * ones, ones), Scaling(np.zeros(OUTPUTS), np.ones(OUTPUTS)))
    memories = rng.standard_normal((MEMORIES, INPUTS))
    cells = Cells(memories, np.empty((0, 2), dtype=np.int64), ones, 3.0, -10 * ones, 10 * ones)
    center, width = rng.standard_normal((MEMORIES, OUTPUTS)), np.full((MEMORIES, OUTPUTS), 0.1)
    if kind == "interval":
        bounds = IntervalBounds(center - width, center + width, 2 * width, center, Sampled())
    else:
        pinned, box = np.array([np.nan, np.nan, np.nan, 0.0, 0.0]), np.array([10, 10, np.pi, 10, 10])
        question = Question(TrustedModel(parked_car.unicycle), schema, "increment", -box, box, pinned)
        aim = Aim(np.full(OUTPUTS, 1e-12), np.empty((0, INPUTS)), LEAVES)
        bounds = with_room(expand(question, Proved(), aim, cells).bounds, width, schema)
    return constrained_model(mlp(frame.features_width, OUTPUTS, HIDDEN), frame, cells, bounds)


def best_seconds(one: Callable[[], object], two: Callable[[], object], rounds: int) -> tuple[float, float]:
    """The least time of each, taken in turns because the machine is shared."""
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        for k, call in enumerate((one, two)):
            start = time.perf_counter()
            call()
            best[k] = min(best[k], time.perf_counter() - start)
    return best[0], best[1]


def compare(model: Model, batch: int, rounds: int) -> tuple[float, float]:
    rng = np.random.default_rng(batch)
    states, controls = rng.standard_normal((batch, 3)), rng.standard_normal((batch, 2))
    features = model.frame.features(torch.from_numpy(np.concatenate([states, controls], axis=1))).float()

    def bare() -> None:
        with torch.inference_mode():
            model.network(features)

    return best_seconds(bare, lambda: model.predict(states, controls), rounds)


def main() -> None:
    for kind, limit, latency in (("interval", 1.25, 0.3), ("affine", 1.35, None)):
        model = build(kind)
        compare(model, 8, 3)  # compile
        bare, ours = compare(model, 1024, size(60, 2))
        verdict = "PASS" if ours / bare <= limit else "MISS"
        print(
            f"{kind:9s} batch 1024   bare {1e3 * bare:7.2f} ms   constrained {1e3 * ours:7.2f} ms   "
            f"ratio {ours / bare:.3f}   target <= {limit}   {verdict}"
        )
        bare, ours = compare(model, 1, size(2000, 3))
        extra = 1e3 * (ours - bare)
        verdict = (
            "" if latency is None else f"target <= {latency} ms   {'PASS' if extra <= latency else 'MISS'}"
        )
        print(
            f"{kind:9s} batch 1      bare {1e3 * bare:7.3f} ms   constrained {1e3 * ours:7.3f} ms   "
            f"extra {extra:.3f} ms   {verdict}"
        )


if __name__ == "__main__":
    main()

"""A constrained training step against a bare PyTorch loop on the same network and batch.

Both the paper's sizes: two layers of 1024 on 5 inputs (vehicle), three of 20 on 30 inputs (pancreas). The
bare loop does what a careful user would write: shuffled batches from tensors in memory, squared error, fused
Adam, no bounds. Ours trains on squared error with bounds, gradients through the operator, schedules, evaluation.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from sizes import size
from tether.data import Scaling, make_schema
from tether.geometry.cells import Cells
from tether.learning.config import TrainingConfig
from tether.learning.examples import Examples, TrainingData
from tether.learning.training import train
from tether.model import Frame, mlp
from tether.model.assembling import constrained_model
from tether.tethers.bounds import IntervalBounds

ROWS, MEMORIES, BATCH = size((15_000, 1000, 64), (300, 20, 16))


def problem(inputs: int, outputs: int, hidden: tuple[int, ...]):
    rng = np.random.default_rng(0)
    schema = make_schema([f"s{k}" for k in range(inputs)], [], [f"y{k}" for k in range(outputs)])
    ones, units = np.ones(inputs), np.ones(outputs)
    frame = Frame(schema, "next_state", Scaling(0 * ones, ones), Scaling(0 * units, units))
    memories = rng.standard_normal((MEMORIES, inputs))
    cells = Cells(memories, np.empty((0, 2), dtype=np.int64), ones, 10.0, -20 * ones, 20 * ones)
    lower = np.full((MEMORIES, outputs), -2.0)
    bounds = IntervalBounds(lower, -lower, np.full_like(lower, 4.0), np.zeros_like(lower), "sampled")
    network = mlp(inputs, outputs, hidden)
    model = constrained_model(network, frame, cells, bounds, operator="clip")

    def examples(rows: int) -> Examples:
        points = rng.standard_normal((rows, inputs))
        target = np.tanh(points[:, :outputs])
        return Examples(points, target, target)

    data = TrainingData(examples(ROWS), examples(ROWS), examples(500), examples(500))
    return model, data


def bare_loop(inputs: int, outputs: int, hidden: tuple[int, ...], data: TrainingData, steps: int) -> float:
    network = mlp(inputs, outputs, hidden)
    assert data.train.target is not None
    features = torch.from_numpy(data.train.inputs).float()
    target = torch.from_numpy(data.train.target).float()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    start = time.perf_counter()
    order = torch.randperm(ROWS)
    for step in range(steps):
        place = step * BATCH % (ROWS - BATCH)
        rows = order[place : place + BATCH]
        loss = torch.nn.functional.mse_loss(network(features[rows]), target[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return (time.perf_counter() - start) / steps


def ours(inputs: int, outputs: int, hidden: tuple[int, ...], steps: int, loss: str) -> float:
    model, data = problem(inputs, outputs, hidden)
    config = TrainingConfig(steps=steps, batch=BATCH, evaluate_every=steps, loss=loss)  # type: ignore[arg-type]
    return train(model, data, config).seconds / steps


def main() -> None:
    for name, inputs, outputs, hidden, steps in [
        ("two layers of 1024", 5, 3, size((1024, 1024), (16, 16)), size(60, 3)),
        ("three layers of 20", 30, 1, (20, 20, 20), size(600, 3)),
    ]:
        _, data = problem(inputs, outputs, hidden)
        times = {"bare": [], "squared_error": [], "augmented_lagrangian": []}
        for _ in range(size(5, 1)):
            times["bare"].append(bare_loop(inputs, outputs, hidden, data, steps))
            for loss in ("squared_error", "augmented_lagrangian"):
                times[loss].append(ours(inputs, outputs, hidden, steps, loss))
        best = {key: min(values) for key, values in times.items()}
        ratio = best["squared_error"] / best["bare"]
        print(
            f"{name}: bare {1e3 * best['bare']:.3f} ms, constrained {1e3 * best['squared_error']:.3f} ms, "
            f"ratio {ratio:.2f} (target <= 1.25, {'PASS' if ratio <= 1.25 else 'MISS'}); augmented Lagrangian, "
            f"on twice the rows: {1e3 * best['augmented_lagrangian']:.3f} ms"
        )


if __name__ == "__main__":
    main()

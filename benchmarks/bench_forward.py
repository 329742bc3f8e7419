"""A constrained prediction, cell lookup included, against the bare network.

Two layers of 1024, 5 inputs, 3 outputs: the paper's vehicle; with 1,000 and with 10,000 memories (interval bounds)
or leaves (affine bounds, whose room is known by 1,000 memories). The bare network gets its features ready-made as a
float32 tensor; `predict` starts from physical NumPy arrays and `forward` from float64 tensors. Seconds are of the
processor, on one thread. The machine may be shared, so that each round takes all of them in turns and is compared
within itself: what is told is the median of rounds. Of one input a turn is a hundred calls, as a control loop makes
them: a single call after another's finds its code and data gone from the caches, which is told beside it.
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

INPUTS, OUTPUTS, BATCH = 5, 3, 1024
COUNTS, ROOM, HIDDEN = size(((1000, 10_000), 1000, (1024, 1024)), ((20, 50), 20, (16, 16)))
MOST_RATIO = 1.25
MOST_EXTRA_MS = 0.2


def build(kind: str, count: int) -> Model:
    """A model with so many memories, or about so many leaves."""
    rng = np.random.default_rng(0)
    schema = make_schema(["x", "y", "heading"], ["speed", "yaw_rate"], angles=["heading"])
    ones = np.ones(INPUTS)
    frame = Frame(schema, "increment", Scaling(0 * ones, ones), Scaling(np.zeros(OUTPUTS), np.ones(OUTPUTS)))
    memories = rng.standard_normal((count if kind == "interval" else ROOM, INPUTS))
    cells = Cells(memories, np.empty((0, 2), dtype=np.int64), ones, 3.0, -10 * ones, 10 * ones)
    center, width = rng.standard_normal((len(cells), OUTPUTS)), np.full((len(cells), OUTPUTS), 0.1)
    if kind == "interval":
        bounds = IntervalBounds(center - width, center + width, 2 * width, center, Sampled())
    else:
        pinned, box = np.array([np.nan, np.nan, np.nan, 0.0, 0.0]), np.array([10, 10, np.pi, 10, 10])
        question = Question(TrustedModel(parked_car.unicycle), schema, "increment", -box, box, pinned)
        aim = Aim(np.full(OUTPUTS, 1e-12), np.empty((0, INPUTS)), count)
        bounds = with_room(expand(question, Proved(), aim, cells).bounds, width, schema)
    return constrained_model(mlp(frame.features_width, OUTPUTS, HIDDEN), frame, cells, bounds)


def seconds_of(
    calls: dict[str, Callable[[], object]], rounds: int, repeats: int = 1
) -> dict[str, np.ndarray]:
    """(rounds,) of a call of each, taken in turns of so many calls."""
    found = {name: np.empty(rounds) for name in calls}
    for number in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            for _ in range(repeats):
                call()
            found[name][number] = (time.process_time() - start) / repeats
    return found


def compare(model: Model, batch: int, rounds: int, repeats: int = 1) -> dict[str, np.ndarray]:
    """Seconds of the bare network, of `predict` and of `forward`, by round."""
    rng = np.random.default_rng(batch)
    states, controls = rng.standard_normal((batch, 3)), rng.standard_normal((batch, 2))
    given = torch.from_numpy(states), torch.from_numpy(controls)
    features = model.frame.features(torch.cat(given, dim=1)).float()

    def without_gradients(call: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            with torch.no_grad():
                call()

        return run

    calls = {
        "bare": without_gradients(lambda: model.network(features)),
        "predict": lambda: model.predict(states, controls),
        "forward": without_gradients(lambda: model(*given)),
    }
    for call in calls.values():  # compile
        call()
    return seconds_of(calls, rounds, repeats)


def verdict(found: float, most: float) -> str:
    """Beside its target."""
    return f"target <= {most}   {'PASS' if found <= most else 'MISS'}"


def main() -> None:
    torch.set_num_threads(1)
    for kind in ("interval", "affine"):
        for count in COUNTS:
            model = build(kind, count)
            name = f"{kind}, {count:,} {'memories' if kind == 'interval' else 'leaves'}"
            many = compare(model, BATCH, size(40, 2))
            for way in ("predict", "forward"):
                share = float(np.median(many[way] / many["bare"]))
                print(
                    f"{name:24s} batch {BATCH}  {way}  {1e3 * np.median(many[way]):7.2f} ms   bare "
                    f"{1e3 * np.median(many['bare']):7.2f} ms   ratio {share:.3f}   {verdict(share, MOST_RATIO)}"
                )
            loop, single = compare(model, 1, size(60, 3), size(100, 2)), compare(model, 1, size(1000, 3))
            extra, alone = (1e3 * float(np.median(one["predict"] - one["bare"])) for one in (loop, single))
            print(
                f"{name:24s} one input   predict  {1e3 * np.median(loop['predict']):7.3f} ms   bare "
                f"{1e3 * np.median(loop['bare']):7.3f} ms   extra {extra:.3f} ms, a call alone {alone:.3f} ms   "
                f"{verdict(extra, MOST_EXTRA_MS)}"
            )


if __name__ == "__main__":
    main()

"""Adapting while driving: the steering bends, the car learns it, and its guarantee stays what it was.

The model runs as an ONNX file whose weights are inputs: what was learned is handed to it, no file is built.
"""

import os
import tempfile

import numpy as np
import onnxruntime
from matplotlib.figure import Figure

import tether
from tether.data import Transitions
from tether.export import export
from tether_studies import parked_car

TINY = bool(os.environ.get("TETHER_TINY"))
DRIVES, BLOCK = (2, 10) if TINY else (5, 25)

driven = parked_car.drive(episodes=12 if TINY else 60)
car = tether.fit(
    driven, trusted=parked_car.TRUSTED, probes=parked_car.parked(driven, count=500), domain=parked_car.DOMAIN,
    memories=50 if TINY else 300, leaves=300 if TINY else 2000, hidden=(64, 64),
    training=tether.TrainingConfig(steps=20 if TINY else 1000),
)  # fmt: skip


def bent(seed: int) -> Transitions:
    """A drive with a steering that turns the car a tenth too much, in blocks that serve as episodes."""
    new = parked_car.drive(episodes=4, steps=40 if TINY else 150, seed=seed)
    following = new.next_states.copy()
    following[:, 2] += 0.1 * parked_car.STEP_SECONDS * new.controls[:, 1]
    blocks = np.argsort(np.argsort(new.episodes, kind="stable"), kind="stable") // BLOCK
    return Transitions.from_arrays(new.states, new.controls, following, episodes=blocks, schema=new.schema)


def error(weights: dict[str, np.ndarray], data: Transitions) -> float:
    """Of the heading, as the running file predicts it."""
    given = {"states": data.states, "controls": data.controls, **weights}
    found = session.run(["next_states"], given)[0]
    return float(np.sqrt((data.schema.distance(found, data.next_states)[:, 2] ** 2).mean()))


with tempfile.TemporaryDirectory() as folder:
    path = export(car, to="onnx", out=folder, name="car", weights="inputs")[0]
    print(tether.verify(path, parked_car.TRUSTED).statement)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it warns of weights that are inputs
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

ahead = bent(seed=99)
errors = [error({}, ahead)]
print(f"heading, before: {errors[0]:.5f} rad off on drives to come")
for drive in range(DRIVES):
    found = car.adapt(bent(seed=drive + 1), steps=5 if TINY else 300)
    car = found.model
    weights = {f"network.{name}": value.numpy() for name, value in car.network.state_dict().items()}
    errors.append(error(weights, ahead))
    changed, missed = ", ".join(found.changed) or "nothing", found.outside["heading"]
    print(f"drive {drive + 1}: {errors[-1]:.5f} rad; new weights for {changed}; truth outside the")
    print(f"  band at {missed:.1%} of its rows")
print(f"certified as before: {tether.certify(car, parked_car.TRUSTED).certified}")

figure = Figure(figsize=(6, 4), layout="constrained")
axes = figure.subplots()
axes.plot(range(len(errors)), errors, "o-")
axes.set(
    xlabel="drives with the bent steering",
    ylabel="heading, error on drives to come [rad]",
    ylim=(0, 1.1 * max(errors)),
)
figure.savefig("adapting_online.png", dpi=120)
print("picture: adapting_online.png")

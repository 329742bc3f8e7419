import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from tether.data import Scaling, Schema, fit_scaling, make_schema
from tether.foundation.errors import StorageError
from tether.geometry.cells import Cells
from tether.learning.config import TrainingConfig
from tether.learning.examples import Examples, TrainingData
from tether.learning.training import train
from tether.model import Frame, mlp
from tether.model.assembling import constrained_model, unconstrained_model
from tether.tethers.bounds import IntervalBounds

SCHEMA = make_schema(["x", "v"], ["u"])
DYNAMICS = np.array([[1.0, 0.1], [0.0, 0.9], [0.0, 0.1]])


def linear_data(rows=1500, *, offset=0.0, seed=0):
    """A known linear system; M is the same system, `offset` away."""
    rng = np.random.default_rng(seed)

    def examples(count, labelled=True):
        inputs = rng.standard_normal((count, 3))
        outcome = inputs @ DYNAMICS
        return Examples(inputs, outcome + offset, outcome if labelled else None)

    return TrainingData(examples(rows), examples(rows, False), examples(200), examples(200, False))


def frame_of(data):
    assert data.train.target is not None
    return Frame(SCHEMA, "next_state", fit_scaling(data.train.inputs), fit_scaling(data.train.target))


def wide_bounds(frame, width=100.0, cells=5):
    rng = np.random.default_rng(0)
    box = np.full(3, 50.0)
    grid = Cells(rng.standard_normal((cells, 3)), np.empty((0, 2), np.int64), np.ones(3), 9.0, -box, box)
    limit = np.full((cells, 2), width)
    return grid, IntervalBounds(-limit, limit, 2 * limit, np.zeros_like(limit), "sampled")


@pytest.mark.parametrize("constrained", [False, True])
def test_recovers_a_known_linear_system(constrained):
    data = linear_data()
    frame = frame_of(data)
    network = mlp(3, 2, ())
    model = constrained_model(network, frame, *wide_bounds(frame), operator="clip") if constrained else (
        unconstrained_model(network, frame)
    )  # fmt: skip
    config = TrainingConfig(steps=4000, learning_rate=0.03, dtype="float64", evaluate_every=500)
    train(model, data, config)
    inputs = np.random.default_rng(9).standard_normal((500, 3))
    predicted = model.predict(inputs[:, :2], inputs[:, 2:])
    assert np.abs(predicted - inputs @ DYNAMICS).max() < 1e-6
    weight = network[0].weight.detach().numpy()
    recovered = (weight * frame.outputs.scale[:, None] / frame.inputs.scale).T
    np.testing.assert_allclose(recovered, DYNAMICS, atol=1e-6)


def test_augmented_lagrangian_pulls_towards_the_trusted_model():
    data = linear_data(offset=0.3)
    distances = {}
    for loss in ("squared_error", "augmented_lagrangian"):
        model = unconstrained_model(mlp(3, 2, (16,)), frame_of(data))
        history = train(model, data, TrainingConfig(steps=800, loss=loss, learning_rate=1e-2))
        distances[loss] = history.evaluations[-1]
    assert (
        distances["augmented_lagrangian"].constraint_loss_omega_mean
        < 0.05 * distances["squared_error"].constraint_loss_omega_mean
    )


def test_training_never_changes_the_bounds():
    data = linear_data()
    frame = frame_of(data)
    cells, bounds = wide_bounds(frame, width=0.5)
    before = [part.copy() for part in (cells.memories, bounds.lower, bounds.upper, bounds.delta)]
    model = constrained_model(mlp(3, 2, (8,)), frame, cells, bounds)
    train(model, data, TrainingConfig(steps=50, evaluate_every=25, gamma=0.99, loss="augmented_lagrangian"))
    for old, new in zip(before, (cells.memories, bounds.lower, bounds.upper, bounds.delta), strict=True):
        np.testing.assert_array_equal(old, new)


def test_gamma_widens_both_bounds_alike():
    """With γ close to 1 and few steps, training sees far wider bounds than it is held to in the end."""
    data = linear_data()
    frame = frame_of(data)
    cells, bounds = wide_bounds(frame, width=0.01)
    losses = {}
    for gamma in (0.0, 0.999999):
        model = constrained_model(mlp(3, 2, (8,)), frame, cells, bounds, operator="clip")
        history = train(model, data, TrainingConfig(steps=1, evaluate_every=1, gamma=gamma, batch=1500))
        losses[gamma] = history.evaluations[0].loss
    target = data.train.target / frame.outputs.scale
    shift = frame.outputs.center / frame.outputs.scale
    assert data.train.target is not None
    raw = (
        mlp(3, 2, (8,))(frame.features(torch.from_numpy(data.train.inputs)).float()).detach().numpy() + shift
    )
    for gamma, loss in losses.items():
        limit = 0.01 * (1 + 2 * (gamma > 0)) / frame.outputs.scale
        expected = ((np.clip(raw, -limit, limit) - target) ** 2).mean()
        assert loss == pytest.approx(expected, rel=1e-4)


def test_sigmoid_gradients_live():
    """The operator's input keeps varying between inputs instead of saturating into a constant."""
    data = linear_data()
    frame = frame_of(data)
    model = constrained_model(
        mlp(3, 2, (32,)), frame, *wide_bounds(frame, width=4.0, cells=20), operator="sigmoid"
    )
    last = train(model, data, TrainingConfig(steps=600, learning_rate=1e-2)).evaluations[-1]
    assert last.operator_input_spread > 0.2
    assert last.operator_saturated < 0.01
    assert last.approximation_loss_D < 0.01


def test_seed_reaches_network_and_batches():
    data = linear_data()
    losses = []
    for seed in (0, 0, 1):
        model = unconstrained_model(mlp(3, 2, (8,), seed=seed), frame_of(data))
        losses.append(train(model, data, TrainingConfig(steps=30, evaluate_every=30), seed=seed).evaluations)
    assert losses[0] == losses[1] != losses[2]


def test_early_stop_keeps_the_best_weights():
    data = linear_data(rows=20)
    rng = np.random.default_rng(1)
    noise = replace(data.train, target=rng.standard_normal((20, 2)))
    model = unconstrained_model(mlp(3, 2, (64,)), frame_of(data))
    config = TrainingConfig(
        steps=5000, evaluate_every=20, patience=3, learning_rate=1e-2, schedule="constant"
    )
    history = train(model, replace(data, train=noise), config)
    assert history.steps < 5000
    assert history.steps == history.best_step + 60
    best = min(e.approximation_loss_D for e in history.evaluations)
    assert data.validation.target is not None
    predicted = model.predict(data.validation.inputs[:, :2], data.validation.inputs[:, 2:])
    assert ((predicted - data.validation.target) ** 2).mean() == pytest.approx(best, rel=1e-5)


def test_resume_is_bit_identical(tmp_path):
    data = linear_data()
    config = TrainingConfig(steps=120, evaluate_every=20, loss="augmented_lagrangian", update_every=30)
    config = replace(config, checkpoint_seconds=0.0)

    def model():
        return unconstrained_model(mlp(3, 2, (16,)), frame_of(data))

    whole = train(model(), data, config)

    class Stop(Exception):
        pass

    def stop(evaluations):
        if evaluations[-1].step == 80:
            raise Stop

    with pytest.raises(Stop):
        train(model(), data, config, checkpoint=tmp_path / "c", on_evaluation=stop)
    resumed = train(model(), data, config, checkpoint=tmp_path / "c")
    assert [asdict(e) for e in resumed.evaluations] == [asdict(e) for e in whole.evaluations]
    with pytest.raises(StorageError, match="must be a checkpoint of this run"):
        train(model(), data, replace(config, batch=32), checkpoint=tmp_path / "c")


def test_killed_run_resumes_to_identical_metrics(tmp_path):
    """A real process, a real SIGKILL."""
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent("""
        import json, sys, time
        from dataclasses import asdict
        from pathlib import Path
        sys.path.insert(0, sys.argv[1])
        from test_training import *
        data = linear_data()
        config = TrainingConfig(steps=300, evaluate_every=10, checkpoint_seconds=0.0, loss="augmented_lagrangian")
        model = unconstrained_model(mlp(3, 2, (16,)), frame_of(data))
        slow = lambda evaluations: time.sleep(float(sys.argv[4]))
        history = train(model, data, config, checkpoint=Path(sys.argv[2]), on_evaluation=slow)
        Path(sys.argv[3]).write_text(json.dumps([asdict(e) for e in history.evaluations]))
        """)
    )

    def start(checkpoint, out, sleep):
        here = os.path.dirname(__file__)
        command = [sys.executable, str(script), here, str(tmp_path / checkpoint), str(tmp_path / out), sleep]
        return subprocess.Popen(command)

    assert start("a", "whole.json", "0").wait() == 0
    killed = start("b", "killed.json", "0.2")
    deadline = time.monotonic() + 60
    while not (tmp_path / "b").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert (tmp_path / "b").exists() and not (tmp_path / "killed.json").exists()
    assert start("b", "resumed.json", "0").wait() == 0
    assert (tmp_path / "resumed.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


def test_diverging_training_says_so():
    data = linear_data()
    model = unconstrained_model(mlp(3, 2, (8, 8)), frame_of(data))
    with pytest.raises(ValueError, match="training must keep a finite loss; got .* Lower `learning_rate`"):
        train(model, data, TrainingConfig(steps=200, learning_rate=1e12, schedule="constant"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "`steps` must be at least 1; got 0"),
        ({"gamma": 1.0}, r"`gamma` must be in \[0, 1\); got 1.0"),
        ({"learning_rate": 0.0}, "`learning_rate` must be positive; got 0.0"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        TrainingConfig(**settings)


def test_any_module_can_be_wrapped():
    class Sine(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(3, 2)

        def forward(self, features):
            return torch.sin(self.inner(features))

    data = linear_data()
    frame = frame_of(data)
    cells, bounds = wide_bounds(frame, width=1.0)
    model = constrained_model(Sine(), frame, cells, bounds)
    train(model, data, TrainingConfig(steps=20, evaluate_every=20))
    assert np.abs(model.predict(data.validation.inputs[:, :2], data.validation.inputs[:, 2:])).max() <= 1.0
    assert isinstance(model.schema, Schema) and isinstance(frame.inputs, Scaling)

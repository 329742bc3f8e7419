"""Noise on features while a network trains."""

from dataclasses import replace

import numpy as np
import pytest

from tether.fitting import VANILLA, FitConfig, prepare, train_method
from tether.foundation.errors import StorageError
from tether.learning.config import TrainingConfig
from tether_studies import parked_car
from tether_studies.noise import noisy_network

SMALL = FitConfig(hidden=(32,), training=TrainingConfig(steps=200, evaluate_every=100))


@pytest.fixture(scope="module")
def problem():
    transitions = parked_car.drive(episodes=60, steps=30)
    probes = parked_car.parked(transitions, count=1000)
    return prepare(transitions, trusted=parked_car.TRUSTED, probes=probes, config=SMALL)


def trained(problem, noise, config=SMALL, **more):
    network = noisy_network(problem.split.train.schema, noise, config)
    return train_method(problem, VANILLA, config, network=network, **more).model


def test_it_is_of_training_only_and_makes_a_network_lean_less_on_an_input(problem):
    schema = problem.split.train.schema
    name = next(n for n, angle in zip(schema.inputs, schema.input_angles, strict=True) if not angle)
    column = schema.inputs.index(name)
    plain, noisy = (trained(problem, noise) for noise in ({}, {name: 30.0}))
    part, dx = problem.data[2].inputs, len(schema.states)
    moved = part.copy()
    moved[:, column] += problem.scaling.scale[column]

    def reaction(model):
        change = model.predict(moved[:, :dx], moved[:, dx:]) - model.predict(part[:, :dx], part[:, dx:])
        return float(np.abs(change / model.frame.outputs.scale).mean())

    assert reaction(noisy) < 0.5 * reaction(plain)
    again = [noisy.predict(part[:, :dx], part[:, dx:]) for _ in range(2)]
    np.testing.assert_array_equal(*again)


def test_angles_and_unknown_inputs_are_refused(problem):
    schema = problem.split.train.schema
    with pytest.raises(ValueError, match="`noise` must not name angles"):
        noisy_network(schema, {schema.angles[0]: 1.0}, SMALL)
    with pytest.raises(ValueError, match="`noise` must name inputs .*; got wind"):
        noisy_network(schema, {"wind": 1.0}, SMALL)


def test_a_checkpoint_of_other_noise_is_not_taken_up(problem, tmp_path):
    name, file = problem.split.train.schema.controls[0], tmp_path / "checkpoint.safetensors"
    brief = replace(SMALL, training=TrainingConfig(steps=20, evaluate_every=10))
    trained(problem, {name: 1.0}, brief, checkpoint=file)
    with pytest.raises(StorageError, match="must be a checkpoint of this run; it belongs to other data"):
        trained(problem, {name: 2.0}, brief, checkpoint=file)

"""A neural ODE as the network: the guarantee does not ask what is inside."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tether

odeint = pytest.importorskip("torchdiffeq").odeint


class NeuralODE(torch.nn.Module):
    """Features to outputs along a learned vector field."""

    def __init__(self, features: int, outputs: int, width: int = 8) -> None:
        super().__init__()
        self.lift, self.read = torch.nn.Linear(features, width), torch.nn.Linear(width, outputs)
        self.field = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Tanh())

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        times = torch.linspace(0.0, 1.0, 2, dtype=features.dtype)
        path = odeint(lambda t, y: self.field(y), self.lift(features), times, method="rk4")
        return self.read(path[-1])


def rate(s, u):
    return np.stack([s[:, 1], u[:, 0] - 9.81 * np.sin(s[:, 0])], axis=1)


def test_any_weights_of_a_neural_ode_keep_to_delta():
    trusted, rng = tether.discretise(rate, 0.05), np.random.default_rng(0)
    states, controls = rng.uniform(-1, 1, (300, 2)), rng.uniform(-1, 1, (300, 1))
    after = trusted.function(states, controls) - 0.01 * states * [0.0, 1.0]
    schema = tether.make_schema(["angle", "speed"], ["torque"])
    episodes = np.arange(300) // 30
    data = tether.Transitions.from_arrays(states, controls, after, episodes=episodes, schema=schema)
    small = {"memories": 10, "leaves": 100, "training": tether.TrainingConfig(steps=10)}
    model = tether.fit(data, trusted=trusted, network=NeuralODE(3, 2), **small)
    assert tether.certify(model, trusted).evidence == "proved"
    for scale in (None, 1.0, 1e3):
        if scale is not None:
            for weight in model.network.parameters():
                torch.nn.init.normal_(weight, 0.0, scale)
        found = model.predict(states, controls, details=True)
        off = np.abs(found.next_states - trusted.function(states, controls))
        assert found.in_domain.all() and (off <= found.delta).all()

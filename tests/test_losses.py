import pytest
import torch

from tether.learning.losses import Multipliers, squared_error, violation


def test_violation_is_positive_where_the_constraint_is_broken():
    """The paper's sign taken literally would reward violation."""
    outputs = torch.tensor([[0.0, 1.0], [0.0, 0.1]])
    trusted = torch.zeros(2, 2)
    assert violation(outputs, trusted).tolist() == pytest.approx([1.0, 0.1])


def test_inactive_constraint_costs_nothing():
    assert Multipliers().loss(torch.tensor([-1.0, -2.0])) == 0
    assert Multipliers(multiplier=0.5).loss(torch.tensor([-1.0])) == pytest.approx(-0.5 + 1.0)


def test_finds_the_exact_multiplier():
    """min (x - 1)² with x <= 0.5: by hand, x = 0.5 and λ = 1."""
    x = torch.zeros(1, requires_grad=True)
    state = Multipliers(penalty=4.0)
    for _ in range(40):
        for _ in range(200):
            loss = squared_error(x, torch.ones(1)) + state.loss(x - 0.5)
            (gradient,) = torch.autograd.grad(loss, x)
            with torch.no_grad():
                x -= 0.05 * gradient
        state = state.updated(float(x.detach()) - 0.5, growth=1.0, ceiling=100.0)
    assert float(x.detach()) == pytest.approx(0.5, abs=1e-4)
    assert state.multiplier == pytest.approx(1.0, abs=1e-3)


def test_penalty_grows_only_where_violation_stalls():
    state = Multipliers().updated(1.0, growth=2.0, ceiling=100.0)
    assert state.penalty == 1.0 and state.multiplier == 2.0
    assert state.updated(0.95, growth=2.0, ceiling=100.0).penalty == 2.0
    assert state.updated(0.5, growth=2.0, ceiling=100.0).penalty == 1.0
    assert state.updated(0.95, growth=2.0, ceiling=3.0).multiplier == 3.0

"""Networks side by side, and their weighted sum as one plain network."""

import pytest
import torch

from tether.files.storage import network_spec
from tether.model import Ensemble, mlp, weighted_sum

FEATURES = torch.randn(50, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def networks(*widths):
    return [mlp(4, 3, hidden, seed=seed).double() for seed, hidden in enumerate(widths)]


def test_members_answer_as_they_do_alone() -> None:
    alone = networks((8, 8), (8, 8), (8, 8))
    center, scale = torch.arange(4.0, dtype=torch.float64), torch.tensor([1.0, 2.0, 0.1, 10.0]).double()
    ensemble = Ensemble(alone, center, scale)
    together = ensemble(FEATURES)
    expected = torch.stack([network((FEATURES - center) / scale) for network in alone])
    assert torch.allclose(together, expected, rtol=1e-12, atol=1e-14)
    back = torch.stack([network(FEATURES) for network in ensemble.members()])
    assert torch.allclose(together, back, rtol=1e-9, atol=1e-12)
    asked = torch.arange(50) % 3
    assert torch.allclose(
        ensemble.answer_each(FEATURES, asked), together[asked, torch.arange(50)], rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("widths", [((8, 8), (8, 8)), ((), (8, 8), (5,)), ((), ()), ((7,), ())])
def test_a_weighted_sum_is_one_plain_network(widths) -> None:
    parts = networks(*widths)
    weights = torch.rand(len(parts), 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    joined = weighted_sum(parts, weights)
    expected = sum(w * network(FEATURES) for w, network in zip(weights, parts, strict=True))
    assert torch.allclose(joined(FEATURES), expected, rtol=1e-12, atol=1e-14)
    assert network_spec(joined)["kind"] == "mlp"


def test_what_counts_for_nothing_says_nothing() -> None:
    joined = weighted_sum(networks((), (8, 8)), torch.zeros(2, 3))
    assert (joined(FEATURES) == 0).all()

from __future__ import annotations

import numpy as np
import pytest

from tether.trusted.affine import AffineModel


def test_it_adds_up_in_order() -> None:
    model = AffineModel([[1.0, 2.0, -3.0], [0.0, -1.0, 0.5]], [10.0, 0.5])
    np.testing.assert_array_equal(model(np.array([[1.0, 1.0]]), np.array([[2.0]])), [[7.0, 0.5]])
    # 1e16 + 1 - 1e16 is 0 in this order, and would be 1 in another.
    cancelling = AffineModel([[1.0, 1.0, -1.0]], [0.0])
    assert cancelling(np.array([[1e16, 1.0]]), np.array([[1e16]])) == 0.0


def test_it_is_a_copy_and_cannot_be_changed() -> None:
    weights = np.ones((1, 2))
    model = AffineModel(weights, [0.0])
    weights[:] = 5.0
    np.testing.assert_array_equal(model.weights, [[1.0, 1.0]])
    with pytest.raises(ValueError, match="read-only"):
        model.weights[0, 0] = 2.0
    assert model.same_as(AffineModel([[1, 1]], [0])) and not model.same_as(AffineModel([[1, 1]], [1e-300]))


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="`weights` must have 2 dimensions"):
        AffineModel([1.0, 2.0], [0.0])
    with pytest.raises(ValueError, match="`weights` must have an output and an input"):
        AffineModel(np.empty((1, 0)), [0.0])
    with pytest.raises(ValueError, match="`weights` must be finite"):
        AffineModel([[np.nan]], [0.0])
    with pytest.raises(ValueError, match="`intercept` must be 1 finite numbers"):
        AffineModel([[1.0]], [0.0, 1.0])
    with pytest.raises(ValueError, match="must have a weight for each input; got 1 weights for 2 inputs"):
        AffineModel([[1.0]], [0.0])(np.zeros((1, 1)), np.zeros((1, 1)))

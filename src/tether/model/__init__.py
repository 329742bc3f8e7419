"""A model is a network, a frame, a tether and an operator."""

from tether.model.ensembles import Ensemble, weighted_sum
from tether.model.frame import Frame
from tether.model.model import Linearization, Model, Outside, Prediction
from tether.model.networks import mlp
from tether.model.operators import Operator, constrain

__all__ = [
    "Ensemble",
    "Frame",
    "Linearization",
    "Model",
    "Operator",
    "Outside",
    "Prediction",
    "constrain",
    "mlp",
    "weighted_sum",
]

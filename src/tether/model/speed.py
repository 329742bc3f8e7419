"""What a tether costs on this machine: a prediction against its bare network."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from tether.model.model import Model
from tether.model.networks import few_threads


@dataclass(frozen=True)
class Speed:
    """Medians over rounds, in seconds of the clock.

    Attributes:
        rows: in a batch.
        network: the bare network, its features ready as a tensor.
        lookup: the tether alone: which leaf or cell a row is in, and what it allows.
        predict: the whole of :meth:`Model.predict`, from arrays to arrays.
    """

    rows: int
    network: float
    lookup: float
    predict: float

    @property
    def ratio(self) -> float:
        """What a prediction takes, in times of the bare network."""
        return self.predict / self.network


def measure_speed(model: Model, *, rows: int, rounds: int = 30) -> Speed:
    """Times a model on inputs like those it was trained on, all parts in turns."""
    rng, scaling, dx = np.random.default_rng(0), model.frame.inputs, len(model.schema.states)
    drawn = scaling.center + scaling.scale * rng.standard_normal((rows, len(model.schema.inputs)))
    inputs = model.schema.wrap_inputs(drawn[:, :dx], drawn[:, dx:])
    states, controls = inputs[:, :dx], inputs[:, dx:]
    features = torch.from_numpy(model.frame.features_of(inputs)).float()
    calls: dict[str, Callable[[], object]] = {
        "network": lambda: model.network(features.to(next(model.network.parameters()).dtype)),
        "lookup": lambda: model.tether.room_at_once(inputs),
        "predict": lambda: model.predict(states, controls),
    }
    taken = {name: np.empty(rounds) for name in calls}
    with torch.no_grad(), few_threads(model.network, rows):
        for number in range(-2, rounds):  # the first two only warm up
            for name, call in calls.items():
                begin = time.perf_counter()
                call()
                if number >= 0:
                    taken[name][number] = time.perf_counter() - begin
    return Speed(rows, **{name: float(np.median(seconds)) for name, seconds in taken.items()})

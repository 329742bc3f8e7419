"""Every tether with every operator that it allows: what the suites of this folder are parametrised by.

One system of two states and one control, so that any test may ask any subject. Models are trained for a moment:
what is tested holds for any weights.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tether
from tether.fitting import CONSTRAINED, DIRECT, MONOTONE, TETHERED, VANILLA, FitConfig, build_for, prepare
from tether.fitting.methods import train_method
from tether.model import Model

TRAINING = tether.TrainingConfig(steps=40, dtype="float64")
STATES = 2
"""How many of the inputs are states."""


def turning(states, controls):
    """A cart that turns: at rest nothing moves."""
    speed, heading = states[:, 0], states[:, 1]
    following = [speed + 0.1 * np.sin(heading) * controls[:, 0], heading + 0.3 * speed * controls[:, 0]]
    return np.stack(following, axis=1)


FALLING = tether.AffineModel([[0.9, 0.1, -0.5], [-0.2, 0.8, -0.1]], [0.4, -0.1])
"""Nothing rises with the control."""


@dataclass(frozen=True)
class Kind:
    """A tether, and the system it is built for."""

    method: Any
    trusted: Any = turning
    angles: bool = False
    pinned: bool = False
    settings: tuple[tuple[str, Any], ...] = ()


KINDS = {
    "interval": Kind(CONSTRAINED, angles=True, pinned=True),
    "affine": Kind(TETHERED),
    "affine, pinned": Kind(TETHERED, pinned=True),
    "affine, angles": Kind(TETHERED, angles=True, pinned=True),
    "affine, second order": Kind(TETHERED, pinned=True, settings=(("order", 2),)),
    "monotone": Kind(MONOTONE, FALLING, settings=(("decreasing", ("steering",)),)),
    "direct": Kind(DIRECT, angles=True, pinned=True),
    "free": Kind(VANILLA, angles=True, pinned=True),
}


@dataclass(frozen=True)
class Subject:
    """A tether and an operator."""

    kind: str
    operator: str

    def __str__(self) -> str:
        return f"{self.kind}, {self.operator}"

    @property
    def trusted(self) -> Any:
        return KINDS[self.kind].trusted

    @property
    def tethered(self) -> bool:
        return self.kind != "free"

    @property
    def single(self) -> bool:
        """Whether it can be executed in float32 with a guarantee."""
        return self.kind.split(",")[0] in ("interval", "affine")

    def model(self) -> Model:
        """A copy, so that a test may do with it what it likes."""
        return copy.deepcopy(_fitted(self))

    def inputs(self, count: int = 200) -> np.ndarray:
        """Inside and beyond the domain, at rest, on cells' centres and on leaves' faces."""
        rng = np.random.default_rng(1)
        inputs = rng.uniform([-1.1, -3, -1.1], [1.1, 3, 1.1], (count, 3))
        inputs[: count // 5, 0] = 0.0
        model = _fitted(self)
        if model.tether.limited:
            inputs[-5:] = model.cells.centers[:5]
        if model.tether.kind == "affine":
            inputs[-10:-5] = model.bounds.tree.boxes()[0][:5]
        return model.schema.wrap_inputs(inputs[:, :STATES], inputs[:, STATES:])


SUBJECTS = tuple(
    Subject(kind, operator)
    for kind in KINDS
    for operator in ("clip", *(("sigmoid", "project") if kind.startswith(("interval", "affine")) else ()))
)


def each(subjects: Any) -> Any:
    """Parametrises a test by `subject`."""
    return pytest.mark.parametrize("subject", list(subjects), ids=str)


every = each(SUBJECTS)
tethered = each(s for s in SUBJECTS if s.tethered)


def parts(inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """States and controls."""
    return inputs[:, :STATES], inputs[:, STATES:]


def tensors(inputs: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """The same in torch."""
    rows = torch.from_numpy(inputs)
    return rows[:, :STATES], rows[:, STATES:]


class Constant(torch.nn.Module):
    """A network that says one thing, infinite or not."""

    def __init__(self, value: float, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.value = torch.nn.Parameter(torch.full((STATES,), value, dtype=dtype))

    def forward(self, features):
        return self.value.expand(len(features), STATES)


def any_weights(model: Model) -> Iterator[Model]:
    """The model as it is, and with weights that nobody would choose."""
    yield model
    for size in (0.0, 1.0, 1e6):
        other = copy.deepcopy(model)
        generator = torch.Generator().manual_seed(2)
        with torch.no_grad():
            for parameter in other.network.parameters():
                drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.copy_(size * drawn)
        yield other
    if model.decreasing:  # whose network must be one that cannot rise
        return
    for value in (torch.inf, -torch.inf, 1e30):
        other = copy.deepcopy(model)
        other.network = Constant(value)
        yield other


def scaled(model: Model, factor: float) -> Model:
    """The model with other weights: inside its limits, on them and far beyond them."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in list(other.network.parameters())[-2:]:
            parameter *= factor
    return other


def written(subject: Subject, folder: Path) -> Path:
    """The model's file."""
    path = folder / "model.safetensors"
    tether.save(_fitted(subject), path)
    return path


def transitions(angles: bool, trusted: Any = turning) -> tether.Transitions:
    rng = np.random.default_rng(0)
    reach = 3.1 if angles else 1.0
    states, controls = rng.uniform([-1, -reach], [1, reach], (900, 2)), rng.uniform(-1, 1, (900, 1))
    following = trusted(states, controls) + 0.05 * np.sin(4 * states) * states[:, :1]
    schema = tether.make_schema(["speed", "heading"], ["steering"], angles=["heading"] if angles else [])
    return tether.Transitions.from_arrays(
        states, controls, following, episodes=np.arange(900) // 30, schema=schema
    )


@cache
def _built(kind: str) -> Any:
    """Problem, settings and tether, which operators share."""
    told = KINDS[kind]
    config = FitConfig(
        memories=40, leaves=200, hidden=(16,), evidence="proved", training=TRAINING, **dict(told.settings)
    )
    data = transitions(told.angles, told.trusted)
    probes = tether.Probes.from_box({"speed": 0.0}, count=100, like=data) if told.pinned else tether.Jitter()
    problem = prepare(data, trusted=told.trusted, probes=probes, config=config)
    return problem, config, build_for(problem, told.method, config)


@cache
def _fitted(subject: Subject) -> Model:
    problem, config, built = _built(subject.kind)
    if subject.operator != "clip":
        config = replace(config, operator=subject.operator)
    model = train_method(problem, KINDS[subject.kind].method, config, built=built).model
    model.record = dict(built.notes)
    return model.eval()

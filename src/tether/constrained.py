"""ConstrainedModel (the paper's Γ(f_θ)): any network, wrapped so that it cannot leave the bounds.

The geometry (memories, bounds, scales) is float64 whatever the dtype of the network, and the
constraining operator works in float64, so that casting a model to half precision can change its
predictions but never its guarantee.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal, get_args, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from tether.bounds import AffineBounds, Bounds, IntervalBounds, Limits
from tether.cells import Cells, Location
from tether.data import Array, Scaling, Schema, Target, check_matrix
from tether.limits import check_widths
from tether.tethers import AffineTether, DirectTether, FreeTether, IntervalTether, Tether
from tether.tethers.frame import TorchFrame
from tether.trusted import TrustedModel

Operator = Literal["sigmoid", "clip", "project"]
Outside = Literal["flag", "fallback", "raise"]

_PREDICT_BATCH = 8192


class _ProjectedClip(torch.autograd.Function):
    """Clamp whose gradient survives outside the interval where it points back in.

    A plain clamp has zero gradient outside, so a network that starts there never learns. Blocking
    only the steps that lead further out is projected gradient descent.
    """

    @staticmethod
    def forward(ctx, values: Tensor, lower: Tensor, upper: Tensor) -> Tensor:  # type: ignore[override]
        clamped = torch.clamp(values, lower, upper)
        ctx.save_for_backward(values - clamped)
        return clamped

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        (excess,) = ctx.saved_tensors
        # Descent moves against the gradient: further out where excess and gradient differ in sign.
        return gradient.masked_fill(excess * gradient < 0, 0.0), None, None


def constrain(values: Tensor, lower: Tensor, upper: Tensor, operator: Operator) -> Tensor:
    """`values` (N, P) mapped into [lower, upper], exactly, in their dtype; NaN stays what it is.

    `sigmoid` (paper, eq. 1) takes `values` as logits: ``lower + σ(values) (upper - lower)``. `clip`
    (paper, Proj) takes them as outputs, and so does `project`, the closed form of HardNet (Min and Azizan,
    2024) for limits on each output. All end in a clip, because sums may round out.

    Differentiates as what it is: limits depend on the input, and on and beyond them the output follows them.
    """
    if operator == "sigmoid":
        values = lower + torch.sigmoid(values) * (upper - lower)
    inside = torch.minimum(torch.maximum(values, lower), upper)
    # Without room it is the limits that are followed, also where the network happens to agree with them.
    return torch.where((upper > lower) | values.isnan(), inside, lower)


def constrain_in_training(values: Tensor, lower: Tensor, upper: Tensor, operator: Operator) -> Tensor:
    """The numbers of :func:`constrain` between limits that are constants, with the gradient of training.

    That of `clip` leads back between the limits; it is no derivative, and no model is differentiated by it.
    """
    if operator == "clip":
        return _ProjectedClip.apply(values, lower, upper)  # type: ignore[return-value]
    if operator == "sigmoid":
        values = lower + torch.sigmoid(values) * (upper - lower)
    # HardNet's `values + relu(lower - values) - relu(values - upper)`, which would not survive infinities.
    return torch.clamp(values, lower, upper)


@dataclass(frozen=True, eq=False)
class Frame:
    """How physical inputs become features, and raw outputs physical targets.

    Attributes:
        schema: what the columns mean.
        target: whether the network's output stands for next states or for increments.
        inputs: centre and scale of the inputs, (D,).
        outputs: centre and scale of the target, (P,).
    """

    schema: Schema
    target: Target
    inputs: Scaling
    outputs: Scaling

    # Cached, like the schema's, because a prediction of one row has no time to build them.
    @cached_property
    def output_tensors(self) -> tuple[Tensor, Tensor]:
        """Centre and scale of the target as tensors."""
        return torch.from_numpy(self.outputs.center), torch.from_numpy(self.outputs.scale)

    @property
    def features_width(self) -> int:
        """Number of features: one per input, one more per angle."""
        return len(self.schema.inputs) + int(self.schema.input_angles.sum())

    def features(self, inputs: Array) -> Array:
        """(N, F): scaled inputs; an angle enters as its sine and cosine, so nothing jumps at ±π."""
        angles = self.schema.input_angles
        if not angles.any():
            return (inputs - self.inputs.center) / self.inputs.scale
        plain = (inputs[:, ~angles] - self.inputs.center[~angles]) / self.inputs.scale[~angles]
        return np.concatenate([plain, np.sin(inputs[:, angles]), np.cos(inputs[:, angles])], axis=1)

    def base(self, states: Array) -> Array:
        """(N, P): what is added to the target to give the next state."""
        base = self.schema.base(states)
        return base if self.target == "increment" else np.zeros_like(base)


@dataclass(frozen=True, eq=False)
class Linearization:
    """Derivatives of next states.

    Attributes:
        states: (N, P, dx) by the states.
        controls: (N, P, du) by the controls.
    """

    states: Array
    controls: Array


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictions with what is known about each row.

    Attributes:
        next_states: (N, P).
        lower: (N, P) smallest value the guarantee allows, -inf for an unconstrained model.
        upper: (N, P) largest.
        cell: (N,) cell of the row, -1 for an unconstrained model.
        in_domain: (N,) whether the guarantee covers the row.
        delta: (N, P) distance to the trusted model for rows in the domain, inf elsewhere.
    """

    next_states: Array
    lower: Array
    upper: Array
    cell: NDArray[np.int64]
    in_domain: NDArray[np.bool_]
    delta: Array


def mlp(inputs: int, outputs: int, hidden: Sequence[int], *, seed: int = 0) -> nn.Sequential:
    """A ReLU network of the paper's kind: (1024, 1024) for car and drones, (20, 20, 20) for glucose.

    The last layer starts at a hundredth of its usual size: the sigmoid operator then starts in the
    middle of every cell, where its gradient is largest.
    """
    check_widths("hidden", hidden, inputs=inputs, outputs=outputs)
    generator = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    widths = [inputs, *hidden, outputs]
    for k, (fan_in, fan_out) in enumerate(pairwise(widths)):
        layer = nn.Linear(fan_in, fan_out)
        limit = fan_in**-0.5 * (0.01 if k == len(hidden) else 1.0)
        with torch.no_grad():
            layer.weight.uniform_(-limit, limit, generator=generator)
            layer.bias.uniform_(-limit, limit, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class LearnedModel(nn.Module, ABC):
    """A network in its frame: what every method of the tables shares."""

    def __init__(self, network: nn.Module, frame: Frame) -> None:
        super().__init__()
        self.network = network
        self.frame = frame
        self.torch_frame = TorchFrame(frame.schema, frame.target, frame.inputs, frame.outputs)
        self.tether: Tether
        """Limits as torch sees them."""
        self.record: dict = {}
        """What is known of the fit: configuration, digests, coverage. Saved with the model."""

    @property
    def schema(self) -> Schema:
        """What the columns mean."""
        return self.frame.schema

    def raw(self, inputs: Array) -> Tensor:
        """(N, P) float64 output of the bare network at physical inputs (N, D)."""
        parameter = next(self.network.parameters(), torch.empty(0))
        features = torch.from_numpy(self.frame.features(inputs)).to(parameter.device, parameter.dtype)
        return self.network(features).double()

    @property
    @abstractmethod
    def operator(self) -> Operator | None:
        """How outputs are kept in their limits; None: they are not."""

    @abstractmethod
    def locate(self, inputs: Array) -> Location:
        """Cell and domain membership of physical inputs (N, D)."""

    @abstractmethod
    def limits(self, inputs: Array, location: Location) -> Limits:
        """Bounds on the target at physical inputs (N, D)."""

    def forward(self, states: Tensor, controls: Tensor) -> Tensor:
        """Next states (N, P), or (P,) of one row, in float64; differentiable in weights and inputs.

        Torch alone, on any device, without a branch: it can be mapped, compiled and exported. What it returns
        is what :meth:`predict` returns, to rounding; where an input or a weight is NaN, so is the output.
        """
        inputs = torch.cat([states, controls], dim=-1).double()
        rows = self.torch_frame.wrapped(inputs.unsqueeze(0) if inputs.dim() == 1 else inputs)
        parameter = next(self.network.parameters(), rows)
        raw = self.network(self.torch_frame.features(rows).to(parameter.dtype)).double()
        room = self.tether.room(rows)
        if self.operator == "sigmoid":
            target = constrain(raw, room.lower, room.upper, "sigmoid")
        else:
            values = self.torch_frame.output_center + self.torch_frame.output_scale * raw
            values = values if self.operator == "project" else room.anchor + values
            target = constrain(values, room.lower, room.upper, self.operator or "clip")
        following = self.torch_frame.ahead(rows, target)
        return following.squeeze(0) if inputs.dim() == 1 else following

    def linearize(self, states: ArrayLike, controls: ArrayLike) -> Linearization:
        """Derivatives of the prediction at states (N, dx) and controls (N, du).

        Of the function as it is: inside the room the network's and the tether's together, on its limits the
        tether's.
        """
        inputs = torch.from_numpy(self._check_inputs(states, controls))
        inputs = inputs.to(self.torch_frame.input_center.device).requires_grad_()
        dx = len(self.schema.states)
        with torch.enable_grad():
            following = self(inputs[:, :dx], inputs[:, dx:])
        rows = [
            torch.autograd.grad(column.sum(), inputs, retain_graph=True)[0] for column in following.unbind(1)
        ]
        jacobian = torch.stack(rows, dim=1).cpu().numpy()
        return Linearization(jacobian[:, :, :dx], jacobian[:, :, dx:])

    def respond(self, raw: Tensor, lower: Tensor, upper: Tensor, anchor: Tensor) -> Tensor:
        """Target (N, P) from raw output and the limits (N, P); inside them whatever `raw` is, NaN apart."""
        if self.operator == "sigmoid":
            return constrain(raw, lower, upper, "sigmoid")
        center, scale = self.frame.output_tensors
        values = anchor + center.to(raw.device) + scale.to(raw.device) * raw
        return values if self.operator is None else constrain(values, lower, upper, self.operator)

    @overload
    def predict(
        self,
        states: ArrayLike,
        controls: ArrayLike,
        *,
        details: Literal[False] = False,
        outside: Outside = "flag",
        trusted: TrustedModel | Callable | None = None,
    ) -> Array: ...

    @overload
    def predict(
        self,
        states: ArrayLike,
        controls: ArrayLike,
        *,
        details: Literal[True],
        outside: Outside = "flag",
        trusted: TrustedModel | Callable | None = None,
    ) -> Prediction: ...

    def predict(
        self,
        states: ArrayLike,
        controls: ArrayLike,
        *,
        details: bool = False,
        outside: Outside = "flag",
        trusted: TrustedModel | Callable | None = None,
    ) -> Array | Prediction:
        """Next states (N, P).

        Args:
            states: (N, dx).
            controls: (N, du).
            details: return a :class:`Prediction` with bounds, cell and domain membership.
            outside: what to do with rows outside the domain: `flag` them in the details, answer with
                the trusted model (`fallback`), or `raise`.
            trusted: the trusted model, for `fallback`.
        """
        if outside not in ("flag", "fallback", "raise"):
            raise ValueError(f"`outside` must be 'flag', 'fallback' or 'raise'; got {outside!r}.")
        inputs = self._check_inputs(states, controls)
        starts = range(0, max(1, len(inputs)), _PREDICT_BATCH)
        parts = [self._predict(inputs[k : k + _PREDICT_BATCH]) for k in starts]
        prediction = _concatenate(parts) if len(parts) != 1 else parts[0]
        prediction = self._handle_outside(prediction, inputs, outside, trusted)
        return prediction if details else prediction.next_states

    def _check_inputs(self, states: ArrayLike, controls: ArrayLike) -> Array:
        states = check_matrix("states", states, self.schema.states)
        controls = check_matrix("controls", controls, self.schema.controls)
        if len(states) != len(controls):
            raise ValueError(f"`controls` must have {len(states)} rows like `states`; got {len(controls)}.")
        return self.schema.wrap_inputs(states, controls)

    @torch.no_grad()
    def _predict(self, inputs: Array) -> Prediction:
        location = self.locate(inputs)
        limits = self.limits(inputs, location)
        raw = self.raw(inputs)
        parts = (torch.from_numpy(v).to(raw.device) for v in (limits.lower, limits.upper, limits.anchor))
        target = self.respond(raw, *parts).cpu().numpy()
        if np.isnan(target).any():
            raise ValueError(
                "the network must give numbers; got NaN. Its weights are damaged: train or load it anew."
            )
        base = self.frame.base(inputs[:, : len(self.schema.states)])
        # Rounding is monotone: adding the same base to numbers in order keeps them in order.
        return Prediction(
            base + target,
            base + limits.lower,
            base + limits.upper,
            location.cell,
            location.in_domain,
            np.where(location.in_domain[:, None], limits.delta, np.inf),
        )

    def _handle_outside(
        self, prediction: Prediction, inputs: Array, outside: Outside, trusted: TrustedModel | Callable | None
    ) -> Prediction:
        rows = np.flatnonzero(~prediction.in_domain)
        if outside == "flag" or len(rows) == 0:
            return prediction
        if outside == "raise":
            raise ValueError(
                f"inputs must lie in the model's domain; got {len(rows)} of {len(inputs)} rows outside "
                f"(first: row {rows[0]}). Use outside='flag' or 'fallback'."
            )
        if trusted is None:
            raise ValueError("outside='fallback' must have the trusted model; got none. Pass `trusted=M`.")
        model = trusted if isinstance(trusted, TrustedModel) else TrustedModel(trusted)
        dx = len(self.schema.states)
        values = model(inputs[rows, :dx], inputs[rows, dx:], self.schema)
        for field in (prediction.next_states, prediction.lower, prediction.upper):
            field[rows] = values
        # M's own answer, but for the roundings of moving an angle by whole turns.
        prediction.delta[rows] = 32 * np.finfo(np.float64).eps * np.pi * self.schema.output_angles
        return prediction


class UnconstrainedModel(LearnedModel):
    """A network without a tether: Vanilla, Augmented Lagrangian."""

    def __init__(self, network: nn.Module, frame: Frame) -> None:
        super().__init__(network, frame)
        self.tether = FreeTether(len(frame.schema.outputs))

    @property
    def operator(self) -> None:
        """None."""
        return

    def locate(self, inputs: Array) -> Location:
        """No cell, no domain."""
        rows = len(inputs)
        return Location(np.full(rows, -1), np.full(rows, np.inf), np.zeros(rows, dtype=bool))

    def limits(self, inputs: Array, location: Location) -> Limits:
        """No bounds."""
        return _no_limits(np.zeros((len(inputs), len(self.schema.outputs))))


class DirectModel(LearnedModel):
    """M itself at run time, plus a network that stays within ``half_width`` of it; no cells.

    With an infinite half-width it is the usual hybrid, M plus an unbounded residual.

    Args:
        network: any module from features (N, F) to (N, P).
        frame: units and scales, of the deviation from M.
        trusted: M.
        half_width: (P,) how far an output may be from M.
    """

    def __init__(self, network: nn.Module, frame: Frame, trusted: TrustedModel, half_width: Array) -> None:
        super().__init__(network, frame)
        self.trusted = trusted
        self.half_width = half_width
        self.tether = DirectTether(trusted, half_width, frame.schema, frame.target)

    @property
    def operator(self) -> Operator:
        """Always `clip`."""
        return "clip"

    def locate(self, inputs: Array) -> Location:
        """Everywhere in the domain; there are no cells."""
        rows = len(inputs)
        return Location(np.full(rows, -1), np.zeros(rows), np.ones(rows, dtype=bool))

    def limits(self, inputs: Array, location: Location) -> Limits:
        """M plus and minus the half-width; delta is that, and the rounding of adding it up.

        However many turns away M's angle is, moving it near the state is off by roundings of a turn or two.
        """
        anchor = self.trusted.target(inputs, self.schema, self.frame.target)
        base = self.frame.base(inputs[:, : len(self.schema.states)])
        rounding = (
            8
            * np.finfo(np.float64).eps
            * (np.abs(anchor) + np.abs(base) + 4 * np.pi * self.schema.output_angles)
        )
        delta = self.schema.capped(self.half_width * (1 + 1e-15) + rounding)
        return Limits(anchor - self.half_width, anchor + self.half_width, anchor, delta)


class ConstrainedModel(LearnedModel):
    """A network that cannot leave the bounds of the cell its input lies in.

    Args:
        network: any module from features (N, F) to (N, P); see :meth:`Frame.features`.
        frame: units and scales; of the deviation from A for affine bounds.
        cells: which input belongs where.
        bounds: what each cell allows.
        operator: see :func:`constrain`. With `project` the frame is that of the target itself: the network
            knows nothing of A.
    """

    def __init__(
        self,
        network: nn.Module,
        frame: Frame,
        cells: Cells,
        bounds: Bounds,
        *,
        operator: Operator = "clip",
    ) -> None:
        super().__init__(network, frame)
        # A word from elsewhere would be taken for another operator, silently.
        if operator not in get_args(Operator):
            allowed = ", ".join(f"'{name}'" for name in get_args(Operator))
            raise ValueError(f"`operator` must be one of {allowed}; got {operator!r}.")
        if isinstance(bounds, IntervalBounds) and not (bounds.lower <= bounds.upper).all():
            raise ValueError("`bounds` must have lower <= upper in every cell and output.")
        if not (bounds.delta >= 0).all():
            raise ValueError(
                "`bounds` must have a delta of at least 0 in every cell and output; got NaN or less."
            )
        if isinstance(bounds, AffineBounds) and not np.array_equal(bounds.angles, frame.schema.output_angles):
            raise ValueError("`bounds` must say of the outputs that are angles that they are; these do not.")
        self.cells = cells
        self.bounds = bounds
        self.tether = (
            AffineTether(cells, bounds) if isinstance(bounds, AffineBounds) else IntervalTether(cells, bounds)
        )
        self._operator: Operator = operator

    @property
    def operator(self) -> Operator:
        """How outputs are kept in their limits."""
        return self._operator

    def locate(self, inputs: Array) -> Location:
        """Cell and domain membership of physical inputs (N, D)."""
        return self.cells.locate(inputs)

    def limits(self, inputs: Array, location: Location) -> Limits:
        """Bounds of the cell of each input (N, D)."""
        limits = self.bounds.limits(self.cells, inputs, location)
        return replace(limits, anchor=np.zeros_like(limits.anchor)) if self._bare else limits

    @property
    def _bare(self) -> bool:
        """Whether the network predicts the target itself, rather than its deviation from A."""
        return self._operator == "project"


def _no_limits(anchor: Array) -> Limits:
    wide = np.full_like(anchor, np.inf)
    return Limits(-wide, wide, anchor, wide)


def _concatenate(parts: list[Prediction]) -> Prediction:
    names = ("next_states", "lower", "upper", "cell", "in_domain", "delta")
    return Prediction(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

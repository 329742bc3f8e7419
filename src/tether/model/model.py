"""Model: a network, a frame, a tether and an operator.

The geometry (memories, bounds, scales) is float64 whatever the dtype of the network, and the operator works
in float64, so that casting a model to half precision can change its predictions but never its guarantee.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from tether.data import Array, Schema, check_matrix
from tether.data.frames import columns_of, is_frame
from tether.foundation.shown import Facts, Shown, measured
from tether.geometry.cells import Cells
from tether.model.frame import Frame
from tether.model.networks import few_threads
from tether.model.operators import Operator, check_operator, constrain, constrain_rows
from tether.model.tables import beside, predicted_columns
from tether.tethers import Limits, Room, RowLimits, RowRoom, Tether
from tether.tethers.bounds import Bounds
from tether.trusted import TrustedModel, as_trusted

Outside = Literal["flag", "fallback", "raise"]

_PREDICT_BATCH = 8192
_NO_NUMBERS = "the network must give numbers; got NaN. Its weights are damaged: train or load it anew."


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictions with what is known about each row.

    Attributes:
        next_states: (N, P).
        lower: (N, P) smallest value the guarantee allows, -inf for an unconstrained model.
        upper: (N, P) largest.
        cell: (N,) cell of the row, -1 where there are none.
        in_domain: (N,) whether the guarantee covers the row.
        delta: (N, P) distance to the trusted model for rows in the domain, inf elsewhere.
    """

    next_states: Array
    lower: Array
    upper: Array
    cell: NDArray[np.int64]
    in_domain: NDArray[np.bool_]
    delta: Array


@dataclass(frozen=True, eq=False)
class Linearization:
    """Derivatives of the next states.

    Attributes:
        states: (N, P, dx) by the states.
        controls: (N, P, du) by the controls.
    """

    states: Array
    controls: Array


class Model(Shown, nn.Module):
    """A network that cannot leave the limits of its tether.

    Args:
        network: any module from features (N, F) to (N, P); see :meth:`Frame.features`.
        frame: units and scales; of the deviation from the tether's anchor.
        tether: where outputs may be.
        operator: see :func:`constrain`. With `project` the frame is that of the target itself: the network
            knows nothing of the anchor.
    """

    def __init__(
        self, network: nn.Module, frame: Frame, tether: Tether, *, operator: Operator = "clip"
    ) -> None:
        super().__init__()
        self.network = network
        self.frame = frame
        self.schema: Schema = frame.schema
        """What the columns mean."""
        self.tether = tether
        self.operator: Operator = check_operator(operator, tether.operators)
        self.check()
        self.record: dict = {}
        """What is known of the fit: configuration, digests, coverage. Saved with the model."""

    @property
    def cells(self) -> Cells:
        """Which input belongs where."""
        return self.tether.cells

    @property
    def bounds(self) -> Bounds:
        """What each cell allows, and how that is known."""
        return self.tether.bounds

    @property
    def decreasing(self) -> tuple[str, ...]:
        """Names of the inputs in which no prediction rises."""
        return tuple(self.schema.inputs[k] for k in self.tether.declared)

    def facts(self) -> tuple[str, Facts]:
        """What it predicts, and what holds it; the layers are those of ``model.network``."""
        schema, tether = self.schema, self.tether
        facts = {"predicts": ", ".join(schema.outputs), "from": ", ".join(schema.inputs)}
        if tether.holds:
            worst = {
                name: float(part.max()) for name, part in zip(schema.outputs, tether.deltas, strict=True)
            }
            facts |= {
                "within": f"{measured(worst, schema.units)} of the trusted model, worst ({tether.evidence})",
                "never rises in": ", ".join(self.decreasing),
            }
        facts |= {
            "trusted model": str(self.record.get("trusted", "")),
            "parameters": f"{sum(part.numel() for part in self.network.parameters()):,}",
        }
        held = f"{tether.kind} bounds" if tether.bounded else "no bounds"
        return f"Model: {held}", {name: fact for name, fact in facts.items() if fact}

    def check(self) -> None:
        """Raises unless network and frame are what the tether's claims take for granted."""
        unmet = self.tether.unmet_premise(self.network, self.frame)
        if unmet is not None:
            raise ValueError(f"{unmet}; that is not so.")

    def forward(self, states: Tensor, controls: Tensor, *, across: bool = False) -> Tensor:
        """Next states (N, P), or (P,) of one row, in float64; differentiable in weights and inputs.

        Torch alone, on any device, without a branch: it can be mapped, compiled and exported. What it returns
        is what :meth:`predict` returns; where an input or a weight is NaN, so is the output.

        Args:
            states: (N, dx) or (dx,).
            controls: (N, du) or (du,).
            across: whether gradients are to be taken over several leaves of the tether, as a controller wants
                them; otherwise they are those of the function as it is. The numbers are the same.
        """
        inputs = torch.cat([states, controls], dim=-1).double()
        rows = self.frame.wrapped(inputs.unsqueeze(0) if inputs.dim() == 1 else inputs)
        room = self.tether.room_across(rows, self.frame) if across else self.tether.room(rows)
        following = self.frame.ahead(rows, self.respond(rows, room))
        return following.squeeze(0) if inputs.dim() == 1 else following

    def respond(self, inputs: Tensor, room: Room | Limits) -> Tensor:
        """Targets (N, P) at inputs (N, D), inside the room whatever the weights; NaN stays what it is."""
        raw, frame = self.raw(inputs), self.frame
        if self.operator != "sigmoid":
            raw = frame.output_center + frame.output_scale * raw
            raw = raw if self.operator == "project" else room.anchor + raw
        return constrain(raw, room.lower, room.upper, self.operator)

    def raw(self, inputs: Tensor) -> Tensor:
        """(N, P) float64 output of the bare network at physical inputs (N, D)."""
        return self._bare(self.frame.features(inputs))

    def _bare(self, features: Tensor) -> Tensor:
        network = self.network
        parameter = _first_parameter(network, features)
        return network(features.to(parameter.device, parameter.dtype)).to(features.device, torch.float64)

    def linearize(self, states: ArrayLike, controls: ArrayLike, *, across: bool = False) -> Linearization:
        """Derivatives of the prediction at states (N, dx) and controls (N, du).

        Of the function as it is: inside the room the network's and the tether's together, on its limits the
        tether's. With `across` the tether's are taken over several leaves instead of within one: where leaves
        are so small that the model steps from one to the next, that is what a controller wants to know.
        """
        inputs = torch.from_numpy(self._check_inputs(states, controls)).to(self._device)
        inputs.requires_grad_()
        dx = len(self.schema.states)
        with torch.enable_grad():
            following = self(inputs[:, :dx], inputs[:, dx:], across=across)
        return derivatives_of(following, inputs, dx)

    def adapt(self, transitions: Any, **settings: Any) -> Any:
        """New weights for new data, the same guarantee: :func:`tether.adapt` of this model.

        Returns:
            An :class:`tether.Adaptation`, with the new model; this one stays as it is.
        """
        # By the public face and only when called: what learns knows of models, not the other way round.
        return import_module("tether").adapt(self, transitions, **settings)

    def limits(self, inputs: Array) -> RowLimits:
        """What the tether says of physical inputs (N, D), angles in [-π, π)."""
        return self.tether.rows(inputs)

    @property
    def _device(self) -> torch.device:
        return self.frame.input_center.device

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
        states: Any,
        controls: None = None,
        *,
        details: bool = False,
        outside: Outside = "flag",
        trusted: TrustedModel | Callable | None = None,
    ) -> Any: ...

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
        states: Any,
        controls: ArrayLike | None = None,
        *,
        details: bool = False,
        outside: Outside = "flag",
        trusted: TrustedModel | Callable | None = None,
    ) -> Any:
        """Next states (N, P), angles in [-π, π); of a data frame a frame.

        Args:
            states: (N, dx); or, without `controls`, a pandas or polars data frame with a column for every
                input: then the answer is a frame with its index, these columns, and `next_` of each output.
            controls: (N, du).
            details: return a :class:`Prediction` with bounds, cell and domain membership; for a frame,
                columns of them.
            outside: what to do with rows outside the domain: `flag` them in the details, answer with
                the trusted model (`fallback`), or `raise`.
            trusted: the trusted model, for `fallback`.
        """
        if outside not in ("flag", "fallback", "raise"):
            raise ValueError(f"`outside` must be 'flag', 'fallback' or 'raise'; got {outside!r}.")
        if controls is None:
            return self._predict_frame(states, details, outside, trusted)
        inputs = self._check_inputs(states, controls)
        starts = range(0, max(1, len(inputs)), _PREDICT_BATCH)
        pieces = (inputs[k : k + _PREDICT_BATCH] for k in starts)
        if not details and outside == "flag":
            found = [self._answer(piece) for piece in pieces]
            return found[0] if len(found) == 1 else np.concatenate(found)
        parts = [self._predict(piece) for piece in pieces]
        prediction = parts[0] if len(parts) == 1 else _concatenate(parts)
        prediction = self._handle_outside(prediction, inputs, outside, trusted)
        return prediction if details else prediction.next_states

    def _predict_frame(
        self, frame: Any, details: bool, outside: Outside, trusted: TrustedModel | Callable | None
    ) -> Any:
        """A frame beside which the predictions of its rows stand."""
        names = self.schema.inputs
        if not is_frame(frame):
            raise TypeError(
                f"`controls` must be given with arrays of states; got none and {type(frame).__name__}. Only "
                f"a data frame with the columns {', '.join(names)} holds both. A model without controls "
                "takes `numpy.empty((N, 0))`."
            )
        inputs, dx = columns_of("states", frame, names), len(self.schema.states)
        found = self.predict(inputs[:, :dx], inputs[:, dx:], details=True, outside=outside, trusted=trusted)
        return beside(frame, names, predicted_columns(found, self.schema.outputs, details=details))

    def _check_inputs(self, states: ArrayLike, controls: ArrayLike) -> Array:
        plain = self.frame.plain_inputs(states, controls)
        if plain is not None:
            return plain
        states = check_matrix("states", states, self.schema.states)
        controls = check_matrix("controls", controls, self.schema.controls)
        if len(states) != len(controls):
            raise ValueError(f"`controls` must have {len(states)} rows like `states`; got {len(controls)}.")
        return self.schema.wrap_inputs(states, controls)

    @torch.no_grad()
    def _answer(self, inputs: Array) -> Array:
        """(N, P) next states at checked inputs (N, D)."""
        return self._base(inputs) + self._numbers(inputs, self.tether.room_at_once(inputs))

    @torch.no_grad()
    def _predict(self, inputs: Array) -> Prediction:
        """The same, with what is known of each row."""
        found = self.tether.rows(inputs)
        target, base = self._numbers(inputs, found), self._base(inputs)
        delta = np.where(found.in_domain[:, None], found.delta, np.inf)
        # Rounding is monotone: adding the same base to numbers in order keeps them in order.
        lower, upper = base + found.lower, base + found.upper
        return Prediction(base + target, lower, upper, found.cell, found.in_domain, delta)

    def _numbers(self, inputs: Array, room: RowRoom | RowLimits) -> Array:
        """:meth:`respond` of arrays, where torch is asked for the network alone; it must give numbers."""
        frame = self.frame
        with few_threads(self.network, len(inputs)):
            raw = self._bare(torch.from_numpy(frame.features_of(inputs))).numpy()
        center, scale = frame.settled[2:]
        target = constrain_rows(raw, center, scale, room.anchor, room.lower, room.upper, self.operator)
        if target is None:
            raise ValueError(_NO_NUMBERS)
        return target

    def _base(self, inputs: Array) -> Array | float:
        """What is added to the target to give the next state."""
        return self.schema.base(inputs) if self.frame.target == "increment" else 0.0

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
        dx = len(self.schema.states)
        values = as_trusted(trusted)(inputs[rows, :dx], inputs[rows, dx:], self.schema)
        for field in (prediction.next_states, prediction.lower, prediction.upper):
            field[rows] = values
        # M's own answer, but for the roundings of moving an angle by whole turns.
        prediction.delta[rows] = 32 * np.finfo(np.float64).eps * np.pi * self.schema.output_angles
        return prediction


def derivatives_of(following: Tensor, inputs: Tensor, states: int) -> Linearization:
    """Of next states (N, P) by the inputs (N, D) they were computed from, of which so many are states."""
    columns = following.unbind(1)
    rows = [
        # Of a constant network the limits, or nothing at all, know the inputs.
        torch.autograd.grad(column.sum(), inputs, retain_graph=True, materialize_grads=True)[0]
        for column in columns
    ]
    jacobian = torch.stack(rows, dim=1).cpu().numpy()
    return Linearization(jacobian[:, :, :states], jacobian[:, :, states:])


def _first_parameter(network: nn.Module, default: Tensor) -> Tensor:
    """What says where a network is and in which dtype: without looking at all that it has."""
    waiting: list[nn.Module] = [network]
    while waiting:
        module = waiting.pop()
        for parameter in module._parameters.values():
            if parameter is not None:
                return parameter
        waiting += [child for child in reversed(module._modules.values()) if child is not None]
    return default


def _concatenate(parts: list[Prediction]) -> Prediction:
    names = ("next_states", "lower", "upper", "cell", "in_domain", "delta")
    return Prediction(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

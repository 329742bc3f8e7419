"""A `torch.export` program of a model: torch alone runs it, without Tether."""

from __future__ import annotations

import copy
import io
import json
from typing import Any

import torch
from torch import Tensor, nn

from tether.export.exporting import Request
from tether.model import Model
from tether.model.single import SinglePrecisionModel, single_precision
from tether.tethers.leaves import walk

_KINDS = ("affine", "interval", "unconstrained")


def files(request: Request) -> dict[str, bytes]:
    """One ``.pt2`` file, its certificate inside as an extra file."""
    program = program_of(request.model, request.dtype)
    buffer = io.BytesIO()
    about = {"name": request.name, "dtype": request.dtype, "tether": request.model.tether.kind}
    extra = {"tether.json": json.dumps(about), "certificate.json": json.dumps(dict(request.certificate))}
    torch.export.save(program, buffer, extra_files=extra)
    return {f"{request.name}.pt2": buffer.getvalue()}


def program_of(model: Model, dtype: str = "float64") -> Any:
    """From states (N, dx) and controls (N, du) to a table of what a prediction says; N is 2 or more.

    Its weights and tables are the buffers of the model, and it differentiates as the model does.
    """
    if model.tether.kind not in _KINDS:
        raise ValueError(
            f"`model` must be affine, interval or without a tether to become a torch program; got "
            f"'{model.tether.kind}'. Use the model itself, which is a torch module."
        )
    whole = (
        _Single(copy.deepcopy(single_precision(model)))
        if dtype == "float32"
        else _Whole(copy.deepcopy(model))
    )
    _drop_empty(whole)
    schema, kind = model.schema, getattr(torch, dtype)
    given = tuple(torch.zeros(4, len(side), dtype=kind) for side in (schema.states, schema.controls))
    rows = torch.export.Dim("rows", min=2)
    return torch.export.export(whole.eval(), given, dynamic_shapes=({0: rows}, {0: rows}))


def _drop_empty(whole: nn.Module) -> None:
    """What holds no numbers is not used, and torch takes all of it for one tensor when it saves a program."""
    for module in whole.modules():
        for name, buffer in module.named_buffers(recurse=False):
            if buffer.numel() == 0:
                module._buffers[name] = None


class _Whole(nn.Module):
    """A model in operations of torch alone."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        tether: Any = model.tether
        if hasattr(tether, "lookup"):
            tether.lookup.at_once = lambda inputs: _nearest(tether.lookup, inputs)[0]
            tether.lookup.place = lambda inputs: _place(tether.lookup, inputs)
        if hasattr(tether, "leaves"):
            leaves = tether.leaves
            nodes = (leaves.roots, leaves.cut, leaves.threshold, leaves.left, leaves.right)
            leaves.at_once = lambda inputs: walk(inputs, *nodes, leaves.depth)

    def forward(self, states: Tensor, controls: Tensor) -> dict[str, Tensor]:
        model = self.model
        inputs = torch.cat([states, controls], dim=1)
        rows = model.frame.wrapped(inputs)
        found = model.tether.limits(rows)
        target = model.respond(rows, found)
        following, lower, upper = (
            model.frame.ahead(rows, part) for part in (target, found.lower, found.upper)
        )
        inside = found.in_domain & inputs.isfinite().all(dim=1)
        delta = torch.where(inside[:, None], found.delta, torch.inf)
        return {
            "next_states": following,
            "lower": lower,
            "upper": upper,
            "delta": delta,
            "in_domain": inside,
        }


class _Single(nn.Module):
    """The same of a float32 model."""

    def __init__(self, model: SinglePrecisionModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, states: Tensor, controls: Tensor) -> dict[str, Tensor]:
        found = self.model(states, controls)
        return {
            name: getattr(found, name) for name in ("next_states", "lower", "upper", "delta", "in_domain")
        }


def _nearest(lookup: Any, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """(N,) the nearest memory and the squared distance to it, rounded as everywhere in the library."""
    points = (inputs / lookup.scale).detach()
    total = torch.zeros_like(points[:, :1] - lookup.memories[:, 0])
    for d in range(lookup.memories.shape[1]):
        difference = points[:, d, None] - lookup.memories[None, :, d]
        total = total + difference * difference
    squared, cell = total.min(dim=1)
    return cell, squared


def _place(lookup: Any, inputs: Tensor) -> Any:
    from tether.tethers.lookup import Place

    cell, squared = _nearest(lookup, inputs)
    radii = lookup.radii.index_select(0, cell)
    inside = ((inputs >= lookup.box_lower) & (inputs <= lookup.box_upper)).all(dim=1)
    return Place(cell, inside & (squared <= radii * radii))

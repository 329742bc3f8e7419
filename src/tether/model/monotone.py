"""Networks that cannot rise in declared inputs, whatever their weights, and not by a rounding either.

The proof is in `docs/guarantees.md`. It rests on three facts that this module keeps: every path from a
declared input to the output passes one weight of at most 0 and otherwise weights of at least 0; every
activation is ReLU or its mirror image, both computed exactly; and outside training every sum is added up
in one fixed order, the same for every row and every batch. Rounding is monotone, so each rounded product
and each rounded sum preserves the order of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from tether.foundation.limits import check_widths

_PIECE = 1024


class MonotoneNetwork(nn.Module):
    """A network from features (N, F) to (N, P) that is non-increasing in some features, free in the others.

    Two streams run side by side. The free one is an ordinary ReLU network of the free features. The
    monotone one starts from the declared features with weights of at most 0 and goes on with weights of at
    least 0; each of its layers also sees the free stream, so that how much a declared feature matters may
    depend on the free ones. Half of its units are convex (ReLU) and half concave (its mirror image).

    Args:
        inputs: number of features F.
        outputs: number of outputs P.
        decreasing: features in which no output may rise.
        hidden: widths of the free stream's layers.
        monotone_hidden: widths of the monotone stream's layers, as many; by default half of `hidden`.
        slopes: (P, len(decreasing)) sizes, at least 0, of the linear part that the declared features start
            with; by default 0.
        seed: of the initial weights.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        decreasing: Sequence[int],
        hidden: Sequence[int],
        monotone_hidden: Sequence[int] | None = None,
        slopes: Tensor | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        declared = [int(k) for k in decreasing]
        narrow = list(monotone_hidden or [max(2, width // 2) for width in hidden])
        _check_arguments(inputs, declared, hidden, narrow)
        free = [k for k in range(inputs) if k not in declared]
        self.declared: Tensor
        self.free: Tensor
        self.register_buffer("declared", torch.tensor(declared), persistent=False)
        self.register_buffer("free", torch.tensor(free, dtype=torch.long), persistent=False)
        generator = torch.Generator().manual_seed(seed)
        wide = [len(free), *hidden]
        self.free_layers = nn.ModuleList(_linear(a, b, generator) for a, b in pairwise(wide))
        # Layer l of the monotone stream sees what layer l of the free stream sees.
        widths = [len(declared), *narrow, outputs]
        self.side_layers = nn.ModuleList(
            _linear(a, b, generator, size=0.01 if b is widths[-1] else 1.0)
            for a, b in zip(wide, widths[1:], strict=True)
        )
        self.monotone_weights = nn.ParameterList(
            _sizes(a, b, generator, size=0.01 if k == len(narrow) else 1.0)
            for k, (a, b) in enumerate(pairwise(widths))
        )
        self.widths = {
            "inputs": inputs,
            "outputs": outputs,
            "decreasing": declared,
            "hidden": list(hidden),
            "monotone_hidden": narrow,
        }
        """What to build another one of the same shape from."""
        start = torch.zeros(outputs, len(declared)) if slopes is None else slopes.clone().float()
        self.slopes = nn.Parameter(start)

    @property
    def never_rises_in(self) -> list[int]:
        """The features in which no output rises, by which a tether knows a network of this kind."""
        return self.declared.tolist()

    def forward(self, features: Tensor) -> Tensor:
        """Outputs (N, P) at features (N, F)."""
        # A prediction asks for no gradient, and is added up in order even of a network left in training.
        if self.training and torch.is_grad_enabled():
            return self._evaluate(features, functional.linear)
        if torch.compiler.is_compiling():  # or being exported, for any number of rows
            return self._evaluate(features, ordered_linear)
        # In pieces that torch leaves to one thread and that stay in the cache; rows do not notice.
        return torch.cat([self._evaluate(piece, ordered_linear) for piece in features.split(_PIECE)])

    def _evaluate(self, features: Tensor, linear: Callable[..., Tensor]) -> Tensor:
        free, declared = features[:, self.free], features[:, self.declared]
        # Raising a declared feature lowers `stream` here, and keeps it from rising from here on.
        stream = -declared
        last = len(self.monotone_weights) - 1
        for k, weight in enumerate(self.monotone_weights):
            side = self.side_layers[k]
            pushed = linear(stream, weight.abs())
            total = _apply(linear, free, side) + pushed
            if k == last:
                return total + linear(-declared, self.slopes.abs())
            stream = _convex_and_concave(total)
            free = functional.relu(_apply(linear, free, self.free_layers[k]))
        raise AssertionError("unreachable: the last layer returns")


def ordered_linear(values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``values @ weight.T + bias`` added up input by input, the same way for every row of every batch.

    A matrix product may be added up in another order in another batch, and then two rows that differ in one
    input are not compared by the same sequence of roundings.
    """
    rows = values.shape[0]  # not its length, which an export would take for a constant
    total = values.new_zeros(rows, weight.shape[0]) if bias is None else bias.expand(rows, -1)
    for k in range(weight.shape[1]):
        # A product, rounded, then a sum, rounded: never fused, so the same with and without vector units.
        total = total + values[:, k : k + 1] * weight[:, k]
    return total


def _apply(linear: Callable[..., Tensor], values: Tensor, layer: nn.Module) -> Tensor:
    return linear(values, layer.weight, layer.bias)


def _convex_and_concave(values: Tensor) -> Tensor:
    """ReLU of the first half of the columns, its mirror image of the rest; both non-decreasing and exact."""
    half = values.shape[1] // 2
    return torch.cat([values[:, :half].clamp(min=0), values[:, half:].clamp(max=0)], dim=1)


def _linear(inputs: int, outputs: int, generator: torch.Generator, size: float = 1.0) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    limit = size * max(inputs, 1) ** -0.5
    with torch.no_grad():
        layer.weight.uniform_(-limit, limit, generator=generator)
        layer.bias.uniform_(-limit, limit, generator=generator)
    return layer


def _sizes(inputs: int, outputs: int, generator: torch.Generator, *, size: float) -> nn.Parameter:
    """Weights of which only the size counts, so small that sums of many of one sign do not grow."""
    limit = size / max(inputs, 1)
    return nn.Parameter(torch.empty(outputs, inputs).uniform_(0.0, limit, generator=generator))


def _check_arguments(inputs: int, declared: list[int], hidden: Sequence[int], narrow: Sequence[int]) -> None:
    if not declared or len(set(declared)) != len(declared) or not set(declared) < set(range(inputs)):
        raise ValueError(
            f"`decreasing` must name some features of {inputs}, each once, and leave some; got {declared}."
        )
    for name, widths in (("hidden", hidden), ("monotone_hidden", narrow)):
        check_widths(name, widths, inputs=inputs)
    if len(hidden) != len(narrow) or not hidden:
        raise ValueError(
            f"`hidden` and `monotone_hidden` must list as many positive widths; got {tuple(hidden)} and "
            f"{tuple(narrow)}."
        )

"""M, which is NumPy, as operators of torch: what maps, compiles or exports a model takes M as it is.

They name M by a number, as a graph holds no Python objects: an exported program runs in the process that
exported it, while the model it was exported from is there.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Protocol
from weakref import WeakValueDictionary

import torch
from numpy.typing import NDArray
from torch import Tensor

from tether.tethers.lookup import by_row


class Asked(Protocol):
    """What knows M."""

    def answers(self, inputs: NDArray) -> NDArray:
        """(N, P) M's target at inputs (N, D)."""
        ...

    def slopes(self, inputs: NDArray) -> NDArray:
        """(N, P, D) its derivative."""
        ...


_NUMBERS = count()
_ASKED: WeakValueDictionary[int, Asked] = WeakValueDictionary()


def numbered(asked: Asked) -> int:
    """The number it is asked by from now on."""
    number = next(_NUMBERS)
    _ASKED[number] = asked
    return number


def _asked(number: int) -> Asked:
    found = _ASKED.get(number)
    if found is None:
        raise RuntimeError(
            "the model that this program was exported from must still be there, as M is asked at run time; "
            "it is gone. Keep it, or use the model itself."
        )
    return found


def answers_of(inputs: Tensor, number: int, outputs: int) -> Tensor:
    """(N, P) M's target at inputs (N, D), differentiable once."""
    answers = _Answers.apply(inputs, number, outputs)
    assert isinstance(answers, Tensor)
    return answers


class _Answers(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(inputs: Tensor, number: int, outputs: int) -> Tensor:  # type: ignore[override]
        return _answers(inputs, number, outputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        rows, ctx.number, ctx.outputs = inputs
        ctx.save_for_backward(rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        slopes = _slopes(ctx.saved_tensors[0], ctx.number, ctx.outputs)
        return torch.einsum("np,npd->nd", gradient, slopes), None, None


@torch.library.custom_op("tether::answers", mutates_args=())
def _answers(inputs: Tensor, number: int, outputs: int) -> Tensor:
    return torch.from_numpy(_asked(number).answers(inputs.cpu().numpy())).to(inputs.device)


@torch.library.custom_op("tether::slopes", mutates_args=())
def _slopes(inputs: Tensor, number: int, outputs: int) -> Tensor:
    return torch.from_numpy(_asked(number).slopes(inputs.cpu().numpy())).to(inputs.device)


@_answers.register_fake
def _(inputs: Tensor, number: int, outputs: int) -> Tensor:
    return inputs.new_empty(inputs.shape[0], outputs)


@_slopes.register_fake
def _(inputs: Tensor, number: int, outputs: int) -> Tensor:
    return inputs.new_empty(inputs.shape[0], outputs, inputs.shape[1])


for _operator in (_answers, _slopes):
    _operator.register_vmap(by_row(_operator))

# A program that was exported has the operator alone, and differentiates it as the model does.
_answers.register_autograd(_Answers.backward, setup_context=_Answers.setup_context)

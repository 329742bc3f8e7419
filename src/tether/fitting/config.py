"""Everything a fit can be told, and what is settled before it begins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from tether.data import Array, Box, Schema, Target, Transitions, check_known
from tether.data.logs.wrapping import check_wrapped
from tether.evidence import Evidence, Proved, Question, SamplingConfig, as_evidence, strongest
from tether.evidence.distributions import described, settled
from tether.foundation.documents import shorten
from tether.foundation.limits import MOST_LEAVES, MOST_MEMORIES, check_seed, check_whole, check_widths
from tether.learning.config import TrainingConfig
from tether.model import Operator
from tether.trusted import TrustedModel
from tether.trusted.affine import AffineModel

TetherKind = Literal["interval", "affine", "direct"]
Order = Literal[1, 2, "auto"]


@dataclass(frozen=True)
class FitConfig:
    """Everything a fit can be told.

    Attributes:
        memories: number of memories (and cells).
        bounds: `affine`, first-order models of M over a whole operating box, cut into leaves where M bends,
            and as much room as the data ask for; `interval`, the paper's constant range per cell; or
            `direct`, M itself at run time and a network that stays near it.
        leaves: with affine bounds, into how many of them the box may be cut, for all outputs together.
        order: with affine bounds and evidence `proved`, of the models over leaves. With 2 those are quadratic
            in which less remains of M then: fewer leaves where M is smooth and few inputs bend. `auto` tries
            them where first order is not good enough within the leaves allowed, and takes the better; see
            :func:`tether.fitting.boxes.better`.
        alpha: with affine bounds, share of observed rows that may lie outside the room they are given.
        unseen: with affine bounds, what is done where no data are: M is followed (`follow`), or the room is
            as wide as the widest (`open`).
        delta: with affine bounds, the distance to M to stay within, one number or one per output name.
        where: with a delta, whether it holds over the whole operating box (`box`), or in every leaf that data
            or probes touch (`data`): where many inputs bend, there are too many leaves for the first.
        target: predict next states or increments; by default increments where every output
            advances a state, because interval bounds on them are tighter.
        evidence: how delta is known, a level or its name: `proved` needs an M written with NumPy functions,
            `lipschitz` constants in the trusted model, `statistical` and `sampled` only its values. By
            default the strongest that M allows of the first three; over boxes also `statistical`, where a
            proof knows M next to nowhere, M answers everywhere and no delta was asked for.
        decreasing: inputs in which no prediction may rise, exactly; needs affine bounds and an M that is a
            :class:`tether.AffineModel` with weights of at most 0 for them. See `docs/guarantees.md`.
        not_angles: columns that jump by a turn like an angle that wraps, and are none.
        operator: constraining operator; `clip` learns faster and ends more accurate than the paper's
            `sigmoid` on everything measured so far. `project` is HardNet's, for comparison.
        hidden: layer widths of the network; None: with affine bounds, a ridge regression and five networks of
            (64, 64), each trained without another fifth of the episodes, whose weighted sum is one network;
            else (256, 256).
        domain: limits of inputs by name, beyond which nothing is claimed.
        validation: share of episodes (and probes) held out to choose radius and weights.
        test: share of episodes (and probes) held out to measure.
        sampling: how hard M's range is searched.
        training: how the network is trained.
        seed: of split, memories, samples, weights and batches.
    """

    memories: int = 1000
    bounds: TetherKind = "affine"
    leaves: int = 20_000
    order: Order = 1
    alpha: float = 0.01
    unseen: Literal["follow", "open"] = "follow"
    delta: float | Mapping[str, float] | None = None
    where: Literal["box", "data"] = "box"
    target: Target | None = None
    evidence: Evidence | str | None = None
    decreasing: tuple[str, ...] = ()
    not_angles: tuple[str, ...] = ()
    operator: Operator = "clip"
    hidden: tuple[int, ...] | None = None
    domain: Box | None = None
    validation: float = 0.15
    test: float = 0.15
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed("seed", self.seed)
        check_whole("memories", self.memories, least=1, most=MOST_MEMORIES)
        check_widths("hidden", self.hidden or ())
        check_whole("leaves", self.leaves, least=1, most=MOST_LEAVES)
        for name in ("validation", "test", "alpha"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be between 0 and 1; got {getattr(self, name)}.")
        if self.delta is not None and self.bounds == "interval":
            raise ValueError(
                "`delta` must come with bounds 'affine'; got 'interval', whose delta follows from the number "
                "of memories. Choose bounds 'affine' (command line: `--bounds affine`), or leave `delta` out."
            )
        if self.order == 2 and self.bounds != "affine":
            raise ValueError(
                f"`order` must be 1 with bounds '{self.bounds}', which have no leaves; got 2. Leave it out, "
                "or choose bounds 'affine' (command line: `--bounds affine`)."
            )
        if self.where == "data" and self.delta is None:
            raise ValueError("`where` must come with a delta that is to hold there; got 'data' alone.")
        object.__setattr__(self, "evidence", as_evidence(self.evidence))
        self._check_names()
        self._check_domain()
        self._check_decreasing()
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"`{name}` must be one of {_options(allowed)}; got {getattr(self, name)!r}.")

    def _check_names(self) -> None:
        for name in ("decreasing", "not_angles"):
            if isinstance(getattr(self, name), str):
                raise TypeError(f"`{name}` must be a tuple of names; got the text {getattr(self, name)!r}.")

    def _check_domain(self) -> None:
        for name, limits in (self.domain or {}).items():
            low, high = limits if isinstance(limits, tuple | list) else (limits, limits)
            if not -math.inf < low <= high < math.inf:
                raise ValueError(
                    f"`domain` must have finite limits, low <= high; got {low}:{high} for '{shorten(name)}'."
                )

    def _check_decreasing(self) -> None:
        """Settings that mean nothing, or something else, to a tether that is monotone by construction."""
        if not self.decreasing:
            return
        if self.bounds != "affine":
            raise ValueError(
                f"`decreasing` must come with bounds 'affine'; got '{self.bounds}', whose bounds are steps."
            )
        allowed = {
            "delta": (None,), "operator": ("clip",), "target": (None, "next_state"),
            "evidence": (None, Proved()), "domain": (None,), "order": (1, "auto"),
        }  # fmt: skip
        for name, values in allowed.items():
            given = getattr(self, name)
            if given not in values:
                wanted = " or ".join(repr(value) for value in values)
                raise ValueError(f"`{name}` must be {wanted} with `decreasing`; got {given!r}. Leave it out.")


_CHOICES = {
    "target": (None, *get_args(Target)),
    "bounds": get_args(TetherKind),
    "order": get_args(Order),
    "unseen": ("follow", "open"),
    "where": ("box", "data"),
    "operator": get_args(Operator),
}


def _options(allowed: tuple[str | int | None, ...]) -> str:
    return ", ".join(repr(choice) for choice in allowed if choice is not None)


def resolve_decreasing(decreasing: tuple[str, ...], schema: Schema, trusted: TrustedModel) -> AffineModel:
    """M as an affine model, after checking that nothing need rise in the inputs declared."""
    check_known("decreasing", decreasing, "inputs", schema.inputs)
    if schema.angles:
        raise ValueError(
            "`decreasing` must come with columns that do not wrap; got angles "
            f"{shorten(', '.join(schema.angles))}."
        )
    if set(decreasing) == set(schema.inputs):
        raise ValueError("`decreasing` must leave some inputs, for cells to be over; got all of them.")
    model = trusted.function
    if not isinstance(model, AffineModel):
        raise TypeError(
            f"`decreasing` must come with an affine trusted model; got {trusted.name}. Pass "
            "`tether.AffineModel(weights, intercept)`."
        )
    shape = (len(schema.outputs), len(schema.inputs))
    if model.weights.shape != shape:
        raise ValueError(
            f"`trusted` must have weights of shape (outputs, inputs) = {shape}; got {model.weights.shape}."
        )
    for name in decreasing:
        weights = model.weights[:, schema.inputs.index(name)]
        if (weights > 0).any():
            output = int(np.argmax(weights))
            raise ValueError(
                f"`decreasing` must name inputs whose weights in M are at most 0; got {weights[output]:.6g} "
                f"for '{name}' in output '{schema.outputs[output]}'. Leave it out, or refit M with that sign."
            )
    return model


def check_angles(transitions: Transitions, not_angles: tuple[str, ...]) -> None:
    """Raises where an output looks like an angle that wraps and was not declared as one."""
    schema = transitions.schema
    check_known("not_angles", not_angles, "columns of the data", schema.columns)
    both = sorted(set(not_angles) & set(schema.angles))
    if both:
        raise ValueError(f"`not_angles` must name no angle; got {shorten(', '.join(both))}, declared as one.")
    for output, name in enumerate(schema.outputs):
        state = schema.advances[output]
        if state < 0 or name in schema.angles or name in not_angles:
            continue
        now, after = transitions.states[:, state], transitions.next_states[:, output]
        check_wrapped(name, now, after)


def resolve_target(target: Target | None, transitions: Transitions) -> Target:
    """The target asked for, or increments where the data allow them."""
    possible = min(transitions.schema.advances, default=-1) >= 0
    if target == "increment" and not possible:
        raise ValueError(
            "target 'increment' must have outputs that each advance a state; got outputs "
            f"{shorten(', '.join(transitions.schema.outputs))}. Use target 'next_state'."
        )
    return target or ("increment" if possible else "next_state")


def resolve_budget(delta: float | Mapping[str, float] | None, schema: Schema) -> Array | None:
    """(P,) delta of each output, infinite where none was asked for; None where none at all was."""
    if delta is None:
        return None
    named = delta if isinstance(delta, Mapping) else dict.fromkeys(schema.outputs, delta)
    check_known("delta", named, "outputs", schema.outputs)
    budget = np.array([named.get(name, np.finfo(np.float64).max) for name in schema.outputs])
    if not (budget > 0).all():
        raise ValueError(
            f"`delta` must be positive; got {delta}. To answer as M does, use M itself; to let the "
            "data decide, leave it out."
        )
    return budget


def check_evidence(evidence: Evidence | str | None, kind: TetherKind, trusted: TrustedModel) -> None:
    """Raises where the evidence asked for cannot be had, as far as that shows before M is asked anything."""
    level = as_evidence(evidence)
    lacking = None if level is None else level.lacking(trusted, kind)
    if lacking is not None:
        raise ValueError(lacking)


def resolve_evidence(
    evidence: Evidence | str | None, kind: TetherKind, question: Question, data: Array
) -> tuple[Evidence, str | None]:
    """The evidence asked for; or the strongest that M allows, and in a line why nothing stronger.

    Args:
        evidence: as it was asked for.
        kind: of the bounds.
        question: what M is asked, over which box.
        data: (N, D) rows that a claim over data is about.
    """
    level = as_evidence(evidence)
    if level is None:
        return strongest(question.trusted, kind, question)
    if level.over is None:
        return level, None
    box = {"lower": question.lower, "upper": question.upper}
    over = settled(level.over, question.schema, data=data, **box, seed=question.sampling.seed)
    return replace(level, **{"over": over}), None


def resolve_orders(order: Order, evidence: Evidence, why: str | None) -> tuple[int, ...]:
    """Of the models that trees are grown with, until one is good enough; of several the better is taken.

    Raises:
        ValueError: second order was asked for, and the evidence has none; `why` says why it is no stronger.
    """
    if order == 2 and not evidence.encloses:
        because = f" ({why})" if why else ""
        raise ValueError(
            f"`order` must be 1 with evidence `{evidence.name}`{because}; got 2, which needs M's second "
            "derivatives, proved. Leave it out (command line: `--order 1`)."
        )
    return (1, 2) if order == "auto" and evidence.encloses else (2,) if order == 2 else (1,)


def plain_settings(config: FitConfig) -> dict[str, Any]:
    """All settings as plain values; of a distribution of the user's own, which it is."""
    level = config.evidence
    if not isinstance(level, Evidence) or level.over is None:
        return asdict(config)
    bare = asdict(replace(config, evidence=replace(level, **{"over": None})))
    bare["evidence"]["over"] = described(level.over)
    return bare

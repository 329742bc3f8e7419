"""New weights for new data: the tether, and with it every claim, stays what it is.

What a model may say is decided by its tether, whatever the weights. So a model may learn while it is in use.
What was learned is judged on new episodes that it was not learned from, output by output: where it does not
help there, the weights stay what they were.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tether.data import Array, Transitions, find_glitches
from tether.fitting.boxes import band_record, spread_of
from tether.fitting.choosing import held_out_gain
from tether.foundation.documents import shorten
from tether.foundation.limits import MOST_STEPS, check_number, check_seed, check_whole
from tether.foundation.progress import Report, Reporter, watched
from tether.learning.config import TrainingConfig
from tether.learning.crossfit import fit_ridge, fold_by_episode
from tether.learning.examples import Examples, TrainingData
from tether.learning.training import train
from tether.model import Model
from tether.tethers import tether_over
from tether.tethers.expanding import with_room
from tether.tethers.room import calibrate_room

STEPS = 500
"""Where nothing else is asked for."""
_HELD_OUT = 0.3
"""Share of the new episodes that judge what the others taught."""
_LEAST_EPISODES = 3
_LEARNING_RATE = 3e-4
_MOST_SOLVED = 20_000
"""Rows that the last layer is solved from."""
_TIMED = 20
"""Steps by which the speed of training is measured."""


@dataclass(frozen=True, eq=False)
class Adaptation:
    """A model with new weights, and what new data say of it.

    Attributes:
        model: the new one; its tether is the old one's to the last bit, unless its room was regrown.
        before: by output, the root mean square error of the old model on new episodes that were held out.
        after: likewise of the new one; never more.
        changed: outputs whose weights are new; where it is none, nothing that was tried did help.
        outside: by output, the share of all new rows whose truth lies outside the old band.
        in_domain: share of all new rows in the domain.
        held_out: the new transitions that judged, and were not learned from.
        regrown: number of cells whose room is wider than before; 0 unless asked for.
    """

    model: Model
    before: Mapping[str, float]
    after: Mapping[str, float]
    changed: tuple[str, ...]
    outside: Mapping[str, float]
    in_domain: float
    held_out: Transitions
    regrown: int = 0


def adapt(
    model: Model,
    transitions: Transitions,
    *,
    steps: int | None = None,
    seconds: float | None = None,
    regrow: bool = False,
    seed: int = 0,
    reporter: Reporter | None = None,
) -> Adaptation:
    """New weights for new data; same tether, same claims, and no output worse on held-out new episodes.

    Args:
        model: stays as it is.
        transitions: new data, of at least three episodes, with the columns of the model.
        steps: of gradient descent; by default 500.
        seconds: about how long to descend, instead.
        regrow: widen the room where new data ask for more than it has; the tether is then another one, which
            needs a new certificate. Affine bounds only.
        seed: of the split by episode and of batches.
        reporter: opens progress displays; by default on a terminal and in a notebook.
    """
    _check(model, transitions, steps, seconds, seed)
    outside, in_domain = _outside(model, transitions)
    adapted, regrown = copy.deepcopy(model), 0
    if regrow:
        regrown = _regrow(adapted, transitions)
    learn, held_out = _split(transitions, seed)
    before = _errors(model, held_out)
    with (reporter or watched())("Adapt") as progress:
        network = _improved(adapted, learn, held_out, before, steps, seconds, seed, progress)
    adapted.network = network
    after, names = _errors(adapted, held_out), model.schema.outputs
    changed = tuple(name for name, one, two in zip(names, before, after, strict=True) if one != two)
    noted = {"data_sha256": transitions.digest(), "rows": len(transitions), "regrown": regrown}
    adapted.record = adapted.record | {"adapted": [*adapted.record.get("adapted", []), noted]}
    return Adaptation(
        adapted.eval(),
        before=_named(model, np.sqrt(before)),
        after=_named(model, np.sqrt(after)),
        changed=changed,
        outside=_named(model, outside),
        in_domain=in_domain,
        held_out=held_out,
        regrown=regrown,
    )


def _check(
    model: Model, transitions: Transitions, steps: int | None, seconds: float | None, seed: int
) -> None:
    if not isinstance(transitions, Transitions):
        raise TypeError(
            f"`transitions` must be Transitions; got {type(transitions).__name__}. Read a log with "
            "`tether.read_log`."
        )
    if steps is not None and seconds is not None:
        raise ValueError("`steps` must come without `seconds`; got both. Leave one out.")
    if steps is not None:
        check_whole("steps", steps, least=1, most=MOST_STEPS)
    if seconds is not None:
        check_number("seconds", seconds, above=0.0)
    check_seed("seed", seed)
    for name in ("states", "controls", "outputs", "angles"):
        own, given = (set(getattr(part.schema, name)) for part in (model, transitions))
        in_order = name == "angles" or getattr(model.schema, name) == getattr(transitions.schema, name)
        if own != given or not in_order:
            wanted, got = (", ".join(getattr(s.schema, name)) or "none" for s in (model, transitions))
            raise ValueError(
                f"`transitions` must have the {name} of the model ({shorten(wanted)}); got {shorten(got)}."
            )
    episodes = len(np.unique(transitions.episodes))
    if episodes < _LEAST_EPISODES:
        raise ValueError(
            f"`transitions` must hold at least {_LEAST_EPISODES} episodes, of which some are held out; got "
            f"{episodes}. Name the column that tells runs apart (`--episode COLUMN`; in Python "
            "`episode='COLUMN'`), or cut long ones with `read_log(..., block=ROWS)` "
            "(command line: `--block ROWS`)."
        )


def _split(transitions: Transitions, seed: int) -> tuple[Transitions, Transitions]:
    """What is learned from, and what judges: whole episodes each, at least two to learn from."""
    names = np.random.default_rng(seed).permutation(np.unique(transitions.episodes))
    count = min(max(1, round(_HELD_OUT * len(names))), len(names) - 2)
    judging = np.isin(transitions.episodes, names[:count])
    return transitions.take(~judging), transitions.take(judging)


def _outside(model: Model, transitions: Transitions) -> tuple[Array, float]:
    """(P,) share of rows whose truth lies outside the band, and the share of rows in the domain."""
    found = model.predict(transitions.states, transitions.controls, details=True)
    middle = np.where(np.isfinite(found.lower), 0.5 * found.lower + 0.5 * found.upper, found.next_states)
    truth = model.schema.near(transitions.next_states, middle)
    return ((truth < found.lower) | (truth > found.upper)).mean(axis=0), float(found.in_domain.mean())


def _errors(model: Model, part: Transitions) -> Array:
    """(P,) mean squared error."""
    answers = model.predict(part.states, part.controls)
    return (model.schema.distance(answers, part.next_states) ** 2).mean(axis=0)


def _named(model: Model, values: Array) -> dict[str, float]:
    return dict(zip(model.schema.outputs, values.tolist(), strict=True))


def _improved(
    model: Model,
    learn: Transitions,
    held_out: Transitions,
    before: Array,
    steps: int | None,
    seconds: float | None,
    seed: int,
    progress: Report,
) -> nn.Module:
    """The best network of those that leave no output worse on what is held out; else the one there is."""
    found = {"before": copy.deepcopy(model.network)}
    solved = _last_layer(model, learn, held_out, before, seed)
    found["solved"] = solved
    found["descended"] = _descended(model, solved, learn, held_out, steps, seconds, seed, progress)
    scores = {name: _score(model, network, held_out, before) for name, network in found.items()}
    return found[min(scores, key=lambda name: scores[name])]


def _score(model: Model, network: nn.Module, held_out: Transitions, before: Array) -> float:
    """Mean over outputs of the squared error over that of before; infinite where one is worse."""
    after = _errors(_with(model, network), held_out)
    if not (after <= before).all():
        return math.inf
    return float(np.divide(after, before, out=np.ones_like(before), where=before > 0).mean())


def _with(model: Model, network: nn.Module) -> Model:
    """The same with another network."""
    return Model(network.eval(), model.frame, model.tether, operator=model.operator)


# --- the last layer: linear in its weights, each output for itself


def _last_layer(
    model: Model, learn: Transitions, held_out: Transitions, before: Array, seed: int
) -> nn.Module:
    """The network with the rows of its last layer solved anew, as far as what is held out trusts each."""
    network = copy.deepcopy(model.network)
    last = network[-1] if isinstance(network, nn.Sequential) and len(network) else None
    if not isinstance(last, nn.Linear) or last.bias is None or model.operator == "sigmoid":
        return network
    few = np.random.default_rng(seed).permutation(len(learn))[:_MOST_SOLVED]
    taught, judging = _Seen.of(model, learn.take(np.sort(few))), _Seen.of(model, held_out)
    ridge = fit_ridge(taught.hidden, taught.lacking, fold_by_episode(taught.transitions.episodes, seed=seed))
    change = judging.hidden @ ridge.weights.T + ridge.intercept
    correction = judging.inside(judging.raw + change) - judging.inside(judging.raw)
    wanted = judging.wanted - judging.inside(judging.raw)
    episodes = held_out.episodes
    gain = np.array([held_out_gain(c, w, episodes) for c, w in zip(correction.T, wanted.T, strict=True)])
    for row in range(len(gain)):
        _add(last, row, gain[row] * ridge.weights[row], gain[row] * ridge.intercept[row])
    worse = torch.from_numpy(_errors(_with(model, network), held_out) > before)
    old = cast(nn.Linear, cast(nn.Sequential, model.network)[-1])
    with torch.no_grad():
        last.weight[worse], last.bias[worse] = old.weight[worse], old.bias[worse]
    return network


@torch.no_grad()
def _add(layer: nn.Linear, row: int, weights: Array, intercept: float) -> None:
    layer.weight[row] += torch.from_numpy(weights).to(layer.weight)
    layer.bias[row] += float(intercept)


@dataclass(frozen=True, eq=False)
class _Seen:
    """Transitions as the last layer sees them, in units of the network's output.

    Attributes:
        transitions: these.
        hidden: (N, H) what the last layer is given.
        raw: (N, P) what it makes of it.
        wanted: (N, P) what it should.
        lower: (N, P) the least that the tether lets through.
        upper: (N, P) the most.
    """

    transitions: Transitions
    hidden: Array
    raw: Array
    wanted: Array
    lower: Array
    upper: Array

    @classmethod
    @torch.no_grad()
    def of(cls, model: Model, transitions: Transitions) -> _Seen:
        """All of it, from the model as it is."""
        frame, limits = model.frame, model.limits(transitions.inputs)
        network = cast(nn.Sequential, model.network)
        rows = torch.from_numpy(transitions.inputs).to(frame.input_center.device)
        layer = cast(nn.Linear, network[-1])
        hidden: Tensor = network[:-1](frame.features(rows).to(layer.weight))
        anchor = 0.0 if model.operator == "project" else limits.anchor
        center, scale = frame.outputs.center, frame.outputs.scale
        around = limits.anchor if np.isfinite(limits.lower).all() else transitions.target(frame.target)
        target = model.schema.near(transitions.target(frame.target), around)
        scaled = [(values - anchor - center) / scale for values in (target, limits.lower, limits.upper)]
        arrays = [part.double().cpu().numpy() for part in (hidden, layer(hidden))]
        return cls(transitions, *arrays, *scaled)

    def inside(self, values: Array) -> Array:
        """Outputs (N, P) as far as the tether lets them through."""
        return np.clip(values, self.lower, self.upper)

    @property
    def lacking(self) -> Array:
        """(N, P) what is to be added, as far as the tether would let it through."""
        return self.inside(self.wanted) - self.inside(self.raw)


# --- all layers


def _descended(
    model: Model,
    start: nn.Module,
    learn: Transitions,
    held_out: Transitions,
    steps: int | None,
    seconds: float | None,
    seed: int,
    progress: Report,
) -> nn.Module:
    """All weights, by gradient descent from a network."""
    like = next(start.parameters())
    parts = [_examples(model, part) for part in (learn, held_out)]
    data = TrainingData(parts[0], parts[1], parts[1], parts[1])
    config = TrainingConfig(
        learning_rate=_LEARNING_RATE,
        dtype="float64" if like.dtype == torch.float64 else "float32",
        device=str(like.device),
    )

    def run(count: int, report: Report | None) -> tuple[nn.Module, float]:
        trained = _with(model, copy.deepcopy(start))
        _keep_apart(trained.network)
        own = replace(config, steps=count, evaluate_every=max(1, count // 10))
        history = train(trained, data, own, seed=seed, progress=report)
        return trained.network.to(like.dtype), history.seconds

    count = STEPS if steps is None else steps
    if seconds is not None:
        count = min(max(1, round(_TIMED * seconds / max(run(_TIMED, None)[1], 1e-6))), MOST_STEPS)
    return run(count, progress)[0]


def _keep_apart(network: nn.Module) -> None:
    """Weights of exactly 0 below the last layer stay 0: a sum of networks stays one, and as fast as one."""
    inner = (
        [layer for layer in network if isinstance(layer, nn.Linear)]
        if isinstance(network, nn.Sequential)
        else []
    )
    for layer in inner[:-1]:
        there = layer.weight.detach() != 0
        layer.weight.register_hook(lambda gradient, there=there: gradient * there)


def _examples(model: Model, part: Transitions) -> Examples:
    """As training sees them; M is not asked, and where it would be, the tether's anchor stands for it."""
    anchor = model.limits(part.inputs).anchor
    return Examples(part.inputs, anchor, part.target(model.frame.target))


# --- the room


def _regrow(model: Model, transitions: Transitions) -> int:
    """Widens the room of a model where new data ask for more; the number of cells where they do."""
    if not model.tether.over_boxes:
        raise ValueError(
            f"`regrow` must come with affine bounds, whose room is by the data; got {model.tether.kind}. Fit "
            "anew."
        )
    bounds: Any = model.bounds
    settings: Mapping[str, Any] = model.record.get("config", {})
    rows = bounds.tree.contains(transitions.inputs)
    inside, sound = transitions.take(rows), ~find_glitches(transitions)[rows]
    if not sound.any():
        raise ValueError("`regrow` must have new rows in the operating box; got none. Fit anew.")
    seen = spread_of([inside], model.cells, bounds, model.frame.target, sound=sound)
    asked, band = calibrate_room(
        model.cells, seen, alpha=settings.get("alpha", 0.01), unseen=settings.get("unseen", "follow")
    )
    wider: NDArray[np.bool_] = asked > bounds.half_width
    grown = with_room(bounds, np.maximum(bounds.half_width, asked), model.schema)
    # What the rows in wider room are inside of, those of the narrower are too.
    model.tether = tether_over(model.cells, grown)
    model.record = model.record | {"band": band_record(band)}
    return int(wider.any(axis=1).sum())

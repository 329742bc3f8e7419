"""Affine bounds for a problem: the operating box, a tree for M, and room by the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tether.data import Array, Box, Schema, Target, Transitions, check_known, fit_scaling
from tether.evidence import Evidence, Question, Statistical
from tether.fitting.config import (
    FitConfig,
    resolve_budget,
    resolve_evidence,
    resolve_orders,
    resolve_target,
)
from tether.fitting.problem import Problem
from tether.foundation.errors import CertificateError, TrustedModelError
from tether.foundation.progress import Reporter, silent
from tether.geometry.cells import Cells
from tether.learning.crossfit import fit_ridge, fold_by_episode
from tether.model import Frame
from tether.tethers.affinebounds import AffineBounds
from tether.tethers.expanding import Expanded, expand, with_room
from tether.tethers.growth import Aim, Grown
from tether.tethers.opening import PINNED_REACH, opening
from tether.tethers.room import Band, Spread, calibrate_room

_MARGIN = 0.25
"""By which share of their range the box goes beyond data and probes."""
_FREE_MARGIN = 1.0
"""The same along inputs that M is known to be linear in, where a larger box costs no leaf."""
_OF_RESIDUAL = 0.1
"""Remainder that is good enough, as a share of what the data show M to be off by."""
_NEAR_DATA = 0.02
"""The same where data are, as a share of what a regression leaves: there A must not add to the error."""
_FINEST_NEAR_DATA = 0.002
"""The same, as a share of all of it, however well it is explained."""
_RANDOM_FEATURES = 200
_MOST_GUESSED_FROM = 20_000
"""Rows that the guess of what can be explained looks at."""
_SPREADS = (0.0, 0.2, 0.5, 1.0)
"""In scales of the inputs, how far from a row the tree is grown for, in equal shares."""
_MOST_CLOUD = 40_000
_MOST_SLOPES = 4_000_000
"""Numbers."""
_FAR = 1e6
"""Times what is good enough, from which on a remainder is as bad as any."""
_TRIED = 10
"""By how many times fewer leaves tell whether another order is worth growing."""
_HOPELESS = 0.3
"""Share of the range to within which a proof must know M at the median row to be worth having: else A is
anywhere, and what is learned around it worse than M."""
_LEAST_TOLERANCE = 1e-9
"""As a share of the spread of the target: of an M without error nothing finer is asked."""


@dataclass(frozen=True, eq=False)
class Boxed:
    """Box bounds, and what came with them.

    Attributes:
        bounds: over the operating box.
        grown: the trees.
        band: what is claimed of reality.
        why: in a line, why nothing is proved; None where it is, or was not asked for.
    """

    bounds: AffineBounds
    grown: Grown
    band: Band
    why: str | None = None

    def record(self) -> dict[str, Any]:
        """What is saved of it with a model."""
        told = {"band": band_record(self.band), "stopped": self.grown.stopped}
        return told if self.why is None else told | {"why": self.why}


def band_record(band: Band) -> dict[str, Any]:
    """What is saved of a band with a model."""
    noted = {name: getattr(band, name) for name in ("probability", "alpha", "inside", "episodes")}
    return {**noted, "rows": list(band.rows)}


def operating_box(inputs: Array, schema: Schema, domain: Box | None) -> tuple[Array, Array]:
    """(D,) lower and upper limits: as declared, else the range of inputs (N, D) with a margin.

    Angles range over the circle.
    """
    lower, upper = inputs.min(axis=0), inputs.max(axis=0)
    margin = _MARGIN * (upper - lower)
    lower, upper = lower - margin, upper + margin
    lower[schema.input_angles], upper[schema.input_angles] = -np.pi, np.pi
    check_known("domain", domain or {}, "inputs", schema.inputs)
    for name, limits in (domain or {}).items():
        column = schema.inputs.index(name)
        low, high = limits if isinstance(limits, tuple | list) else (limits, limits)
        beyond = (inputs[:, column] < low) | (inputs[:, column] > high)
        if beyond.any():
            row = int(np.argmax(beyond))
            raise ValueError(
                f"`domain` must contain the data and probes; got {low}:{high} for '{name}', which leaves out "
                f"{int(beyond.sum())} of {len(inputs)} rows, {inputs[row, column]:.6g} for one. Widen it, or "
                "drop those rows."
            )
        lower[column], upper[column] = low, high
    return lower, upper


def build_boxes(
    problem: Problem,
    cells: Cells,
    config: FitConfig,
    pinned: Array,
    *,
    closed: NDArray[np.bool_] | None = None,
    reporter: Reporter = silent,
) -> Boxed:
    """Trees grown until models of M are good enough, and room calibrated on whole episodes.

    Args:
        problem: what is to be learned.
        cells: where the data are.
        config: evidence, number of leaves, delta, alpha.
        pinned: (D,) the values at which M is followed exactly, NaN where there are none.
        closed: (K,) cells in which M is followed, whatever the data there show; by default none.
        reporter: opens a progress display.
    """
    question = _question(problem, config, pinned)
    schema, budget = question.schema, resolve_budget(config.delta, question.schema)
    with reporter("What M's code allows (the first time: compiling)"):  # a minute or two, once on a machine
        evidence, why = resolve_evidence(config.evidence, config.bounds, question, problem.observed_inputs)
        question = _widened(question, evidence, config)
    near = np.maximum(_NEAR_DATA * unexplained_share(problem, config.seed), _FINEST_NEAR_DATA)
    everywhere = budget if config.where == "box" else None
    tolerance = _tolerance(problem, question, everywhere, np.float64(_OF_RESIDUAL))
    near_rows = _tolerance(problem, question, budget, near)
    # A delta that was asked for comes first.
    near, demanded = (near_rows, budget) if everywhere is None else (None, None)
    touched = _touched(problem, question)
    # A delta that was asked for is proved where rows are, before anything else.
    cloud = _cloud(touched, problem.scaling.scale, question, config.seed) if budget is None else None
    aim = Aim(tolerance, touched, config.leaves, near, demanded, cloud)

    def grow(order: int, most: int) -> Expanded:
        what = "Boxes for the trusted model" if order == 1 else "Boxes of second order"
        with reporter(what if most == aim.most else f"{what}, a few") as progress:
            own = replace(question, order=order), evidence, replace(aim, most=most)
            return expand(*own, cells, progress=progress)

    expanded = _grown(grow, resolve_orders(config.order, evidence, why), aim)
    if config.evidence is None and evidence.encloses and budget is None:
        hopeless = _hopeless(problem, expanded.bounds)
        if hopeless is not None:  # M's own values say more
            proof = evidence, why
            try:
                evidence, why = Statistical(), hopeless
                expanded = grow(1, aim.most)
            except TrustedModelError:  # where M has no answer, a proof alone knows of it
                evidence, why = proof
    plain = expanded.bounds
    shut = np.zeros(len(cells), dtype=bool) if closed is None else closed
    half_width, band = _room(problem, cells, plain, config, shut, budget)
    bounds = with_room(plain, half_width, schema, budget=budget)
    _check_budget(bounds, schema, None if config.where == "box" else aim.rows)
    return Boxed(bounds, expanded.grown, band, why)


def _hopeless(problem: Problem, bounds: AffineBounds) -> str | None:
    """In a line, which output a proof knows hopelessly loosely where data are; None: it knows them all."""
    part, train = problem.data[0], problem.split.train
    assert part.next_states is not None
    remainder = np.median(bounds.remainder[bounds.tree.find(part.inputs)], axis=0)
    span = np.where(train.schema.output_angles, 2 * np.pi, np.ptp(part.next_states[problem.sound[0]], axis=0))
    loose = np.divide(remainder, span, out=np.zeros_like(span), where=span > 0)
    worst = int(np.argmax(loose))
    if not loose[worst] > _HOPELESS:
        return None
    return (
        f"a proof knows M ({problem.trusted.name}) only to within {remainder[worst]:.3g} in "
        f"'{train.schema.outputs[worst]}' at the median row, of a range of {span[worst]:.3g}"
    )


def _grown(grow: Callable[[int, int], Expanded], orders: Sequence[int], aim: Aim) -> Expanded:
    """Trees of the first order given, or of the next where that is not good enough and the next is better."""
    first, *others = orders
    expanded = grow(first, aim.most)
    for order in others:
        if expanded.grown.stopped == "tolerance":
            break
        # Where many inputs bend it takes as long again, and gives nothing: a few leaves of both tell.
        few = [grow(tried, max(1, aim.most // _TRIED)) for tried in (first, order)]
        if better(few, aim) is few[1]:
            expanded = better([expanded, grow(order, aim.most)], aim)
    return expanded


def better(found: Sequence[Expanded], aim: Aim) -> Expanded:
    """What is good enough; where nothing is, what is nearer to that where rows are.

    No row that is kept for testing has a say. Where both are alike it is the first: first order.
    """

    def rating(expanded: Expanded) -> tuple[bool, float]:
        if expanded.grown.stopped == "tolerance":
            return False, 0.0
        wanted = aim.tolerance if aim.near_rows is None else aim.near_rows
        remainder = expanded.bounds.remainder[expanded.bounds.tree.find(aim.rows)]
        return True, float(np.minimum(remainder / wanted, _FAR).mean())

    return min(found, key=rating)


def _question(problem: Problem, config: FitConfig, pinned: Array) -> Question:
    """M's target over the operating box."""
    train = problem.split.train
    # Not what is kept for testing, of which the box will be asked how much it covers; and no glitch: one is
    # enough to make the box, and delta with it, useless.
    seen = problem.observed_inputs
    probes = np.concatenate([part.inputs for part in problem.probes[:2]])
    # Probes may be jittered data: those beyond what was declared are simply not covered.
    inside = _within(probes, train.schema, config.domain)
    lower, upper = operating_box(np.concatenate([seen, probes[inside]]), train.schema, config.domain)
    target = resolve_target(config.target, train)
    sampling = config.sampling.seeded(config.seed)
    return Question(problem.trusted, train.schema, target, lower, upper, pinned, sampling)


def _widened(question: Question, evidence: Evidence, config: FitConfig) -> Question:
    """Over a box that goes farther along the inputs, not declared, that no output is known to bend along."""
    if not evidence.encloses:  # what was only sampled may be undefined farther out
        return question
    schema = question.schema
    farther = (_FREE_MARGIN - _MARGIN) / (1 + 2 * _MARGIN) * (question.upper - question.lower)
    free = np.array([name not in (config.domain or {}) for name in schema.inputs]) & ~schema.input_angles
    free &= (farther > 0) & ~evidence.expander(question).bends.any(axis=0)
    while free.any():
        beyond = np.where(free, farther, 0.0)
        wide = replace(question, lower=question.lower - beyond, upper=question.upper + beyond)
        if evidence.lacking(wide.trusted, config.bounds, wide) is not None:  # M may refuse what is so far out
            return question
        bent = free & evidence.expander(wide).bends.any(axis=0)
        if not bent.any():
            return wide
        free &= ~bent
    return question


def _within(inputs: Array, schema: Schema, domain: Box | None) -> NDArray[np.bool_]:
    """(N,) whether inputs (N, D) lie within limits that were declared, where there are some."""
    limits = {
        name: span if isinstance(span, tuple | list) else (span, span)
        for name, span in (domain or {}).items()
    }
    check_known("domain", limits, "inputs", schema.inputs)
    inside = [
        (inputs[:, schema.inputs.index(name)] >= low) & (inputs[:, schema.inputs.index(name)] <= high)
        for name, (low, high) in limits.items()
    ]
    return np.logical_and.reduce(inside) if inside else np.ones(len(inputs), dtype=bool)


def _tolerance(
    problem: Problem, question: Question, budget: Array | None, share: Array | np.float64
) -> Array:
    """(P,) remainder that is good enough: a share of what the data show M to be off by."""
    spread = problem.split.train.target(question.target)[problem.sound[0]].std(axis=0)
    tolerance = np.maximum(share * typical_residual(problem), _LEAST_TOLERANCE * spread)
    tolerance = np.maximum(tolerance, np.finfo(np.float64).tiny)
    return tolerance if budget is None else np.minimum(tolerance, 0.5 * budget)


def typical_residual(problem: Problem) -> Array:
    """(P,) root mean square of what M is off by on training data, wild rows counted as 99 % of them are."""
    part, schema = problem.data[0], problem.split.train.schema
    assert part.next_states is not None
    away = schema.distance(part.next_states, part.trusted)
    return np.sqrt((np.minimum(away, np.quantile(away, 0.99, axis=0)) ** 2).mean(axis=0))


def unexplained_share(problem: Problem, seed: int) -> Array:
    """(P,) what a regression on random features leaves of M's residual on held-out episodes, over all of it.

    A rough guess from a fraction of a second of how well the residual can be learned: 1 where it is noise.
    """
    part, train = problem.data[0], problem.split.train
    assert part.next_states is not None
    residual = train.schema.near(part.next_states, part.trusted) - part.trusted
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.flatnonzero(problem.sound[0]))[:_MOST_GUESSED_FROM]
    residual, episodes = residual[rows], train.episodes[rows]
    if len(np.unique(episodes)) < 2:
        return np.ones(residual.shape[1])
    features = _random_features(problem.frame("next_state"), part.inputs[rows], rng)
    left = residual - fit_ridge(features, residual, fold_by_episode(episodes, seed=seed)).held_out
    whole = (residual**2).mean(axis=0)
    share = np.divide((left**2).mean(axis=0), whole, out=np.ones_like(whole), where=whole > 0)
    return np.minimum(np.sqrt(share), 1.0)


def _random_features(frame: Frame, inputs: Array, rng: np.random.Generator) -> Array:
    """(N, F) features of inputs (N, D), and ReLUs of random sums of them."""
    plain = frame.features(torch.from_numpy(inputs)).numpy()
    scaling = fit_scaling(plain)
    scaled = (plain - scaling.center) / scaling.scale
    weights = rng.standard_normal((scaled.shape[1], _RANDOM_FEATURES))
    offset = rng.uniform(-2, 2, _RANDOM_FEATURES)
    return np.concatenate([scaled, np.maximum(scaled @ weights + offset, 0)], axis=1)


def _room(
    problem: Problem,
    cells: Cells,
    bounds: AffineBounds,
    config: FitConfig,
    closed: NDArray[np.bool_],
    budget: Array | None,
) -> tuple[Array, Band]:
    """Half-widths from all episodes that are not kept for testing."""
    parts = (problem.split.train, problem.split.validation)
    target = resolve_target(config.target, problem.split.train)
    asked = bounds if budget is None else replace(bounds, most=budget)
    sound = np.concatenate(problem.sound)
    seen = spread_of(parts, cells, asked, target, sound=sound, closed=closed)
    half_width, band = calibrate_room(cells, seen, alpha=config.alpha, unseen=config.unseen)
    half_width[closed] = 0.0
    return half_width, band


def spread_of(
    parts: Sequence[Transitions],
    cells: Cells,
    bounds: AffineBounds,
    target: Target,
    *,
    sound: NDArray[np.bool_],
    closed: NDArray[np.bool_] | None = None,
) -> Spread:
    """What transitions show beside A, and how much of a half-width there is where they do.

    Args:
        parts: what was observed.
        cells: where the data are.
        bounds: A, and the delta asked for.
        target: that these are of.
        sound: (N,) which of them are no glitches.
        closed: (K,) cells in which M is followed; by default none.
    """
    inputs = np.concatenate([part.inputs for part in parts])
    observed = np.concatenate([part.target(target) for part in parts])
    episodes = np.concatenate([part.episodes for part in parts])
    distance = parts[0].schema.distance(observed, bounds.evaluate(inputs))
    cell = cells.locate(inputs).cell
    open_ = _opening(inputs, bounds.pinned, cells.scale)
    open_ = open_ if closed is None else np.where(closed[cell], 0.0, open_)
    asked = np.isfinite(bounds.most).any()
    most = np.maximum(bounds.most - bounds.remainder[bounds.tree.find(inputs)], 0.0) if asked else np.inf
    return Spread(cell, distance, episodes, sound, open_, np.asarray(most))


def _opening(inputs: Array, pinned: Array, scale: Array) -> Array:
    """(N,) share of the half-width that the tether will open at inputs (N, D)."""
    agreed = np.isfinite(pinned)
    rate = np.where(agreed, 1 / (scale * PINNED_REACH), 0.0)
    if not agreed.any():
        return np.ones(len(inputs))
    given = (torch.from_numpy(part) for part in (inputs, np.where(agreed, pinned, 0.0), rate))
    return opening(*given)[:, 0].numpy()


def _touched(problem: Problem, question: Question) -> Array:
    """(N, D) data and probes in the box, but for glitches and for what is kept for testing."""
    inputs = np.concatenate([problem.observed_inputs, *(part.inputs for part in problem.probes[:2])])
    inside = (inputs >= question.lower) & (inputs <= question.upper)
    return inputs[np.logical_and.reduce(inside, axis=1)]


def _cloud(rows: Array, scale: Array, question: Question, seed: int) -> Array:
    """(N, D) inputs in the box around rows: those of other episodes lie between and beside them."""
    schema, rng = question.schema, np.random.default_rng([seed, 0xC10D])
    count = min(_MOST_CLOUD, _MOST_SLOPES // (len(schema.outputs) * len(schema.inputs)))
    chosen = rows[rng.integers(len(rows), size=count)]
    away = rng.choice(_SPREADS, (count, 1)) * scale * rng.standard_normal(chosen.shape)
    moved, dx = chosen + away, len(schema.states)
    moved = schema.wrap_inputs(moved[:, :dx], moved[:, dx:])
    inside = (moved >= question.lower) & (moved <= question.upper)
    return moved[np.logical_and.reduce(inside, axis=1)]


def _check_budget(bounds: AffineBounds, schema: Schema, rows: Array | None) -> None:
    """Raises where the remainder alone exceeds the delta asked for, in leaves that hold `rows` if given."""
    # Leaves over which nothing is known are outside the domain.
    remainder = np.where(np.isfinite(bounds.remainder), bounds.remainder, 0.0)
    if rows is not None:
        held = np.isin(np.arange(len(remainder)), bounds.tree.find(rows))
        remainder = np.where(held, remainder, 0.0)
    worst = np.array([remainder[bounds.output == k].max() for k in range(len(schema.outputs))])
    beyond = worst > bounds.most
    if beyond.any():
        output = int(np.argmax(np.where(beyond, worst / bounds.most, 0.0)))
        leaf = int(np.argmax(np.where(bounds.output == output, remainder, -1.0)))
        lower, upper = (corner[leaf] for corner in bounds.tree.boxes())
        region = ", ".join(
            f"{name} {low:.4g} to {high:.4g}"
            for name, low, high, least, most in zip(
                schema.inputs, lower, upper, bounds.tree.lower, bounds.tree.upper, strict=True
            )
            if (low, high) != (least, most)
        )
        raise CertificateError(
            f"`delta` must leave room for the remainder; over {region or 'the box'} that of output "
            f"'{schema.outputs[output]}' is {worst[output]:.4g}, too much by "
            f"{worst[output] - bounds.most[output]:.4g}. Allow {1.05 * worst[output]:.4g}, more leaves, or a "
            f"smaller domain{'; or ask for it only where data are (`where`: data)' if rows is None else ''}."
        )

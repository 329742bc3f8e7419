"""Tube: a set for every future step that holds every rollout of a learned model, whatever its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether.claims.carrying import Rule, carried_states, check_carried
from tether.claims.tubes.controls import Boxed, Controls
from tether.claims.tubes.expansion import LESS_THAN_A_TURN
from tether.claims.tubes.given import Limited, Policy, Start, controls_of, count_of, starts_of
from tether.claims.tubes.limits import TubeLimits, check_trusted, limits_of
from tether.claims.tubes.step import Stepper, Taken
from tether.claims.tubes.ties import Carried
from tether.claims.tubes.zonotopes import Zonotopes
from tether.data import Array, Schema
from tether.evidence import Proved
from tether.evidence.question import target_program
from tether.foundation.executors import current, spread_over
from tether.foundation.limits import check_whole
from tether.foundation.shown import Facts, Shown, measured
from tether.model import Model
from tether.programs import EnclosureError, Program
from tether.trusted import Function, TrustedModel, as_trusted

MOST_HALVINGS = 12
GENERATORS = 256
"""At most so many, unless told otherwise."""
_FEW, _CUTS_OF_FEW, _CUTS_OF_MANY = 16, 5, 2
_WORTH = 0.95
"""A halving is kept that makes the tube's last box so much narrower."""


@dataclass(frozen=True, eq=False, repr=False)
class Tube(Shown):
    """Sets for every step, of one start or of N.

    Attributes:
        schema: what the columns mean.
        lower: (T + 1, dx), or (N, T + 1, dx): least value of each state after each step. Angles go on past
            ±π, and stand for themselves and whole turns. NaN after a tube has ended.
        upper: likewise, greatest.
        delta: (T, dx) or (N, T, dx) largest distance to M over what was touched at each step; 0 for states
            that are carried.
        ended: the step that could not be shown, or None; (N,) of them, -1 for none.
        reasons: for each start, why it ended, in words; empty where it did not.
        sets: T + 1 zonotopes of all rows; a start that was cut in parts has as many rows.
        taken: T steps with all that is needed to check them.
        parts: how many rows of `sets` each start has.
        controls: what was applied.
        evidence: how the distance to M is known; `construction` where only the tether was used.
        start: (N, dx) lower and upper ends of the starts.
        weights: None: for any weights; else the digest of those it holds for.
        beside: for the weights at hand: the tube for any, where its boxes are narrower somewhere; `lower` and
            `upper` are what both share.
        about: digests of the tether and of M, and M's name.
        carried: the name of the rule that states follow which the model does not predict; None: it predicts
            all.
        system: what is claimed of reality, by statistics: ends (N, T + 1, dx) around the model's own
            rollouts, and `alpha`, `episodes`, `words`; None where nothing is.
    """

    schema: Schema
    lower: Array
    upper: Array
    delta: Array
    ended: Any
    reasons: tuple[str, ...]
    sets: tuple[Zonotopes, ...]
    taken: tuple[Taken, ...]
    parts: int
    controls: Controls
    evidence: str
    start: tuple[Array, Array]
    weights: str | None = None
    beside: Tube | None = None
    about: Mapping[str, str | None] = field(default_factory=dict)
    system: dict[str, Any] | None = None
    carried: str | None = None

    def facts(self) -> tuple[str, Facts]:
        """How wide it is, and what it claims."""
        lower, upper = self.ends
        widths = 0.5 * (upper - lower)
        last = int(np.flatnonzero(np.isfinite(widths).all(axis=(0, 2)))[-1])  # of those that all starts have
        worst = dict(zip(self.schema.states, widths[:, last].max(axis=0).tolist(), strict=True))
        starts = f"{len(self)} starts" if self.many else "one start"
        return f"Tube: {self.steps} steps from {starts}", {
            f"± after step {last}": measured(worst, self.schema.units),
            "claim": self.words,
            **({"reality": self.system["words"]} if self.system else {}),
        }

    @property
    def words(self) -> str:
        """What is claimed, in plain words."""
        whose = "whatever its weights" if self.weights is None else "with the weights at hand"
        how = (
            "proved, with outward rounding"
            if not self.without_trusted
            else (
                "by construction, with outward rounding; M is not used, for the distance to it is not proved"
            )
        )
        after = f"for all {self.steps} steps" if self.complete else "at every step until it ends"
        starts = "every start" if not self.many else f"each of {len(self)} starts"
        text = (
            f"Model tube ({how}): every rollout of the learned model from {starts}, {whose}, stays in it "
            f"{after}. "
            "Every set was shown to lie in the operating box before the step from it."
        )
        if self.carried is not None:
            names = [self.schema.states[k] for k in carried_states(self.schema)]
            text = f"{text} Of the states {', '.join(names)} follow the rule '{self.carried}'."
        return text if self.complete else f"{text} {self.ending}"

    def within(self, other: Tube) -> Tube:
        """The same with boxes that are nowhere wider than another's, which must hold the same rollouts."""
        own, its = (np.atleast_1d(-1 if one.ended is None else one.ended) for one in (self, other))
        if ((own >= 0) & ((its < 0) | (its > own))).any():
            return other
        angles = np.array([name in self.schema.angles for name in self.schema.states])
        lower, upper = np.maximum(self.lower, other.lower), np.minimum(self.upper, other.upper)
        # An angle is in each up to turns of its own, which are the same if both reach over less than a turn.
        reach = np.maximum(self.upper, other.upper) - np.minimum(self.lower, other.lower)
        apart = (angles & ~(reach < LESS_THAN_A_TURN)) | np.isnan(other.lower)
        lower, upper = np.where(apart, self.lower, lower), np.where(apart, self.upper, upper)
        if np.array_equal(lower, self.lower, True) and np.array_equal(upper, self.upper, True):
            return self
        return replace(self, lower=lower, upper=upper, beside=other)

    @property
    def without_trusted(self) -> bool:
        """Whether only the tether was used, for the distance to M is not proved."""
        return self.evidence != Proved().name

    @property
    def ending(self) -> str:
        """Where and why tubes end before the last step, in words."""
        ended = np.atleast_1d(np.array(-1 if self.ended is None else self.ended))
        rows = np.flatnonzero(ended >= 0)
        if not len(rows):
            return ""
        first = rows[np.argmin(ended[rows])]
        which = f"{len(rows)} of {len(self)} tubes end" if self.many else "It ends"
        when = "the first after" if self.many else "after"
        return f"{which} early, {when} step {ended[first]}: {self.reasons[first]}."

    @property
    def ends(self) -> tuple[Array, Array]:
        """(N, T + 1, dx) lower and upper, also of one start."""
        return (self.lower, self.upper) if self.many else (self.lower[None], self.upper[None])

    def controls_at(
        self, step: int, row: NDArray[np.int64], share: Array, states: Array, policy: Policy | None = None
    ) -> Array:
        """(K, du) controls of some rows (K,) at a step: so far between their limits, or those of a policy."""
        known = self.controls
        if isinstance(known, Boxed):
            own = row if len(known.lower) > 1 else np.zeros_like(row)
            low, high = known.lower[own, step], known.upper[own, step]
            return np.clip(low + share * (high - low), low, high)
        if policy is None:
            raise ValueError("`policy` must be given for a tube with feedback; got none.")
        return np.asarray(policy(states), dtype=np.float64)

    @property
    def steps(self) -> int:
        """T, as asked for."""
        return self.lower.shape[-2] - 1

    @property
    def many(self) -> bool:
        """Whether it is of several starts."""
        return self.lower.ndim == 3

    @property
    def half_width(self) -> Array:
        """Of each box, (T + 1, dx) or (N, T + 1, dx)."""
        return 0.5 * (self.upper - self.lower)

    @property
    def complete(self) -> bool:
        """Whether it goes as far as was asked for, from every start."""
        return not any(self.reasons)

    def __len__(self) -> int:
        """How many starts."""
        return len(self.reasons)

    def contains(self, states: ArrayLike) -> NDArray[np.bool_]:
        """Whether states (..., T + 1, dx) lie in the boxes at each step; angles up to turns.

        Of several starts states are (N, ..., T + 1, dx). After its end a tube contains nothing.
        """
        values = np.asarray(states, dtype=np.float64)
        lower, upper = self.lower, self.upper
        if self.many:
            between = (1,) * (values.ndim - 3)
            lower, upper = (end.reshape(len(self), *between, *end.shape[1:]) for end in (lower, upper))
        angles = np.array([name in self.schema.angles for name in self.schema.states])
        with np.errstate(invalid="ignore"):
            # Past the end of the line through whole turns, without rounding where there are none.
            turns = np.ceil((lower - values) / (2 * np.pi) - 1e-12) * angles
            moved = np.where(turns == 0, values, values + 2 * np.pi * turns)
            slack = np.where(turns == 0, 0.0, 1e-14 * (np.abs(values) + 2 * np.pi))
            inside = (moved >= lower - slack) & (moved <= upper + slack)
        return np.logical_and.reduce(inside, axis=-1)


@dataclass(frozen=True)
class Effort:
    """How hard to try; see :func:`tube`."""

    generators: int = GENERATORS
    halvings: int = 0
    cuts: int | None = None

    def __post_init__(self) -> None:
        check_whole("halvings", self.halvings, most=MOST_HALVINGS)
        if self.cuts is not None:
            check_whole("cuts", self.cuts, most=MOST_HALVINGS)


def tube(  # noqa: PLR0913
    model: Model,
    trusted: TrustedModel | Function,
    start: Start,
    controls: ArrayLike | tuple[ArrayLike, ArrayLike] | Limited | Policy | None,
    *,
    steps: int | None = None,
    generators: int = GENERATORS,
    halvings: int = 0,
    cuts: int | None = None,
    weights: Literal["any", "own"] = "any",
    carried: Rule | None = None,
    client: Any | None = None,
) -> Tube:
    """Every rollout of the model from every start, whatever the weights, lies in the tube at every step.

    Args:
        model: with an affine or a direct tether; its weights do not matter.
        trusted: M, which makes the tube narrower where the distance to it is proved.
        start: a state (dx,), rows of states (N, dx) for a tube each, or a box: a pair of such, lower and
            upper, or ``{"x": (low, high), "v": value, ...}``.
        controls: a sequence (T, du), or one for each start (N, T, du); a pair of these, lower and upper, for
            anything between them, independently at each step, with (du,) for the same at each; a box by
            name; a function of states (K, dx) to controls (K, du), in NumPy as M is, which sees angles in
            [-π, π); None where there are no controls.
        steps: T; needed unless the controls say it.
        generators: at most how many a set may have; beyond, the least useful ones become a box.
        halvings: at most how many times to halve a start box, along whichever state makes the tube
            narrowest in the end, as long as that helps.
        cuts: how many times to halve, within each step, sets over which M bends much: more are narrower and
            slower. By default 5, and 2 for more than 16 starts.
        weights: `any`, or `own` for those at hand alone: narrower, nowhere wider, and worth nothing once they
            change. For an affine tether and a network made by :func:`tether.mlp`.
        carried: where the model does not predict every state, what the others follow: a function of states
            (K, dx), controls (K, du) and predictions (K, P) to the next values of these (K, dx - P), in NumPy
            as M is, which sees angles in [-π, π). A state that stays as it is: its own column.
        client: of a Dask cluster that tries the halvings, or the address of its scheduler.

    Returns:
        The tube, which ends early where a set may leave the operating box, and says where and why.
    """
    from tether.claims.tubes.storing import tether_digest

    known = as_trusted(trusted)
    check_trusted(model, known)
    effort = Effort(generators, halvings, cuts)
    if weights not in ("any", "own"):
        raise ValueError(f"`weights` must be 'any' or 'own'; got {weights!r}.")
    limits = limits_of(model)
    program = trusted_program(known, model.schema, limits) if limits.proved else known
    within = partial(tube_within, steps=steps, effort=effort, carried=carried)
    with spread_over(client):
        found = within(limits, model.schema, program, start, controls)
        if weights == "own":
            limits = limits_of(model, own_weights=True)
            own = within(limits, model.schema, program, start, controls)
            found = own.within(found)
    about = {"tether": tether_digest(model), "trusted": known.name, "trusted_source": known.source_digest}
    return replace(found, about=about)


def tube_within(
    limits: TubeLimits,
    schema: Schema,
    trusted: TrustedModel | Function | Program,
    start: Start,
    controls: Any,
    *,
    steps: int | None = None,
    effort: Effort | None = None,
    carried: Rule | None = None,
) -> Tube:
    """The same for whatever keeps to limits: with a half-width of 0, for M itself, or its program."""
    check_carried("a tube", schema, carried)
    effort = Effort() if effort is None else effort
    check_whole("generators", effort.generators, least=len(schema.states), most=100_000)
    lower, upper, many = starts_of(start, schema)
    known = controls_of(controls, schema, steps, limits.box)
    count = count_of(known, steps)
    if isinstance(known, Boxed) and known.lower.shape[0] not in (1, len(lower)):
        raise ValueError(f"`controls` must be for 1 or {len(lower)} starts; got {known.lower.shape[0]}.")
    program = trusted_program(trusted, schema, limits) if limits.proved else None
    usual = _CUTS_OF_FEW if len(lower) <= _FEW else _CUTS_OF_MANY
    cuts = usual if effort.cuts is None else effort.cuts
    rule = None if carried is None else Carried.by(carried, schema, limits.box)
    stepper = Stepper(limits, schema, program, effort.generators, cuts, rule)
    begin = (lower, upper)
    lower, upper, parts = _halved(stepper, lower, upper, known, count, effort.halvings)
    run = _Run.through(stepper, lower, upper, _repeated(known, parts), count)
    return run.tube(stepper, known, many, parts, begin)


def trusted_program(
    trusted: TrustedModel | Function | Program, schema: Schema, limits: TubeLimits
) -> Program:
    """M's target as a program, which takes longer than a tube: for those who make one after the other."""
    if isinstance(trusted, Program):
        return trusted
    lower, upper = limits.box
    finite = np.isfinite(lower) & np.isfinite(upper)
    low, high = np.where(finite, lower, -1.0), np.where(finite, upper, 1.0)
    try:
        return target_program(as_trusted(trusted), schema, limits.target, low[None], high[None])  # type: ignore[arg-type]
    except EnclosureError as error:
        raise ValueError(f"`trusted` must be one that can be enclosed; {error}") from None


@dataclass(frozen=True, eq=False)
class _Run:
    """All steps of rows: sets, and by row the step that failed and why."""

    sets: list[Zonotopes]
    taken: list[Taken]
    ended: NDArray[np.int64]
    reasons: list[str]

    @classmethod
    def through(cls, stepper: Stepper, lower: Array, upper: Array, controls: Controls, steps: int) -> _Run:
        """Steps until none is left or none can go on."""
        sets, taken = [stepper.begin(lower, upper)], []
        ended, reasons = np.full(len(lower), -1), [""] * len(lower)
        for step in range(steps):
            found = stepper.take(sets[-1], controls, step)
            for row, why in found.faults.items():
                if ended[row] < 0:
                    ended[row], reasons[row] = step, why
            if (ended >= 0).all():
                break
            sets.append(_stopped(found.after, ended >= 0))
            taken.append(found)
        return cls(sets, taken, ended, reasons)

    def hulls(self, steps: int) -> tuple[Array, Array, Array]:
        """(R, T + 1, dx) ends of boxes and (R, T, dx) deltas; NaN after the end."""
        shape = (len(self.ended), steps + 1, self.sets[0].center.shape[1])
        lower, upper = np.full(shape, np.nan), np.full(shape, np.nan)
        outputs = self.taken[0].delta.shape[1] if self.taken else shape[2]
        delta = np.full((shape[0], steps, outputs), np.nan)
        for t, found in enumerate(self.sets):
            going = (self.ended < 0) | (self.ended >= t)
            low, high = found.hull()
            lower[going, t], upper[going, t] = low[going], high[going]
            if t > 0:
                delta[going, t - 1] = self.taken[t - 1].delta[going]
        return lower, upper, delta

    def tube(
        self, stepper: Stepper, controls: Controls, many: bool, parts: int, start: tuple[Array, Array]
    ) -> Tube:
        """Hulls over the parts of each start."""
        steps = len(self.sets) - 1 if not (self.ended >= 0).any() else self._asked(controls)
        schema = stepper.schema
        lower, upper, delta = self.hulls(steps)
        if self.taken:
            rest = np.zeros((*delta.shape[:2], lower.shape[2] - delta.shape[2]))
            delta = np.concatenate([delta, rest], axis=2)[:, :, stepper.order]
        shape = (len(lower) // parts, parts)
        lower, upper, delta = (part.reshape(*shape, *part.shape[1:]) for part in (lower, upper, delta))
        lower, upper, delta = lower.min(axis=1), upper.max(axis=1), delta.max(axis=1)
        ended, reasons = self.ended.reshape(shape), np.array(self.reasons, dtype=object).reshape(shape)
        first = np.where(ended < 0, np.iinfo(np.int64).max, ended).argmin(axis=1)
        stop = np.take_along_axis(ended, first[:, None], axis=1)[:, 0]
        why = tuple(str(reasons[k, first[k]]) for k in range(len(first)))
        evidence = "construction" if stepper.program is None else Proved().name
        if not many:
            lower, upper, delta, stop = lower[0], upper[0], delta[0], None if stop[0] < 0 else int(stop[0])
        return Tube(
            schema, lower, upper, delta, stop, why, tuple(self.sets), tuple(self.taken), parts, controls,
            evidence, start, stepper.limits.weights,
            carried=None if stepper.carried is None else stepper.carried.name,
        )  # fmt: skip

    def _asked(self, controls: Controls) -> int:
        return controls.lower.shape[1] if isinstance(controls, Boxed) else int(getattr(controls, "steps", 0))


def _stopped(after: Zonotopes, ended: NDArray[np.bool_]) -> Zonotopes:
    """Rows that have ended stay where nothing happens."""
    if not ended.any():
        return after
    center, generators = after.center.copy(), after.generators.copy()
    center[ended], generators[ended] = 0.0, 0.0
    return Zonotopes(center, generators)


def _halved(
    stepper: Stepper, lower: Array, upper: Array, controls: Controls, steps: int, halvings: int
) -> tuple[Array, Array, int]:
    """Start boxes in parts, those of one start after the other, and how many each has."""
    parts, best = 1, np.inf
    for round_ in range(halvings):
        if round_ == 0:
            best = _last_width(stepper, lower, upper, controls, steps, 1)
        options = [d for d in range(lower.shape[1]) if (upper[:, d] > lower[:, d]).any()]
        if not options:
            break
        found = [_in_two(lower, upper, parts, d) for d in options]
        width = partial(_last_width, stepper, controls=controls, steps=steps, parts=2 * parts)
        widths = list(current().map(width, found))
        chosen = int(np.argmin(widths))
        if not widths[chosen] < _WORTH * best:
            break
        (lower, upper), best, parts = found[chosen], widths[chosen], 2 * parts
    return lower, upper, parts


def _in_two(lower: Array, upper: Array, parts: int, column: int) -> tuple[Array, Array]:
    middle = np.clip(0.5 * lower[:, column] + 0.5 * upper[:, column], lower[:, column], upper[:, column])
    below, above = upper.copy(), lower.copy()
    below[:, column], above[:, column] = middle, middle
    shape = (len(lower) // parts, 2 * parts, lower.shape[1])
    return tuple(
        np.stack(pair, axis=1).reshape(shape[0], parts, 2, -1).reshape(-1, lower.shape[1])
        for pair in ((lower, above), (below, upper))
    )  # type: ignore[return-value]


def _last_width(
    stepper: Stepper, lower: Array, upper: Array, controls: Controls, steps: int, parts: int
) -> float:
    """Mean width of the last boxes, in units of the first round's states; infinite for a tube that ends."""
    run = _Run.through(stepper, lower, upper, _repeated(controls, parts), steps)
    low, high, _ = run.hulls(steps)
    shape = (len(low) // parts, parts, low.shape[2])
    width = high[:, -1].reshape(shape).max(axis=1) - low[:, -1].reshape(shape).min(axis=1)
    scale = np.maximum(upper.max(axis=0) - lower.min(axis=0), 1e-300)
    score = (width / scale).mean()
    return float(score) if np.isfinite(score) else np.inf


def _repeated(controls: Controls, parts: int) -> Controls:
    """The same for every part of a start."""
    if parts == 1 or not isinstance(controls, Boxed) or len(controls.lower) == 1:
        return controls
    return Boxed(*(np.repeat(end, parts, axis=0) for end in (controls.lower, controls.upper)))

"""What every method of a comparison shares: splits, scales, and M's answers at every row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.data import (
    Array,
    Jitter,
    Probes,
    Scaling,
    Split,
    Target,
    Transitions,
    find_glitches,
    fit_scaling,
)
from tether.fitting.config import (
    FitConfig,
    check_angles,
    check_evidence,
    resolve_budget,
    resolve_decreasing,
    resolve_target,
)
from tether.foundation.errors import TrustedModelError
from tether.foundation.progress import Reporter, silent
from tether.learning.examples import Examples
from tether.model import Frame
from tether.trusted import Function, TrustedModel, as_trusted, check_trusted

Sound = tuple[NDArray[np.bool_], NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class Part:
    """One part of D or Ω, and M's next states there."""

    inputs: Array
    trusted: Array
    next_states: Array | None = None

    def examples(self, frame: Frame) -> Examples:
        """As training sees them, in the units of the frame's target."""
        base = frame.base(self.inputs[:, : len(frame.schema.states)])
        observed = None if self.next_states is None else self.next_states - base
        return Examples(self.inputs, self.trusted - base, observed)


@dataclass(frozen=True, eq=False)
class Problem:
    """What every method of a comparison shares."""

    transitions: Transitions
    """All of D."""
    split: Split
    trusted: TrustedModel
    data: tuple[Part, Part, Part]
    """Train, validation and test part of D."""
    probes: tuple[Part, Part, Part]
    """Train, validation and test part of Ω."""
    probe_sets: tuple[Probes, Probes, Probes]
    scaling: Scaling
    """Of the inputs of D and Ω together."""
    sound: Sound
    """Which rows of the train and of the validation part are no glitches."""

    @property
    def training_inputs(self) -> Array:
        """(N, D) inputs of D and Ω that memories and bounds may be built from."""
        return np.concatenate([self.data[0].inputs[self.sound[0]], self.probes[0].inputs])

    @property
    def observed_inputs(self) -> Array:
        """(N, D) inputs of D, but for glitches and for what is kept for testing."""
        return np.concatenate(
            [part.inputs[sound] for part, sound in zip(self.data, self.sound, strict=False)]
        )

    @property
    def pinned(self) -> Array:
        """(D,) the value on which all probes agree while the data do not, NaN where there is none."""
        probes, data = self.probes[0].inputs, self.data[0].inputs
        agreed = (np.ptp(probes, axis=0) == 0) & (np.ptp(data, axis=0) > 0)
        return np.where(agreed, probes[0], np.nan)

    def frame(self, target: Target, anchor: Array | None = None) -> Frame:
        """Scales for a network that predicts `target`; those of the outputs from training data.

        With an `anchor` (N, P) at the training inputs, the network predicts the deviation from it.
        """
        observed = self.split.train.target(target)
        if anchor is None:
            return Frame(self.split.train.schema, target, self.scaling, fit_scaling(observed))
        # Centred on the anchor itself, so that a network that says nothing follows M.
        away = self.split.train.schema.near(observed, anchor) - anchor
        deviation = fit_scaling(away[self.sound[0]])
        outputs = Scaling(np.zeros_like(deviation.center), deviation.scale)
        return Frame(self.split.train.schema, target, self.scaling, outputs)


def sound_rows(split: Split) -> Sound:
    """Of training and of validation rows, which are no glitches.

    Both are looked at together: one of them alone may be too short to tell what is usual.
    """
    parts = split.train, split.validation
    names = "states", "controls", "next_states", "episodes"
    joint = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    seen = replace(split.train, places=None, **joint)
    sound = ~find_glitches(seen)
    return sound[: len(split.train)], sound[len(split.train) :]


def prepare(
    transitions: Transitions,
    *,
    trusted: TrustedModel | Function,
    probes: Probes | Jitter = Jitter(),
    config: FitConfig = FitConfig(),
    reporter: Reporter = silent,
) -> Problem:
    """Splits D by episode and Ω by row, checks M, and asks it about every row once."""
    trusted = as_trusted(trusted)
    # These raise before M is asked anything.
    if not isinstance(probes, Probes | Jitter):
        raise TypeError(
            f"`probes` must be Probes or a Jitter; got {type(probes).__name__}. Draw them in a box, "
            "`tether.Probes.from_box({'speed': 0.0}, count=2000, like=data)` with Transitions as data, or "
            "read a file, `tether.read_probes`."
        )
    check_angles(transitions, config.not_angles)
    resolve_target(config.target, transitions)
    resolve_budget(config.delta, transitions.schema)
    check_evidence(config.evidence, config.bounds, trusted)
    if config.decreasing:
        resolve_decreasing(config.decreasing, transitions.schema, trusted)
    split = transitions.split(validation=config.validation, test=config.test, seed=config.seed)
    sound = sound_rows(split)
    if isinstance(probes, Jitter):
        around = split.train.take(np.flatnonzero(sound[0]))
        own = Probes.from_jitter(around, spread=probes.spread, count=probes.count, seed=config.seed)
        try:
            return _asked(transitions, split, sound, trusted, own, config, reporter)
        except TrustedModelError:  # nobody asked for those beyond where M has an answer
            check_trusted(trusted, transitions.inputs, transitions.schema)
            known = np.isfinite(trusted.answers(own.inputs, own.schema)).all(axis=1)
            if known.all() or not known.any():
                raise
            probes = own.take(np.flatnonzero(known))
    if probes.schema.inputs != transitions.schema.inputs:
        raise ValueError(
            f"`probes` must have the inputs of the transitions ({', '.join(transitions.schema.inputs)}); "
            f"got {', '.join(probes.schema.inputs)}."
        )
    return _asked(transitions, split, sound, trusted, probes, config, reporter)


def _asked(
    transitions: Transitions,
    split: Split,
    sound: Sound,
    trusted: TrustedModel,
    probes: Probes,
    config: FitConfig,
    reporter: Reporter,
) -> Problem:
    """Checks M, and asks it about every row once."""
    check_trusted(trusted, np.concatenate([transitions.inputs, probes.inputs]), transitions.schema)
    probe_sets = _split_probes(probes, config)
    rows = (split.train, split.validation, split.test)
    pieces = [*(part.inputs for part in rows), *(part.inputs for part in probe_sets)]
    everything = np.concatenate(pieces)
    with reporter("Trusted model M at all data and probes") as progress:
        dx = len(transitions.schema.states)
        answers = trusted(everything[:, :dx], everything[:, dx:], transitions.schema, progress=progress)
    answered = np.split(answers, np.cumsum([len(piece) for piece in pieces])[:-1])
    data = [Part(p.inputs, a, p.next_states) for p, a in zip(rows, answered[:3], strict=True)]
    omega = [Part(p.inputs, a) for p, a in zip(probe_sets, answered[3:], strict=True)]
    scaling = fit_scaling(np.concatenate([data[0].inputs[sound[0]], omega[0].inputs]))
    parts: Any = tuple(data)
    probed: Any = tuple(omega)
    return Problem(transitions, split, trusted, parts, probed, probe_sets, scaling, sound)


def _split_probes(probes: Probes, config: FitConfig) -> tuple[Probes, Probes, Probes]:
    """Probes are independent of one another, so rows may be split; a few may serve everywhere."""
    rows = np.random.default_rng(config.seed).permutation(len(probes))
    held_out = [max(1, round(share * len(rows))) for share in (config.validation, config.test)]
    if sum(held_out) >= len(rows):
        return probes, probes, probes
    validation, test, training = np.split(rows, np.cumsum(held_out))
    return probes.take(training), probes.take(validation), probes.take(test)

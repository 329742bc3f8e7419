"""The tether of a method, whatever its kind, and the network that goes with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import nn

from tether.data import Target
from tether.fitting.config import FitConfig, resolve_target
from tether.fitting.monotone import build_monotone_tether, monotone_network
from tether.fitting.problem import Problem
from tether.fitting.tethers import build_tether
from tether.foundation.progress import Reporter, silent
from tether.model import Frame, mlp
from tether.tethers import DirectTether, FreeTether, Tether, tether_over
from tether.tethers.bounds import EVIDENCE_MARGIN

USUAL = (256, 256)
"""Layer widths where none were asked for."""

Networks = Callable[[Problem, Frame, FitConfig], nn.Module]


def usual_network(problem: Problem, frame: Frame, config: FitConfig) -> nn.Module:
    """An MLP of the widths asked for."""
    del problem
    hidden = USUAL if config.hidden is None else config.hidden
    return mlp(frame.features_width, len(frame.schema.outputs), hidden, seed=config.seed)


@dataclass(frozen=True, eq=False)
class Built:
    """A tether, and what came with it.

    Attributes:
        tether: limits on the target.
        target: that it limits.
        anchored: whether the network says how far from the tether's anchor to go, rather than where.
        network: what is trained where the caller brings none.
        chosen: whether validation may choose the size of the network and how far it is trusted.
        notes: what is saved of it with a model.
        seconds_memories: that finding the memories took.
        seconds_bounds: that bounding M took.
    """

    tether: Tether
    target: Target
    anchored: bool = True
    network: Networks = usual_network
    chosen: bool = False
    notes: Mapping[str, Any] = field(default_factory=dict)
    seconds_memories: float = 0.0
    seconds_bounds: float = 0.0


Builder = Callable[[Problem, FitConfig, Target, Reporter], Built]
"""From a problem, settings and what is predicted."""


def build(
    problem: Problem,
    kind: str | None,
    config: FitConfig,
    *,
    target: Target | None = None,
    reporter: Reporter = silent,
) -> Built:
    """The tether of a kind, for a problem; `target` is what is predicted where the settings do not say."""
    wanted = resolve_target(target or config.target, problem.split.train)
    return BUILDERS[kind](problem, config, wanted, reporter)


def _free(problem: Problem, config: FitConfig, target: Target, reporter: Reporter) -> Built:
    del config, reporter
    return Built(FreeTether(len(problem.split.train.schema.outputs)), target, anchored=False)


def _residual(problem: Problem, config: FitConfig, target: Target, reporter: Reporter) -> Built:
    del config, reporter
    schema = problem.split.train.schema
    width = np.full(len(schema.outputs), np.inf)
    return Built(DirectTether(problem.trusted, width, schema, target), target)


def _direct(problem: Problem, config: FitConfig, target: Target, reporter: Reporter) -> Built:
    """As wide as the data ask for."""
    del config, reporter
    train = problem.split.train
    away = train.schema.distance(train.next_states, problem.data[0].trusted)
    width = EVIDENCE_MARGIN * away.max(axis=0)
    return Built(DirectTether(problem.trusted, width, train.schema, target), target)


def _celled(problem: Problem, config: FitConfig, target: Target, reporter: Reporter) -> Built:
    del target
    found = build_tether(problem, config, reporter=reporter)
    noted = {} if found.boxed is None else found.boxed.record()
    tether = tether_over(found.cells, found.bounds)
    return Built(
        tether,
        found.target,
        anchored=tether.over_boxes,
        chosen=found.boxed is not None,
        notes=noted if found.why is None else noted | {"why": found.why},
        seconds_memories=found.partition.seconds,
        seconds_bounds=found.seconds,
    )


def _monotone(problem: Problem, config: FitConfig, target: Target, reporter: Reporter) -> Built:
    del target
    start = time.monotonic()
    tether = build_monotone_tether(problem, config, reporter=reporter)
    taken = time.monotonic() - start
    return Built(tether, "next_state", network=monotone_network, seconds_memories=taken)


BUILDERS: dict[str | None, Builder] = {
    None: _free,
    "residual": _residual,
    "direct": _direct,
    "interval": _celled,
    "affine": _celled,
    "monotone": _monotone,
}
"""How the tether of a kind is built."""

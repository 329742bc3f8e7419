"""Affine bounds from M: a tree grown for it, its models settled, and room around them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tether.data import Array, Schema
from tether.evidence import Evidence, Question
from tether.foundation.progress import Report
from tether.geometry.cells import Cells
from tether.tethers.affinebounds import AffineBounds
from tether.tethers.calibration import calibrate
from tether.tethers.growth import Aim, Grown, grow


@dataclass(frozen=True, eq=False)
class Expanded:
    """Bounds without room, and the trees they are over."""

    bounds: AffineBounds
    grown: Grown


def expand(
    question: Question, evidence: Evidence, aim: Aim, cells: Cells, *, progress: Report | None = None
) -> Expanded:
    """Models of M over the leaves of trees, with remainders of the given evidence.

    Args:
        question: what M is asked, over which box.
        evidence: how remainders are known; where by fresh draws, half of those are around the cells.
        aim: what the trees are grown for.
        cells: where the data are, for the room that is still to come.
        progress: told (leaves so far, leaves at most).
    """
    grown = grow(evidence.expander(question), aim, progress=progress)
    bounds = _settled(grown, question, evidence, cells)
    if evidence.draws:
        about = (cells, question.trusted, question.schema, question.target)
        bounds = calibrate(bounds, *about, evidence=evidence, seed=question.sampling.seed)
    return Expanded(bounds, grown)


def with_room(
    bounds: AffineBounds, half_width: Array, schema: Schema, *, budget: Array | None = None
) -> AffineBounds:
    """With half-widths (K, P) by cell, and the roundings of A and of what is added to it in the remainder.

    A `budget` (P,) is a delta that no row exceeds: where room and remainder do, there is less room.
    """
    roomy = replace(bounds, half_width=half_width)
    most = bounds.most if budget is None else budget * (1 - 1e-12)
    return replace(roomy, remainder=bounds.remainder + roomy.rounding(schema), most=most)


def _settled(grown: Grown, question: Question, evidence: Evidence, cells: Cells) -> AffineBounds:
    """Bounds without room: A from M's own float64 values, written from one reference.

    That is what all probes agree on, where they do: there A is then M to the last bit. Where nothing is known
    of some output M may have no answer, and A of the others stays as it was made.
    """
    tree, leaves, output = grown.tree, grown.leaves, grown.output
    schema, none = question.schema, np.full_like(tree.lower, np.nan)
    pinned = none if question.pinned is None else question.pinned
    reference = np.where(np.isnan(pinned), 0.5 * tree.lower + 0.5 * tree.upper, pinned)
    value, remainder = leaves.value.copy(), leaves.remainder.copy()
    asked = np.isfinite(remainder) & leaves.centred
    asked[asked] = np.logical_and.reduce(np.isfinite(remainder)[tree.find(leaves.middle[asked])], axis=1)
    own = question.values(leaves.middle[asked])[np.arange(asked.sum()), output[asked]]
    shift = own - value[asked]
    turns = 2 * np.pi * np.round(shift / (2 * np.pi)) * schema.output_angles[output[asked]]
    remainder[asked] += np.abs(shift - turns) + np.finfo(np.float64).eps * (
        8 * np.abs(own) + 64 * np.abs(turns)
    )
    value[asked] = own
    value = value + (leaves.slope * (reference - leaves.middle)).sum(axis=1)
    outputs = len(schema.outputs)
    return AffineBounds(
        tree=tree,
        reference=reference,
        value=value,
        slope=leaves.slope,
        remainder=remainder,
        half_width=np.zeros((len(cells), outputs)),
        most=np.full(outputs, np.inf),
        pinned=pinned,
        angles=schema.output_angles,
        evidence=evidence,
        curvature=leaves.curvature,
        pairs=grown.pairs,
    )

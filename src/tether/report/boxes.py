"""What a report shows of a model over an operating box: the box, delta in it, slices, and the band.

Numbers are gathered here; :mod:`tether.report.boxfigures` draws them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from tether.claims.claims import Band
from tether.data import Array, Schema
from tether.fitting import Problem
from tether.model import Model
from tether.report.page import Picture, Section
from tether.report.tables import Grid, number, percent
from tether.tethers.affinebounds import AffineBounds

if TYPE_CHECKING:
    from tether.data import Transitions

OVER_THE_BOX = "Over the operating box"
"""Title of the section."""
BOX_POINTS = 4000
SLICE_POINTS = 241
MOST_ALONG = 4
_LEAST_ALONG = 3
"""Inputs to draw slices along, free ones among them where fewer bend."""
MOST_ROWS = 10
_MOST_DRAWN = 12
"""Outputs whose distributions are drawn."""
_MOST_SLICED = 4
"""Outputs that are drawn along slices."""
_STOPPED = {
    "tolerance": "cutting went on until M was known well enough in every one of them",
    "budget": "cutting ended with as many of them as were allowed",
    "calls of the trusted model": "cutting ended with as many questions to M as were allowed",
    "nothing left to cut": "cutting ended where nothing was left to cut",
}


@dataclass(frozen=True, eq=False)
class Spreads:
    """How far predictions may be from M, at rows of one kind.

    Attributes:
        delta: (N, P) at rows in the domain.
        remainder: (N, P) what of it is not room.
        covered: share of rows in the domain.
    """

    delta: Array
    remainder: Array
    covered: float


@dataclass(frozen=True, eq=False)
class Slice:
    """A line through a row, along one input; all but M itself relative to M.

    Attributes:
        along: the input that varies.
        at: (T,) its values.
        trusted: (T, P) M's target: the change it predicts, where that is what is learned.
        prediction: (T, P).
        lower: (T, P) of the band.
        upper: (T, P).
        delta: (T, P).
        rows: (R,) values of the input at some held-out rows.
    """

    along: int
    at: Array
    trusted: Array
    prediction: Array
    lower: Array
    upper: Array
    delta: Array
    rows: Array


@dataclass(frozen=True)
class WildRow:
    """A row that disagrees with M more than the rest, and by how much in the output that does most.

    Attributes:
        row: its number among all transitions, from 0.
        episode: it belongs to.
        output: its name.
        away: distance from the middle of the band.
        half_width: of the band there.
        place: where in the log it is; empty where that is not known.
    """

    row: int
    episode: int
    output: int
    away: float
    half_width: float
    place: str = ""


def has_box(model: Model) -> bool:
    """Whether a model's bounds are over a box."""
    return model.tether.over_boxes


def box_sections(model: Model, problem: Problem, band: Band | None) -> list[Section]:
    """What a report shows of a model with affine bounds; nothing of others.

    Args:
        model: the one that is kept.
        problem: what it learned.
        band: what is claimed of reality.
    """
    if not has_box(model):
        return []
    over = Section(
        OVER_THE_BOX,
        [_introduction(model, problem)],
        [inputs_grid(model, problem.transitions.inputs)],
        _pictures(model, problem),
    )
    return [over] if band is None else [over, _band_section(model, problem, band)]


def cuts(bounds: AffineBounds) -> NDArray[np.int64]:
    """(P, D) how often each output's tree is cut along each input: 0 where M need not be seen to bend."""
    tree = bounds.tree
    found = np.zeros((len(tree.roots), len(tree.lower)), np.int64)
    for output, root in enumerate(tree.roots):
        level = np.array([root])
        while len(level := level[tree.cut[level] >= 0]):
            found[output] += np.bincount(tree.cut[level], minlength=found.shape[1])
            level = np.concatenate([tree.left[level], tree.right[level]])
    return found


def inputs_grid(model: Model, inputs: Array) -> Grid:
    """The operating box input by input, beside the range of the data (N, D)."""
    schema, tree = model.schema, _bounds(model).tree
    count = cuts(_bounds(model))
    rows = [
        (
            labelled(schema, name),
            *(f"{value:.4g}" for value in (tree.lower[k], tree.upper[k])),
            *(f"{value:.4g}" for value in (inputs[:, k].min(), inputs[:, k].max())),
            _bending(schema, count[:, k]),
            f"{count[:, k].sum():,}",
        )
        for k, name in enumerate(schema.inputs)
    ]
    header = ("input", "box from", "to", "data from", "to ", "M bends along it for", "cuts")
    return Grid("The operating box, input by input", header, tuple(rows))


def spreads(model: Model, inputs: Array) -> Spreads:
    """Delta and remainder at inputs (N, D)."""
    bounds, limits = _bounds(model), model.limits(inputs)
    inside = limits.in_domain
    remainder = bounds.remainder[bounds.tree.find(inputs)][inside]
    return Spreads(limits.delta[inside], remainder, float(inside.mean()) if len(inside) else 0.0)


def box_points(model: Model) -> Array:
    """(BOX_POINTS, D) uniform in the operating box, always the same."""
    tree = _bounds(model).tree
    return np.random.default_rng(0).uniform(tree.lower, tree.upper, (BOX_POINTS, len(tree.lower)))


def most_bending(bounds: AffineBounds) -> list[int]:
    """The inputs that are cut most, at most four of them."""
    count = cuts(bounds).sum(axis=0)
    order = np.argsort(-count, kind="stable")[:MOST_ALONG]
    return [int(k) for k in order if count[k]]


def most_moving(bounds: AffineBounds) -> list[int]:
    """All inputs along which M changes over the box, by how much in its most sensitive output."""
    change = np.abs(bounds.slope) * (bounds.tree.upper - bounds.tree.lower)
    each = np.stack([change[bounds.output == k].mean(axis=0) for k in range(len(bounds.most))])
    whole = each.sum(axis=1, keepdims=True)
    share = np.divide(each, whole, out=np.zeros_like(each), where=whole > 0).max(axis=0)
    return [int(k) for k in np.argsort(-share, kind="stable") if share[k] > 0]


def _sliced(bounds: AffineBounds) -> list[int]:
    """The inputs to draw slices along: those that bend, and where these are few, those that matter."""
    bending = most_bending(bounds)
    others = [k for k in most_moving(bounds) if k not in bending]
    return bending + others[: max(0, _LEAST_ALONG - len(bending))] or [0]


def median_row(model: Model, inputs: Array) -> Array:
    """(D,) the row of inputs (N, D) that is nearest to the median of each of them."""
    away = (inputs - np.median(inputs, axis=0)) / model.frame.inputs.scale
    return inputs[int(np.argmin((away**2).sum(axis=1)))]


def slice_along(model: Model, problem: Problem, along: int, through: Array) -> Slice:
    """What is predicted along an input, through a row (D,), all over the box."""
    schema, tree = model.schema, _bounds(model).tree
    at = np.linspace(tree.lower[along], tree.upper[along], SLICE_POINTS)
    # The last point of a circle is the first one; a little before it, the line reaches its end.
    rows = np.tile(through, (SLICE_POINTS, 1))
    rows[:, along] = at
    if schema.input_angles[along]:
        rows[-1, along] = np.nextafter(at[-1], at[0])
    states, controls = rows[:, : len(schema.states)], rows[:, len(schema.states) :]
    found = model.predict(states, controls, details=True)
    answers = problem.trusted.answers(rows, schema)
    trusted = schema.near(answers, found.next_states)
    target = answers - schema.base(states) if model.frame.target == "increment" else answers
    held_out = problem.data[2].inputs[:, along]
    return Slice(
        along,
        at,
        target,
        found.next_states - trusted,
        found.lower - trusted,
        found.upper - trusted,
        found.delta,
        held_out[:: max(1, len(held_out) // 100)],
    )


def wild_rows(model: Model, problem: Problem, rows: tuple[int, ...]) -> list[WildRow]:
    """Where rows of training and validation data, counted in that order, are in the data; at most ten."""
    parts = (problem.split.train, problem.split.validation)
    places = np.concatenate([_places(problem.transitions, part) for part in parts])
    return [_wild_row(model, problem.transitions, int(places[row])) for row in rows[:MOST_ROWS]]


def _wild_row(model: Model, transitions: Transitions, row: int) -> WildRow:
    one = transitions.take(np.array([row]))
    found = model.predict(one.states, one.controls, details=True)
    middle, half_width = 0.5 * (found.lower + found.upper)[0], 0.5 * (found.upper - found.lower)[0]
    away = model.schema.distance(one.next_states, middle[None])[0]
    output = int(np.argmax((away - half_width) / model.frame.outputs.scale))
    place = one.places.describe(0) if one.places is not None else ""
    return WildRow(row, int(one.episodes[0]), output, float(away[output]), float(half_width[output]), place)


def _places(transitions: Transitions, part: Transitions) -> NDArray[np.int64]:
    """(N,) where the rows of a part are: whole episodes, in their order."""
    return np.flatnonzero(np.isin(transitions.episodes, np.unique(part.episodes)))


def labelled(schema: Schema, name: str) -> str:
    """A column and its unit; angles are in radians."""
    unit = schema.unit(name) or ("rad" if name in schema.angles else "")
    return f"{name} [{unit}]" if unit else name


def in_unit(schema: Schema, value: float, name: str) -> str:
    """A number with the unit of its column."""
    return f"{number(value)} {schema.unit(name) or ('rad' if name in schema.angles else '')}".strip()


def _bounds(model: Model) -> AffineBounds:
    return cast(AffineBounds, model.bounds)


def _bending(schema: Schema, count: NDArray[np.int64]) -> str:
    """Names of the outputs whose trees are cut so often (P,)."""
    names = [name for name, cut in zip(schema.outputs, count, strict=True) if cut]
    every = f"all {len(names)} outputs" if len(names) == len(schema.outputs) > 4 else ", ".join(names)
    return every or "none (free)"


def _introduction(model: Model, problem: Problem) -> str:
    """The box and its leaves, in words."""
    schema, bounds = model.schema, _bounds(model)
    leaves = np.bincount(bounds.output, minlength=len(schema.outputs))
    each = ", ".join(f"{name} {count:,}" for name, count in zip(schema.outputs, leaves, strict=True))
    why = _STOPPED.get(str(model.record.get("stopped")), "")
    return (
        f"The guarantee holds anywhere in this box, and not only where the data are. The trusted model M "
        f"({problem.trusted.name}) is cut into {leaves.sum():,} smaller boxes, its leaves ({each})"
        f"{'; ' + why if why else ''}. In each leaf {_standing_in(bounds)} stands in for M, wrong by "
        "no more than the remainder. Delta, the distance to M that no prediction exceeds, is the remainder "
        "plus the room that the data ask for. Along an input that no tree had to cut, M is straight as far "
        "as the remainder tells: such inputs are free, they cost no leaves."
    )


def _standing_in(bounds: AffineBounds) -> str:
    second = int((bounds.bends != 0).any(axis=1).sum())
    return f"a straight model, or in {second:,} a quadratic one," if second else "a straight model"


def _pictures(model: Model, problem: Problem) -> list[Picture]:
    # Matplotlib takes a while to load, and is not needed to read a report.
    from tether.report.boxfigures import delta_figure, slices_figure
    from tether.report.figures import as_svg

    schema, test = model.schema, problem.split.test
    held_out, box = spreads(model, test.inputs), spreads(model, box_points(model))
    residual = np.sqrt((schema.distance(test.next_states, problem.data[2].trusted) ** 2).mean(axis=0))
    shown = _most_cut(model, _MOST_DRAWN)
    deltas = delta_figure(schema, shown, held_out, box, residual)
    through = median_row(model, test.inputs)
    lines = [slice_along(model, problem, along, through) for along in _sliced(_bounds(model))]
    sliced = _most_cut(model, _MOST_SLICED)
    slices = slices_figure(schema, sliced, lines, model.frame.target)
    return [
        Picture(as_svg(deltas), _delta_caption(model, shown, held_out, box), "box-delta"),
        Picture(as_svg(slices), _slices_caption(model, through, sliced), "box-slices"),
    ]


def _most_cut(model: Model, most: int) -> list[int]:
    """The outputs with the most leaves, in their own order."""
    leaves = np.bincount(_bounds(model).output, minlength=len(model.schema.outputs))
    return sorted(np.argsort(-leaves, kind="stable")[:most].tolist())


def _some(schema: Schema, shown: list[int]) -> str:
    """What is not shown, in words."""
    left = len(schema.outputs) - len(shown)
    return f" The {len(shown)} outputs that bend most; {left} more are not drawn." if left else ""


def _delta_caption(model: Model, shown: list[int], held_out: Spreads, box: Spreads) -> str:
    left_out = "" if box.covered == 1 else f" Nothing is known of M at {percent(1 - box.covered)} of the box."
    return (
        "How far may a prediction be from M? For each output the share of rows with at most that delta: at "
        f"{len(held_out.delta):,} held-out rows (solid), and at {len(box.delta):,} points anywhere in the "
        "box (dashed). Farther left is tighter. Green: the remainder alone, delta without room. It should "
        "lie well to the left of the dotted line, by which M itself misses the data (root mean "
        f"square).{left_out}{_some(model.schema, shown)}"
    )


def _slices_caption(model: Model, through: Array, shown: list[int]) -> str:
    schema, bending = model.schema, most_bending(_bounds(model))
    names = ", ".join(schema.inputs[k] for k in bending)
    few = len(bending) < min(_LEAST_ALONG, len(schema.inputs))
    beside = f" ({names or 'none'}), then along those it changes most along," if few else f" ({names}),"
    row = ", ".join(
        f"{name} {in_unit(schema, value, name)}" for name, value in zip(schema.inputs, through, strict=True)
    )
    return (
        f"Along the inputs that M bends along most{beside} through the held-out row nearest to the median "
        f"({row}). Upper panels: M itself. Lower panels, all relative to M: the prediction (blue line) stays "
        "in the band (blue), and the band within delta of M (grey, with lines at its ends). The band is as "
        f"wide as data nearby ask for. Ticks at the bottom are held-out rows.{_some(schema, shown)}"
    )


def _band_section(model: Model, problem: Problem, band: Band) -> Section:
    rows = wild_rows(model, problem, band.rows)
    grids = [band_grid(model, problem.split.test, band)]
    if rows:
        grids.append(wild_grid(model.schema, rows))
    claimed = (
        "Delta speaks of M. The band speaks of reality: it is where measurements should lie, as often as "
        f"claimed. Calibrated on {band.episodes} episodes, it claims that a row of a new episode like them "
        f"lies outside with a probability of at most {percent(1 - band.probability)}, for each output."
    )
    words = [claimed, _judgement(model, problem.split.test, band), *_wild_words(rows)]
    return Section("Reality and the band", words, grids)


def _judgement(model: Model, test: Transitions, band: Band) -> str:
    """Whether held-out rows bear the claim out, and what may be the cause where they do not."""
    over = [
        f"{name} ({percent(share)})"
        for name, share in zip(model.schema.outputs, band.missed or (), strict=False)
        if share > 1 - band.probability
    ]
    if not over:
        return "Held-out rows bear that out."
    shut = closed_share(model, test.inputs)
    where = (
        f" At {percent(shut)} of held-out rows the band has no width at all, because M is followed there: no "
        "training row was near (unseen='open' would leave room), or probes ask for M."
        if shut
        else ""
    )
    return (
        f"Held-out rows were outside more often than that for {', '.join(over)}.{where} It may also be that "
        "these episodes are unlike those it was calibrated on, or too few."
    )


def closed_share(model: Model, inputs: Array) -> float:
    """Share of inputs (N, D) at which some output has no room, so that M is followed."""
    limits = model.limits(inputs)
    return float((limits.upper <= limits.lower).any(axis=1).mean())


def _wild_words(rows: list[WildRow]) -> list[str]:
    if not rows:
        return ["No row lies so far outside that you would have to look at it."]
    return [
        "Rows to look at are those that disagree with M several times more than rows around them: a sensor "
        "that dropped out, a collision, a wrong unit. They did not widen the band."
    ]


def band_grid(model: Model, test: Transitions, band: Band) -> Grid:
    """By output, how many held-out rows lie outside the band, and how wide it is."""
    schema = model.schema
    found = model.predict(test.states, test.controls, details=True)
    truth = schema.near(test.next_states, 0.5 * found.lower + 0.5 * found.upper)
    miss = np.maximum(np.maximum(found.lower - truth, truth - found.upper), 0.0)
    width = np.median(0.5 * (found.upper - found.lower), axis=0)
    claimed = 1 - band.probability
    rows = [
        (
            labelled(schema, name),
            f"{int((miss[:, k] > 0).sum()):,} of {len(test):,}",
            percent(float((miss[:, k] > 0).mean())),
            percent(claimed),
            "yes" if (miss[:, k] > 0).mean() <= claimed else "no",
            number(float(width[k])),
            number(float(miss[:, k].max())),
        )
        for k, name in enumerate(schema.outputs)
    ]
    header = ("output", "held-out rows outside", "share", "claimed: at most", "as claimed",
              "half-width of the band, median", "farthest outside")  # fmt: skip
    return Grid("How often reality left the band", header, tuple(rows))


def wild_grid(schema: Schema, rows: list[WildRow]) -> Grid:
    """Rows to look at."""
    shown = [
        (
            wild.place.removeprefix("row ") or f"{wild.row:,}",
            f"{wild.episode}",
            schema.outputs[wild.output],
            in_unit(schema, wild.away, schema.outputs[wild.output]),
            in_unit(schema, wild.half_width, schema.outputs[wild.output]),
            f"{wild.away / wild.half_width:.3g}" if wild.half_width else "no room there",
        )
        for wild in rows
    ]
    header = (
        "row (from 0)",
        "episode",
        "output",
        "off the band's middle by",
        "half-width there",
        "in half-widths",
    )
    return Grid("Rows to look at, farthest outside first", header, tuple(shown))

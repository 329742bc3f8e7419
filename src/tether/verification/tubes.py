"""A tube of a file, shown again step by step from the file, the model file and M alone.

Of every step the file says the set it starts from, a zonotope, the line ``L(s) = value + slope (s -
point)`` that it goes by, and the set that it comes to: some of the generators moved by the line, and a box.
Shown is, in interval arithmetic:

- the set lies in the operating box;
- ``base(s) + L(s)``, and whatever the file's rounding has made of it, fits into the next set and leaves of
  its box, in each state, so much;
- the model's target is, whatever the weights, nowhere farther from L than that: over every leaf that is
  touched it is within the open half-width of A, and within delta of M, which is bounded by its derivatives;
  for the weights of the file alone it is A and what their network adds, cut off. Where that is
  not enough the set is cut in half, along the input that contributes most, and again; what still cannot be
  shown is refused.

So if every rollout is in one set it is in the next; and the boxes of the file hold all sets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from tether.foundation import documents as what
from tether.foundation.errors import CertificateError
from tether.foundation.progress import Report
from tether.trusted import Function, TrustedModel, as_trusted
from tether.verification import intervals
from tether.verification.claim import ROUNDOFF, Claim, Content, claim_of, read_content
from tether.verification.elementary import constant
from tether.verification.intervals import Array, Interval, add_down, add_up
from tether.verification.networks import FileNetwork
from tether.verification.tubesteps import LESS_THAN_A_TURN, Task, first_unshown
from tether.verification.verifying import check_program, verify

_TURN = constant(lambda: 2 * arb.pi())
_WHAT = "a tube written by Tether"
_DIGESTED = ("reference", "value", "slope", "remainder", "half_width", "most", "pinned")
_TREE = ("lower", "upper", "roots", "cut", "threshold", "left", "right")
_COLUMNS = ("states", "controls", "outputs", "angles", "advances")
_MOST_CORNERS = 100_000

_numbers = what.items(what.number)
_matrix = what.items(_numbers)
_PART = what.record(
    {
        "sets": what.items(what.record({"center": _numbers, "generators": _matrix})),
        "moves": what.items(
            what.record(
                {
                    "kept": what.items(what.whole()),
                    "point": _numbers,
                    "turns": _numbers,
                    "value": _numbers,
                    "slope": _matrix,
                }
            )
        ),
    }
)
_ROW = what.record(
    {"lower": _matrix, "upper": _matrix, "ended": what.maybe(what.whole()), "parts": what.items(_PART)}
)
_DOCUMENT = what.record(
    {
        "format": what.one_of("tether tube"),
        "version": what.whole(1, 1),
        "evidence": what.text,
        "weights": what.maybe(what.text),
        "schema": what.plain,
        "about": what.mapping(what.maybe(what.text)),
        "steps": what.whole(1),
        "start": what.record({"lower": _matrix, "upper": _matrix}),
        "controls": what.record({"kind": what.one_of("box", "feedback")}),
        "starts": what.items(_ROW),
        "system": what.plain,
    }
)


@dataclass(frozen=True)
class TubeVerification:
    """What was shown of a tube.

    Attributes:
        tubes: how many.
        moves: how many steps of sets, over all starts and parts of these.
        ended: how many end before the last step.
        statement: in a sentence.
        not_vouched: what the file says beside that was not shown.
    """

    tubes: int
    moves: int
    ended: int
    statement: str
    not_vouched: tuple[str, ...] = ()


def verify_tube(
    path: str | Path,
    trusted: TrustedModel | Function,
    model: str | Path | None = None,
    progress: Report | None = None,
) -> TubeVerification:
    """Shows a tube again, sharing no code with what made it.

    Args:
        path: the tube's file.
        trusted: M.
        model: the model file or the folder of a run; by default where the tube's file says it is.
        progress: told (steps shown, steps to show).

    Raises:
        CertificateError: a step cannot be shown; the message says which.
        StorageError: a file is not what it should be.
    """
    path = Path(path)
    content = what.read_json(path, _DOCUMENT, _WHAT)
    place = _model_file(path, content, model)
    held = read_content(place)
    claim = claim_of(held)
    program = _program(claim, as_trusted(trusted)) if claim.evidence == "proved" else None
    tasks = _show(claim, held, program, content, progress)
    ended = sum(row["ended"] is not None for row in content["starts"])
    own = content["weights"] is not None
    statement = (
        f"Each of {tasks} steps was shown again, {'for these' if own else 'whatever the'} weights, in "
        f"interval arithmetic on the {'network and the ' if own else ''}tether"
        f"{'' if program is None else ' and the trusted model'}."
    )
    if program is not None:
        # The steps rest on the distance to M that the model file states.
        statement = f"{statement} {verify(place, trusted).statement}"
    left = ("its words", "the deltas", *(["the system tube"] if content["system"] is not None else []))
    return TubeVerification(len(content["starts"]), tasks, ended, statement, left)


def _show(claim: Claim, held: Content, program: Any, content: dict[str, Any], progress: Report | None) -> int:
    """How many steps were shown: of the tube, and of one for any weights that its boxes were cut by."""
    _recognise(claim, content, held.path)
    network, beside, shown = None, content.get("beside"), 0
    if content["weights"] is not None:
        network = FileNetwork(held)
        _require(network.digest == content["weights"], f"the tube is not of the weights in `{held.path}`")
    if beside is not None:
        _DOCUMENT(beside, "beside")
        _check_beside(content, beside)
        shown = _show(claim, held, program, beside, progress)
    tasks = list(_tasks(claim, content))
    reason = first_unshown(claim, program, tasks, progress, network)
    if reason is not None:
        raise CertificateError(f"not verified: {reason}.")
    return shown + len(tasks)


def _check_beside(content: dict[str, Any], beside: dict[str, Any]) -> None:
    """It must be for any weights, of the same starts and controls, and stand for itself."""
    same = all(content[name] == beside[name] for name in ("about", "steps", "start", "controls"))
    alone = beside["weights"] is None and beside.get("beside") is None
    _require(same and alone, "the tube beside it must be for any weights, from the same starts")
    _require(len(beside["starts"]) == len(content["starts"]), "the tube beside it must have as many starts")


def _model_file(path: Path, content: dict[str, Any], given: str | Path | None) -> Path:
    if content["controls"]["kind"] != "box":
        raise CertificateError("not verified: a tube with feedback is not shown again.")
    named = content["about"].get("model")
    if given is None and named is None:
        raise ValueError(f"`{path}` must say which model it is of; it does not. Name it with `--model`.")
    place = path.parent / str(named) if given is None else Path(given)
    return place / "model.safetensors" if place.is_dir() else place


def _recognise(claim: Claim, content: dict[str, Any], place: Path) -> None:
    """The tube must be of this very tether, and speak of it as the model file does."""
    if claim.kind != "boxes":
        raise CertificateError("not verified: tubes of models with a box tree alone are shown again.")
    schema = claim.schema
    means = {name: list(getattr(schema, name)) for name in _COLUMNS} | {"units": dict(schema.units)}
    _require(content["schema"] == means, f"its columns must be those of `{place}`")
    known = "proved" if claim.evidence == "proved" else "construction"
    _require(content["evidence"] == known, f"its evidence must be `{known}`, by that of `{place}`")
    digest = hashlib.sha256()
    parts = [claim.arrays[f"tree.{name}"] for name in _TREE] + [claim.bounds(name) for name in _DIGESTED]
    for part in (*parts, claim.cells("memories"), claim.cells("scale")):
        digest.update(np.ascontiguousarray(part).tobytes())
    if digest.hexdigest() != content["about"].get("tether"):
        raise CertificateError(f"not verified: the tube is not of the tether in `{place}`.")


def _program(claim: Claim, trusted: TrustedModel) -> Any:
    from tether.verification.graph import UnboundedError
    from tether.verification.proofs import target_program
    from tether.verification.tracing import trace

    schema = claim.schema
    try:
        sizes = len(schema.states), len(schema.controls), len(schema.outputs)
        program = target_program(trace(trusted.function, *sizes), claim)
    except UnboundedError as error:
        raise CertificateError(f"not verified: the trusted model has {error}.") from None
    reason = check_program(claim, trusted, program)
    if reason is not None:
        raise CertificateError(f"not verified: {reason}.")
    return program


# --- what must be shown of each step, beside the model


def _tasks(claim: Claim, content: dict[str, Any]) -> Iterator[Task]:
    """Everything but the model's distance from the lines is shown here; that is what tasks are for."""
    schema, steps, known = claim.schema, content["steps"], content["controls"]
    dx, du = len(schema.states), len(schema.controls)
    try:
        controls = [
            np.array(known[end], dtype=np.float64).reshape(-1, steps, du) for end in ("lower", "upper")
        ]
        starts = [
            np.array(content["start"][end], dtype=np.float64).reshape(-1, dx) for end in ("lower", "upper")
        ]
        rows = content["starts"]
        others = (content.get("beside") or {}).get("starts", [None] * len(rows))
        if len(starts[0]) != len(rows) or controls[0].shape != controls[1].shape:
            raise ValueError("as many starts as tubes are needed")
        for k, row in enumerate(rows):
            own = [end[k if len(end) > 1 else 0] for end in controls]
            yield from _row_tasks(claim, row, k, steps, [end[k] for end in starts], own, others[k])
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise CertificateError(f"not verified: the file is not {_WHAT} ({what.shorten(error)}).") from None


def _row_tasks(
    claim: Claim,
    row: dict[str, Any],
    number: int,
    steps: int,
    start: list[Array],
    controls: list[Array],
    other: dict[str, Any] | None,
) -> Iterator[Task]:
    last = steps if row["ended"] is None else row["ended"]
    lower, upper = (np.array(row[end], dtype=np.float64) for end in ("lower", "upper"))
    name = f"start {number}"
    _require(len(lower) == len(upper) == last + 1, f"{name}: a box for each of its steps is needed")
    parts = [[_Set.of(one, len(claim.schema.states)) for one in part["sets"]] for part in row["parts"]]
    _require(all(len(own) == last + 1 for own in parts), f"{name}: a set for each of its steps is needed")
    _check_start(claim, [own[0] for own in parts], start, name)
    _check_boxes(claim, parts, lower, upper, name, other)
    for part, own in zip(row["parts"], parts, strict=True):
        _require(len(part["moves"]) == last, f"{name}: a line for each of its steps is needed")
        for t in range(last):
            place = f"{name}, step {t + 1}"
            yield _task(claim, part["moves"][t], own[t], own[t + 1], [end[t] for end in controls], place)


def _check_boxes(
    claim: Claim, parts: list[list[_Set]], lower: Array, upper: Array, name: str, other: dict[str, Any] | None
) -> None:
    """Boxes hold the sets; or what these share with the boxes of a tube that holds the same rollouts."""
    angles = np.array([state in claim.schema.angles for state in claim.schema.states])
    for t in range(len(lower)):
        hulls = [own[t].hull() for own in parts]
        low, high = np.min([hull[0] for hull in hulls], axis=0), np.max([hull[1] for hull in hulls], axis=0)
        if other is not None and t < len(other["lower"]):
            least, most = (np.array(other[end][t], dtype=np.float64) for end in ("lower", "upper"))
            # An angle is on the same turn in both, if both together reach over less than a turn.
            same = ~angles | (np.maximum(high, most) - np.minimum(low, least) < LESS_THAN_A_TURN)
            low, high = (
                np.where(same, np.maximum(low, least), low),
                np.where(same, np.minimum(high, most), high),
            )
        held = (lower[t] <= low) & (high <= upper[t])
        _require(bool(held.all()), f"{name}, step {t}: the box must hold the set")


@dataclass(frozen=True, eq=False)
class _Set:
    """A zonotope: center (n,) and generators (n, m)."""

    center: Array
    generators: Array

    @classmethod
    def of(cls, stated: dict[str, Any], states: int) -> _Set:
        return cls(
            np.array(stated["center"], dtype=np.float64).reshape(states),
            np.array(stated["generators"], dtype=np.float64).reshape(states, -1),
        )

    def radius(self) -> Array:
        return _total(np.abs(self.generators))

    def hull(self) -> Interval:
        radius = self.radius()
        return add_down(self.center, -radius), add_up(self.center, radius)


def _total(sizes: Array) -> Array:
    """Sums over the last axis, rounded up."""
    total = np.zeros(sizes.shape[:-1])
    for k in range(sizes.shape[-1]):
        total = add_up(total, sizes[..., k])
    return total


def _check_start(claim: Claim, first: list[_Set], start: list[Array], name: str) -> None:
    """The first sets together hold every start; wrapping may move an angle by its rounding."""
    angles = np.array([state in claim.schema.angles for state in claim.schema.states])
    size = np.maximum(np.abs(start[0]), np.abs(start[1]))
    slack = np.where(angles & (size >= np.pi), 16 * ROUNDOFF * (size + 2 * np.pi), 0.0)
    low, high = add_down(start[0], -slack), add_up(start[1], slack)
    for one in first:
        _require(_is_box(one.generators), f"{name}: its first set must be a box")
    middle = np.stack([one.center for one in first])
    half = np.stack([np.abs(one.generators).max(axis=1) for one in first])
    edges = []
    for d in range(len(low)):
        ends = np.concatenate([middle[:, d] - half[:, d], middle[:, d] + half[:, d]])
        # Ends are rounded: with those beside them, one of a few cuts lies where two parts overlap.
        ends = np.concatenate([intervals.down(ends), ends, intervals.up(ends)])
        edges.append(np.unique([low[d], *ends[(ends > low[d]) & (ends < high[d])], high[d]]))
    cells = [list(pairwise(edge)) or [(edge[0], edge[0])] for edge in edges]
    _require(np.prod([float(len(cell)) for cell in cells]) <= _MOST_CORNERS, f"{name}: it has too many parts")
    for cell in product(*cells):
        below, above = (np.array(end) for end in zip(*cell, strict=True))
        held = (add_up(middle, -below) <= half) & (add_up(above, -middle) <= half)
        _require(bool(np.logical_and.reduce(held, axis=1).any()), f"{name}: its first sets must hold it")


def _is_box(generators: Array) -> bool:
    """Whether there is at most one generator along each axis, and none elsewhere."""
    return bool(((generators != 0).sum(axis=0) <= 1).all() and ((generators != 0).sum(axis=1) <= 1).all())


def _task(
    claim: Claim, move: dict[str, Any], before: _Set, after: _Set, controls: list[Array], place: str
) -> Task:
    schema = claim.schema
    dx, inputs = len(schema.states), len(schema.inputs)
    low, high = controls
    middle = np.clip(0.5 * low + 0.5 * high, low, high)
    half = np.where(low == high, 0.0, np.maximum(intervals.up(high - middle), intervals.up(middle - low)))
    # What the model loses where it brings a control that is an angle back to [-π, π).
    size = np.maximum(np.abs(low), np.abs(high))
    turning = schema.input_angles[dx:] & (size >= np.pi)
    half = np.where(turning, add_up(half, 4 * ROUNDOFF * (size + 2 * np.pi)), half)
    center = np.concatenate([before.center, middle])
    moved = np.zeros((inputs, before.generators.shape[1] + len(middle)))
    moved[:dx, : before.generators.shape[1]] = before.generators
    moved[dx:, before.generators.shape[1] :] = np.diag(half)
    radius = _total(np.abs(moved))
    hull = add_down(center, -radius), add_up(center, radius)
    _check_inside(claim, hull, place)
    shapes = {"point": (inputs,), "turns": (inputs,), "value": (dx,), "slope": (dx, inputs)}
    line = {name: np.array(move[name], dtype=np.float64).reshape(shape) for name, shape in shapes.items()}
    whole = (line["turns"] == np.round(line["turns"])) & (np.abs(line["turns"]) < 1e6)
    _require(
        bool((whole & (schema.input_angles | (line["turns"] == 0))).all()), f"{place}: turns must be whole"
    )
    left = _left(claim, line, center, moved, after, np.array(move["kept"], dtype=np.int64), place)
    return Task(place, *hull, line["point"], line["turns"], line["value"], line["slope"], left)


def _check_inside(claim: Claim, hull: Interval, place: str) -> None:
    least, most = claim.box
    circle = claim.schema.input_angles & (least <= -np.pi) & (most >= np.nextafter(np.pi, 0.0))
    seen = ~claim.schema.input_angles | (hull[1] < np.pi)  # what is at π itself is seen at -π
    inside = ((hull[0] >= least) & (hull[1] <= most) & seen) | circle
    if not inside.all():
        name = what.shown(claim.schema.inputs[int(np.argmin(inside))])
        raise CertificateError(f"not verified: {place}: input {name} may leave the operating box.")


def _left(
    claim: Claim,
    line: dict[str, Array],
    center: Array,
    moved: Array,
    after: _Set,
    kept: NDArray[np.int64],
    place: str,
) -> Array:
    """(P,) of the next set's box, what the affine image and its roundings leave."""
    schema, (value, slope) = claim.schema, (line["value"], line["slope"])
    dx = len(value)
    turned = intervals.multiply((line["turns"], line["turns"]), _TURN)
    still = line["turns"] == 0
    turned = np.where(still, 0.0, turned[0]), np.where(still, 0.0, turned[1])
    way = intervals.subtract(intervals.subtract((center, center), turned), (line["point"], line["point"]))
    image: Interval = (value, value)
    columns: Interval = (np.zeros((dx, moved.shape[1])), np.zeros((dx, moved.shape[1])))
    for d in range(len(center)):
        own = slope[:, d]
        image = intervals.add(image, intervals.multiply((own, own), (way[0][d], way[1][d])))
        across = own[:, None] * np.ones(moved.shape[1])
        along = np.broadcast_to(moved[d], across.shape)
        columns = intervals.add(columns, intervals.multiply((across, across.copy()), (along, along.copy())))
    if claim.target == "increment":
        base = center[schema.advanced]
        image = intervals.add(image, (base, base))
        columns = intervals.add(columns, (moved[schema.advanced], moved[schema.advanced]))
    else:
        home = tuple(np.where(schema.output_angles, end[schema.advanced], 0.0) for end in turned)
        image = intervals.add(image, (home[0], home[1]))
    to = schema.advanced
    stated, generators = after.center[to], after.generators[to]
    box = after.generators[:, -dx:]
    _require(
        box.shape[1] == dx and np.array_equal(box, np.diag(np.diag(box))) and bool((np.diag(box) >= 0).all()),
        f"{place}: the set must end in a box",
    )
    _require(
        generators.shape[1] == len(kept) + dx
        and len(np.unique(kept)) == len(kept)
        and (kept < moved.shape[1]).all(),
        f"{place}: the generators that were kept must be named",
    )
    needed = _apart(image, stated)
    others = np.setdiff1d(np.arange(moved.shape[1]), kept)
    for column, one in enumerate(kept.tolist()):
        needed = add_up(needed, _apart((columns[0][:, one], columns[1][:, one]), generators[:, column]))
    for one in others.tolist():
        needed = add_up(needed, intervals.magnitude((columns[0][:, one], columns[1][:, one])))
    needed = add_up(needed, _wrapping(claim))
    return add_down(np.diag(box)[to], -needed)


def _apart(one: Interval, stated: Array) -> Array:
    return np.maximum(np.maximum(add_up(one[1], -stated), add_up(stated, -one[0])), 0.0)


def _wrapping(claim: Claim) -> Array:
    """(P,) what bringing a predicted angle back to [-π, π) can lose: k turns of 2π in float64.

    With a the prediction and u the roundoff: 2π is off by 0.4 u of it, the product and the difference by u of
    theirs, and where the result is not below π it is made -π, within as much: 16 u (|a| + 2π) in all, and
    more.
    """
    output, claimed = claim.trees.owner, claim.claimed
    reach = np.maximum(*(np.abs(end - claim.bounds("reference")) for end in claim.box))
    size = np.abs(claim.bounds("value")) + np.abs(claim.bounds("slope")) @ reach
    most = np.zeros(len(claim.schema.outputs))
    np.maximum.at(most, output[claimed], size[claimed])
    most = (most + claim.bounds("half_width").max(axis=0) + 2 * np.pi) * (1 + 1e-9)
    return np.where(claim.schema.output_angles, 16 * ROUNDOFF * (most + 2 * np.pi), 0.0)


def _require(holds: bool | np.bool_, rule: str) -> None:
    if not holds:
        raise CertificateError(f"not verified: {rule}.")

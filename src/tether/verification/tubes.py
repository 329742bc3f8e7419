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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

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
from tether.verification.tubesteps import LESS_THAN_A_TURN, Task, first_unshown, first_untied
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
    *,
    policy: Callable[..., Any] | None = None,
    carried: Callable[..., Any] | None = None,
) -> TubeVerification:
    """Shows a tube again, sharing no code with what made it.

    Args:
        path: the tube's file.
        trusted: M.
        model: the model file or the folder of a run; by default where the tube's file says it is.
        progress: told (steps shown, steps to show).
        policy: of a tube with feedback; a file has its name only, and what is shown is shown of this one.
        carried: of a tube of a model that does not predict every state, likewise what the others follow.

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
    rules = Rules.of(claim.schema, content, policy, carried)
    tasks = _show(claim, held, program, rules, content, progress)
    ended = sum(row["ended"] is not None for row in content["starts"])
    own = content["weights"] is not None
    statement = (
        f"Each of {tasks} steps was shown again, {'for these' if own else 'whatever the'} weights, in "
        f"interval arithmetic on the {'network and the ' if own else ''}tether"
        f"{'' if program is None else ' and the trusted model'}{rules.words}."
    )
    if program is not None:
        # The steps rest on the distance to M that the model file states.
        statement = f"{statement} {verify(place, trusted).statement}"
    left = ("its words", "the deltas", *(["the system tube"] if content["system"] is not None else []))
    return TubeVerification(len(content["starts"]), tasks, ended, statement, left)


@dataclass(frozen=True, eq=False)
class Rules:
    """Columns that follow others: by a policy, and states by a rule; each a function and its program."""

    policy: Rule | None
    carried: Rule | None
    schema: Any

    @classmethod
    def of(
        cls,
        schema: Any,
        content: dict[str, Any],
        policy: Callable[..., Any] | None,
        carried: Callable[..., Any] | None,
    ) -> Rules:
        """Both must be given where the tube has them."""
        dx, du, outputs = len(schema.states), len(schema.controls), len(schema.outputs)
        feedback = content["controls"]["kind"] == "feedback"
        followed = not schema.rolls_out
        _require(
            (content.get("carried") is not None) == followed, "what states follow must be said, or nothing"
        )
        _require(
            not followed or (min(schema.advances) >= 0 and len(set(schema.advances)) == outputs),
            "every output must be the next value of a state",
        )
        for name, needed, given in (("policy", feedback, policy), ("carried", followed, carried)):
            if given is not None and not needed:
                raise ValueError(f"`{name}` must be left out: the tube has no use for it; got a function.")
            if needed and given is None:
                known = content["controls"].get("name") if name == "policy" else content["carried"]
                raise ValueError(f"`{name}` must be given: the tube is of {what.shown(known)}; got none.")
        own, rest = None, None
        if policy is not None and feedback:
            own = Rule.of(lambda x, _: policy(x), dx, 0, du, "policy")
        if carried is not None and followed:
            count = du + outputs
            rest = Rule.of(lambda x, z: carried(x, z[:, :du], z[:, du:]), dx, count, dx - outputs, "rule")
        return cls(own, rest, schema)

    @property
    def words(self) -> str:
        """What was used besides."""
        named = [("policy given", self.policy), ("rule given for the other states", self.carried)]
        return "".join(f" and the {name}" for name, used in named if used is not None)

    def first_unshown(self, steps: list[Step]) -> str | None:
        """What cannot be shown of them at the first step that fails; None where all can be."""
        schema, reason = self.schema, None
        if self.policy is not None:
            tasks = [step.policy for step in steps if step.policy is not None]
            angles = schema.input_angles[: len(schema.states)]
            reason = self.policy.first_unshown(angles, schema.controls, tasks)
        if reason is None and self.carried is not None:
            tasks = [step.carried for step in steps if step.carried is not None]
            names = tuple(schema.states[k] for k in _carried(schema))
            reason = self.carried.first_unshown(
                np.append(schema.input_angles, schema.output_angles), names, tasks
            )
        return reason


@dataclass(frozen=True, eq=False)
class Rule:
    """A function in NumPy of states (N, dx) and others (N, k), and its program."""

    function: Callable[..., Any]
    program: Any
    states: int
    name: str

    @classmethod
    def of(cls, function: Callable[..., Any], states: int, others: int, outputs: int, name: str) -> Rule:
        """Raises what cannot be read."""
        from tether.verification.graph import UnboundedError
        from tether.verification.tracing import trace

        try:
            return cls(function, trace(function, states, others, outputs), states, name)
        except UnboundedError as error:
            raise CertificateError(f"not verified: the {name} has {error}.") from None

    def first_unshown(
        self, angles: NDArray[np.bool_], names: tuple[str, ...], tasks: list[Task]
    ) -> str | None:
        """What cannot be shown of it at the first step that fails; None where all can be."""
        if not tasks:
            return None
        shown = list(map(what.shown, names))
        return self._misread(angles, tasks) or first_untied(self.program, angles, shown, tasks)

    def _misread(self, angles: NDArray[np.bool_], tasks: list[Task]) -> str | None:
        """Whether the function itself, at points of the sets, does what its program says."""
        from tether.verification.interpreter import enclose

        rng = np.random.Generator(np.random.PCG64DXSM(0x7ACE))
        low, high = (np.repeat([getattr(task, end) for task in tasks], 4, axis=0) for end in ("low", "high"))
        points = np.clip(low + rng.random(low.shape) * (high - low), low, high)
        turned = np.clip((points + np.pi) % (2 * np.pi) - np.pi, -np.pi, np.nextafter(np.pi, 0.0))
        points = np.where(angles, turned, points)
        found = enclose(self.program, points, points, slopes=False)
        values = np.asarray(self.function(points[:, : self.states], points[:, self.states :]))
        slack = 64 * ROUNDOFF * np.abs(values.T)
        wrong = (found.lower - slack > values.T) | (found.upper + slack < values.T)
        if not wrong.any():
            return None
        return (
            f"the {self.name} does not do at {points[np.argwhere(wrong)[0][1]].tolist()} what its code says"
        )


def _show(
    claim: Claim,
    held: Content,
    program: Any,
    rules: Rules,
    content: dict[str, Any],
    progress: Report | None,
) -> int:
    """How many steps were shown: of the tube, and of one for any weights that its boxes were cut by."""
    _recognise(claim, content, held.path)
    network, beside, shown = None, content.get("beside"), 0
    if content["weights"] is not None:
        network = FileNetwork(held)
        _require(network.digest == content["weights"], f"the tube is not of the weights in `{held.path}`")
    if beside is not None:
        _DOCUMENT(beside, "beside")
        _check_beside(content, beside)
        shown = _show(claim, held, program, rules, beside, progress)
    steps = list(_steps(claim, content))
    tasks = [step.model for step in steps]
    reason = rules.first_unshown(steps) or first_unshown(claim, program, tasks, progress, network)
    if reason is not None:
        raise CertificateError(f"not verified: {reason}.")
    return shown + len(tasks)


def _check_beside(content: dict[str, Any], beside: dict[str, Any]) -> None:
    """It must be for any weights, of the same starts and controls, and stand for itself."""
    same = all(content[name] == beside[name] for name in ("about", "steps", "start", "controls"))
    same = same and content.get("carried") == beside.get("carried")
    alone = beside["weights"] is None and beside.get("beside") is None
    _require(same and alone, "the tube beside it must be for any weights, from the same starts")
    _require(len(beside["starts"]) == len(content["starts"]), "the tube beside it must have as many starts")


def _model_file(path: Path, content: dict[str, Any], given: str | Path | None) -> Path:
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


def _steps(claim: Claim, content: dict[str, Any]) -> Iterator[Step]:
    """Everything but the model's distance from the lines is shown here; that is what tasks are for."""
    schema, steps, known = claim.schema, content["steps"], content["controls"]
    dx, du = len(schema.states), len(schema.controls)
    try:
        boxes = None
        if known["kind"] == "box":
            boxes = [
                np.array(known[end], dtype=np.float64).reshape(-1, steps, du) for end in ("lower", "upper")
            ]
        starts = [
            np.array(content["start"][end], dtype=np.float64).reshape(-1, dx) for end in ("lower", "upper")
        ]
        rows = content["starts"]
        others = (content.get("beside") or {}).get("starts", [None] * len(rows))
        if len(starts[0]) != len(rows) or (boxes is not None and boxes[0].shape != boxes[1].shape):
            raise ValueError("as many starts as tubes are needed")
        for k, row in enumerate(rows):
            own = None if boxes is None else [end[k if len(end) > 1 else 0] for end in boxes]
            yield from _row_steps(claim, row, k, steps, [end[k] for end in starts], own, others[k])
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise CertificateError(f"not verified: the file is not {_WHAT} ({what.shorten(error)}).") from None


def _row_steps(
    claim: Claim,
    row: dict[str, Any],
    number: int,
    steps: int,
    start: list[Array],
    controls: list[Array] | None,
    other: dict[str, Any] | None,
) -> Iterator[Step]:
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
            applied = None if controls is None else [end[t] for end in controls]
            yield _step(claim, part["moves"][t], own[t], own[t + 1], applied, place)


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


class Step(NamedTuple):
    """What must be shown of a step: of the model, of the policy, of the rule that states follow."""

    model: Task
    policy: Task | None
    carried: Task | None


def _step(
    claim: Claim, move: dict[str, Any], before: _Set, after: _Set, controls: list[Array] | None, place: str
) -> Step:
    schema = claim.schema
    inputs, outputs = len(schema.inputs), len(schema.outputs)
    if controls is None:
        own, policy = _with_policy(claim, move["feedback"], before, place)
    else:
        own, policy = _with_boxes(claim, before, controls), None
    hull = own.hull()
    _check_inside(claim, hull, place)
    line = _Line.of(move, "slope", outputs, schema.input_angles, place)
    image = line.image(own)
    if claim.target == "increment":
        at = schema.advanced
        image = image.plus((own.center[at], own.center[at]), (own.generators[at], own.generators[at]))
    else:
        home = tuple(np.where(schema.output_angles, end[schema.advanced], 0.0) for end in line.turned)
        still = np.zeros((outputs, own.generators.shape[1]))
        image = image.plus((home[0], home[1]), (still, still))
    kept, wrapping = np.array(move["kept"], dtype=np.int64), _wrapping(claim)
    known = (place, *hull, line.point, line.turns, line.value, line.slope)
    if schema.rolls_out:
        left = _left(image, after, kept, schema.advanced, place)
        return Step(Task(*known, add_down(left, -wrapping)), policy, None)
    box = np.array(move["carried"]["box"], dtype=np.float64).reshape(outputs)
    _require(
        bool((box >= 0).all() and np.isfinite(box).all()), f"{place}: what is predicted must be in a box"
    )
    image = image.with_box(box)
    wide = np.concatenate([own.generators, np.zeros((inputs, outputs))], axis=1)
    together = _Image((own.center, own.center), (wide, wide)).beside(image)
    rule = _Line.of(
        move["carried"],
        "gain",
        len(schema.states) - outputs,
        np.append(schema.input_angles, schema.output_angles),
        place,
    )
    carried = rule.of_image(together)
    to = np.concatenate([schema.advanced, _carried(schema)])
    left = _left(image.beside(carried), after, kept, to, place)
    _require(bool((left[:outputs] >= 0).all()), f"{place}: the set must hold what is predicted")
    low, high = together.hull()
    lost = _turning(schema.input_angles[_carried(schema)], carried.hull())
    rest = Task(
        place, low, high, rule.point, rule.turns, rule.value, rule.slope, add_down(left[outputs:], -lost)
    )
    return Step(Task(*known, add_down(box, -wrapping)), policy, rest)


def _with_boxes(claim: Claim, before: _Set, controls: list[Array]) -> _Set:
    """Inputs: states of a set, and controls anywhere between their ends."""
    dx, inputs = len(claim.schema.states), len(claim.schema.inputs)
    low, high = controls
    middle = np.clip(0.5 * low + 0.5 * high, low, high)
    half = np.where(low == high, 0.0, np.maximum(intervals.up(high - middle), intervals.up(middle - low)))
    # What the model loses where it brings a control that is an angle back to [-π, π).
    half = add_up(half, _turning(claim.schema.input_angles[dx:], (low, high)))
    moved = np.zeros((inputs, before.generators.shape[1] + len(middle)))
    moved[:dx, : before.generators.shape[1]] = before.generators
    moved[dx:, before.generators.shape[1] :] = np.diag(half)
    return _Set(np.concatenate([before.center, middle]), moved)


def _with_policy(claim: Claim, stated: dict[str, Any], before: _Set, place: str) -> tuple[_Set, Task]:
    """Inputs: states of a set, and controls tied to them as the file says; and what the policy must keep."""
    dx, du, angles = len(claim.schema.states), len(claim.schema.controls), claim.schema.input_angles
    line = _Line.of(stated, "gain", du, angles[:dx], place)
    follow = _Set.of(stated, du)
    columns = before.generators.shape[1]
    left = _left(line.image(before), follow, np.arange(columns), np.arange(du), place)
    moved = np.concatenate([before.generators, np.zeros((dx, du))], axis=1)
    own = _Set(np.concatenate([before.center, follow.center]), np.concatenate([moved, follow.generators]))
    low, high = before.hull()
    left = add_down(left, -_turning(angles[dx:], follow.hull()))
    return own, Task(place, low, high, line.point, line.turns, line.value, line.slope, left)


def _turning(angles: NDArray[np.bool_], ends: Interval) -> Array:
    """What a model loses where it brings angles back to [-π, π); nothing where they are there."""
    size = np.maximum(np.abs(ends[0]), np.abs(ends[1]))
    return np.where(angles & (size >= np.pi), 4 * ROUNDOFF * (size + 2 * np.pi), 0.0)


@dataclass(frozen=True, eq=False)
class _Image:
    """A zonotope of which centre (n,) and generators (n, m) are known within intervals."""

    center: Interval
    generators: Interval

    def plus(self, center: Interval, generators: Interval) -> _Image:
        """Moved."""
        return _Image(intervals.add(self.center, center), intervals.add(self.generators, generators))

    def with_box(self, half: Array) -> _Image:
        """With a box of as many generators more."""
        own = np.diag(half)
        parts = (np.concatenate([end, own], axis=1) for end in self.generators)
        low, high = parts
        return _Image(self.center, (low, high))

    def beside(self, other: _Image) -> _Image:
        """Both, of the same generators."""
        center, generators = (
            tuple(np.concatenate(pair) for pair in zip(one, two, strict=True))
            for one, two in ((self.center, other.center), (self.generators, other.generators))
        )
        return _Image((center[0], center[1]), (generators[0], generators[1]))

    def hull(self) -> Interval:
        """A box that holds it."""
        radius = _total(intervals.magnitude(self.generators))
        return add_down(self.center[0], -radius), add_up(self.center[1], radius)


@dataclass(frozen=True, eq=False)
class _Line:
    """``value + slope (s - point)``, with whole turns from the point to the set: (P,), (P, D), (D,), (D,)."""

    value: Array
    slope: Array
    point: Array
    turns: Array

    @classmethod
    def of(
        cls, stated: dict[str, Any], slope: str, outputs: int, angles: NDArray[np.bool_], place: str
    ) -> _Line:
        count = len(angles)
        shapes = {"value": (outputs,), slope: (outputs, count), "point": (count,), "turns": (count,)}
        parts = [np.array(stated[name], dtype=np.float64).reshape(shape) for name, shape in shapes.items()]
        turns = parts[-1]
        whole = (turns == np.round(turns)) & (np.abs(turns) < 1e6) & (angles | (turns == 0))
        finite = all(np.isfinite(part).all() for part in parts)
        _require(bool(whole.all()) and finite, f"{place}: turns must be whole, and lines finite")
        return cls(*parts)

    @property
    def turned(self) -> Interval:
        """(D,) the turns."""
        low, high = intervals.multiply((self.turns, self.turns), _TURN)
        still = self.turns == 0
        return np.where(still, 0.0, low), np.where(still, 0.0, high)

    def image(self, own: _Set) -> _Image:
        """Of a set."""
        return self.of_image(_Image((own.center, own.center), (own.generators, own.generators)))

    def of_image(self, own: _Image) -> _Image:
        """Of a set that is known within intervals."""
        way = intervals.subtract(intervals.subtract(own.center, self.turned), (self.point, self.point))
        shape = (len(self.value), own.generators[0].shape[1])
        center: Interval = (self.value, self.value)
        columns: Interval = (np.zeros(shape), np.zeros(shape))
        for d in range(len(self.point)):
            steep = self.slope[:, d]
            center = intervals.add(center, intervals.multiply((steep, steep), (way[0][d], way[1][d])))
            across = steep[:, None] * np.ones(shape[1])
            low, high = (np.broadcast_to(end[d], shape).copy() for end in own.generators)
            columns = intervals.add(columns, intervals.multiply((across, across.copy()), (low, high)))
        return _Image(center, columns)


def _carried(schema: Any) -> NDArray[np.int64]:
    """The states that are not predicted."""
    return np.setdiff1d(np.arange(len(schema.states)), schema.advanced)


def _check_inside(claim: Claim, hull: Interval, place: str) -> None:
    least, most = claim.box
    circle = claim.schema.input_angles & (least <= -np.pi) & (most >= np.nextafter(np.pi, 0.0))
    seen = ~claim.schema.input_angles | (hull[1] < np.pi)  # what is at π itself is seen at -π
    inside = ((hull[0] >= least) & (hull[1] <= most) & seen) | circle
    if not inside.all():
        name = what.shown(claim.schema.inputs[int(np.argmin(inside))])
        raise CertificateError(f"not verified: {place}: input {name} may leave the operating box.")


def _left(image: _Image, after: _Set, kept: NDArray[np.int64], to: NDArray[np.int64], place: str) -> Array:
    """(P,) of the next set's box, what an affine image and its roundings leave; `to` says of which states."""
    stated, generators = after.center[to], after.generators[to]
    count, columns = len(after.center), image.generators[0].shape[1]
    box = after.generators[:, -count:] if count else np.zeros((0, 0))
    _require(
        box.shape[1] == count
        and np.array_equal(box, np.diag(np.diag(box)))
        and bool((np.diag(box) >= 0).all()),
        f"{place}: the set must end in a box",
    )
    _require(
        generators.shape[1] == len(kept) + count
        and len(np.unique(kept)) == len(kept)
        and (kept < columns).all()
        and (kept >= 0).all(),
        f"{place}: the generators that were kept must be named",
    )
    needed, (low, high) = _apart(image.center, stated), image.generators
    for column, one in enumerate(kept.tolist()):
        needed = add_up(needed, _apart((low[:, one], high[:, one]), generators[:, column]))
    for one in np.setdiff1d(np.arange(columns), kept).tolist():
        needed = add_up(needed, intervals.magnitude((low[:, one], high[:, one])))
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

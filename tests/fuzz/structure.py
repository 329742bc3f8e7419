"""100,000 random programs of views, copies, in-place updates and structure: none may be enclosed wrongly.

    python tests/fuzz/structure.py --count 100000 --seed 0 --minutes 30

NumPy itself is the reference. Over single points the enclosure must hold NumPy's value and be narrow, so that a
copy taken for a view shows; over boxes it must hold NumPy's values at random points, and differences between
them must lie in the Jacobian's bounds times the step (the mean-value theorem, kinks included).
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from structure_programs import Program, write_program
from subject import EnclosureError, Tally, enclose, main

NARROW = 1e-9
POINTS = 5


class Unfit(Exception):
    """The program breaks the contract of a trusted model; nothing is promised of it."""


def evaluate(model, inputs: np.ndarray, dx: int) -> np.ndarray:
    """(N, P) NumPy's own values."""
    states, controls = np.array(inputs[:, :dx]), np.array(inputs[:, dx:])
    states.flags.writeable = controls.flags.writeable = False
    return np.array(model(states, controls), dtype=np.float64)


def reference(model, inputs: np.ndarray, dx: int) -> np.ndarray:
    """As `evaluate`, where the program is a model: deterministic, row by row, finite."""
    try:
        values = evaluate(model, inputs, dx)
        again = evaluate(model, inputs, dx)
        alone = np.concatenate([evaluate(model, inputs[k : k + 1], dx) for k in range(len(inputs))])
    except Exception as error:
        raise Unfit("raises") from error
    if values.ndim != 2 or values.shape != alone.shape or not np.isfinite(values).all():
        raise Unfit("shape or infinity")
    if not np.array_equal(values, again):
        raise Unfit("not deterministic")
    if not (np.abs(values - alone) <= 1e-9 * (1 + np.abs(values))).all():
        raise Unfit("rows are mixed")
    return values


def find(program: Program, inputs: np.ndarray, seed: int, tally: Tally | None = None) -> str | None:
    """What is wrong with the enclosure of a program; None: nothing. Raises EnclosureError, ValueError, Unfit."""
    rng = np.random.default_rng([seed, 1])
    dx = program.shape[0]
    model = program.build()
    values = reference(model, inputs, dx)
    radius = 10.0 ** rng.uniform(-7, -5, inputs.shape) * (rng.random(inputs.shape) < 0.9)
    lower, upper = np.concatenate([inputs, inputs - radius]), np.concatenate([inputs, inputs + radius])
    try:
        box = enclose(model, lower, upper, states=dx)
    except (EnclosureError, ValueError):
        raise
    except Exception as error:
        return f"crash: {type(error).__name__}: {error}"
    rows = len(inputs)
    if box.lower.shape != (2 * rows, values.shape[1]):
        return f"shape: {box.lower.shape} for {values.shape[1]} outputs"
    wrong = ~((box.lower[:rows] <= values) & (values <= box.upper[:rows]))
    if wrong.any():
        row, output = np.argwhere(wrong)[0]
        return (
            f"value: at {inputs[row].tolist()} output {output} is {values[row, output]!r}, enclosed by "
            f"[{box.lower[row, output]!r}, {box.upper[row, output]!r}]"
        )
    wide = box.upper[:rows] - box.lower[:rows] > NARROW * np.maximum(1.0, np.abs(values))
    if tally is not None:
        tally.counts["boxes"] += 2 * rows
        tally.counts["points"] += rows
        tally.counts["loose"] += bool(wide.any())
    found = search_boxes(model, box, (lower, upper), dx, rng, tally, slice(rows, None))
    return found or find_wide(model, inputs, dx, rng, tally)


def find_wide(
    model, inputs: np.ndarray, dx: int, rng: np.random.Generator, tally: Tally | None
) -> str | None:
    """The same over wide boxes, where conditions may be undecided; a refusal is counted apart."""
    radius = 10.0 ** rng.uniform(-3, -0.3, inputs.shape)
    boxes = (inputs - radius, inputs + radius)
    try:
        box = enclose(model, *boxes, states=dx)
    except (EnclosureError, ValueError):
        if tally is not None:
            tally.counts["refused when wide"] += 1
        return None
    except Exception as error:
        return f"crash: {type(error).__name__}: {error}"
    return search_boxes(model, box, boxes, dx, rng, tally, slice(None))


def search_boxes(model, box, boxes, dx: int, rng: np.random.Generator, tally, chosen: slice) -> str | None:
    lower, upper = boxes[0][chosen], boxes[1][chosen]
    share = rng.random((POINTS, *lower.shape))
    share[0], share[1] = 0.0, 1.0
    share[2] = np.round(share[2])
    points = np.clip(lower + share * (upper - lower), lower, upper)
    try:
        values = np.stack([evaluate(model, part, dx) for part in points])
    except Exception:
        return None
    low, high = box.lower[chosen], box.upper[chosen]
    wrong = np.isfinite(values) & ~((low <= values) & (values <= high))
    if wrong.any():
        k, row, output = np.argwhere(wrong)[0]
        return (
            f"value in a box: at {points[k, row].tolist()} output {output} is {values[k, row, output]!r}, enclosed by "
            f"[{low[row, output]!r}, {high[row, output]!r}] over {lower[row].tolist()} to {upper[row].tolist()}"
        )
    if tally is not None:
        tally.counts["boxes"] += len(lower) * (chosen == slice(None))
        tally.counts["points"] += POINTS * len(lower)
    return search_slopes(points, values, (box.jacobian_lower[chosen], box.jacobian_upper[chosen]))


def search_slopes(points: np.ndarray, values: np.ndarray, jacobian) -> str | None:
    """The mean-value theorem between consecutive points of each box, up to NumPy's rounding."""
    step = (points[1:] - points[:-1])[:, :, None, :]
    change = values[1:] - values[:-1]
    with np.errstate(all="ignore"):
        ends = np.stack([jacobian[0] * step, jacobian[1] * step])
        ends = np.where(step == 0, 0.0, ends)
        low, high = ends.min(axis=0).sum(axis=-1), ends.max(axis=0).sum(axis=-1)
    slack = 1e-11 * (1 + np.abs(values[1:]) + np.abs(values[:-1]) + np.abs(change))
    wrong = np.isfinite(change) & ~((low - slack <= change) & (change <= high + slack))
    if not wrong.any():
        return None
    k, row, output = np.argwhere(wrong)[0]
    return (
        f"slope: output {output} changes by {change[k, row, output]!r} from {points[k, row].tolist()} to "
        f"{points[k + 1, row].tolist()}, the Jacobian allows [{low[k, row, output]!r}, {high[k, row, output]!r}]"
    )


def minimise(program: Program, inputs: np.ndarray, seed: int, found: str) -> tuple[Program, str]:
    """The smallest program, one part at a time, that is wrong in the same way."""
    shrunk = True
    while shrunk:
        shrunk = False
        for candidate in program.smaller():
            try:
                outputs = evaluate(candidate.build(), inputs, program.shape[0]).shape[1]
                candidate = replace(candidate, shape=(*program.shape[:2], outputs))
                again = find(candidate, inputs, seed)
            except Exception:
                continue
            if again is not None and again.split(":")[0] == found.split(":")[0]:
                program, found, shrunk = candidate, again, True
                break
    return program, found


def run(tally: Tally, seed: int) -> None:
    program, inputs = write_program(seed)
    tally.counts["programs"] += 1
    if program is None:
        tally.counts["empty"] += 1
        return
    if tally.skips(program.source):
        return
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = find(program, inputs, seed, tally)
        except Unfit as unfit:
            tally.counts["not a model: " + str(unfit)] += 1
            return
        except (EnclosureError, ValueError) as error:
            tally.refuse(error, program.source)
            return
        tally.counts["accepted"] += 1
        if found is not None:
            program, found = minimise(program, inputs, seed, found)
            tally.fail(f"# seed {seed}: {found}\n{program.source}")


if __name__ == "__main__":
    main("structure", run, count=100_000)

"""What a forger does to a model over boxes: its trees, the numbers of its leaves, its words, its certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from boxed import Constant, Shape, boxed_model, predict, with_network

from tether.claims.certificate import certify
from tether.data import make_schema
from tether.evidence import Lipschitz, Proved
from tether.model import Model
from tether.model.single import single_precision
from tether.trusted import TrustedModel

Arrays = dict[str, np.ndarray]
Words = dict[str, Any]
SYSTEMS = 12


def _mixed(kind: int, weights: np.ndarray) -> Callable[..., np.ndarray]:
    def function(states, controls):
        mixed = np.concatenate([states, controls], axis=1) @ weights
        if kind == 0:
            return mixed + 0.3 * np.sin(2 * mixed)
        if kind == 1:
            return np.clip(mixed, -1.0, 1.0) * np.exp(-0.1 * mixed**2)
        if kind == 2:
            return np.pi + mixed / (1.5 + np.tanh(mixed))
        return np.abs(mixed - 0.2) + np.sqrt(np.maximum(mixed, 0.0))

    return function


def _trusted(seed: int) -> tuple[TrustedModel, int]:
    """M and its number of inputs; every sixth with constants of its Jacobian."""
    rng = np.random.default_rng(seed)
    inputs = int(rng.integers(2, 4))
    weights = rng.standard_normal((inputs, 2))
    if seed % 6 != 4:
        return TrustedModel(_mixed(seed % 4, weights)), inputs

    def jacobian(states, controls):
        mixed = np.concatenate([states, controls], axis=1) @ weights
        return (1 + 0.6 * np.cos(2 * mixed))[:, :, None] * weights.T

    bend = 1.2 * (weights**2).sum(axis=0) * (1 + 1e-9)
    return TrustedModel(_mixed(0, weights), jacobian=jacobian, jacobian_lipschitz=bend), inputs


@cache
def model_of(seed: int) -> tuple[Model, TrustedModel]:
    """A model over a box; what kind depends on the seed."""
    trusted, inputs = _trusted(seed)
    rng = np.random.default_rng(seed + 500)
    angles = ("y1",) if seed % 2 else ()
    schema = make_schema([f"s{k}" for k in range(inputs)], [], ["y0", "y1"])
    schema = replace(schema, outputs=("y0", "y1"), advances=(-1, -1), angles=angles)
    target = "next_state"
    if seed % 3 == 1:
        schema, target = replace(schema, advances=(0, 1)), "increment"
    pinned = np.full(inputs, np.nan)
    if seed % 4 == 3:
        pinned[1] = 0.25
    shape = Shape(
        target=target,
        leaves=14,
        room=0.05,
        most=np.inf if seed % 2 else 3.0,
        pinned=pinned,
        evidence=Lipschitz() if trusted.jacobian else Proved(),
        order=1 if trusted.jacobian or seed % 5 > 1 else 2,
    )
    return boxed_model(trusted, schema, np.full(inputs, -1.5), np.full(inputs, 1.25), rng, shape), trusted


@cache
def certificate_of(seed: int) -> dict[str, Any]:
    """What is certified of it."""
    model, trusted = model_of(seed)
    return certify(model, trusted, points_per_cell=4).as_dict()


# --- trees


def _inner(arrays: Arrays) -> np.ndarray:
    return np.flatnonzero(arrays["tree.cut"] >= 0)


def _node(rng: np.random.Generator, arrays: Arrays) -> int:
    inner = _inner(arrays)
    return int(rng.choice(inner)) if len(inner) else 0


def leave_a_gap(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    node = _node(rng, arrays)
    sides = ("left", "right") if rng.random() < 0.5 else ("right", "left")
    arrays[f"tree.{sides[0]}"][node] = arrays[f"tree.{sides[1]}"][node]


def overlap(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    """Two nodes lead to the same one."""
    arrays["tree.left"][_node(rng, arrays)] = arrays["tree.right"][_node(rng, arrays)]


def close_a_ring(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    node = _node(rng, arrays)
    arrays[f"tree.{rng.choice(['left', 'right'])}"][node] = rng.choice([node, arrays["tree.roots"][0]])


def swap_branches(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    """What hangs below two places, perhaps of two outputs, exchanged; maybe a ring."""
    one, two = (_node(rng, arrays) for _ in range(2))
    sides = [f"tree.{side}" for side in rng.choice(["left", "right"], 2)]
    arrays[sides[0]][one], arrays[sides[1]][two] = arrays[sides[1]][two], arrays[sides[0]][one]


def swap_roots(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    arrays["tree.roots"] = arrays["tree.roots"][::-1].copy()


def one_root(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    arrays["tree.roots"][1] = rng.choice([arrays["tree.roots"][0], 0, -1, len(arrays["tree.cut"])])


def swap_leaves(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    """Two leaves exchange their numbers, perhaps across outputs."""
    leaves = np.flatnonzero(arrays["tree.cut"] < 0)
    if not len(leaves):  # another forgery took the last of them
        return
    one, two = rng.choice(leaves, 2)
    left = arrays["tree.left"]
    left[one], left[two] = left[two], left[one]


def move_threshold(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    steps = [1e-300, 5e-324, 1e-16, 1e-12, 1e-6, 1e-3, 0.1, 0.7]
    arrays["tree.threshold"][_node(rng, arrays)] += rng.choice(steps) * rng.choice([-1, 1])


def set_threshold(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    values = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 1e300, -1.5, 1.25]
    arrays["tree.threshold"][rng.integers(len(arrays["tree.cut"]))] = rng.choice(values)


def other_cut(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    arrays["tree.cut"][rng.integers(len(arrays["tree.cut"]))] = rng.choice([-2, -1, 0, 1, 2, 3, 99])


def cut_nodes(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    kept = int(rng.integers(1, len(arrays["tree.cut"]) + 1))
    for name in ("cut", "threshold", "left", "right"):
        arrays[f"tree.{name}"] = arrays[f"tree.{name}"][:kept].copy()


def resize_box(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    """The whole box, or one side of it; perhaps so that thresholds lie outside."""
    factor, side = rng.choice([0.5, 1 - 1e-12, 1 + 1e-15, 1.001, 2.0, 1e30, np.nan, -1.0]), rng.choice(2)
    for name in (("lower",), ("upper",), ("lower", "upper"))[rng.integers(3)]:
        values = arrays[f"tree.{name}"]
        values[slice(None) if side else slice(1)] *= factor


# --- numbers of leaves and cells


def tighten(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    """Less than is true, by little or by much, in one leaf or in all."""
    share = 1 - 10.0 ** rng.uniform(-14, 0)
    values = arrays["bounds.remainder"]
    where = rng.random(len(values)) < rng.choice([0.1, 0.5, 1.1])
    values[where] *= share


def unclaim(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    """Leaves of which nothing is said, or that say nothing true."""
    where = rng.random(len(arrays["bounds.remainder"])) < rng.choice([0.1, 0.9])
    arrays["bounds.remainder"][where] = rng.choice([np.inf, np.inf, 0.0, 5e-324, np.nan, 1e101])


def other_room(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    name = str(rng.choice(["bounds.half_width", "bounds.most"]))
    arrays[name] = arrays[name] * rng.choice([0.0, 0.5, 2.0, 1e6, 1e99, np.nan, -1.0])


def less_most(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    arrays["bounds.most"][...] = rng.choice([0.0, 1e-300, 1e-3, 0.1, 1.0, np.inf])


def move_pinned(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    values = [np.nan, 0.0, 0.25, 0.2500001, 1.0, -1.5, 7.0, 1e99, np.inf]
    arrays["bounds.pinned"][rng.integers(len(arrays["bounds.pinned"]))] = rng.choice(values)


def move_model(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    """A's numbers, by little or by much; an angle by turns."""
    names = ["bounds.value", "bounds.slope", "bounds.reference", "bounds.curvature"]
    values = arrays[str(rng.choice([name for name in names if name in arrays]))]
    step = rng.choice([1e-16, 1e-13, 1e-9, 1e-4, 0.1, 2 * np.pi, 1e3, 1e140])
    where = rng.random(values.shape) < rng.choice([0.1, 1.1])
    values[where] += step * rng.choice([-1, 1])


def bend_otherwise(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    """Curvatures of other pairs, less or more of them, or some where there were none."""
    leaves, inputs = arrays["bounds.slope"].shape
    if "bounds.pairs" not in arrays or "bounds.curvature" not in arrays:
        arrays["bounds.pairs"] = np.array([[0, inputs - 1]])
        arrays["bounds.curvature"] = rng.choice([0.0, 1e-12, 0.1], (leaves, 1))
        return
    way = rng.integers(4)
    if way == 0:
        arrays["bounds.pairs"] = rng.permutation(arrays["bounds.pairs"])
    elif way == 1:
        arrays["bounds.pairs"] = arrays["bounds.pairs"][:, ::-1].copy()
    elif way == 2:
        arrays["bounds.curvature"] = arrays["bounds.curvature"] * rng.choice([0.0, 0.5, 1 + 1e-9, 2.0, -1.0])
    else:
        del arrays[str(rng.choice(["bounds.pairs", "bounds.curvature"]))]


def trade_reference(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    """The same A but for roundings, written from far away."""
    far = rng.choice([1.0, 1e3, 1e8, 1e12, 1e15]) * rng.standard_normal(len(arrays["bounds.reference"]))
    arrays["bounds.value"] += arrays["bounds.slope"] @ far
    arrays["bounds.reference"] += far


def other_frame(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    name = str(
        rng.choice(["frame.inputs.scale", "frame.outputs.scale", "frame.outputs.center", "cells.scale"])
    )
    with np.errstate(all="ignore"):
        arrays[name] = arrays[name] * rng.choice([1e-9, 0.5, 3.0, 1e9, 1e90, -1.0])


def other_words(rng: np.random.Generator, arrays: Arrays, words: Words) -> None:
    schema = words["schema"]
    options: list[tuple[Words, str, Any]] = [
        (words, "target", str(rng.choice(["increment", "next_state", "both"]))),
        (words, "evidence", str(rng.choice(["proved", "lipschitz", "certain"]))),
        (words, "kind", str(rng.choice(["boxes", "interval", "affine", "direct", "monotone"]))),
        (words, "blend", int(rng.choice([0, 3]))),
        (schema, "angles", [["y0", "y1"], ["y0"], ["y1"], [], ["s0"]][rng.integers(5)]),
        (schema, "advances", [[0, 0], [1, 0], [-1, 0], [-1, -1], [0, 1], [5, 0]][rng.integers(6)]),
        (schema, "outputs", [["y1", "y0"], ["y0"], ["y0", "y0"]][rng.integers(3)]),
        (schema, "states", schema["states"][::-1]),
    ]
    place, key, value = options[rng.integers(len(options))]
    place[key] = value


FORGERIES = (leave_a_gap, overlap, close_a_ring, swap_branches, swap_roots, one_root, swap_leaves, move_threshold,
             move_threshold, set_threshold, other_cut, cut_nodes, resize_box, tighten, tighten, tighten, tighten,
             unclaim, other_room, less_most, move_pinned, move_model, move_model, bend_otherwise, bend_otherwise,
             trade_reference, other_frame,
             other_words)  # fmt: skip


# --- certificates


def forge_certificate(rng: np.random.Generator, said: dict[str, Any]) -> str:
    """Changes one number or word of a certificate in place; the path to it."""
    places = list(_leaves_of(said, ()))
    path = places[rng.integers(len(places))]
    holder: Any = said
    for key in path[:-1]:
        holder = holder[key]
    old = holder[path[-1]]
    new: Any = f"{old}!"
    if isinstance(old, bool) or old is None:
        new = [1.0, "yes", not old][rng.integers(3)]
    elif isinstance(old, int | float):
        options = [old * (1 - 1e-9), old * 0.5, old + 1, 0.0, None, -1.0, "0"]
        new = options[rng.integers(len(options))]
    holder[path[-1]] = new
    # The same number by another name is no forgery; a truth value is no number.
    same = (
        isinstance(new, int | float) and isinstance(old, int | float) and type(old) is not bool and new == old
    )
    return "" if same else ".".join(str(key) for key in path)


def _leaves_of(content: Any, path: tuple[Any, ...]) -> Any:
    if isinstance(content, dict) and content:
        for key, value in content.items():
            yield from _leaves_of(value, (*path, key))
    elif isinstance(content, list | tuple) and content:
        for key, value in enumerate(content):
            yield from _leaves_of(value, (*path, key))
    else:
        yield path


OPEN = ("recheck", "trusted_name", "domain.coverage_D", "domain.coverage_omega", "band.missed", "concerns")
"""Fields that `verify` names as not vouched for, or that may be measured on any data."""


def is_open(path: str) -> bool:
    """Whether a field of a certificate may say anything."""
    return path.startswith(OPEN) or path.endswith(("held_out", "remainder.1"))


# --- the search


def drawn(model: Model, rng: np.random.Generator, points: int) -> np.ndarray:
    """Points of the leaves, many in corners and on faces."""
    tree = model.bounds.tree  # type: ignore[union-attr]
    lower, upper = tree.boxes()
    leaf = rng.integers(0, tree.leaves, points)
    share = rng.random((points, len(tree.lower)))
    edge = rng.random(share.shape) < rng.choice([0.0, 0.3, 1.0], (points, 1))
    share = np.where(edge, np.round(share), share)
    return np.clip(lower[leaf] + share * (upper[leaf] - lower[leaf]), lower[leaf], upper[leaf])


def refuted_in_float32(
    model: Model, trusted: TrustedModel, rng: np.random.Generator, points: int
) -> str | None:
    """A counter-example to the delta of the model executed in float32, in words; None if none was found."""
    outputs, dx = len(model.schema.outputs), len(model.schema.states)
    inputs = drawn(model, rng, points).astype(np.float32)
    exact = inputs.astype(np.float64)
    for value in (1e30, -1e30):
        try:
            single = single_precision(with_network(model, Constant(value, outputs)))
        except ValueError:
            return None
        found = predict(single, inputs)
        rows = found.in_domain.numpy()
        if not rows.any():
            return None
        values = trusted(exact[rows, :dx], exact[rows, dx:], model.schema)
        distance = model.schema.distance(found.next_states.double().numpy()[rows], values)
        beyond = distance > found.delta.double().numpy()[rows]
        if beyond.any():
            return f"in float32, at {inputs[rows][np.argmax(beyond.any(axis=1))].tolist()} delta is exceeded"
        if not (found.delta.double().numpy()[rows] <= single.tether.largest).all():
            return "in float32, a row's delta is above the largest"
    return None

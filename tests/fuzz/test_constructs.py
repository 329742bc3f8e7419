"""Every construct of the templates by itself: none wrong, those that models are made of accepted."""

import numpy as np
import pytest
import structure_templates as templates
from constructs import try_template
from subject import EnclosureError, Tally, bounded, trace

ALWAYS = {
    "np.zeros": ("{n} = np.zeros({x}.shape)\\n{n}[...] = {x}", "batch"),
    "scalars are copies": ("{n} = {w}[0]\\n{w}[0] = 0.25\\n{m} = {n} * 2.0", "row"),
    "splits are views": ("{n}, {m} = np.split({w}, [1], axis={ax})\\n{m} += {c}", "batch"),
    "full_like": ("{n} = np.full_like({x}, {y})", "batch"),
    "einsum": ('{n} = np.einsum("...i,...i->...", {x}, {xx})', "batch"),
}


def test_those_of_the_counter_examples():
    tally = Tally("constructs")
    for name, (template, kind) in ALWAYS.items():
        seen = try_template(template, kind, tally, 3)
        assert seen["accepted"] == seen.total() > 0, (name, seen)
    assert tally.wrong == 0


FOUND = (
    ("batch", "{n} = {w}.astype(float, copy=False)\\n{n} += {c}"),
    ("batch", '{n} = np.einsum("...i->...i", {w})\\n{n} += {c}'),
    ("row", '{n} = np.array([{x}, {xx}])\\n{m} = np.einsum("ij->ji", {n})\\n{m}[0] += {c}'),
    ("row", '{n} = np.zeros((2, 2))\\n{m} = np.einsum("ii->i", {n})\\n{m} += {c}'),
    ("batch", "{n} = np.max({w}, axis=())\\n{n} += {c}"),
    ("batch", "{n} = np.cumsum({x}, axis=-1)\\n{m} = {n}.ravel()\\n{m} += {c}"),
    ("batch", "{n} = np.full_like({x}, 1.0)\\nnp.put({n}, [0, 1], 2.0)\\n{n} = {n}[:1] + {x}"),
    ("row", "{n} = np.zeros(3)\\n{n}[0] = {v}\\n{m} = ({n}[1] < 1.0) + ({n}[2] < 1.0)"),
    ("row", "{n} = np.zeros(3)\\n{n}[0] = {v}\\n{m} = ~({n}[1] < 1.0)"),
    ("row", "{n} = np.array([{v}, 7])\\n{m} = ({n}[1] > 1) + ({n}[1] > 2)"),
    ("row", "{n} = ~({v}.item() > {c})"),
    ("row", "{n} = ~({x}.tolist()[0] > {c})"),
    ("batch", "{n} = {x} * 2.0 if {x}.dtype == np.float64 else {x} * 3.0"),
    ("batch", '{n} = {x} * 2.0 if {x}.dtype.kind == "f" else {x} * 3.0'),
    ("batch", "{n} = {x} * 2.0 if type({x}) is np.ndarray else {x} * 3.0"),
    ("batch", "{n} = {x} * 2.0 if {x}.flags.writeable else {x} * 3.0"),
    ("batch", "{n} = {x} * 2.0 if {x}.base is None else {x} * 3.0"),
    ("row", "{n} = {x} * 2.0 if isinstance({v}, float) else {x} * 3.0"),
    ("row", "{n} = {x} * 2.0 if type({v}) is np.float64 else {x} * 3.0"),
    ("row", "{n} = {x} * 2.0 if np.isscalar({v}) else {x} * 3.0"),
    ("row", '{n} = 1.0 if str({v}).startswith("-") else {v}'),
)


@pytest.mark.parametrize(("kind", "template"), FOUND)
def test_what_fuzzing_found_is_right_or_refused(kind, template):
    tally = Tally("constructs")
    try_template(template, kind, tally, 3)
    assert tally.wrong == 0, tally.failures[0]


def halved(s, u):
    """Ends for every number, but in how many rounds is anyone's guess."""
    rows = []
    for row in s:
        value = row[0]
        while value > 1.0:
            value = 0.5 * value
        rows.append([value])
    return np.array(rows)


def test_a_loop_without_a_known_end_is_refused():
    tally = Tally("constructs")

    def run(tally, seed):
        with pytest.raises(EnclosureError):
            trace(halved, states=1, controls=0)

    bounded(run, tally, 0, 10)
    assert tally.wrong == 0


def test_a_copy_of_every_kind_and_a_view_of_every_kind():
    tally = Tally("constructs")
    for template in (*templates.VIEWS, *templates.COPIES, *templates.SPLITS):
        try_template(template, "batch", tally, 1)
    assert tally.wrong == 0, "\n".join(tally.failures)


COUPLED = {
    "any": lambda s, u: s + 1.0 if (s[:, 0] > 0.5).any() else s * 1.0,
    "all": lambda s, u: s + 1.0 if np.all(s[:, 0] > 0.5) else s * 1.0,
    "largest": lambda s, u: s + 1.0 if s[:, 0].max() > 0.5 else s * 1.0,
    "loop": lambda s, u: s + 1.0 if any(x > 0.5 for x in s[:, 0]) else s * 1.0,
    "first row": lambda s, u: s + 1.0 if s[0, 0] > 0.5 else s * 1.0,
    "last row": lambda s, u: s + 1.0 if s[-1, 0] > 0.5 else s * 1.0,
    "neighbour": lambda s, u: np.where(s[::-1] > 0.5, s, 0.0),
    "sum": lambda s, u: s - s.mean(axis=0),
}


@pytest.mark.parametrize("name", COUPLED)
def test_rows_that_depend_on_one_another_are_refused(name):
    """By the trace itself: a condition that few rows meet passes any comparison at points."""
    with pytest.raises((EnclosureError, ValueError)):
        trace(COUPLED[name], states=2, controls=0)


VIEWS_OF_CONSTANTS = (
    ("row", "{n} = np.arange(3.0)\\n{m} = np.array({n}, copy=False)\\n{m} += {c}"),
    ("batch", "{n} = np.ones_like({x})\n{m} = np.real({n})\n{n} += {c}"),
    (
        "batch",
        "{n} = np.ones_like({x})\n{m} = np.lib.stride_tricks.sliding_window_view({n}, 1, axis=-1)\n{n} += {c}",
    ),
    ("row", "{m} = {x}[1].copy()\n{n} = [{m}, {c}]\n{n}[0] += 1.0"),
)


@pytest.mark.parametrize(("kind", "template"), VIEWS_OF_CONSTANTS)
def test_views_of_constants_are_right_or_refused(kind, template):
    tally = Tally("constructs")
    try_template(template, kind, tally, 3)
    assert tally.wrong == 0, tally.failures[0]

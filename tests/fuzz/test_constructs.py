"""Every construct of the templates by itself: none wrong, those that models are made of accepted."""

import numpy as np
import pytest
import structure_templates as templates
from constructs import try_template
from subject import EnclosureError, Tally, trace

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

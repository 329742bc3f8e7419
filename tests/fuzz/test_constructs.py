"""Every construct of the templates by itself: none wrong, those that models are made of accepted."""

import structure_templates as templates
from constructs import try_template
from subject import Tally

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

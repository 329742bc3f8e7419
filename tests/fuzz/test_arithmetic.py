"""A few arithmetic programs, in seconds; `python tests/fuzz/arithmetic.py` runs the fifty thousand."""

from dataclasses import replace

import arithmetic
import numpy as np
import pytest
from subject import main


def test_a_few_programs():
    tally = main("arithmetic", arithmetic.run, count=30, arguments=[])
    assert tally.wrong == 0, "\n".join(tally.failures)
    assert tally.counts["points"] > 500


def narrowed(model, *boxes, states):
    """Bounds a unit in the last place too narrow on either side."""
    box = arithmetic_enclose(model, *boxes, states=states)
    return replace(
        box,
        lower=np.nextafter(box.upper, np.inf, where=np.isfinite(box.upper), out=box.upper.copy()),
    )


arithmetic_enclose = arithmetic.enclose


def test_bounds_that_are_too_narrow_are_found(monkeypatch):
    monkeypatch.setattr(arithmetic, "enclose", narrowed)
    monkeypatch.setattr(arithmetic, "minimise", lambda program, case, found: (program, found))
    tally = main("arithmetic", arithmetic.run, count=60, arguments=["--failures", "5"])
    assert tally.wrong == 5


FOUND = {
    "mod of a large number": ((("percent", (1,), 1.0),), [0.3, 7.439467961868984e97]),
    "mod, many periods": ((("mod", (1,), 1e-3),), [0.3, -1e16]),
    "mod beyond int64": ((("percent", (1,), 0.1),), [0.3, 1e300]),
    "floor_divide beyond int64": ((("floor divide", (0,), 1.0),), [-1.7945112198180725e86, 0.3]),
    "a function of a folded constant": ((("integer power", (0,), 0), ("exp", (2,), None)), [-3.0, 0.3]),
    "a sum with a folded constant": (
        (("integer power", (0,), 0), ("add constant", (2,), 1 + 2.0**-52)),
        [0.1, 0.3],
    ),
    "hypot at 0": ((("hypot", (1, 1), None),), [2.0, 0.0]),
    "norm at 0": ((("norm", (1, 1), None),), [2.0, 0.0]),
    "a jump where a norm is 0": (
        (("norm", (1, 1), None), ("heaviside", (2,), None), ("multiply", (3, 0), None)),
        [2.0, 0.0],
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_fuzzing_found_is_right_or_refused(name):
    steps, place = FOUND[name]
    program = arithmetic.Program(2, steps, (1 + len(steps),))
    corner = np.array([place])
    try:
        found = arithmetic.find(program, corner, corner, corner[:, None])
    except arithmetic.EnclosureError:
        return
    assert found is None, found

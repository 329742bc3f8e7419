"""A few hundred arithmetic programs, in seconds; `python tests/fuzz/arithmetic.py` runs the fifty thousand."""

from dataclasses import replace

import arithmetic
import numpy as np
from subject import main


def test_a_few_hundred_programs():
    tally = main("arithmetic", arithmetic.run, count=500, arguments=["--minutes", "0.15"])
    assert tally.wrong == 0, "\n".join(tally.failures)
    assert tally.counts["points"] > 3000


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

"""A few dozen programs twice differentiated; `python tests/fuzz/curved.py` runs twenty thousand."""

import curved
import numpy as np
from subject import main


def test_a_few_programs():
    tally = main("curved", curved.run, count=25, arguments=[], seconds=120)
    assert tally.wrong == 0, "\n".join(tally.failures)
    assert tally.counts["points"] > 500
    assert tally.counts["bent"] > 10


def test_a_remainder_that_is_too_small_is_found(monkeypatch):
    true = curved.expand_boxes

    def understated(*arguments, **settings):
        leaves = true(*arguments, **settings)
        np.multiply(leaves.remainder, 0.3, out=leaves.remainder)
        return leaves

    monkeypatch.setattr(curved, "expand_boxes", understated)
    tally = main("curved", curved.run, count=60, arguments=["--failures", "3"])
    assert tally.wrong == 3


def test_second_derivatives_that_are_too_narrow_are_found(monkeypatch):
    true = curved.enclose_bend

    def understated(*arguments):
        found = true(*arguments)
        for pair, (low, high) in found.curves.items():
            found.curves[pair] = low + 0.3 * (high - low), high - 0.3 * (high - low)
        return found

    monkeypatch.setattr(curved, "enclose_bend", understated)
    tally = main("curved", curved.run, count=60, arguments=["--failures", "3"])
    assert tally.wrong == 3

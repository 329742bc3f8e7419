"""Each construct once, in seconds; `python tests/fuzz/constructed.py` runs millions of points."""

import constructed
from subject import main


def test_each_construct_once():
    names = len(constructed.SMOOTH) + len(constructed.JUMPING)
    tally = main("constructed", few, count=names, arguments=[])
    assert tally.wrong == 0, "\n".join(tally.failures)
    assert tally.counts["points"] > 20 * names


def few(tally, seed):
    constructed.run(tally, seed, boxes=6, points=5)


def test_ranges_that_are_too_narrow_are_found(monkeypatch):
    def narrowed(model, lower, upper):
        bounds = constructed.by_programs(model, lower, upper)
        return bounds._replace(lower=bounds.lower + 0.1 * (bounds.upper - bounds.lower))

    monkeypatch.setattr(constructed, "INTERPRETERS", {"programs": narrowed})
    tally = main("constructed", few, count=10, arguments=["--failures", "1"])
    assert tally.wrong == 1

"""A few random tubes; `python tests/fuzz/rolled.py` runs hundreds."""

import rolled
from subject import main


def test_a_few_tubes():
    tally = main("rolled", rolled.run, count=8, arguments=[], seconds=120)
    assert tally.wrong == 0, "\n".join(tally.failures)
    assert tally.counts["verified"] >= 5
    assert tally.counts["steps"] > 20

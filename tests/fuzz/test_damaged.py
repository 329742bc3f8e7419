"""Sixty damaged files on every run; `python tests/fuzz/damaged.py` takes as many as you like."""

import damaged
import mutations
import numpy as np


def test_damaged_files_are_refused_in_one_line():
    outcomes = damaged.explore(60, seed=20, jobs=1)
    assert len(outcomes) == 60
    wrong = [o for o in outcomes if o.wrong]
    assert not wrong, "\n".join(f"{o.number}: {o.subject}: {o.wrong}: {o.message}" for o in wrong)
    assert sum(outcome.code == 2 for outcome in outcomes) > 30, "or nothing was damaged"


def test_a_case_is_a_function_of_its_number():
    content = bytes(range(256))
    for mutation in (mutations.flip, mutations.cut, mutations.overwrite, mutations.remove):
        one, two = (mutation(np.random.default_rng([3, 4]), content) for _ in range(2))
        assert one == two

"""A few dozen programs of structure, in seconds; `python tests/fuzz/structure.py` runs the hundred thousand."""

import pytest
import structure
import structure_verified
from structure_programs import write_program
from subject import main


def test_a_few_dozen_programs():
    tally = main("structure", structure.run, count=50, arguments=[])
    assert tally.wrong == 0, "\n".join(tally.failures)
    assert tally.counts["accepted"] > 15


def test_some_programs_put_to_the_verifier():
    tally = main("structure_verified", structure_verified.run, count=12, arguments=[], seconds=120)
    assert tally.wrong == 0, "\n".join(tally.failures)
    assert tally.counts["accepted"] > 2


def test_the_same_seed_writes_the_same_program():
    one, two = write_program(7), write_program(7)
    assert one[0] == two[0] and (one[1] == two[1]).all()


@pytest.mark.parametrize("by", [1e-6, 1.0])
def test_an_enclosure_of_another_model_is_found(monkeypatch, by):
    """What is enclosed is `by` away from what runs."""
    true = structure.enclose
    monkeypatch.setattr(
        structure,
        "enclose",
        lambda model, *boxes, states: true(lambda s, u: model(s, u) + by, *boxes, states=states),
    )
    monkeypatch.setattr(structure, "minimise", lambda program, inputs, seed, found: (program, found))
    tally = main("structure", structure.run, count=60, arguments=["--failures", "5"])
    assert tally.wrong == 5

"""Random programs of views, copies and in-place updates: none of their twins may be said to be misread.

    python tests/fuzz/structure_twins.py --count 2000 --seed 0 --minutes 30

The programs themselves are followed rightly by both tracers (`structure.py`, `structure_verified.py`), so that
whatever is said of their twins is a false alarm, or a mistake that no other test has found.
"""

from __future__ import annotations

import warnings

import numpy as np
from structure import Unfit, reference
from structure_programs import write_program
from subject import EnclosureError, Tally, enclose_checked, main

from tether.trusted.reading import twins
from tether.verification.graph import UnboundedError
from tether.verification.tracing import trace
from tether.verification.twins import unlike_twins


def run(tally: Tally, seed: int) -> None:
    program, inputs = write_program(seed)
    tally.counts["programs"] += 1
    if program is None:
        return
    states, controls = program.shape[:2]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = program.build()
        try:
            outputs = reference(model, inputs, states).shape[1]
        except Unfit:
            tally.counts["not a model"] += 1
            return
        radius = np.full_like(inputs, 1e-3)
        try:
            enclose_checked(model, inputs - radius, inputs + radius, states=states)
            tally.counts["fit"] += 1
        except (EnclosureError, ValueError) as error:
            _look(tally, seed, program.source, str(error))
        try:
            sizes = states, controls, outputs
            traced = trace(model, *sizes, counts=(2,))
            _look(tally, seed, program.source, unlike_twins(model, traced, inputs, sizes, (2,)) or "")
            tally.counts["verify"] += 1
        except UnboundedError:
            tally.counts["refused by verify"] += 1


def _look(tally: Tally, seed: int, source: str, message: str) -> None:
    if "with other numbers in it" in message:
        tally.fail(f"# seed {seed}: {message}\n{source}")


def counted(tally: Tally) -> None:
    """Counts the points at which twins were compared, so that it shows if none are."""
    compared = twins._compared

    def count(*arguments):
        found = compared(*arguments)
        tally.counts["twins"] += 1
        tally.counts["twins compared"] += found[1] >= twins._ENOUGH
        return found

    twins._compared = count


if __name__ == "__main__":
    tally = Tally("")

    def once(given: Tally, seed: int) -> None:
        if not given.counts:
            counted(given)
        run(given, seed)

    main("structure_twins", once, count=2_000, seconds=300)

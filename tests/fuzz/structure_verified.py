"""Random programs of views, copies and in-place updates, put to verification's own tracer: none may be wrong.

    python tests/fuzz/structure_verified.py --count 2000 --seed 0 --minutes 30

NumPy itself is the reference: at points, its value must lie in the range of the program that was traced.
"""

from __future__ import annotations

import warnings

import numpy as np
from structure import Unfit, reference
from structure_programs import write_program
from subject import Tally, main

from tether.verification.graph import UnboundedError
from tether.verification.interpreter import enclose
from tether.verification.tracing import trace


def run(tally: Tally, seed: int) -> None:
    program, inputs = write_program(seed)
    tally.counts["programs"] += 1
    if program is None:
        tally.counts["empty"] += 1
        return
    states, controls = program.shape[:2]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = program.build()
        try:
            values = reference(model, inputs, states)
            traced = trace(model, states, controls, values.shape[1], counts=(2, 5))
        except Unfit as unfit:
            tally.counts["not a model: " + str(unfit)] += 1
            return
        except UnboundedError as error:
            tally.refuse(error, program.source)
            return
        tally.counts["accepted"] += 1
        found = enclose(traced, inputs, inputs, slopes=False)
    unknown = np.isnan(found.lower.T) | np.isnan(found.upper.T)
    wrong = ~unknown & ~((values >= found.lower.T) & (values <= found.upper.T))
    if wrong.any():
        row, output = np.argwhere(wrong)[0]
        what = f"output {output} at {inputs[row].tolist()} is {values[row, output]!r}"
        tally.fail(f"# seed {seed}: {what}\n{program.source}")


if __name__ == "__main__":
    main("structure_verified", run, count=2_000, seconds=300)

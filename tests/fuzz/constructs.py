"""Which constructs are accepted, one at a time: `python tests/fuzz/constructs.py` prints a table.

Every template of `structure_templates` is tried alone, as a batch and row by row, in a few variants. Wrong ones are
failures as in `structure`; refused ones are listed with their reason.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator

import numpy as np
import structure_templates as templates
from structure import Unfit, find, minimise
from structure_programs import write_program
from subject import EnclosureError, Tally, bounded, compile_kernels, reason_of

GROUPS = (
    "VIEWS",
    "COPIES",
    "SPLITS",
    "UPDATES",
    "CREATION",
    "REDUCTIONS",
    "CONDITIONS",
    "INTROSPECTION",
    "ROW_ONLY",
)


def try_template(template: str, kind: str, tally: Tally, variants: int) -> Counter[str]:
    """How often each outcome was seen."""
    seen: Counter[str] = Counter()
    for seed in range(8 * variants):
        if seen.total() == variants:
            break
        program, inputs = write_program([seed, len(template)], kind, template)
        if program is None:
            continue
        try:
            found = find(program, inputs, seed, tally)
            seen["accepted" if found is None else "WRONG"] += 1
            if found is not None:
                smallest, found = minimise(program, inputs, seed, found)
                tally.fail(f"# {found}\n{smallest.source}")
        except Unfit:
            continue
        except (EnclosureError, ValueError) as error:
            seen[reason_of(error)] += 1
    return seen


def table(tally: Tally, variants: int = 6) -> Iterator[tuple[str, str, str, Counter[str]]]:
    """(group, kind, template, outcomes) of every template that NumPy itself accepts."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for group in GROUPS:
            for template in dict.fromkeys(getattr(templates, group)):
                for kind in ("row",) if group == "ROW_ONLY" else ("batch", "row"):
                    seen: Counter[str] = Counter()

                    def run(tally: Tally, _: int, template=template, kind=kind, seen=seen) -> None:
                        seen.update(try_template(template, kind, tally, variants))

                    bounded(run, tally, 0, 10)
                    if seen:
                        tally.counts["constructs"] += 1
                        tally.counts["accepted"] += seen["accepted"] == seen.total()
                        yield group, kind, template, seen


if __name__ == "__main__":
    total = Tally("constructs")
    compile_kernels()
    for group, kind, template, seen in table(total):
        worst = [f"{count} x {reason}" for reason, count in seen.items() if reason != "accepted"]
        if worst:
            print(f"{group:13} {kind:5} {seen['accepted']}/{seen.total()}  {template}\n{'':26}{worst[0]}")
    print(total.summary())

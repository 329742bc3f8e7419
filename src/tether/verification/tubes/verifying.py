"""A tube of a file, shown again step by step from the file, the model file and M alone.

Of every step the file says the set it starts from, a zonotope, the line ``L(s) = value + slope (s -
point)`` that it goes by, and the set that it comes to: some of the generators moved by the line, and a box.
Shown is, in interval arithmetic:

- the set lies in the operating box;
- ``base(s) + L(s)``, and whatever the file's rounding has made of it, fits into the next set and leaves of
  its box, in each state, so much;
- the model's target is, whatever the weights, nowhere farther from L than that: over every leaf that is
  touched it is within the open half-width of A, and within delta of M, which is bounded by its derivatives;
  for the weights of the file alone it is A and what their network adds, cut off. Where that is
  not enough the set is cut in half, along the input that contributes most, and again; what still cannot be
  shown is refused.

So if every rollout is in one set it is in the next; and the boxes of the file hold all sets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tether.foundation import documents as what
from tether.foundation.errors import CertificateError
from tether.foundation.progress import Report
from tether.trusted import Function, TrustedModel, as_trusted
from tether.verification.claim import Claim
from tether.verification.content import Content, claim_of, read_content
from tether.verification.networks import FileNetwork
from tether.verification.tubes.distances import first_unshown
from tether.verification.tubes.document import DOCUMENT, WHAT, check_beside, model_file, recognise, require
from tether.verification.tubes.rows import all_steps
from tether.verification.tubes.rules import Rules
from tether.verification.verifying import check_program, verify


@dataclass(frozen=True)
class TubeVerification:
    """What was shown of a tube.

    Attributes:
        tubes: how many.
        moves: how many steps of sets, over all starts and parts of these.
        ended: how many end before the last step.
        statement: in a sentence.
        not_vouched: what the file says beside that was not shown.
    """

    tubes: int
    moves: int
    ended: int
    statement: str
    not_vouched: tuple[str, ...] = ()


def verify_tube(
    path: str | Path,
    trusted: TrustedModel | Function,
    model: str | Path | None = None,
    progress: Report | None = None,
    *,
    policy: Callable[..., Any] | None = None,
    carried: Callable[..., Any] | None = None,
) -> TubeVerification:
    """Shows a tube again, sharing no code with what made it.

    Args:
        path: the tube's file.
        trusted: M.
        model: the model file or the folder of a run; by default where the tube's file says it is.
        progress: told (steps shown, steps to show).
        policy: of a tube with feedback; a file has its name only, and what is shown is shown of this one.
        carried: of a tube of a model that does not predict every state, likewise what the others follow.

    Raises:
        CertificateError: a step cannot be shown; the message says which.
        StorageError: a file is not what it should be.
    """
    path = Path(path)
    content = what.read_json(path, DOCUMENT, WHAT)
    if content.get("beside") is not None:
        what.checked(content["beside"], DOCUMENT, path, WHAT, "beside")
    place = model_file(path, content, model)
    held = read_content(place)
    claim = claim_of(held)
    program = _program(claim, as_trusted(trusted)) if claim.level.by_code else None
    rules = Rules.of(claim, content, policy, carried)
    tasks = _show(claim, held, program, rules, content, progress)
    ended = sum(row["ended"] is not None for row in content["starts"])
    own = content["weights"] is not None
    statement = (
        f"Each of {tasks} steps was shown again, {'for these' if own else 'whatever the'} weights, in "
        f"interval arithmetic on the {'network and the ' if own else ''}tether"
        f"{'' if program is None else ' and the trusted model'}{rules.words}.{rules.assumed}"
    )
    if program is not None:
        # The steps rest on the distance to M that the model file states.
        statement = f"{statement} {verify(place, trusted).statement}"
    left = ("its words", "the deltas", *(["the system tube"] if content["system"] is not None else []))
    return TubeVerification(len(content["starts"]), tasks, ended, statement, left)


def _show(
    claim: Claim,
    held: Content,
    program: Any,
    rules: Rules,
    content: dict[str, Any],
    progress: Report | None,
) -> int:
    """How many steps were shown: of the tube, and of one for any weights that its boxes were cut by."""
    known = recognise(claim, content, held.path)
    network, beside, shown = None, content.get("beside"), 0
    if content["weights"] is not None:
        network = FileNetwork(held)
        require(network.digest == content["weights"], f"the tube is not of the weights in `{held.path}`")
    if beside is not None:
        check_beside(content, beside)
        shown = _show(claim, held, program, rules, beside, progress)
    steps = list(all_steps(known, content))
    tasks = [step.model for step in steps]
    reason = rules.first_unshown(steps) or first_unshown(known, program, tasks, progress, network)
    if reason is not None:
        raise CertificateError(f"not verified: {reason}.")
    return shown + len(tasks)


def _program(claim: Claim, trusted: TrustedModel) -> Any:
    """M's, for one row. It is tried on batches where the distance to M is shown again, or all is refused."""
    from tether.verification.graph import UnboundedError
    from tether.verification.proofs import target_program
    from tether.verification.tracing import trace

    schema = claim.schema
    try:
        sizes = len(schema.states), len(schema.controls), len(schema.outputs)
        program = target_program(trace(trusted.function, *sizes, counts=()), claim)
    except UnboundedError as error:
        raise CertificateError(f"not verified: the trusted model has {error}.") from None
    reason = check_program(claim, trusted, program)
    if reason is not None:
        raise CertificateError(f"not verified: {reason}.")
    return program

"""What columns follow in a tube: controls a policy, states that are not predicted a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.foundation import documents as what
from tether.foundation.errors import CertificateError
from tether.trusted import TrustedModel
from tether.trusted.rules import of_predictions, of_states
from tether.verification.claim import Claim
from tether.verification.graph import UnboundedError
from tether.verification.intervals import Array, Interval
from tether.verification.reading import Read, first_unlike, read
from tether.verification.tubes.distances import Task, first_beyond, first_untied
from tether.verification.tubes.document import require
from tether.verification.tubes.steps import Step, carried_states

_TRIED = 4096
"""Points of the sets at which a function is compared with the program that its code was read as."""


@dataclass(frozen=True, eq=False)
class Rules:
    """Columns that follow others: by a policy, and states by a rule; each a function and its program."""

    policy: Rule | None
    carried: Rule | None
    schema: Any

    @classmethod
    def of(
        cls,
        claim: Claim,
        content: dict[str, Any],
        policy: Callable[..., Any] | None,
        carried: Callable[..., Any] | None,
    ) -> Rules:
        """Both must be given where the tube has them."""
        schema = claim.schema
        dx, du, outputs = len(schema.states), len(schema.controls), len(schema.outputs)
        feedback = content["controls"]["kind"] == "feedback"
        followed = not schema.rolls_out
        require(
            (content.get("carried") is not None) == followed, "what states follow must be said, or nothing"
        )
        require(
            not followed or (min(schema.advances) >= 0 and len(set(schema.advances)) == outputs),
            "every output must be the next value of a state",
        )
        for name, needed, given in (("policy", feedback, policy), ("carried", followed, carried)):
            if given is not None and not needed:
                raise ValueError(f"`{name}` must be left out: the tube has no use for it; got a function.")
            if needed and given is None:
                known = content["controls"].get("name") if name == "policy" else content["carried"]
                raise ValueError(f"`{name}` must be given: the tube is of {what.shown(known)}; got none.")
        own, rest, places = None, None, _places(claim)
        if policy is not None and feedback:
            sizes = dx, 0, du
            own = Rule.of(of_states(policy), policy, sizes, places[:, :dx], "policy given")
        if carried is not None and followed:
            sizes = dx, du + outputs, dx - outputs
            given = "rule given for the other states"
            rest = Rule.of(of_predictions(carried, du), carried, sizes, places, given)
        return cls(own, rest, schema)

    @property
    def _used(self) -> list[Rule]:
        return [rule for rule in (self.policy, self.carried) if rule is not None]

    @property
    def words(self) -> str:
        """What was used besides."""
        return "".join(f" and the {rule.name}" for rule in self._used)

    @property
    def assumed(self) -> str:
        """What was tried of them and is not proved, in sentences."""
        return "".join(f" {rule.reading.assumed(rule.name)}" for rule in self._used)

    def first_unshown(self, steps: list[Step]) -> str | None:
        """What cannot be shown of them at the first step that fails; None where all can be."""
        schema, reason = self.schema, None
        if self.policy is not None:
            tasks = [step.policy for step in steps if step.policy is not None]
            angles = schema.input_angles[: len(schema.states)]
            limits = [step.limits for step in steps if step.limits is not None]
            reason = self.policy.first_unshown(angles, schema.controls, tasks) or self.policy.first_beyond(
                angles, schema.controls, tasks, limits
            )
        if reason is None and self.carried is not None:
            tasks = [step.carried for step in steps if step.carried is not None]
            names = tuple(schema.states[k] for k in carried_states(schema))
            reason = self.carried.first_unshown(
                np.append(schema.input_angles, schema.output_angles), names, tasks
            )
        return reason


@dataclass(frozen=True, eq=False)
class Rule:
    """A function in NumPy of states (N, dx) and others (N, k), and its program."""

    function: Callable[..., Any]
    reading: Read
    states: int
    name: str

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        written: Callable[..., Any],
        sizes: tuple[int, int, int],
        places: Array,
        name: str,
    ) -> Rule:
        """Read and tried as M is; `written` is what the function calls.

        Raises:
            CertificateError: its code is not known, or is not followed.
        """
        draw = (TrustedModel(written).source_digest or "").encode() + places.tobytes()
        try:
            return cls(function, read(function, sizes, places, draw), sizes[0], name)
        except UnboundedError as error:
            raise CertificateError(f"not verified: the {name} has {error}.") from None

    def first_unshown(
        self, angles: NDArray[np.bool_], names: tuple[str, ...], tasks: list[Task]
    ) -> str | None:
        """What cannot be shown of it at the first step that fails; None where all can be."""
        if not tasks:
            return None
        shown = list(map(what.shown, names))
        return self._misread(angles, tasks) or first_untied(self.reading.program, angles, shown, tasks)

    def first_beyond(
        self, angles: NDArray[np.bool_], names: tuple[str, ...], tasks: list[Task], limits: list[Interval]
    ) -> str | None:
        """The first step over whose set it may not keep to its limits; None where it does over all."""
        return first_beyond(self.reading.program, angles, list(map(what.shown, names)), tasks, limits)

    def _misread(self, angles: NDArray[np.bool_], tasks: list[Task]) -> str | None:
        """Whether the function itself, at points of the sets, does what its program says."""
        points = _inside(angles, tasks)
        try:
            values = np.asarray(self.function(points[:, : self.states], points[:, self.states :]))
        except Exception as error:
            return f"the {self.name} raises {type(error).__name__}: {what.shorten(error)}"
        known = self.reading.program
        found = first_unlike(known, points, values, beside=0.0, turning=np.zeros(values.shape[1], dtype=bool))
        if found is None:
            return None
        return f"the {self.name} does not do at {found.point.tolist()} what its code says"


def _places(claim: Claim) -> Array:
    """(N, D + P) points of the operating box: inputs, and what may be predicted there."""
    low, high = (np.append(end, end[claim.schema.advanced]) for end in claim.box)
    finite = np.isfinite(low) & np.isfinite(high)
    low, high = np.where(finite, low, -1.0), np.where(finite, high, 1.0)
    share = np.random.Generator(np.random.PCG64DXSM(0x7A1)).random((_TRIED, len(low)))
    return np.clip(low * (1 - share) + high * share, low, high)


def _inside(angles: NDArray[np.bool_], tasks: list[Task]) -> Array:
    """(N, D) points of sets, as functions see them."""
    rng = np.random.Generator(np.random.PCG64DXSM(0x7ACE))
    chosen = rng.integers(0, len(tasks), _TRIED)
    low, high = (np.array([getattr(task, end) for task in tasks])[chosen] for end in ("low", "high"))
    points = np.clip(low + rng.random(low.shape) * (high - low), low, high)
    turned = np.clip((points + np.pi) % (2 * np.pi) - np.pi, -np.pi, np.nextafter(np.pi, 0.0))
    return np.where(angles, turned, points)

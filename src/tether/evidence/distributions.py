"""What inputs a statistical claim is over, where that is the user's own: rows, a box, what a function draws.

Their words are in :mod:`tether.foundation.wording`. Those outside the domain are drawn again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tether.data import Array, Schema, check_known
from tether.data.frames import columns_of, is_frame
from tether.data.schema import check_matrix
from tether.foundation import wording
from tether.foundation.errors import CertificateError
from tether.trusted import TrustedModel

MOST_ROWS = 100_000
"""They are saved with a model, so that its claim can be tried again."""
Sampler = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Rows:
    """Each of the rows (N, D) given, with equal chance.

    Attributes:
        inputs: (N, D).
    """

    inputs: Array
    kind: ClassVar[str] = "rows"

    def draw(self, count: int, rng: np.random.Generator) -> Array:
        """(count, D) independent rows."""
        return self.inputs[rng.integers(0, len(self.inputs), count)]

    @property
    def words(self) -> str:
        """As a certificate has them."""
        digest = hashlib.sha256(np.ascontiguousarray(self.inputs).tobytes()).hexdigest()
        return wording.over_rows(len(self.inputs), digest)

    def saved(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What a model file holds of it: words and arrays."""
        return {"kind": self.kind}, {"inputs": self.inputs}


@dataclass(frozen=True, eq=False)
class Within:
    """Uniform in a box.

    Attributes:
        names: of the inputs.
        lower: (D,).
        upper: (D,).
    """

    names: tuple[str, ...]
    lower: Array
    upper: Array
    kind: ClassVar[str] = "box"

    def draw(self, count: int, rng: np.random.Generator) -> Array:
        """(count, D) independent points."""
        return rng.uniform(self.lower, self.upper, (count, len(self.lower)))

    @property
    def words(self) -> str:
        """As a certificate has them."""
        return wording.over_box(self.names, self.lower.tolist(), self.upper.tolist())

    def saved(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What a model file holds of it: words and arrays."""
        return {"kind": self.kind}, {"lower": self.lower, "upper": self.upper}


@dataclass(frozen=True, eq=False)
class Drawn:
    """What a function draws, ``(rng, count) -> (count, D)`` rows, each independent of the others.

    Attributes:
        name: of the function.
        digest: SHA-256 of its source, where Python can show it.
        function: itself; None where a file was read that cannot hold it.
        inputs: D.
    """

    name: str
    digest: str | None
    function: Sampler | None
    inputs: int
    kind: ClassVar[str] = "sampler"

    @classmethod
    def by(cls, function: Sampler, inputs: int) -> Drawn:
        """What this function draws."""
        known = TrustedModel(function)
        return cls(known.name, known.source_digest, function, inputs)

    def draw(self, count: int, rng: np.random.Generator) -> Array:
        """(count, D) what it draws."""
        if self.function is None:
            raise CertificateError(
                f"`over` must be the function `{self.name}`, over whose draws the claim is; a file cannot "
                "hold it. Pass it."
            )
        found = check_matrix("over", self.function(rng, count))
        if found.shape != (count, self.inputs):
            raise ValueError(
                f"`over` must draw rows of shape {(count, self.inputs)}; `{self.name}` drew {found.shape}."
            )
        return found

    def given(self, function: Sampler) -> Drawn:
        """With the function that a file could not hold.

        Raises:
            CertificateError: it is another one.
        """
        found = Drawn.by(function, self.inputs)
        if found.digest is None or (found.name, found.digest) != (self.name, self.digest):
            raise CertificateError(
                f"`over` must be the function `{self.name}`, as it was; got `{found.name}` of another source."
            )
        return found

    @property
    def words(self) -> str:
        """As a certificate has them."""
        return wording.over_drawn(self.name, self.digest)

    def saved(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What a model file holds of it: words and arrays."""
        columns = np.arange(self.inputs, dtype=np.float64)
        return {"kind": self.kind, "name": self.name, "sha256": self.digest}, {"columns": columns}


Over = Rows | Within | Drawn


def settled(over: Any, schema: Schema, *, data: Array, lower: Array, upper: Array, seed: int) -> Over | None:
    """What `over` of :class:`Statistical` says, of inputs with these names.

    Args:
        over: as it was given.
        schema: what the columns mean.
        data: (N, D) rows that the word `data` means.
        lower: (D,) of the box that the word `box` means.
        upper: (D,).
        seed: of which rows are kept of too many data.
    """
    if over is None or isinstance(over, Rows | Within | Drawn):
        return over
    if isinstance(over, str):
        if over == "data":
            return Rows(_thinned(data, seed))
        return Within(schema.inputs, lower, upper)
    if isinstance(over, Mapping):
        return _box(over, schema, lower, upper)
    if callable(over):
        return Drawn.by(over, len(schema.inputs))
    if is_frame(over):
        over = columns_of("over", over, schema.inputs)
    rows = check_matrix("over", getattr(over, "inputs", over), schema.inputs)
    if not 1 <= len(rows) <= MOST_ROWS:
        raise ValueError(
            f"`over` must have 1 to {MOST_ROWS:,} rows, which are saved with the model; got {len(rows):,}. "
            "Give fewer, or a function (rng, count) -> rows that picks among them."
        )
    return Rows(np.array(rows))


def described(over: Any) -> str:
    """What `over` was given as: another one reads otherwise, but for what a function refers to."""
    if isinstance(over, str):
        return over
    if isinstance(over, Rows | Within | Drawn):
        return over.words
    if isinstance(over, Mapping):
        return ", ".join(f"{name}: {span}" for name, span in sorted(over.items()))
    if callable(over):
        return Drawn.by(over, 0).words
    if is_frame(over):
        over = columns_of("over", over, sorted(map(str, over.columns)))
    return Rows(np.asarray(getattr(over, "inputs", over), dtype=np.float64)).words


def check_over(over: Any) -> None:
    """Raises where `over` is a word or a number that says nothing."""
    word = isinstance(over, str)
    if (word and over not in ("data", "box")) or (over is not None and not word and np.isscalar(over)):
        raise ValueError(
            f"`over` must be 'data', 'box', limits by name, rows, or a function (rng, count) -> rows; got "
            f"{over!r}."
        )


def read(noted: Mapping[str, Any] | None, arrays: Mapping[str, Array], names: tuple[str, ...]) -> Over | None:
    """What :meth:`saved` gave a file."""
    if noted is None:
        return None
    if noted["kind"] == "rows":
        return Rows(arrays["inputs"])
    if noted["kind"] == "box":
        return Within(names, arrays["lower"], arrays["upper"])
    return Drawn(noted["name"], noted["sha256"], None, len(names))


def _thinned(rows: Array, seed: int) -> Array:
    if len(rows) <= MOST_ROWS:
        return rows
    return rows[np.random.default_rng([seed, 0x0BE2]).permutation(len(rows))[:MOST_ROWS]]


def _box(limits: Mapping[str, Any], schema: Schema, lower: Array, upper: Array) -> Within:
    check_known("over", limits, "inputs", schema.inputs)
    low, high = lower.copy(), upper.copy()
    for name, span in limits.items():
        ends = span if isinstance(span, tuple | list) else (span, span)
        if len(ends) != 2 or not -np.inf < ends[0] <= ends[1] < np.inf:
            raise ValueError(f"`over` must have finite limits, low <= high; got {span} for '{name}'.")
        column = schema.inputs.index(name)
        low[column], high[column] = ends
    return Within(schema.inputs, low, high)

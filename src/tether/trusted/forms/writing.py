"""NumPy source for a model that came in another form: one function, one operation to a line.

All that follows (the reader, the tracers of both sides, digests, twins) works on this source as on any that a
user wrote. Arrays of weights are names in it; their digest is in its docstring, and so in that of the model.
"""

from __future__ import annotations

import hashlib
import linecache
import math
from collections.abc import Callable, Mapping, Sequence
from keyword import iskeyword
from typing import Any

import numpy as np

from tether.data import Array
from tether.trusted.forms.form import UntranslatedError

_functions: dict[Any, Callable[..., Any]] = {}
"""By digest: the same text and weights are the same function, so that what was seen of it is remembered."""


class Writer:
    """Lines of a function of columns; what was written before has its name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._known: dict[str, str] = {}

    def write(self, text: str) -> str:
        """The name of what `text` computes."""
        if text not in self._known:
            self._known[text] = f"v{len(self.lines)}"
            self.lines.append(f"{self._known[text]} = {text}")
        return self._known[text]

    def column(self, number: int) -> str:
        """An input."""
        return self.write(f"inputs[:, {number}]")


def number_text(value: Any) -> str:
    """A float64 number as Python writes it."""
    value = float(value)
    if not math.isfinite(value):
        raise UntranslatedError(f"this model has the constant {value!r}, which is not translated")
    return f"({value!r})" if value < 0 else repr(value)


def columns_function(writer: Writer, outputs: Sequence[str], *, inputs: int, form: str, name: str) -> Any:
    """The function whose outputs are columns that were written."""
    # An output that is a number has no rows of its own.
    texts = [text if text.startswith("v") else f"np.full(len(inputs), {text})" for text in outputs]
    body = [*writer.lines, f"return np.stack([{', '.join(texts)}], axis=1)"]
    return make_function(body, {}, inputs=inputs, form=form, name=name)


def make_function(
    body: Sequence[str],
    arrays: Mapping[str, Array],
    *,
    inputs: int | None,
    form: str,
    name: str,
) -> Callable[..., Any]:
    """A function of (states, controls), with its source where Python looks for it.

    Args:
        body: statements that may use `states`, `controls`, `inputs` (both, side by side), `np` and `arrays`.
        arrays: constants by name.
        inputs: how many inputs there must be; None: not known.
        form: what it was before, for its docstring.
        name: what it was called.
    """
    weights = hashlib.sha256()
    for key, array in sorted(arrays.items()):
        weights.update(f"{key} {array.shape} ".encode() + np.ascontiguousarray(array, dtype=float).tobytes())
    told = f" Arrays: {', '.join(sorted(arrays))}; SHA-256 {weights.hexdigest()}." if arrays else ""
    lines = [
        f'    """Translated from {form}: {plain(name)}.{told}"""',
        "    inputs = np.concatenate([states, controls], axis=1)",
    ]
    if inputs is not None:
        lines += [
            f"    if inputs.shape[1] != {inputs}:",
            f'        raise ValueError("the model takes {inputs} inputs (states and controls)")',
        ]
    return compiled(
        [*lines, *(f"    {line}" for line in body)], {k: _fixed(a) for k, a in arrays.items()}, name
    )


def compiled(lines: Sequence[str], names: Mapping[str, Any], name: str) -> Callable[..., Any]:
    """A function of (states, controls) of these lines, which may use `names` and `np`."""
    called = _identifier(name)
    source = "\n".join([f"def {called}(states, controls):", *lines]) + "\n"
    digest = hashlib.sha256(source.encode()).hexdigest()
    # What arrays hold is in the text, by their digest; what else is named may look alike and be another.
    key = digest, *(id(value) for value in names.values() if not isinstance(value, np.ndarray))
    if key not in _functions:
        place = f"<{called}, translated {digest[:12]}>"
        # No time of change: what is not a file is never looked for again.
        linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
        known: dict[str, Any] = {"np": np, "__name__": "translated", **names}
        exec(compile(source, place, "exec", dont_inherit=True), known)
        _functions[key] = known[called]
    return _functions[key]


def _identifier(name: str) -> str:
    """A name that a function may have."""
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)[:60]
    return plain if plain.isidentifier() and not iskeyword(plain) else f"model_{plain}"


def plain(name: str) -> str:
    """A name that may stand in a docstring."""
    return "".join(letter if letter.isalnum() or letter in "._- " else "_" for letter in name)[:80]


def _fixed(array: Array) -> Array:
    kept = np.array(array, dtype=np.float64)
    kept.flags.writeable = False
    return kept

"""A JAX function of one row, ``f(x (dx,), u (du,)) -> (P,)``, under `jax.jit`: its jaxpr, one by one.

What moves entries is done by JAX itself, on arrays of numbers that stand for them, so that it is right by
construction; what depends on no input is computed by JAX. M is the jaxpr in float64, with the numbers in it
as JAX has them: without ``jax_enable_x64`` these are of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tether.data import Array
from tether.foundation.documents import shorten
from tether.trusted.forms.form import Form, UntranslatedError, as_it_is, needed, refuse
from tether.trusted.forms.formulas import FORMULAS
from tether.trusted.forms.writing import Writer, columns_function, number_text
from tether.trusted.model import Translation, TrustedModel

_SINGLE = 1e-4
_MOST_ROUNDS = 10_000
_NAMES = {"max": "maximum", "min": "minimum", "logistic": "sigmoid"}
_MOVING = frozenset(
    {"reshape", "transpose", "broadcast_in_dim", "slice", "squeeze", "concatenate", "stack", "unstack",
     "tile", "gather", "dynamic_slice", "rev", "split", "expand_dims", "dynamic_update_slice", "scatter",
     "copy", "copy_p"}
)  # fmt: skip
_CALLS = (
    "pjit",
    "jit",
    "closed_call",
    "core_call",
    "remat",
    "checkpoint",
    "custom_jvp_call",
    "custom_vjp_call",
)
_LOGIC = {"and": "np.logical_and({0}, {1})", "or": "np.logical_or({0}, {1})", "not": "np.logical_not({0})"}
_REDUCED = {"reduce_sum": "{0} + {1}", "reduce_prod": "{0} * {1}", "reduce_max": "np.maximum({0}, {1})",
            "reduce_min": "np.minimum({0}, {1})"}  # fmt: skip


def _holds(value: Any) -> bool:
    # Functions under `jit` are of a compiled class of JAX's; others look like any function of Python's.
    return callable(value) and type(value).__module__.split(".")[0] in ("jax", "jaxlib")


def _read(function: Any, *, states: int | None = None, controls: int | None = None) -> TrustedModel:
    jax = needed("jax")
    if states is None or controls is None:
        raise ValueError(
            "`trusted` must come with its sizes where it is a JAX function; got none. Use "
            "tether.load_trusted(f, states=2, controls=1)."
        )
    kind = jax.dtypes.canonicalize_dtype(np.float64)
    given = [jax.ShapeDtypeStruct((count,), kind) for count in (states, controls)]
    try:
        closed = jax.make_jaxpr(function)(*given)
    except Exception as error:
        reason = str(error).strip().splitlines()[0].rstrip(".:")
        choosing = isinstance(error, jax.errors.ConcretizationTypeError)
        raise ValueError(
            f"`trusted` must be a JAX function of one row, (x ({states},), u ({controls},)) -> (outputs,); "
            f"it raised {type(error).__name__}: {reason}."
            + (" Let it choose by jnp.where or lax.cond." if choosing else "")
        ) from None
    if len(closed.out_avals) != 1 or len(closed.out_avals[0].shape) != 1:
        raise ValueError(
            "`trusted` must return one vector for a row; the JAX function returns something else."
        )
    name, tolerance = getattr(function, "__name__", "function"), 1e-9 if kind == np.float64 else _SINGLE
    try:
        made = _translated(jax, closed, states, controls, name)
    except UntranslatedError as error:
        return as_it_is(error, _row_by_row(jax, function), name)
    return TrustedModel(made, translation=Translation("JAX", _original(jax, function), tolerance))


def _translated(jax: Any, closed: Any, states: int, controls: int, name: str) -> Any:
    reading = _Reading(jax)
    columns = [reading.node(reading.writer.column(k)) for k in range(states + controls)]
    try:
        (outputs,) = reading.run(closed, [_Entries(columns[:states]), _Entries(columns[states:])])
        texts = [reading.texts[k] for k in reading.entries(outputs).ravel()]
    except UntranslatedError:
        raise
    except Exception as error:  # values of JAX's own kinds, such as keys of random numbers
        raise refuse("JAX function", f"what NumPy does not know ({shorten(error)})") from None
    return columns_function(reading.writer, texts, inputs=states + controls, form="JAX", name=name)


def _original(jax: Any, function: Any) -> Callable[[Array, Array], Array]:
    many = jax.jit(jax.vmap(function))
    return lambda states, controls: np.asarray(many(states, controls), dtype=np.float64)


def _row_by_row(jax: Any, function: Any) -> Callable[[Array, Array], Array]:
    """In float32 a batch may be rounded otherwise than a row, and not all can be mapped."""
    one = jax.jit(function)
    return lambda states, controls: np.stack(
        [np.asarray(one(*row), dtype=np.float64) for row in zip(states, controls, strict=True)]
    )


def _text(name: str, options: dict[str, Any], kind: Any) -> str:
    """A formula of entries."""
    if name == "integer_pow":
        power = options["y"]
        return f"{{0}} ** {power}" if power >= 0 else f"1.0 / {{0}} ** {-power}"
    if name == "rem":
        return "np.sign({0}) * (np.abs({0}) % np.abs({1}))"
    if name in _LOGIC and np.dtype(kind).kind == "b":
        return _LOGIC[name]
    text = FORMULAS.get(_NAMES.get(name, name), "")
    if not text or name == "where":
        raise refuse("JAX function", f"`{name}`")
    return text


def _chosen(condition: str, no: str, yes: str) -> str:
    if condition in ("True", "False"):
        return yes if condition == "True" else no
    return f"np.where({condition}, {yes}, {no})"


_OF_INTEGERS = frozenset({"add", "sub", "mul", "neg", "max", "min", "eq", "ne", "lt", "le", "gt", "ge"})
"""What is the same of whole numbers as of others; a division is not. Those there are count conditions."""


class _Entries:
    """An array whose entries are named in the source; numbers of these names."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = np.asarray(numbers, dtype=np.int32)


class _Reading:
    """Values are arrays of :class:`_Entries`, or NumPy's own where they depend on no input."""

    def __init__(self, jax: Any) -> None:
        self.jax, self.writer = jax, Writer()
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self.conditions: dict[int, int] = {}
        """Of numbers that are 1 where a condition holds and 0 elsewhere: that condition."""

    def node(self, text: str) -> int:
        """The number of a name or a constant."""
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]

    def _truth(self, holds: bool) -> str:
        return self.texts[self.node(str(holds))]

    def entries(self, value: Any) -> Any:
        """Numbers of all entries of a value; constants get theirs."""
        if isinstance(value, _Entries):
            return value.numbers
        array = np.asarray(value)
        texts = [str(bool(v)) if array.dtype == bool else number_text(v) for v in array.ravel()]
        return np.array([self.node(text) for text in texts], dtype=np.int32).reshape(array.shape)

    def run(self, closed: Any, given: Sequence[Any]) -> list[Any]:
        """What a jaxpr makes of these values."""
        jaxpr, known = closed.jaxpr, {}
        known.update(zip(jaxpr.constvars, map(np.asarray, closed.consts), strict=True))
        known.update(zip(jaxpr.invars, given, strict=True))

        def value_of(variable: Any) -> Any:
            return np.asarray(variable.val) if hasattr(variable, "val") else known[variable]

        for equation in jaxpr.eqns:
            found = self._equation(equation, [value_of(v) for v in equation.invars])
            known.update(zip(equation.outvars, found, strict=True))
        return [value_of(v) for v in jaxpr.outvars]

    def _equation(self, equation: Any, given: list[Any]) -> list[Any]:
        primitive, name, options = equation.primitive, equation.primitive.name, equation.params
        if name in _CALLS:
            inner = options.get("jaxpr", options.get("call_jaxpr"))
            if not hasattr(inner, "consts"):
                inner = self.jax.extend.core.ClosedJaxpr(inner, ())
            return self.run(inner, given)
        if name == "scan":
            return self._scan(options, given)
        if name == "while":
            return self._while(options, given)
        if name == "cond":
            return self._cond(options, given)
        if not any(isinstance(value, _Entries) for value in given):
            found = primitive.bind(*given, **options)
            return [np.asarray(v) for v in (found if primitive.multiple_results else [found])]
        if name in _MOVING:
            return self._moved(primitive, options, given)
        return [_Entries(self._computed(name, options, equation, given))]

    def _moved(self, primitive: Any, options: dict[str, Any], given: list[Any]) -> list[Any]:
        name = primitive.name
        # Where to: numbers that depend on no input. What: entries.
        places = {"gather": (1,), "scatter": (1,)}.get(name, ())
        if name in ("dynamic_slice", "dynamic_update_slice"):
            places = tuple(range(1 if name == "dynamic_slice" else 2, len(given)))
        if any(isinstance(given[k], _Entries) for k in places):
            raise refuse("JAX function", f"`{name}` at a place that depends on its inputs")
        whole = [v if k in places else self.entries(v) for k, v in enumerate(given)]
        if name == "gather" and options.get("fill_value") is not None:
            raise refuse("JAX function", "a gather that fills")
        if name == "gather":
            modes = self.jax.lax.GatherScatterMode
            # Places out of bounds would be filled with NaN: JAX would say so in the comparison.
            options = {**options, "mode": modes.CLIP, "fill_value": None}
        found = primitive.bind(*map(self.jax.numpy.asarray, whole), **options)
        return [_Entries(v) for v in (found if primitive.multiple_results else [found])]

    def _computed(self, name: str, options: dict[str, Any], equation: Any, given: list[Any]) -> Any:
        parts = [self.entries(value) for value in given]
        if name == "dot_general":
            return self._dot(parts, options["dimension_numbers"])
        if name in _REDUCED:
            return self._reduced(_REDUCED[name], parts[0], options["axes"])
        if name == "convert_element_type":
            return self._converted(options["new_dtype"], equation.invars[0].aval.dtype, parts[0])
        if name == "select_n":
            return self._elementwise(_chosen, parts)
        if name == "clamp":
            return self._elementwise(lambda a, x, b: f"np.minimum(np.maximum({x}, {a}), {b})", parts)
        kind = np.dtype(equation.invars[0].aval.dtype)
        if kind.kind in "iu" and (name not in _OF_INTEGERS or kind.itemsize < 4 or kind.kind == "u"):
            raise refuse("JAX function", f"`{name}` of {kind}, which is not what it is of real numbers")
        text = _text(name, options, kind)
        if name in ("ne", "eq"):
            # JAX asks so whether a number is NaN: no number of a model is.
            return self._elementwise(
                lambda a, b: self._truth(name == "eq") if a == b else text.format(a, b), parts
            )
        return self._elementwise(text.format, parts)

    def _elementwise(self, text: Callable[..., str], parts: list[Any]) -> Any:
        def one(*numbers: int) -> int:
            found = text(*(self.texts[k] for k in numbers))
            return self.node(found if found in self._numbers else self.writer.write(found))

        return np.vectorize(one, otypes=[np.int32])(*parts) if np.broadcast(*parts).size else parts[0]

    def _converted(self, new: Any, old: Any, part: Any) -> Any:
        if np.dtype(old).kind == "b" and np.dtype(new).kind in "if":
            found = self._elementwise(lambda condition: f"np.where({condition}, 1.0, 0.0)", [part])
            self.conditions.update(zip(np.ravel(found).tolist(), np.ravel(part).tolist(), strict=True))
            return found
        own = self.jax.dtypes.canonicalize_dtype(np.float64)
        floats = np.issubdtype(old, np.floating) and np.issubdtype(new, np.floating)
        # What a narrower one rounds off is not followed, and may matter where no comparison looks.
        if floats and np.dtype(new).itemsize >= own.itemsize:
            return part
        raise refuse("JAX function", f"numbers of {old} made {new}")

    def _reduced(self, text: str, part: Any, axes: Sequence[int]) -> Any:
        kept = [k for k in range(part.ndim) if k not in axes]
        rows = part.transpose(*kept, *axes).reshape(*(part.shape[k] for k in kept), -1)
        found = rows[..., 0]
        for k in range(1, rows.shape[-1]):
            found = self._elementwise(text.format, [found, rows[..., k]])
        return found

    def _dot(self, parts: list[Any], dimensions: Any) -> Any:
        (one_axes, two_axes), (one_batch, two_batch) = dimensions
        if one_batch or two_batch:
            raise refuse("JAX function", "a product of batches of matrices")
        one, two = parts
        left = [k for k in range(one.ndim) if k not in one_axes]
        right = [k for k in range(two.ndim) if k not in two_axes]
        shape = [one.shape[k] for k in left] + [two.shape[k] for k in right]
        rows = one.transpose(*left, *one_axes).reshape(int(np.prod([one.shape[k] for k in left])), -1)
        columns = two.transpose(*two_axes, *right).reshape(rows.shape[1], -1)
        found = [[self._inner(row, column) for column in columns.T] for row in rows]
        return np.array(found, dtype=np.int32).reshape(shape)

    def _inner(self, row: Any, column: Any) -> int:
        pairs = [(self.texts[a], self.texts[b]) for a, b in zip(row, column, strict=True)]
        terms = [f"{a} * {b}" for a, b in pairs if "0.0" not in (a, b)]
        return self.node(self.writer.write(" + ".join(terms)) if terms else "0.0")

    def _scan(self, options: dict[str, Any], given: list[Any]) -> list[Any]:
        """A loop of known length, written out."""
        fixed, carried, length = options["num_consts"], options["num_carry"], options["length"]
        if length > _MOST_ROUNDS:
            raise refuse("JAX function", f"a loop of {length} rounds")
        consts, carry, rows = given[:fixed], given[fixed : fixed + carried], given[fixed + carried :]
        outs: list[list[Any]] = []
        for k in reversed(range(length)) if options["reverse"] else range(length):
            own = [_Entries(v.numbers[k]) if isinstance(v, _Entries) else v[k] for v in rows]
            found = self.run(options["jaxpr"], [*consts, *carry, *own])
            carry = found[:carried]
            outs.append(found[carried:])
        if options["reverse"]:
            outs.reverse()
        stacked = [_Entries(np.stack([self.entries(v) for v in each])) for each in zip(*outs, strict=True)]
        return [*carry, *stacked]

    def _while(self, options: dict[str, Any], given: list[Any]) -> list[Any]:
        """A loop whose end depends on no input, written out."""
        asked, done = options["cond_nconsts"], options["body_nconsts"]
        of_condition, of_body, carry = given[:asked], given[asked : asked + done], given[asked + done :]
        for _ in range(_MOST_ROUNDS):
            (more,) = self.run(options["cond_jaxpr"], [*of_condition, *carry])
            if isinstance(more, _Entries):
                raise refuse("JAX function", "a loop that ends where its inputs say")
            if not more:
                return carry
            carry = self.run(options["body_jaxpr"], [*of_body, *carry])
        raise refuse("JAX function", f"a loop of more than {_MOST_ROUNDS} rounds")

    def _cond(self, options: dict[str, Any], given: list[Any]) -> list[Any]:
        branches, (index, *rest) = options["branches"], given
        if not isinstance(index, _Entries):
            return self.run(branches[int(np.clip(index, 0, len(branches) - 1))], rest)
        condition = self.conditions.get(int(index.numbers))
        if condition is None or len(branches) != 2:
            raise refuse("JAX function", "a branch by a whole number (`lax.switch`): use `jnp.where`")
        pairs = zip(*(self.run(branch, rest) for branch in branches), strict=True)
        chosen = np.int32(condition)
        return [
            _Entries(self._elementwise(_chosen, [chosen, self.entries(no), self.entries(yes)]))
            for no, yes in pairs
        ]


FORM = Form("jax", _holds, _read)

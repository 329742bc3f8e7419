"""What NumPy and math compute: by themselves of plain values, by the tracer where there is a symbol."""

from __future__ import annotations

import math
import types
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tether.trusted.reading.reader import Reader

Arguments = tuple[Any, ...]
Options = dict[str, Any]
_SPACES = (np, np.linalg, np.fft, np.polynomial.polynomial, np.lib.stride_tricks)
_UNKNOWN = frozenset(
    {"DataSource", "array2string", "array_repr", "array_str", "asmatrix", "asarray_chkfinite", "astype",
     "base_repr", "binary_repr", "bmat", "broadcast", "busday_count", "busday_offset", "can_cast",
     "common_type", "datetime_as_string", "datetime_data", "errstate", "flatiter", "format_float_positional",
     "format_float_scientific", "from_dlpack", "frombuffer", "fromfile", "fromiter", "frompyfunc",
     "fromregex", "fromstring", "genfromtxt", "get_include", "get_printoptions", "getbufsize", "geterr",
     "geterrcall", "info", "is_busday", "isfortran", "isscalar", "issubdtype", "iterable", "load", "loadtxt",
     "matrix", "may_share_memory", "memmap", "min_scalar_type", "mintypecode", "ndarray", "ndenumerate",
     "nditer", "nested_iters", "printoptions", "promote_types", "put_along_axis", "require", "result_type",
     "save", "savetxt", "savez", "savez_compressed", "set_printoptions", "setbufsize", "seterr",
     "seterrcall", "shares_memory", "show_config", "show_runtime", "test", "typename", "vectorize",
     "as_strided", "busdaycalendar", "recarray", "record", "chararray", "isdtype", "lexsort"}
)  # fmt: skip
"""What NumPy has besides what computes."""
_CHOOSING = frozenset(
    {"all", "amax", "amin", "any", "copyto", "max", "mean", "min", "nanmax", "nanmean", "nanmin", "nanprod",
     "nanstd", "nansum", "nanvar", "prod", "reduce", "std", "sum", "var"}
)  # fmt: skip
"""What takes `where`, and leaves nothing unset."""
_CLASSES = frozenset({np.poly1d, np.polynomial.Polynomial, np.dtype, np.finfo, np.iinfo, np.ndindex})


def _numpys() -> dict[int, Any]:
    """NumPy's functions that compute, by identity."""
    found: dict[int, Any] = {}
    kinds = (np.ufunc, type(np.sum), types.FunctionType, types.BuiltinFunctionType)
    for space in _SPACES:
        for name, value in vars(space).items():
            if isinstance(value, kinds) and not name.startswith("_") and name not in _UNKNOWN:
                found[id(value)] = value
    scalars = {kind for kind in np.sctypeDict.values() if kind not in (np.object_, np.void)}
    return found | {id(kind): kind for kind in (*_CLASSES, *scalars)}


NUMPYS = _numpys()
_MATH = {id(value): value for name, value in vars(math).items() if callable(value) and name[0] != "_"}


def is_native(function: Any) -> bool:
    """Whether a function is NumPy's or math's: it has no state, and may be handed around."""
    return id(function) in NUMPYS or id(function) in _MATH


def given(
    reader: Reader, name: str, arguments: Arguments, options: Options
) -> tuple[Arguments, Options, bool]:
    """Arguments as NumPy may be given them, and whether there is a symbol among them."""
    pairs = [reader.prepared(value, name) for value in arguments]
    named = {key: reader.prepared(value, name) for key, value in options.items()}
    symbolic = any(pair[1] for pair in (*pairs, *named.values()))
    return tuple(pair[0] for pair in pairs), {key: pair[0] for key, pair in named.items()}, symbolic


def computed(reader: Reader, function: Any, arguments: Arguments, options: Options) -> Any:
    """What NumPy or math computes: by itself of plain values, by the tracer where there is a symbol."""
    name = function.__name__
    arguments, options, symbolic = given(reader, name, arguments, options)
    if symbolic:
        return known(reader, reader.symbols.call(function, arguments, options))
    return natively(reader, function, function, arguments, options)


def natively(reader: Reader, name: Any, function: Any, arguments: Arguments, options: Options) -> Any:
    """What is computed of plain values, by whoever does it in M."""
    check_where(reader, getattr(function, "__name__", ""), function, arguments, options)
    try:
        result = function(*arguments, **options)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        reader.refuse_whole("it must not change what it did not make; it changes an array", "Copy it first")
    return reader.made(name, result, (*arguments, *options.values()))


def check_where(reader: Reader, name: str, function: Any, arguments: Arguments, options: Options) -> None:
    """Refuses `where` that leaves entries of a new array as the memory was."""
    if options.get("where", True) is True or name in _CHOOSING:
        return
    out = options.get("out")
    outs = out if type(out) is tuple else (out,)
    if type(function) is np.ufunc and len(arguments) > function.nin:
        outs = (*arguments[function.nin :], *(None,) * (function.nargs - len(arguments)))
    if any(part is None for part in outs):
        reader.refuse("it uses `where` without `out`, which leaves entries unset", "Use np.where")


def known(reader: Reader, result: Any) -> Any:
    """What the tracer gave: lists may be changed by M."""
    if type(result) is list:
        return reader.fresh([known(reader, part) for part in result])
    return result


def joined(reader: Reader, joiner: Any, index: Any) -> Any:
    """``np.c_[...]`` and its like."""
    given, symbolic = reader.prepared(index, "c_")
    if symbolic:
        return reader.symbols.call(joiner, (given,), {})
    return reader.made(joiner, joiner[given], (given,))

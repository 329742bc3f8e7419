"""How objects of classes of the user's are made: plain ones, dataclasses and named tuples."""

from __future__ import annotations

import dataclasses
import inspect
import types
from enum import Enum
from typing import TYPE_CHECKING, Any

from tether.trusted.reading.kinds import is_namedtuple
from tether.trusted.reading.objects import set_attribute, set_plainly

if TYPE_CHECKING:
    from tether.trusted.reading.reader import Reader


def construct(reader: Reader, kind: type, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """``kind(*arguments, **options)`` for a class of the user's."""
    if is_namedtuple(kind):
        return _named_tuple(reader, kind, arguments, options)
    if (
        issubclass(kind, Enum)
        or kind.__new__ is not object.__new__
        or type(kind).__call__ is not type.__call__
    ):
        reader.refuse(f"it makes a {kind.__name__}, which has a way of its own to be made")
    if hasattr(kind, "__del__"):
        reader.refuse(f"it makes a {kind.__name__}, which runs code when it is gone")
    if getattr(kind, "__abstractmethods__", None):
        raise TypeError(f"Can't instantiate abstract class {kind.__name__}")
    made = reader.fresh(object.__new__(kind))
    owner = next(part for part in kind.__mro__ if "__init__" in vars(part))
    if owner is object:
        if arguments or options:
            raise TypeError(f"{kind.__name__}() takes no arguments")
    elif _is_generated(owner):
        _initialize(reader, made, owner, arguments, options)
    else:
        if type(vars(owner)["__init__"]) is not types.FunctionType:
            reader.refuse(f"it makes a {kind.__name__}, which has a way of its own to be made")
        reader.call(vars(owner)["__init__"], made, *arguments, **options)
    return made


def _named_tuple(reader: Reader, kind: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    names, new = kind._fields, vars(kind).get("__new__")
    if not _is_plain_tuple(new, names):
        reader.refuse(f"it makes a {kind.__name__}, which has a way of its own to be made")
    defaults = _defaults(getattr(new, "__func__", new))
    values = _values(kind.__name__, names, arguments, options)
    missing = [name for name in names if name not in values and name not in defaults]
    if missing:
        raise TypeError(f"{kind.__name__}() is missing {missing}")
    return tuple.__new__(kind, [values.get(name, defaults.get(name)) for name in names])


def _is_plain_tuple(new: Any, names: tuple[str, ...]) -> bool:
    """Whether a `__new__` is what Python writes for a named tuple."""
    text = f"lambda _cls, {', '.join(names)}: _tuple_new(_cls, ({', '.join(names)},))"
    like = compile(text, "<named tuple>", "eval").co_consts[0]
    new = getattr(new, "__func__", new)
    code = getattr(new, "__code__", None)
    return (
        code is not None
        and _shape(code) == _shape(like)
        and new.__globals__.get("_tuple_new") == tuple.__new__
    )


def _shape(code: Any) -> tuple[Any, ...]:
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    kinds = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, counts, kinds


def _defaults(function: Any) -> dict[str, Any]:
    """The defaults of a function's arguments, by their names."""
    names, values = (
        function.__code__.co_varnames[: function.__code__.co_argcount],
        function.__defaults__ or (),
    )
    given = dict(zip(names[len(names) - len(values) :], values, strict=True))
    return given | (function.__kwdefaults__ or {})


def _values(name: str, names: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """Arguments by their names."""
    values = dict(zip(names, arguments, strict=False))
    if len(arguments) > len(names) or set(values) & set(options) or set(options) - set(names):
        raise TypeError(f"{name}() got arguments that it does not take")
    return values | options


def _code(function: Any) -> Any:
    code = getattr(function, "__code__", None)
    return None if code is None else (*_shape(code), code.co_consts)


def _is_generated(kind: type) -> bool:
    """Whether a class is a dataclass whose `__init__` is what Python writes for its fields."""
    if "__dataclass_fields__" not in vars(kind) or not vars(kind)["__dataclass_params__"].init:
        return False
    parameters = vars(kind)["__dataclass_params__"]
    fields = [
        (f.name, f.type, _field(f)) for f in vars(kind)["__dataclass_fields__"].values()
        if f._field_type is not dataclasses._FIELD_CLASSVAR  # type: ignore[attr-defined]
    ]  # fmt: skip
    names = {"__post_init__": None} if hasattr(kind, "__post_init__") else {}
    try:
        like = dataclasses.make_dataclass("Like", fields, frozen=parameters.frozen, namespace=names)
    except TypeError:
        return False
    return _code(vars(kind)["__init__"]) == _code(vars(like)["__init__"])


def _field(found: Any) -> Any:
    options = {"default": found.default, "default_factory": found.default_factory}
    options = {key: value for key, value in options.items() if value is not dataclasses.MISSING}
    if type(options.get("default")).__hash__ is None:
        options["default"] = None
    return dataclasses.field(**options, init=found.init, kw_only=found.kw_only)


def _initialize(
    reader: Reader, made: Any, kind: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    """What the `__init__` of a dataclass does."""
    fields = dataclasses.fields(kind)
    if len(fields) != len(kind.__dataclass_fields__):
        reader.refuse(f"it makes a {kind.__name__}, which has fields of special kinds")
    names = [f.name for f in fields if f.init and not f.kw_only]
    keywords = [f.name for f in fields if f.init and f.kw_only]
    values = _values(kind.__name__, names, arguments, {k: v for k, v in options.items() if k not in keywords})
    values |= {k: v for k, v in options.items() if k in keywords}
    defaults = _defaults(vars(kind)["__init__"])
    for f in fields:
        if not f.init and f.default_factory is dataclasses.MISSING:
            continue
        if f.name in values:
            value = values[f.name]
        elif f.default_factory is not dataclasses.MISSING:
            _check_factory(reader, kind, f)
            value = reader.call(f.default_factory)
        elif f.name in defaults:
            value = defaults[f.name]
        else:
            raise TypeError(f"{kind.__name__}() is missing `{f.name}`")
        if kind.__dataclass_params__.frozen:
            set_plainly(reader, made, f.name, value)
        else:
            set_attribute(reader, value, made, f.name)
    if hasattr(kind, "__post_init__"):
        reader.call(reader.attribute(made, "__post_init__"))


def _check_factory(reader: Reader, kind: Any, found: Any) -> None:
    """Refuses a field whose default is not what its class was made with."""
    init = vars(kind)["__init__"]
    cells = dict(zip(init.__code__.co_freevars, init.__closure__ or (), strict=True))
    names = f"_dflt_{found.name}", f"__dataclass_dflt_{found.name}__"
    held = [cells[name].cell_contents for name in names if name in cells]
    asked = not found.init or _defaults(init).get(found.name) is dataclasses._HAS_DEFAULT_FACTORY  # type: ignore[attr-defined]
    if held != [found.default_factory] or not asked:
        reader.refuse(f"it makes a {kind.__name__}, whose fields were changed")

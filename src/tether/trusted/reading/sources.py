"""From a function to its code rewritten: its source is found, compared with what runs, and compiled again."""

from __future__ import annotations
import __future__

import ast
import copy
import functools
import linecache
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

from tether.trusted.reading.rewriting import READER, UnreadableError, rewritten

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_codes: dict[int, tuple[CodeType, CodeType]] = {}
"""Code that was read before, by identity, and what became of it."""
_read: dict[int, CodeType] = {}
"""All code that asks a reader."""
_files: dict[tuple[str, int], File] = {}
FLAGS = functools.reduce(
    operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)
_NAME = f"{READER}function"
_MOST_FILES, _MOST_CODES = 64, 20_000
"""How much is remembered."""


@dataclass(frozen=True)
class File:
    """A source file as it was last seen.

    Attributes:
        lines: its text.
        tree: what it says.
        codes: what Python makes of it.
        functions: the tree of each function in it, and the class in whose body it stands.
    """

    lines: list[str]
    tree: ast.Module
    codes: tuple[CodeType, ...]
    functions: tuple[tuple[Any, str | None], ...]


def read(function: FunctionType, reader: Any) -> FunctionType:
    """The same function, each of whose operations is asked of `reader`.

    Raises:
        UnreadableError: its source cannot be had, is not what runs, or has in it what is not followed.
    """
    code = function.__code__
    if id(code) not in _codes:
        new = _rewritten(function, reader)
        _codes[id(code)] = code, new
        _read.update({id(part): part for part in inside(new)})
        _forget(_codes, _MOST_CODES)
        _forget(_read, _MOST_CODES)
    new = _codes[id(code)][1]
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    cells[READER] = CellType(reader)
    closure = tuple(cells[name] for name in new.co_freevars)
    found = FunctionType(new, function.__globals__, function.__name__, function.__defaults__, closure)
    found.__kwdefaults__ = function.__kwdefaults__
    if found.__builtins__ is not function.__builtins__:
        raise UnreadableError(f"`{code.co_name}` knows other functions of Python's", code.co_firstlineno)
    return found


def was_read(code: CodeType) -> bool:
    """Whether it is code that asks a reader."""
    return id(code) in _read


def _forget(remembered: dict[Any, Any], most: int) -> None:
    """Drops what was remembered first."""
    while len(remembered) > most:
        del remembered[next(iter(remembered))]


def line_of(code: CodeType, number: int) -> str:
    """``file:line``."""
    return f"{Path(code.co_filename).name}:{number}"


def _rewritten(function: FunctionType, reader: Any) -> CodeType:
    code = function.__code__
    file = file_of(code, function.__globals__)
    if file is None:
        raise UnreadableError(f"the source of `{code.co_name}` cannot be read", code.co_firstlineno)
    if code not in file.codes:
        raise UnreadableError(f"the source of `{code.co_name}` is not what runs", code.co_firstlineno)
    with reader.aside():
        node, owner = _place(code, file.functions)
        changed = rewritten(copy.deepcopy(node), frozenset(code.co_freevars), owner)
        return _compiled(changed, code)


def file_of(code: CodeType, names: dict[str, Any]) -> File | None:
    """The file that a piece of code says it is of; None where it cannot be had, or is no Python."""
    lines, flags = linecache.getlines(code.co_filename, names), code.co_flags & FLAGS
    place = code.co_filename, flags
    known = _files.get(place)
    if known is not None and (known.lines is lines or known.lines == lines):
        return known
    try:
        tree = ast.parse("".join(lines))
        whole = compile(tree, code.co_filename, "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    if not lines:
        return None
    _files[place] = File(lines, tree, tuple(inside(whole)), tuple(_functions(tree, None)))
    _forget(_files, _MOST_FILES)
    return _files[place]


def inside(code: CodeType) -> Iterator[CodeType]:
    """A piece of code, and all that is made inside it."""
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from inside(part)


def _place(code: CodeType, functions: tuple[tuple[Any, str | None], ...]) -> tuple[Any, str | None]:
    """The tree of a function, and the class in whose body it stands.

    Of several on one line, it is the smallest in which all of the code's operations stand.
    """
    places = [place for place in code.co_positions() if None not in place and place[3]]
    found = [
        (node, owner)
        for node, owner in functions
        if _first_line(node) == code.co_firstlineno
        and getattr(node, "name", "<lambda>") == code.co_name
        and all(_holds(node, place) for place in places)
    ]
    if not found or (len(found) > 1 and not places):
        raise UnreadableError(f"the source of `{code.co_name}` cannot be read", code.co_firstlineno)
    return min(found, key=lambda pair: _extent(pair[0]))


def _functions(node: ast.AST, owner: str | None) -> Iterator[tuple[Any, str | None]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _FUNCTIONS):
            yield child, owner
        # A class stands around all functions in it, those inside others too.
        yield from _functions(child, child.name if isinstance(child, ast.ClassDef) else owner)


def _first_line(node: Any) -> int:
    decorators = getattr(node, "decorator_list", [])
    return decorators[0].lineno if decorators else node.lineno


def _holds(node: Any, place: Any) -> bool:
    """Whether an operation at (first line, last line, first column, last column) stands in a body."""
    if not isinstance(node, ast.Lambda):
        return True
    first, last, begin, end = place
    body = node.body
    return (body.lineno, body.col_offset) <= (first, begin) and (last, end) <= (
        body.end_lineno or 0,
        body.end_col_offset or 0,
    )


def _extent(node: Any) -> tuple[int, int]:
    lines = (node.end_lineno or 0) - node.lineno
    return lines, (node.end_col_offset or 0) - (node.col_offset if not lines else 0)


def _compiled(function: Any, code: CodeType) -> CodeType:
    """The code of a rewritten function, with the variables around it as free ones."""
    if isinstance(function, ast.AsyncFunctionDef):
        raise UnreadableError("it uses `async`", code.co_firstlineno)
    names = [ast.arg(name) for name in (READER, *code.co_freevars)]
    arguments = ast.arguments([], names, None, [], [], None, [])
    if isinstance(function, ast.FunctionDef):
        function.name = _NAME  # its own name, where it is used inside, is the one outside
    body: list[Any] = [ast.Return(function) if isinstance(function, ast.Lambda) else function]
    around = ast.FunctionDef("around", arguments, body, [], None)
    ast.copy_location(around, function)
    whole = ast.Module([_without_type_parameters(around)], [])
    ast.fix_missing_locations(whole)
    compiled = compile(whole, code.co_filename, "exec", code.co_flags & FLAGS, dont_inherit=True)
    (outer,) = (part for part in compiled.co_consts if isinstance(part, CodeType))
    (inner,) = (part for part in outer.co_consts if isinstance(part, CodeType))
    return inner.replace(co_name=code.co_name, co_qualname=code.co_qualname)


def _without_type_parameters(function: ast.FunctionDef) -> ast.FunctionDef:
    if "type_params" in function._fields:  # from Python 3.12 on
        function.type_params = []  # type: ignore[attr-defined]
    return function

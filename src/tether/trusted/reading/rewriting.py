"""A function's syntax tree, rewritten: each operation in it becomes a call of the reader.

Names, scopes, closures, comprehensions, `return` and `yield` stay Python's own. All that is done *to values*
goes through the reader, which the code knows by the name `READER`.
"""

from __future__ import annotations

import ast
from typing import Any

READER = "__reader__"
_SUPER = "__reader_super__"
_TEMPORARY = "__reader_{}__"
_BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_UNARY = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "~"}
_COMPARED = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.In: "in",
    ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
}  # fmt: skip
_REFUSED: dict[type[ast.AST], str] = {
    ast.Try: "it catches errors, or cleans up after them",
    ast.AsyncWith: "it uses `async`",
    ast.AsyncFor: "it uses `async`",
    ast.AsyncFunctionDef: "it uses `async`",
    ast.Await: "it uses `await`",
    ast.ClassDef: "it makes a class",
    ast.Match: "it matches patterns",
}
_BINDING = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
_GENERIC = frozenset(
    {"Callable", "Dict", "Iterable", "Iterator", "List", "Literal", "Mapping", "NDArray", "Optional",
     "Sequence", "Tuple", "Union", "dict", "frozenset", "list", "ndarray", "set", "tuple", "type"}
)  # fmt: skip
"""What is subscripted in annotations."""
for _name, _why in {"TryStar": "it catches errors", "TypeAlias": "it names a type"}.items():
    if hasattr(ast, _name):
        _REFUSED[getattr(ast, _name)] = _why


class UnreadableError(Exception):
    """Code that is not followed: why, and on which line."""

    def __init__(self, why: str, line: int) -> None:
        super().__init__(why)
        self.why, self.line = why, line


def rewritten(function: ast.FunctionDef | ast.Lambda, outside: frozenset[str], owner: str | None) -> ast.AST:
    """The function with every operation asked of the reader; without decorators and defaults.

    Args:
        function: its syntax tree, which is changed, and has nodes without places after that.
        outside: names of variables of the functions around it.
        owner: the class in whose body it stands, for names that begin with two underscores.
    """
    _check_names(function, outside)
    arguments = function.args
    arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
    for part in _parts(arguments):
        part.annotation = None
    if isinstance(function, ast.FunctionDef):
        function.decorator_list, function.returns = [], None
    return _Rewriter(owner).visit(function)


def _parts(arguments: ast.arguments) -> list[ast.arg]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [*every, *(part for part in (arguments.vararg, arguments.kwarg) if part is not None)]


def _check_names(function: ast.AST, outside: frozenset[str]) -> None:
    """Refuses what writes to variables that were there before, and names that are the reader's."""
    nodes = list(ast.walk(function))
    for node in nodes:
        names = [getattr(node, part, None) for part in ("id", "arg", "name", "asname")]
        if any(isinstance(name, str) and name.startswith("__reader_") for name in names):
            raise UnreadableError("it uses a name that begins with `__reader_`", getattr(node, "lineno", 0))
    shared: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Global):
            shared.update(dict.fromkeys(node.names, "global"))
        elif isinstance(node, ast.Nonlocal):
            shared.update({name: "nonlocal" for name in node.names if name in outside})
    for node in nodes if shared else ():
        for name in shared.keys() & (set() if node is function else _written(node)):
            why = f"it keeps something between calls, in the {shared[name]} variable `{name}`"
            raise UnreadableError(why, getattr(node, "lineno", 0))


def _written(node: ast.AST) -> set[str]:
    """The names that a part of the code assigns to, or deletes."""
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Load) else {node.id}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(part.asname or part.name).partition(".")[0] for part in node.names}
    return {node.name} if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else set()


class _Rewriter(ast.NodeTransformer):
    def __init__(self, owner: str | None) -> None:
        self._owner = owner.lstrip("_") if owner else ""
        self._count = 0
        self._super = False  # whether `super()` is used
        self._first: list[str] = []  # first arguments of the functions around, which `super()` means

    def visit(self, node: ast.AST) -> Any:
        """As in the base class; refuses what is not known to be followed."""
        if type(node) in _REFUSED:
            raise UnreadableError(_REFUSED[type(node)], getattr(node, "lineno", 0))
        return super().visit(node)

    def _ask(self, node: ast.AST, name: str, *arguments: Any) -> ast.Call:
        """A call of the reader, where the node stands."""
        given: list[Any] = [part if isinstance(part, ast.AST) else ast.Constant(part) for part in arguments]
        reader = ast.Attribute(ast.Name(READER, ast.Load()), name, ast.Load())
        return ast.copy_location(ast.Call(reader, given, []), node)

    def _temporary(self) -> str:
        self._count += 1
        return _TEMPORARY.format(self._count)

    def _mangled(self, name: str) -> str:
        private = self._owner and name.startswith("__") and not name.endswith("__")
        return f"_{self._owner}{name}" if private else name

    def _check_plain(self, node: Any, *names: str) -> None:
        """Refuses names of a class's own where Python's versions differ in what they are."""
        for name in names:
            if self._mangled(name) != name:
                raise UnreadableError(f"it uses the name `{name}` inside a class", node.lineno)

    def _all(self, nodes: list[Any]) -> list[Any]:
        return [self.visit(node) for node in nodes]

    # Operators ------------------------------------------------------------------------------------------

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        return self._ask(
            node, "binary", _BINARY[type(node.op)], self.visit(node.left), self.visit(node.right)
        )

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if isinstance(node.op, ast.Not):
            node.operand = self._ask(node.operand, "truth", self.visit(node.operand))
            return node
        if isinstance(node.operand, ast.Constant):
            return node
        return self._ask(node, "unary", _UNARY[type(node.op)], self.visit(node.operand))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """``x and y`` is ``y if x else x``, with x asked for once."""
        result = self.visit(node.values[-1])
        for value in reversed(node.values[:-1]):
            test, kept = self._ask(value, "holds", self.visit(value)), self._ask(value, "kept")
            branches = (result, kept) if isinstance(node.op, ast.And) else (kept, result)
            result = ast.copy_location(ast.IfExp(test, *branches), node)
        return result

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        names = [_COMPARED[type(operation)] for operation in node.ops]
        parts = self._all([node.left, *node.comparators])
        if len(names) == 1:
            return self._ask(node, "compare", names[0], *parts)
        if any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(node)):
            raise UnreadableError("it yields inside a comparison", node.lineno)
        return self._chain(node, names, parts[0], parts[1:])

    def _chain(self, node: ast.AST, names: list[str], left: Any, others: list[Any]) -> Any:
        """``a < b < c``: the reader keeps b, which is asked for once."""
        if len(names) == 1:
            return self._ask(node, "compare", names[0], left, others[0])
        test = self._ask(node, "holds", self._ask(node, "link", names[0], left, others[0]))
        rest = self._chain(node, names[1:], self._ask(node, "linked"), others[1:])
        return ast.copy_location(ast.IfExp(test, rest, self._ask(node, "broken")), node)

    # Truth ----------------------------------------------------------------------------------------------

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        node.test = self._ask(node.test, "truth", self.visit(node.test))
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        node.test = self._ask(node.test, "truth", self.visit(node.test))
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        return self.visit_If(node)  # type: ignore[arg-type]

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        node.test = self._ask(node.test, "truth", self.visit(node.test))
        node.msg = None if node.msg is None else self.visit(node.msg)
        return node

    def _block(self, statements: list[Any]) -> list[Any]:
        found: list[Any] = []
        for statement in statements:
            result = self.visit(statement)
            found += result if isinstance(result, list) else [result]
        return found

    # Values and their parts -----------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._mangled(node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self._ask(node, "attribute", self.visit(node.value), self._mangled(node.attr))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return self._ask(node, "item", self.visit(node.value), self.visit(node.slice))

    def visit_Slice(self, node: ast.Slice) -> ast.AST:
        limits = (node.lower, node.upper, node.step)
        return self._ask(node, "slice", *(None if part is None else self.visit(part) for part in limits))

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        node.value = self._ask(node.value, "iterate", self.visit(node.value))
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        given = self._all(node.args)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            given = [self._of_super(node)]
        call = self._ask(node, "call", self.visit(node.func), *given)
        for part in node.keywords:
            value = self.visit(part.value)
            self._check_plain(node, part.arg or "")
            part.value = value if part.arg is not None else self._ask(part.value, "mapping", value)
        call.keywords = node.keywords
        return call

    def _of_super(self, node: ast.Call) -> Any:
        """What `super()` means, where it is Python's own."""
        if len(self._first) != 1 or not self._first[0] or node.keywords:
            raise UnreadableError("it uses `super()` in a function inside another", node.lineno)
        own = ast.Compare(self._loaded(node, "super"), [ast.Is()], [self._loaded(node, _SUPER)])
        meant = [self._loaded(node, "__class__"), self._loaded(node, self._first[0])]
        both = ast.IfExp(own, ast.Tuple(meant, ast.Load()), ast.Tuple([], ast.Load()))
        self._super = True
        return ast.Starred(both, ast.Load())

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        node.value = self._ask(node.value, "text", self.visit(node.value))
        node.format_spec = None if node.format_spec is None else self.visit(node.format_spec)
        return node

    # Containers -----------------------------------------------------------------------------------------

    def visit_List(self, node: ast.List) -> ast.AST:
        node.elts = self._all(node.elts)
        return self._ask(node, "fresh", node)

    def visit_Set(self, node: ast.Set) -> ast.AST:
        node.elts = self._all(node.elts)
        return self._ask(node, "fresh", node)

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        values = []
        for key, value in zip(node.keys, node.values, strict=True):
            seen = self.visit(value)
            values.append(seen if key is not None else self._ask(value, "mapping", seen))
        node.keys = [None if key is None else self.visit(key) for key in node.keys]
        node.values = values
        return self._ask(node, "fresh", node)

    def visit_ListComp(self, node: Any) -> ast.AST:
        self._first.append("")
        node.generators = [part for whole in node.generators for part in self._generators(whole)]
        node.elt = self.visit(node.elt)
        self._first.pop()
        return self._ask(node, "fresh", node)

    visit_SetComp = visit_GeneratorExp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        self._first.append("")
        node.generators = [part for whole in node.generators for part in self._generators(whole)]
        node.key, node.value = self.visit(node.key), self.visit(node.value)
        self._first.pop()
        return self._ask(node, "fresh", node)

    def _generators(self, whole: ast.comprehension) -> list[ast.comprehension]:
        """``for a, (b, c) in d`` as one loop for each unpacking."""
        if whole.is_async:
            raise UnreadableError("it uses `async`", whole.target.lineno)
        found = self._bound(whole.target, self._ask(whole.iter, "iterate", self.visit(whole.iter)))
        found[-1].ifs = [self._ask(test, "truth", self.visit(test)) for test in whole.ifs]
        return found

    def _bound(self, target: Any, source: ast.AST) -> list[ast.comprehension]:
        """The loops that bind the names in a target, from left to right, to each value of a source."""
        if isinstance(target, ast.Name):
            return [ast.comprehension(self.visit(target), source, [], 0)]  # type: ignore[arg-type]
        name = self._temporary()  # one value after the other, which is then taken apart
        flat, rest = self._flat(target)
        found = [
            ast.comprehension(self._stored(target, name), source, [], 0),  # type: ignore[arg-type]
            ast.comprehension(flat, self._once(target, self._taken(target, name)), [], 0),  # type: ignore[arg-type]
        ]
        for part, name in rest:
            value: ast.expr = self._loaded(part, name)
            if isinstance(part, ast.Starred):
                part, value = part.value, self._ask(part, "fresh", value)
            found += self._bound(part, self._once(part, value))
        return found

    def _taken(self, node: ast.AST, name: str) -> ast.expr:
        return self._ask(node, "iterate", self._loaded(node, name))

    def _once(self, node: ast.AST, value: ast.expr) -> ast.AST:
        """A loop that goes through once, with one value."""
        return ast.copy_location(ast.Tuple([value], ast.Load()), node)

    def _loaded(self, node: ast.AST, name: str) -> ast.expr:
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def _stored(self, node: ast.AST, name: str) -> ast.expr:
        return ast.copy_location(ast.Name(name, ast.Store()), node)

    def _flat(self, target: ast.AST) -> tuple[ast.expr, list[tuple[ast.expr, str]]]:
        """A target of names alone, and for each part of the other the name that takes its place.

        Where all are names, they are themselves: Python assigns to them from left to right.
        """
        if not isinstance(target, ast.Tuple | ast.List):
            raise UnreadableError("it assigns to a part of something in a loop", getattr(target, "lineno", 0))
        if all(isinstance(part, ast.Name) for part in target.elts):
            return ast.copy_location(ast.Tuple(self._all(target.elts), ast.Store()), target), []
        flat: list[ast.expr] = []
        rest: list[tuple[ast.expr, str]] = []
        for part in target.elts:
            name, starred = self._temporary(), isinstance(part, ast.Starred)
            rest.append((part, name))
            stored = self._stored(part, name)
            flat.append(ast.copy_location(ast.Starred(stored, ast.Store()), part) if starred else stored)
        return ast.copy_location(ast.Tuple(flat, ast.Store()), target), rest

    # Statements -----------------------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> list[ast.AST]:
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return self._assigned(node, node.targets[0], value)
        name = self._temporary()
        found: list[ast.AST] = [ast.copy_location(ast.Assign([self._stored(node, name)], value), node)]
        for target in node.targets:
            found += self._assigned(node, target, self._loaded(node, name))
        return found

    def _assigned(self, node: ast.AST, target: ast.AST, value: ast.expr) -> list[ast.AST]:
        if isinstance(target, ast.Name):
            return [ast.copy_location(ast.Assign([self.visit(target)], value), node)]
        if isinstance(target, ast.Attribute):
            owner = self.visit(target.value)
            return [self._done(node, "set_attribute", value, owner, self._mangled(target.attr))]
        if isinstance(target, ast.Subscript):
            return [self._done(node, "set_item", value, self.visit(target.value), self.visit(target.slice))]
        if isinstance(target, ast.Starred):
            return self._assigned(node, target.value, self._ask(node, "fresh", value))
        flat, rest = self._flat(target)
        found: list[ast.AST] = [
            ast.copy_location(ast.Assign([flat], self._ask(node, "iterate", value)), node)
        ]
        for part, name in rest:
            found += self._assigned(node, part, self._loaded(node, name))
        return found

    def _done(self, node: ast.AST, name: str, *arguments: Any) -> ast.Expr:
        return ast.copy_location(ast.Expr(self._ask(node, name, *arguments)), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if any(isinstance(part, _BINDING) for part in ast.walk(node.annotation)):
            raise UnreadableError("it computes in an annotation: leave it out", node.lineno)
        if node.value is None:
            if not isinstance(node.target, ast.Name):
                raise UnreadableError("it annotates a part of something", node.lineno)
            node.target, node.annotation = self.visit(node.target), ast.Constant(None)
            return node  # the name is of this function
        return self._assigned(node, node.target, self.visit(node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.AST]:
        target, operation, value = node.target, f"{_BINARY[type(node.op)]}=", node.value
        if isinstance(target, ast.Name):
            before = self.visit(self._loaded(target, target.id))
            changed = self._ask(node, "augmented", operation, before, self.visit(value))
            return [ast.copy_location(ast.Assign([self.visit(target)], changed), node)]
        owner = self._temporary()
        found: list[ast.AST] = [self._noted(node, owner, self.visit(target.value))]
        if isinstance(target, ast.Attribute):
            part: Any = self._mangled(target.attr)
            names = "attribute", "set_attribute"
        else:
            index = self._temporary()
            found.append(self._noted(node, index, self.visit(target.slice)))
            part, names = self._loaded(node, index), ("item", "set_item")
        before = self._ask(node, names[0], self._loaded(node, owner), part)
        changed = self._ask(node, "augmented", operation, before, self.visit(value))
        return [*found, self._done(node, names[1], changed, self._loaded(node, owner), part)]

    def _noted(self, node: ast.AST, name: str, value: ast.expr) -> ast.AST:
        return ast.copy_location(ast.Assign([self._stored(node, name)], value), node)

    def visit_Delete(self, node: ast.Delete) -> list[ast.AST]:
        found: list[ast.AST] = []
        for target in node.targets:
            if isinstance(target, ast.Name):
                found.append(ast.copy_location(ast.Delete([self.visit(target)]), node))
            elif isinstance(target, ast.Subscript):
                found.append(
                    self._done(node, "delete_item", self.visit(target.value), self.visit(target.slice))
                )
            else:
                raise UnreadableError("it deletes an attribute", node.lineno)
        return found

    def visit_For(self, node: ast.For) -> ast.AST:
        node.iter = self._ask(node.iter, "iterate", self.visit(node.iter))
        first: list[Any] = []
        if isinstance(node.target, ast.Name):
            node.target = self.visit(node.target)
        else:
            name = self._temporary()
            first = self._assigned(node.target, node.target, self._loaded(node.target, name))
            node.target = self._stored(node.target, name)
        node.body, node.orelse = [*first, *self._block(node.body)], self._block(node.orelse)
        return node

    def visit_With(self, node: ast.With) -> list[ast.AST]:
        """Of what changes nothing but warnings, which the reader is asked to see: then the body alone."""
        found: list[ast.AST] = []
        for part in node.items:
            call = part.context_expr
            if not isinstance(call, ast.Call) or part.optional_vars is not None or call.args:
                raise UnreadableError("it uses `with`, which may hide errors", node.lineno)
            asked = self.visit(call)
            asked.func = self._ask(node, "silence", None).func
            found.append(ast.copy_location(ast.Expr(asked), node))
        return [*found, *self._block(node.body)]

    def visit_Global(self, node: Any) -> ast.AST:
        self._check_plain(node, *node.names)
        return node

    visit_Nonlocal = visit_Global

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.AST:
        node.value = self._ask(node.value, "iterate", self.visit(node.value))
        return node

    def visit_Import(self, node: ast.Import) -> list[ast.AST]:
        self._check_plain(node, *_written(node))
        return [*(self._done(node, "importing", part.name) for part in node.names), node]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.AST]:
        if node.level:
            raise UnreadableError("it imports relative to its package: import it at the top", node.lineno)
        self._check_plain(node, *_written(node), *(part.name for part in node.names))
        return [*(self._done(node, "importing", node.module, part.name) for part in node.names), node]

    # Functions ------------------------------------------------------------------------------------------

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._visit_arguments(node.args)
        self._first.append("")
        node.body = self.visit(node.body)
        self._first.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        if node.decorator_list:
            raise UnreadableError("it decorates a function inside", node.lineno)
        annotations = [part.annotation for part in _parts(node.args)]
        asked = [part for found in (*annotations, node.returns) for part in self._annotation(found)]
        node.name, node.returns = self._mangled(node.name), None
        self._visit_arguments(node.args)
        before = self._defaults_first(node.args) if asked else []
        extra: list[Any] = []
        if node.args.kwarg is not None:
            name = node.args.kwarg.arg
            extra = [self._noted(node, name, self._ask(node, "fresh", self._loaded(node, name)))]
        own = [*node.args.posonlyargs, *node.args.args]
        self._first.append(own[0].arg if own else "")
        body = self._block(node.body)
        self._first.pop()
        if self._super and not self._first:
            extra.append(ast.ImportFrom("builtins", [ast.alias("super", _SUPER)], 0))
        node.body = [*extra, *body]
        return [*before, *asked, node] if asked else node

    def _defaults_first(self, arguments: ast.arguments) -> list[ast.AST]:
        """Defaults worked out before annotations are, as Python does."""
        found: list[ast.AST] = []

        def noted(part: Any) -> Any:
            if part is None:
                return None
            name = self._temporary()
            found.append(self._noted(part, name, part))
            return self._loaded(part, name)

        arguments.defaults = [noted(part) for part in arguments.defaults]
        arguments.kw_defaults = [noted(part) for part in arguments.kw_defaults]
        return found

    def _annotation(self, node: ast.expr | None) -> list[ast.AST]:
        """What Python evaluates of an annotation of a function inside, where somebody's code may run."""
        if node is None or isinstance(node, ast.Name | ast.Constant):
            return []
        if isinstance(node, ast.Attribute):
            return [*self._annotation(node.value), ast.copy_location(ast.Expr(self.visit(node)), node)]
        if isinstance(node, ast.Tuple | ast.List):
            return [asked for part in node.elts for asked in self._annotation(part)]
        if (
            isinstance(node, ast.Subscript)
            and getattr(node.value, "id", getattr(node.value, "attr", "")) in _GENERIC
        ):
            return [*self._annotation(node.value), *self._annotation(node.slice)]
        raise UnreadableError("it computes in an annotation: leave it out", node.lineno)

    def _visit_arguments(self, arguments: ast.arguments) -> None:
        for part in _parts(arguments):
            part.annotation, part.arg = None, self._mangled(part.arg)
        arguments.defaults = self._all(arguments.defaults)
        arguments.kw_defaults = [None if part is None else self.visit(part) for part in arguments.kw_defaults]

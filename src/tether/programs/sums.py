"""Sums and products over entries, of which NumPy does not say in which order it adds."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import numpy as np

from tether.programs import graph as codes
from tether.programs.arrays import graph_of
from tether.programs.refusal import refuse
from tether.programs.scalars import Node, apply, as_constant, as_number, is_condition, make, multiply

_FLOATS = (float, np.float64)


class _Bag:
    """A sum of products whose order nobody knows; stands for an entry while NumPy multiplies and adds."""

    __slots__ = ("terms",)

    def __init__(self, terms: list[Any]) -> None:
        self.terms = terms

    def __add__(self, other: Any) -> _Bag:
        return self if not isinstance(other, _Bag) else _Bag(self.terms + other.terms)

    __radd__ = __add__

    def __mul__(self, other: Any) -> _Bag:
        if not isinstance(other, _Bag):
            if type(other) is not int or other != 1:  # what einsum starts from
                refuse("multiply", "of a constant that is no array here", "Make it one with np.array")
            return self
        return _Bag([(one, two) for one in self.terms for two in other.terms])

    __rmul__ = __mul__

    def conjugate(self) -> _Bag:
        """Itself: numbers here are real."""
        return self


def _factors(term: Any) -> list[Any]:
    return [*_factors(term[0]), *_factors(term[1])] if isinstance(term, tuple) else [term]


def _total(bag: Any, graph: Any) -> Any:
    """The sum of a bag: one node for all of it, however long."""
    if not isinstance(bag, _Bag):
        return 0.0  # nothing was added up
    products = [_factors(term) for term in bag.terms]
    roundings = max(len(factors) for factors in products)
    terms = [_multiplied(factors) for factors in products]
    # Zeros are exact in any order.
    terms = [term for term in terms if not _is_zero(term)]
    if len(terms) < 2 and roundings < 3:
        return terms[0] if terms else 0.0
    if not terms:
        return 0.0
    if len(terms) == 2 and roundings == 1:
        return apply(np.add, *terms)
    # Constants, too: NumPy adds them up in its own order.
    return make(graph, codes.SUM, *terms, value=float(len(terms) + 2 * roundings))


def _is_zero(term: Any) -> bool:
    if not isinstance(term, Node):
        return as_constant(term, "sum") == 0
    graph = term.graph
    return graph.operations[term.number] == codes.CONSTANT and graph.values[term.number] == 0


def _multiplied(factors: list[Any]) -> Any:
    if len(factors) > 1 and all(map(is_condition, factors)):
        refuse("matmul", "of conditions is another thing than of numbers", "Multiply by 1.0 first")
    if len(factors) == 2:  # nearly all of a network, so without questions to which the answer is known
        one, two = factors if type(factors[0]) is Node else factors[::-1]
        if type(one) is Node and not one.is_condition and type(two) in _FLOATS and isfinite(two):
            return multiply(one.graph, *factors)
    product = as_number(factors[0])
    for factor in factors[1:]:
        product = apply(np.multiply, product, as_number(factor))
    return product


def multiply_matrices(function: Callable[..., Any], operands: list[Any], options: dict[str, Any]) -> Any:
    """Products of matrices and the like: NumPy's own structure on bags, each then one sum."""
    if options:
        refuse(function.__name__, f"does not take {', '.join(sorted(options))}", "Leave it out")
    graph = graph_of(*operands)
    product = function(*map(_bags, operands))
    return np.frompyfunc(lambda bag: _total(bag, graph), 1, 1)(product)


def _boxed(value: Any) -> Any:
    whole = np.empty((), dtype=object)
    whole[()] = value
    return whole


def _bags(values: Any) -> Any:
    """Each entry in a bag of its own."""
    bags = np.frompyfunc(lambda value: _Bag([value]), 1, 1)(values)
    return bags if isinstance(bags, np.ndarray) else _boxed(bags)


def add_up(values: Any, axis: Any, keepdims: bool) -> Any:
    """Sums of entries along axes."""
    graph = graph_of(values)
    sums: Any = np.add.reduce(_bags(values), axis=axis, keepdims=keepdims)  # type: ignore[call-overload]
    return np.frompyfunc(lambda bag: _total(bag, graph), 1, 1)(sums)


def multiply_up(values: Any, axis: Any, keepdims: bool) -> Any:
    """Products of entries along axes."""
    graph = graph_of(values)
    lists: Any = np.add.reduce(_bags(values), axis=axis, keepdims=keepdims)  # type: ignore[call-overload]
    return np.frompyfunc(lambda bag: _product(bag, graph), 1, 1)(lists)


def length(values: Any, axis: Any, keepdims: bool) -> Any:
    """Euclidean lengths along axes."""
    graph = graph_of(values)
    lists: Any = np.add.reduce(_bags(values), axis=axis, keepdims=keepdims)  # type: ignore[call-overload]

    def norm(bag: Any) -> Any:
        terms = [as_number(term) for term in bag.terms] if isinstance(bag, _Bag) else []
        return make(graph, codes.NORM, *terms, value=float(len(terms) + 2)) if terms else 0.0

    return np.frompyfunc(norm, 1, 1)(lists)


def _product(bag: Any, graph: Any) -> Any:
    if not isinstance(bag, _Bag):
        return 1.0
    product = as_number(bag.terms[0])
    for factor in bag.terms[1:]:
        product = apply(np.multiply, product, as_number(factor))
    if len(bag.terms) < 3:
        return product
    return make(graph, codes.PRODUCT, product, value=float(len(bag.terms)))

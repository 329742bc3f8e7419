"""Intervals four at a time, in one register of the processor each; compiled.

LLVM makes such code from loops where they are long. A node has few derivatives, and what comes before and
after a short loop takes longer than the loop. So it is told here what to do, in its own operations, which are
IEEE's in every lane: the same numbers come out as of :func:`.rounding.add_down`, :func:`.rounding.add_up` and
:func:`.rounding.multiply_lanes`, but for the sign of a zero, as long as all are finite. Whether what came out
is finite is what each function returns; where it is not, or what went in is not, another has to be asked.

Four intervals are at ``low[place : place + 4]`` and ``high[place : place + 4]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from tether.programs.rounding import TINY, ULP

FOUR = 4
_VECTOR = ir.VectorType(ir.DoubleType(), FOUR)
_BITS = ir.VectorType(ir.IntType(64), FOUR)
_SIGNS = ir.VectorType(ir.IntType(1), FOUR)


def _each(number: float) -> ir.Constant:
    return ir.Constant(_VECTOR, [number] * FOUR)


def _spread(build: Any, number: Any, kind: ir.VectorType = _VECTOR) -> Any:
    """The same in every lane."""
    first = build.insert_element(ir.Constant(kind, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), FOUR), [0] * FOUR)
    return build.shuffle_vector(first, first, lanes)


def _size(build: Any, number: Any) -> Any:
    """Absolute values: the sign's bit taken away."""
    mask = ir.Constant(_BITS, [2**63 - 1] * FOUR)
    return build.bitcast(build.and_(build.bitcast(number, _BITS), mask), _VECTOR)


def _unit(build: Any, number: Any) -> Any:
    """At least a unit in the last place."""
    return build.fadd(build.fmul(_size(build, number), _each(ULP)), _each(TINY))


def _least(build: Any, one: Any, two: Any) -> Any:
    return build.select(build.fcmp_ordered("<", one, two), one, two)


def _most(build: Any, one: Any, two: Any) -> Any:
    return build.select(build.fcmp_ordered(">", one, two), one, two)


def _added(build: Any, one: Any, two: Any, upward: bool) -> Any:
    """Sums, rounded to one side where they are not exact, by the error of a sum being a float (Knuth)."""
    total = build.fadd(one, two)
    part = build.fsub(total, one)
    error = build.fadd(build.fsub(one, build.fsub(total, part)), build.fsub(two, part))
    beside = (build.fadd if upward else build.fsub)(total, _unit(build, total))
    wrong = build.fcmp_ordered(">" if upward else "<", error, _each(0.0))
    return build.select(wrong, beside, total)


def _multiplied(build: Any, low: Any, high: Any, ends: list[Any]) -> tuple[Any, Any]:
    """Products with an interval, or with the one number that it is; 0 where either is 0."""
    flat = [build.fcmp_ordered("==", end, ir.DoubleType()(0.0)) for end in ends]
    products = [build.fmul(own, _spread(build, end)) for end in ends for own in (low, high)]
    least, most = _least(build, *products[:2]), _most(build, *products[:2])
    if len(ends) > 1:
        least = _least(build, least, _least(build, *products[2:]))
        most = _most(build, most, _most(build, *products[2:]))
    nothing = build.and_(
        build.fcmp_ordered("==", low, _each(0.0)), build.fcmp_ordered("==", high, _each(0.0))
    )
    nothing = build.or_(nothing, _spread(build, build.and_(flat[0], flat[-1]), _SIGNS))
    return (
        build.select(nothing, _each(0.0), build.fsub(least, _unit(build, least))),
        build.select(nothing, _each(0.0), build.fadd(most, _unit(build, most))),
    )


class _Registers:
    """The two arrays that intervals are in."""

    def __init__(self, context: Any, build: Any, kind: Any, low: Any, high: Any) -> None:
        self._build = build
        self._data = [context.make_array(kind)(context, build, array).data for array in (low, high)]

    def read(self, place: Any) -> tuple[Any, Any]:
        """Four intervals."""
        low, high = (self._build.load(pointer, align=8) for pointer in self._at(place))
        return low, high

    def write(self, place: Any, ends: tuple[Any, Any]) -> Any:
        """Puts four intervals there; whether all are finite."""
        build, doubts = self._build, []
        for pointer, end in zip(self._at(place), ends, strict=True):
            build.store(end, pointer, align=8)
            doubts.append(build.fsub(end, end))  # 0, or NaN
        doubt = build.fcmp_unordered("uno", build.fadd(*doubts), _each(0.0))
        return build.icmp_unsigned("==", build.bitcast(doubt, ir.IntType(FOUR)), ir.IntType(FOUR)(0))

    def _at(self, place: Any) -> list[Any]:
        return [
            self._build.bitcast(cgutils.gep(self._build, pointer, place), _VECTOR.as_pointer())
            for pointer in self._data
        ]


Emit = Callable[[Any, _Registers, list[Any]], Any]


def _of_registers(places: int, numbers: int) -> Callable[[Emit], Any]:
    """A function of `low`, `high`, so many places and so many numbers, which tells whether all is finite."""

    def made(emit: Emit) -> Any:
        def typed(typing: Any, low: Any, high: Any, given: Any) -> Any:
            del typing
            asked = types.Tuple([types.int64] * places + [types.float64] * numbers)
            signature = types.boolean(low, high, asked)

            def code(context: Any, build: Any, kinds: Any, arguments: Any) -> Any:
                del kinds
                registers = _Registers(context, build, low, *arguments[:2])
                return emit(build, registers, cgutils.unpack_tuple(build, arguments[2]))

            del given
            return signature, code

        typed.__name__, typed.__doc__ = emit.__name__, emit.__doc__
        return intrinsic(typed)

    return made


@_of_registers(3, 0)
def add_fours(build: Any, registers: _Registers, given: list[Any]) -> Any:
    """``(to, one, two)``: sums."""
    one, two = registers.read(given[1]), registers.read(given[2])
    low, high = _added(build, one[0], two[0], False), _added(build, one[1], two[1], True)
    return registers.write(given[0], (low, high))


@_of_registers(3, 0)
def subtract_fours(build: Any, registers: _Registers, given: list[Any]) -> Any:
    """``(to, one, two)``: differences."""
    one, two = registers.read(given[1]), registers.read(given[2])
    least, most = build.fneg(two[1]), build.fneg(two[0])
    low, high = _added(build, one[0], least, False), _added(build, one[1], most, True)
    return registers.write(given[0], (low, high))


@_of_registers(2, 2)
def multiply_fours(build: Any, registers: _Registers, given: list[Any]) -> Any:
    """``(to, one, c, d)``: products with [c, d]."""
    return registers.write(given[0], _multiplied(build, *registers.read(given[1]), given[2:]))


@_of_registers(2, 1)
def scale_fours(build: Any, registers: _Registers, given: list[Any]) -> Any:
    """``(to, one, c)``: products with c."""
    return registers.write(given[0], _multiplied(build, *registers.read(given[1]), given[2:]))


@_of_registers(3, 4)
def mix_fours(build: Any, registers: _Registers, given: list[Any]) -> Any:
    """``(to, one, two, a, b, c, d)``: sums of products with [a, b] and with [c, d]."""
    one = _multiplied(build, *registers.read(given[1]), given[3:5])
    two = _multiplied(build, *registers.read(given[2]), given[5:])
    low, high = _added(build, one[0], two[0], False), _added(build, one[1], two[1], True)
    return registers.write(given[0], (low, high))

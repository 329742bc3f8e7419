"""Linear systems over intervals, ``np.linalg.solve`` and ``inv``; compiled.

Operands of a node: the n x n matrix A, row by row, then the right side b; its value says which entry of the
solution it is.

With C close to the inverse of A's middle and ``|I - C A| <= R`` entry by entry, ``|R| < 1`` in the maximum
norm: A and C are regular, ``x = C b + (I - C A) x``, so ``|x| <= |C b| / (1 - |R|)`` in that norm, and then
``|x - C b| <= R |x|`` entry by entry. The inverse is the same for the columns of C. Derivatives are those of
the implicit function: by b the inverse, by A the inverse times -x.

LAPACK factorises with partial pivoting and solves, whatever the order of its sums. What it returns is the
exact solution for a matrix A + E with ``|E| <= c u |L| |U|`` (Higham, Accuracy and Stability, theorem 9.4).
Sound because no entry of L is above 1 in size, and each step at most doubles the largest in a column of U. So
E is at most ``c u n 2^(n-1)`` of the largest entry of its column. There c is 3 n; here it is 8 (n + 1), for
quotients that are taken as products with reciprocals.
"""

from __future__ import annotations

import math

import numpy as np

from tether.programs.rounding import FAINT, add_down, add_up, down, inlined, magnitude, multiply, up

MOST = 8
"""Rows of a matrix up to which a system is enclosed."""
_LARGEST = 1e290
"""Sizes from which on something may overflow on the way to a solution that does not."""
_SMALL = 1e-290
"""Added to the size of a column: its share counts as an error. That is more than what underflows, and more
than the least normal number, below which OpenBLAS does not divide by a pivot."""
_UNIT = 2.0**-53 * (1 + 2.0**-20)
_MORE = 1 + 2.0**-40
"""For the roundings of sums of a few positive numbers."""


@inlined
def backward_error(n):
    """What LAPACK's factors are off by, of the largest entry in a column."""
    return 8.0 * (n + 1) * n * 2.0 ** (n - 1) * _UNIT * _MORE


@inlined
def size_of(tape, k):
    """Rows of the matrix."""
    count = tape.starts[k + 1] - tape.starts[k]
    return int((math.sqrt(4.0 * count + 1.0) - 1.0) / 2.0 + 0.5)


@inlined
def _gather(tape, k, low, high, lane):
    """(2, n, n + 1) limits of the matrix and, behind its columns, of the right side."""
    n, start = size_of(tape, k), tape.starts[k]
    given = np.empty((2, n, n + 1))
    for i in range(n):
        for j in range(n + 1):
            x = tape.operands[start + i * n + j] if j < n else tape.operands[start + n * n + i]
            given[0, i, j], given[1, i, j] = low[x, lane], high[x, lane]
    return given


@inlined
def _largest(given, j):
    """Largest size of an entry in a column."""
    most = 0.0
    for i in range(given.shape[1]):
        most = max(most, magnitude(given[0, i, j], given[1, i, j]))
    return most


@inlined
def _middle_of(a, b):
    """A number about halfway, and how far the ends are from it at most."""
    if a == b:
        return a, 0.0
    middle = 0.5 * a + 0.5 * b
    return middle, max(up(b - middle), up(middle - a))


@inlined
def _eliminate(work, inverse, k):
    """One step of Gauss and Jordan; False where all pivots are 0."""
    n, best = len(work), k
    for i in range(k + 1, n):
        if abs(work[i, k]) > abs(work[best, k]):
            best = i
    pivot = work[best, k]
    if not abs(pivot) > 0.0:
        return False
    # Number by number throughout: Numba takes long to compile what is said of whole rows.
    for j in range(n):
        work[best, j], work[k, j] = work[k, j], work[best, j] / pivot
        inverse[best, j], inverse[k, j] = inverse[k, j], inverse[best, j] / pivot
    for i in range(n):
        factor = work[i, k]
        for j in range(n):
            if i != k:
                work[i, j] -= factor * work[k, j]
                inverse[i, j] -= factor * inverse[k, j]
    return True


@inlined
def _residual(given, inverse, rest):
    """Fills C and |I - C A| for every A in the box and as LAPACK has it; its norm, NaN where not below 1."""
    n = len(rest)
    middle, radius, work, norm = np.empty((n, n)), np.empty((n, n)), np.empty((n, n)), 0.0
    for j in range(n):
        if not _largest(given, j) < _LARGEST:
            return np.nan
        widening = up(backward_error(n) * (_largest(given, j) + _SMALL))
        for i in range(n):
            middle[i, j], radius[i, j] = _middle_of(given[0, i, j], given[1, i, j])
            radius[i, j] = up(radius[i, j] + widening)
            work[i, j], inverse[i, j] = middle[i, j], 1.0 if i == j else 0.0
    for k in range(n):  # no proof rests on how close C is
        if not _eliminate(work, inverse, k):
            return np.nan
    for i in range(n):
        total = 0.0
        for j in range(n):
            exact, scale, spread = 1.0 if i == j else 0.0, 1.0, 0.0
            for m in range(n):
                part = inverse[i, m] * middle[m, j]
                exact, scale = exact - part, scale + abs(part)
                spread += abs(inverse[i, m]) * radius[m, j]
            # n products and n sums, and products that underflow.
            rest[i, j] = (abs(exact) + (2.0 * n + 4.0) * _UNIT * scale + spread) * _MORE + 1e-300
            total += rest[i, j]
        if not total * _MORE < 1.0:  # NaN, too
            return np.nan
        norm = max(norm, total * _MORE)
    return norm


@inlined
def _spread(n, rest, norm, size, away):
    """Fills how far a solution is from C b, given the size of C b, entry by entry."""
    top = 0.0
    for i in range(n):
        top = max(top, size[i])
    # No entry is above top / (1 - norm).
    most, first = np.empty(n), up(up(top / down(1.0 - norm)) * _MORE)
    for i in range(n):
        most[i] = first
    for _ in range(4):  # the more often, the less do entries of other sizes matter
        for i in range(n):
            away[i] = 0.0
            for j in range(n):
                away[i] += rest[i, j] * most[j]
            away[i] = away[i] * _MORE + FAINT
        for i in range(n):
            most[i] = min(most[i], (size[i] + away[i]) * _MORE)


@inlined
def _right_side(given, inverse, middle, size, own):
    """Fills C b: its middle, its size, and how far it is from the middle."""
    n = len(inverse)
    for i in range(n):
        middle[i], scale, radius = 0.0, 0.0, 0.0
        for j in range(n):
            half, away = _middle_of(given[0, j, n], given[1, j, n])
            away = up(away + 1e-320)  # products that underflow
            part = inverse[i, j] * half
            middle[i], scale = middle[i] + part, scale + abs(part)
            radius += abs(inverse[i, j]) * away
        own[i] = (radius + (2.0 * n + 4.0) * _UNIT * scale) * _MORE + FAINT
        size[i] = (abs(middle[i]) + own[i]) * _MORE


@inlined
def solve_all(given, wanted, solution, row):
    """Fills limits of all entries of the solution (2, n), and of the wanted row of the inverse (2, n).

    NaN where a matrix in the box may be singular, or LAPACK may take it to be.
    """
    n = given.shape[1]
    inverse, rest = np.empty((n, n)), np.empty((n, n))
    middle, size, own, away = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    norm = _residual(given, inverse, rest)
    for i in range(n):
        solution[0, i] = solution[1, i] = row[0, i] = row[1, i] = np.nan
    if norm != norm:
        return
    _right_side(given, inverse, middle, size, own)
    _spread(n, rest, norm, size, away)
    most = _largest(given, n)
    for i in range(n):
        for j in range(n):
            most = max(most, _largest(given, j) * ((size[i] + away[i]) * _MORE))
    if not most < _LARGEST:
        return
    for i in range(n):
        radius = (own[i] + away[i]) * _MORE
        solution[0, i], solution[1, i] = add_down(middle[i], -radius), add_up(middle[i], radius)
    for j in range(n):
        for i in range(n):
            size[i] = abs(inverse[i, j])
        _spread(n, rest, norm, size, away)
        row[0, j] = add_down(inverse[wanted, j], -away[wanted])
        row[1, j] = add_up(inverse[wanted, j], away[wanted])


@inlined
def solution_range(tape, k, low, high, lane):
    """The entry that the node is, exact and as LAPACK computes it."""
    n, wanted = size_of(tape, k), int(tape.values[k])
    solution, row = np.empty((2, n)), np.empty((2, n))
    solve_all(_gather(tape, k, low, high, lane), wanted, solution, row)
    return solution[0, wanted], solution[1, wanted]


@inlined
def solution_slopes(tape, k, low, high, lane, slopes):
    """Fills slopes (2, n n + n) by all operands."""
    n = size_of(tape, k)
    solution, row = np.empty((2, n)), np.empty((2, n))
    solve_all(_gather(tape, k, low, high, lane), int(tape.values[k]), solution, row)
    for i in range(n):
        slopes[0, n * n + i], slopes[1, n * n + i] = row[0, i], row[1, i]
        for j in range(n):
            c, d = multiply(row[0, i], row[1, i], solution[0, j], solution[1, j])
            slopes[0, i * n + j], slopes[1, i * n + j] = -d, -c


@inlined
def solution_error(tape, k, low, high, error, lane):
    """How far LAPACK's entry is from the exact one: by what it was given, and by what it does."""
    n, start = size_of(tape, k), tape.starts[k]
    solution, row, given = np.empty((2, n)), np.empty((2, n)), _gather(tape, k, low, high, lane)
    solve_all(given, int(tape.values[k]), solution, row)
    total = 0.0
    for i in range(n):
        part = error[tape.operands[start + n * n + i], lane] + 1e-320
        for j in range(n):
            off = error[tape.operands[start + i * n + j], lane]
            off += backward_error(n) * (_largest(given, j) + _SMALL)
            part += off * magnitude(solution[0, j], solution[1, j])
        total += magnitude(row[0, i], row[1, i]) * part
    return total * _MORE + FAINT


@inlined
def determinant_slack(tape, k, low, high, lane):
    """How far LAPACK's determinant may be from the exact one, the first operand.

    The others are the sums of sizes along each column, c. Its factors are those of A + E: by Hadamard's
    inequality, column by column, the determinant changes by at most ``((1 + √n e)^n - 1)`` times the product
    of all c. NumPy then adds up the logarithms of the pivots and takes the exponential: off by roundings of
    the sum of their sizes, which is at most twice the positive ones and that of the determinant itself.
    """
    start = tape.starts[k]
    n = tape.starts[k + 1] - start - 1
    product, above = 1.0, 0.0
    for q in range(start + 1, start + 1 + n):
        c = max(high[tape.operands[q], lane], 0.0) + _SMALL
        product *= c * _MORE
        above += max(math.log(c * 2.0 ** (n - 1)), 0.0) + 1e-12
    x = tape.operands[start]
    slack = product * (1.5 * n * math.sqrt(n) * backward_error(n)) * _MORE
    most = (magnitude(low[x, lane], high[x, lane]) + slack) * _MORE
    least = max(max(low[x, lane], -high[x, lane]) - slack, 0.0) * (1 - 2.0**-40)
    # t |log t| is largest at an end, or at 1 / e.
    logs = most * abs(math.log(most)) if most > 0.0 else 0.0
    logs = max(logs, most * abs(math.log(least)) if least > 0.0 else 0.37)
    return (slack + 16.0 * (n + 4.0) * _UNIT * (2.0 * most * (above + 1.0) + logs)) * _MORE + FAINT

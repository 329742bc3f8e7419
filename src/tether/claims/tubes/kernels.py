"""Leaves and cells that boxes touch; compiled."""

from __future__ import annotations

import numpy as np

from tether.claims.tubes.expansion import LESS_THAN_A_TURN
from tether.foundation.kernels import compiled

_MANY_LEAVES = 32
"""A piece that touches more of them is bounded by its distance to M alone, if that is known."""


@compiled
def widest(lower, upper, memories, half_width, room):
    """Fills `room` (Q, P) with the largest half-width of the cells that boxes (Q, D) may touch.

    A cell can answer for a point of a box only if the nearest that its memory comes to the box is not farther
    than the farthest that some other's is from it. All in scaled inputs.
    """
    count, inputs = memories.shape
    nearest = np.empty(count)
    for piece in range(len(lower)):
        best = np.inf
        for k in range(count):
            near, far = 0.0, 0.0
            for d in range(inputs):
                below, above = lower[piece, d] - memories[k, d], memories[k, d] - upper[piece, d]
                out = max(max(below, above), 0.0)
                # From a memory to the far end: the larger of both ways.
                whole = max(abs(below), abs(above))
                near += out * out
                far += whole * whole
            nearest[k] = near
            best = min(best, far)
        for k in range(count):
            if nearest[k] <= best * (1.0 + 1e-9):
                for output in range(half_width.shape[1]):
                    room[piece, output] = max(room[piece, output], half_width[k, output])


@compiled
def gather(
    roots, cut, threshold, left_node, right_node, lower, upper, remainder, left,
    node_lower, node_upper, node_remainder, node_left, node_count, node_unknown, node_cuts,
):  # fmt: skip
    """Fills what holds of every node: its box, and what is so of the leaves below it.

    Their largest remainder and room, their number, whether something is not known of one, and along which
    inputs they are cut.
    """
    order = np.empty(len(cut), np.int64)
    found = 0
    for root in roots:
        order[found] = root
        found += 1
        node_lower[root], node_upper[root] = lower, upper
    done = 0
    while done < found:
        node = order[done]
        done += 1
        if cut[node] >= 0:
            for child in (left_node[node], right_node[node]):
                node_lower[child], node_upper[child] = node_lower[node], node_upper[node]
                order[found] = child
                found += 1
            node_upper[left_node[node], cut[node]] = threshold[node]
            node_lower[right_node[node], cut[node]] = threshold[node]
    for k in range(found - 1, -1, -1):
        node = order[k]
        if cut[node] < 0:
            leaf = left_node[node]
            node_count[node], node_unknown[node] = 1, not remainder[leaf] < np.inf
            node_remainder[node] = remainder[leaf] if remainder[leaf] < np.inf else 0.0
            node_left[node] = left[leaf]
            continue
        one, two = left_node[node], right_node[node]
        node_cuts[node] = node_cuts[one] | node_cuts[two]
        node_cuts[node, cut[node]] = True
        node_count[node] = node_count[one] + node_count[two]
        node_unknown[node] = node_unknown[one] or node_unknown[two]
        node_remainder[node] = max(node_remainder[one], node_remainder[two])
        node_left[node] = max(node_left[one], node_left[two])


@compiled
def over_leaves(
    row, lower, upper, middle, values, errors, away_low, away_high, slopes, room, proved,
    roots, cut, threshold, left_node, right_node,
    node_lower, node_upper, node_remainder, node_left, node_count, node_unknown, node_cuts,
    value, slope, reference, remainder, left, rounding, most, turning,
    least, greatest, delta, unknown,
):  # fmt: skip
    """Fills `least`, `greatest` (C, N, P), `delta` (N, P), `unknown` (N,) from leaves that pieces touch.

    What holds of all leaves below a node holds of those that a piece touches. So nodes inside a piece are not
    gone below to find the largest delta; and where a piece touches very many leaves, that delta from M is
    used alone, which then is next to nothing beside what M itself does over the piece.
    """
    inputs, candidates = lower.shape[1], values.shape[0]
    unit = 2.0**-52
    units = (4 * inputs + 32) * unit
    waiting, touched = np.empty(len(cut), np.int64), np.empty(len(value), np.int64)
    center, reach = np.empty(inputs), np.empty(inputs)
    turn = 2 * np.pi
    for piece in range(len(row)):
        n = row[piece]
        for p in range(len(roots)):
            waiting[0] = roots[p]
            depth, count, farthest = 1, 0, 0.0
            while depth > 0:
                depth -= 1
                node = waiting[depth]
                whole = cut[node] < 0
                if not whole and (proved and count + node_count[node] > _MANY_LEAVES):
                    whole = True
                    for d in range(inputs):
                        beyond = (
                            node_lower[node, d] < lower[piece, d] or node_upper[node, d] > upper[piece, d]
                        )
                        if node_cuts[node, d] and beyond:
                            whole = False
                            break
                if whole:
                    unknown[n] = unknown[n] or node_unknown[node]
                    width = min(room[piece, p], node_left[node] * (1.0 + 4.0 * unit))
                    far = node_remainder[node] + width
                    # No row of a leaf has a delta above the one asked for, but by a remainder that has.
                    far = min(far, max(most[p], node_remainder[node]) * (1.0 + 4.0 * unit))
                    farthest = max(farthest, far * (1.0 + 4.0 * unit))
                    if cut[node] < 0:
                        touched[count] = node
                    count += node_count[node]
                    continue
                if upper[piece, cut[node]] >= threshold[node]:
                    waiting[depth] = right_node[node]
                    depth += 1
                if lower[piece, cut[node]] < threshold[node]:
                    waiting[depth] = left_node[node]
                    depth += 1
            delta[n, p] = max(delta[n, p], farthest)
            if proved and count > _MANY_LEAVES:
                for c in range(candidates):
                    low, high = away_low[c, piece, p] - farthest, away_high[c, piece, p] + farthest
                    least[c, n, p] = min(least[c, n, p], low - 4.0 * unit * abs(low))
                    greatest[c, n, p] = max(greatest[c, n, p], high + 4.0 * unit * abs(high))
                continue
            for k in range(count):
                home, leaf = touched[k], left_node[touched[k]]
                if not remainder[leaf] < np.inf:
                    continue
                width = min(room[piece, p], left[leaf] * (1.0 + 4.0 * unit))
                far = (remainder[leaf] + width) * (1.0 + 4.0 * unit)
                # A at the middle of what the piece and the leaf share.
                own, size = value[leaf], abs(value[leaf])
                for d in range(inputs):
                    low = max(lower[piece, d], node_lower[home, d])
                    high = max(min(upper[piece, d], node_upper[home, d]), low)
                    center[d] = min(max(0.5 * low + 0.5 * high, low), high)
                    reach[d] = max(high - center[d], center[d] - low)
                    own += slope[leaf, d] * (center[d] - reference[d])
                    size += abs(slope[leaf, d]) * abs(center[d] - reference[d])
                for c in range(candidates):
                    line, sizes, spread = values[c, piece, p], size + abs(values[c, piece, p]), 0.0
                    for d in range(inputs):
                        along = slopes[c, n, p, d]
                        line += along * (center[d] - middle[piece, d])
                        sizes += abs(along) * abs(center[d] - middle[piece, d])
                        spread += abs(slope[leaf, d] - along) * reach[d]
                    gap = own - line
                    if turning[p]:
                        count_ = np.round(gap / turn)
                        gap -= count_ * turn
                        sizes += turn * abs(count_)
                    doubt = spread * (1.0 + units) + units * (sizes + abs(gap)) + rounding[leaf]
                    doubt += errors[c, piece, p] + width
                    low, high = gap - doubt, gap + doubt
                    least_by_model, most_by_model = away_low[c, piece, p] - far, away_high[c, piece, p] + far
                    # Each of an angle is up to turns of its own; within less than one they are the same.
                    whole_range = max(high, most_by_model) - min(low, least_by_model)
                    if not turning[p] or whole_range < LESS_THAN_A_TURN:
                        low, high = max(low, least_by_model), min(high, most_by_model)
                    elif most_by_model - least_by_model < high - low:
                        low, high = least_by_model, most_by_model
                    if not low <= high:  # numbers that are none, after what overflowed
                        low, high = -np.inf, np.inf
                    slack = 8.0 * unit * (abs(gap) + doubt + far) + 1e-320
                    least[c, n, p] = min(least[c, n, p], low - slack)
                    greatest[c, n, p] = max(greatest[c, n, p], high + slack)

"""Leaves and cells that boxes touch; compiled."""

from __future__ import annotations

import numpy as np

from tether.claims.tubes.expansion import LESS_THAN_A_TURN
from tether.foundation.kernels import compiled

_MANY_LEAVES = 32
"""A piece that touches more of them is bounded by its distance to M alone, if that is known."""


@compiled
def widths(lower, upper, memories, half_width, least, room):
    """Fills `least` and `room` (Q, P): ends of the half-widths of cells that boxes (Q, D) may touch.

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
                    least[piece, output] = min(least[piece, output], half_width[k, output])


@compiled
def gather(
    roots, cut, threshold, left_node, right_node, lower, upper, remainder, left,
    node_lower, node_upper, node_remainder, node_left, node_short, node_count, node_unknown, node_cuts,
):  # fmt: skip
    """Fills what holds of every node: its box, and what is so of the leaves below it.

    Their largest remainder, their largest and least room, their number, whether something is not known of
    one, and along which inputs they are cut.
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
            node_left[node] = node_short[node] = left[leaf]
            continue
        one, two = left_node[node], right_node[node]
        node_cuts[node] = node_cuts[one] | node_cuts[two]
        node_cuts[node, cut[node]] = True
        node_count[node] = node_count[one] + node_count[two]
        node_unknown[node] = node_unknown[one] or node_unknown[two]
        node_remainder[node] = max(node_remainder[one], node_remainder[two])
        node_left[node] = max(node_left[one], node_left[two])
        node_short[node] = min(node_short[one], node_short[two])


@compiled
def cut_off(low, high, least, most):
    """Ends of what lies between low and high, cut off at a half-width between least and most."""
    below = min(low, least) if low >= 0.0 else max(low, -most)
    return below, min(high, most) if high >= 0.0 else max(high, -least)


@compiled
def less_share(low, high, least, most, share):
    """Ends of the same less a share of itself uncut: linear between few places, so extreme at one of them."""
    below, above = np.inf, -np.inf
    for place in (low, high, -most, -least, least, most):
        at = min(max(place, low), high)
        one, two = cut_off(at, at, least, most)
        slack = 4.0 * 2.0**-52 * (abs(at) + most)
        below, above = min(below, one - share * at - slack), max(above, two - share * at + slack)
    return below, above


@compiled
def overlap(low, high, least, greatest, turning):
    """What lies in both of two intervals; :func:`tether.claims.tubes.expansion.both` for one number."""
    if not turning or max(high, greatest) - min(low, least) < LESS_THAN_A_TURN:
        return max(low, least), min(high, greatest)
    if greatest - least < high - low:
        return least, greatest
    return low, high


@compiled
def over_leaves(
    row, lower, upper, middle, values, errors, away_low, away_high, slopes, short, room, proved,
    net_low, net_high, net_value, net_slope, net_share, net_apart, near_low, near_high, coarse,
    roots, cut, threshold, left_node, right_node,
    node_lower, node_upper, node_remainder, node_left, node_short, node_count, node_unknown, node_cuts,
    value, slope, reference, remainder, left, rounding, curvature, pairs, centre, most, turning,
    least, greatest, delta, unknown,
):  # fmt: skip
    """Fills `least`, `greatest` (C, N, P), `delta` (N, P), `unknown` (N,) from leaves that pieces touch.

    What holds of all leaves below a node holds of those that a piece touches. So nodes inside a piece are not
    gone below to find the largest delta; and where a piece touches very many leaves, that delta from M is
    used alone, which then is next to nothing beside what M itself does over the piece.

    Of a network at hand it is known what it adds to A, before it is cut off at the half-width: a number
    between `net_low` and `net_high` (Q, P), and a share of it within `net_apart` of a line; of any network,
    nothing.
    """
    inputs, candidates = lower.shape[1], values.shape[0]
    unit = 2.0**-52
    units = (4 * (inputs + len(pairs)) + 32) * unit
    waiting, touched = np.empty(len(cut), np.int64), np.empty(len(value), np.int64)
    center, reach, steep = np.empty(inputs), np.empty(inputs), np.empty(inputs)
    turn = 2 * np.pi
    for piece in range(len(row)):
        n = row[piece]
        for p in range(len(roots)):
            waiting[0] = roots[p]
            depth, count, farthest, off = 1, 0, 0.0, 0.0
            widest, closest = 0.0, np.inf
            own_network = net_high[piece, p] < np.inf
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
                    off, widest = max(off, node_remainder[node]), max(widest, width)
                    closest = min(closest, min(short[piece, p], node_short[node] * (1.0 - 4.0 * unit)))
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
                off = (off + coarse[p]) * (1.0 + 4.0 * unit)
                added = cut_off(net_low[piece, p], net_high[piece, p], closest, widest)
                rest = added
                if net_share[piece, p] > 0.0:
                    rest = less_share(
                        net_low[piece, p], net_high[piece, p], closest, widest, net_share[piece, p]
                    )
                for c in range(candidates):
                    low, high = away_low[c, piece, p] - farthest, away_high[c, piece, p] + farthest
                    if own_network:
                        slack = 8.0 * unit * (abs(low) + abs(high) + off + widest)
                        low = max(low, away_low[c, piece, p] - off + added[0] - slack)
                        high = min(high, away_high[c, piece, p] + off + added[1] + slack)
                    if net_share[piece, p] > 0.0:
                        doubt = off + net_apart[piece, p]
                        lowest = near_low[c, piece, p] - doubt + rest[0]
                        highest = near_high[c, piece, p] + doubt + rest[1]
                        slack = 8.0 * unit * (abs(lowest) + abs(highest) + doubt + widest)
                        low, high = overlap(low, high, lowest - slack, highest + slack, turning[p])
                    least[c, n, p] = min(least[c, n, p], low - 4.0 * unit * abs(low))
                    greatest[c, n, p] = max(greatest[c, n, p], high + 4.0 * unit * abs(high))
                continue
            for k in range(count):
                home, leaf = touched[k], left_node[touched[k]]
                if not remainder[leaf] < np.inf:
                    continue
                width = min(room[piece, p], left[leaf] * (1.0 + 4.0 * unit))
                far = (remainder[leaf] + width) * (1.0 + 4.0 * unit)
                off = (remainder[leaf] + rounding[leaf]) * (1.0 + 4.0 * unit)
                closest = min(short[piece, p], left[leaf] * (1.0 - 4.0 * unit))
                added = cut_off(net_low[piece, p], net_high[piece, p], closest, width)
                rest = added
                if net_share[piece, p] > 0.0:
                    rest = less_share(
                        net_low[piece, p], net_high[piece, p], closest, width, net_share[piece, p]
                    )
                # A at the middle of what the piece and the leaf share.
                own, size = value[leaf], abs(value[leaf])
                for d in range(inputs):
                    low = max(lower[piece, d], node_lower[home, d])
                    high = max(min(upper[piece, d], node_upper[home, d]), low)
                    center[d] = min(max(0.5 * low + 0.5 * high, low), high)
                    reach[d] = max(high - center[d], center[d] - low)
                    own += slope[leaf, d] * (center[d] - reference[d])
                    size += abs(slope[leaf, d]) * abs(center[d] - reference[d])
                    steep[d] = slope[leaf, d]
                # Of second order: A and its slope there, and what it bends by from there on.
                curl = 0.0
                for q in range(len(pairs)):
                    i, j, bend = pairs[q, 0], pairs[q, 1], curvature[leaf, q]
                    one, two = center[i] - centre[leaf, i], center[j] - centre[leaf, j]
                    own += bend * one * two
                    steep[i] += bend * two
                    steep[j] += bend * one
                    curl += abs(bend) * reach[i] * reach[j]
                    size += abs(bend) * (abs(one) + reach[i]) * (abs(two) + reach[j])
                    size += abs(slope[leaf, i]) * reach[i] + abs(slope[leaf, j]) * reach[j]
                for c in range(candidates):
                    line, sizes, spread = values[c, piece, p], size + abs(values[c, piece, p]), 0.0
                    net, across = net_value[piece, p], 0.0
                    for d in range(inputs):
                        along = slopes[c, n, p, d]
                        line += along * (center[d] - middle[piece, d])
                        sizes += abs(along) * abs(center[d] - middle[piece, d])
                        spread += abs(steep[d] - along) * reach[d]
                        net += net_slope[piece, p, d] * (center[d] - middle[piece, d])
                        across += abs(steep[d] + net_slope[piece, p, d] - along) * reach[d]
                        sizes += abs(net_slope[piece, p, d]) * (abs(center[d] - middle[piece, d]) + reach[d])
                    gap = own - line
                    if turning[p]:
                        count_ = np.round(gap / turn)
                        gap -= count_ * turn
                        sizes += turn * abs(count_)
                    doubt = (spread + curl) * (1.0 + units) + units * (sizes + abs(gap)) + rounding[leaf]
                    doubt += errors[c, piece, p]
                    slack = 8.0 * unit * (abs(gap) + abs(net) + doubt + far) + 1e-320
                    low, high = gap - doubt + added[0], gap + doubt + added[1]
                    if net_share[piece, p] > 0.0:
                        more = doubt + (across - spread) * (1.0 + units) + net_apart[piece, p]
                        more += units * (spread + across + abs(net) + abs(net_value[piece, p]))
                        slack += 8.0 * unit * (more + width)
                        low, high = (
                            max(low, gap + net - more + rest[0]), min(high, gap + net + more + rest[1])
                        )  # fmt: skip
                        low, high = overlap(
                            low, high, near_low[c, piece, p] - off - net_apart[piece, p] + rest[0],
                            near_high[c, piece, p] + off + net_apart[piece, p] + rest[1], turning[p],
                        )  # fmt: skip
                    if own_network:
                        low, high = overlap(
                            low, high, away_low[c, piece, p] - off + added[0],
                            away_high[c, piece, p] + off + added[1], turning[p],
                        )  # fmt: skip
                    low, high = overlap(
                        low, high, away_low[c, piece, p] - far, away_high[c, piece, p] + far, turning[p]
                    )
                    if not low <= high:  # numbers that are none, after what overflowed
                        low, high = -np.inf, np.inf
                    least[c, n, p] = min(least[c, n, p], low - slack)
                    greatest[c, n, p] = max(greatest[c, n, p], high + slack)

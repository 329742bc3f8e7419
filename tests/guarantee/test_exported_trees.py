"""The leaf that C finds by a grid and the tree below is that of the tree alone, wherever an input lies."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest

from compiled import STRICT, needs_compiler
from tether.export.c.trees import Tree, tree_code
from tether.geometry.boxtree import leaves_of

pytestmark = needs_compiler
_LOOP = """
void all(long rows, const REAL *x, int *found);
void all(long rows, const REAL *x, int *found)
{
    for (long k = 0; k < rows; ++k) {
        int *leaf = found + k * m_OUTPUTS;
        m_enter_trees(x + k * COLUMNS, leaf);
        while (!m_descend(x + k * COLUMNS, leaf)) continue;
    }
}
"""


def grown(rng, kind, columns, outputs, leaves):
    """Trees that are cut anywhere: at middles, at numbers next to one another, and again and again in one corner."""
    lower, upper = -rng.uniform(0.5, 3, columns), rng.uniform(0.5, 3, columns)
    cut, threshold, left, right, roots, leaf = [], [], [], [], [], 0
    for _ in range(outputs):
        roots.append(len(cut))
        boxes = [(lower.copy(), upper.copy(), roots[-1])]
        cut, threshold, left, right = [*cut, -1], [*threshold, 0.0], [*left, leaf], [*right, 0]
        leaf += 1
        for _ in range(int(rng.integers(0, leaves))):
            low, high, node = boxes.pop(int(rng.integers(len(boxes))) if rng.random() < 0.5 else -1)
            d = int(rng.integers(columns))
            share = rng.choice([0.5, 0.25, rng.random(), 1e-9])
            at = np.array(low[d] + share * (high[d] - low[d])).astype(kind)
            if not low[d] < at < high[d]:
                boxes.append((low, high, node))
                continue
            for side, place in ((left, len(cut)), (right, len(cut) + 1)):
                cut, threshold = [*cut, -1], [*threshold, 0.0]
                own = (low.copy(), high.copy(), place)
                (own[1] if side is left else own[0])[d] = at
                boxes.append(own)
            left, right = [*left, left[node], leaf], [*right, 0, 0]
            cut[node], threshold[node], left[node], right[node] = d, float(at), len(cut) - 2, len(cut) - 1
            leaf += 1
    whole = (np.array(part, dtype=np.int64) for part in (roots, cut, left, right))
    roots, cut, left, right = whole
    return roots, cut, np.array(threshold).astype(kind), left, right, lower.astype(kind), upper.astype(kind)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("seed", range(6))
def test_the_leaf_is_that_of_the_tree(seed, dtype, tmp_path):
    rng, kind, columns, outputs = np.random.default_rng(seed), np.dtype(dtype), 1 + seed % 4, 1 + seed % 3
    roots, cut, threshold, left, right, lower, upper = grown(rng, kind, columns, outputs, 300)
    likely = rng.normal(0, 0.3, (50, columns)).astype(kind)
    tree = Tree(roots, cut, threshold, left, right, lower, upper, likely)
    real = {"float64": "double", "float32": "float"}[dtype]
    starts = np.arange(left[cut < 0].max() + 1)
    code = f"enum {{ m_OUTPUTS = {outputs} }};\n" + tree_code(tree, starts, real) + _LOOP
    code = code.replace("REAL", real).replace("@", "m").replace("COLUMNS", str(columns))
    (tmp_path / "tree.c").write_text("#include <math.h>\n" + code)
    command = ["cc", *STRICT, "-O3", "-march=native", "-shared", "-fPIC", "tree.c", "-o", "tree.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    # Anywhere, far outside, and on thresholds, edges of bins and the numbers next to these.
    inputs = rng.uniform(1.2 * lower, 1.2 * upper, (4000, columns)).astype(kind)
    inputs[:200] *= kind.type(10.0) ** rng.integers(0, 30, (200, 1)).astype(kind)
    some = rng.integers(0, len(cut), 3000)
    near = threshold[some]
    for moved in (near, np.nextafter(near, kind.type(-9)), np.nextafter(near, kind.type(9))):
        own = inputs[:3000].copy()
        own[np.arange(3000), np.maximum(cut[some], 0)] = moved
        inputs = np.concatenate([inputs, own])
    bins = rng.integers(0, 2**14 + 1, (3000, columns))
    edges = (lower + bins * (upper - lower) / 2**14).astype(kind)
    inputs = np.concatenate(
        [inputs, edges, np.nextafter(edges, kind.type(-9)), np.nextafter(edges, kind.type(9))]
    )
    inputs = np.ascontiguousarray(inputs)
    found = np.empty((len(inputs), outputs), np.int32)
    places = [own.ctypes.data_as(ctypes.c_void_p) for own in (inputs, found)]
    ctypes.CDLL(str(tmp_path / "tree.so")).all(ctypes.c_long(len(inputs)), *places)
    # A float32 number is the same in float64.
    known = leaves_of(inputs.astype(np.float64), roots, cut, threshold.astype(np.float64), left, right)
    assert np.array_equal(-1 - found, known)


@pytest.mark.parametrize("leaves", [1, 3, 300])
def test_without_a_grid_nothing_is_warned_of(leaves, tmp_path):
    rng, kind = np.random.default_rng(0), np.dtype("float64")
    roots, cut, threshold, left, right, lower, upper = grown(rng, kind, 3, 3, leaves)
    far = np.full((50, 3), 1e3)  # what is likely saves no steps
    tree = Tree(roots, cut, threshold, left, right, lower, upper, far)
    starts = np.arange(left[cut < 0].max() + 1)
    code = "enum { m_OUTPUTS = 3 };\n" + tree_code(tree, starts, "double") + _LOOP
    (tmp_path / "tree.c").write_text(
        "#include <math.h>\n" + code.replace("REAL", "double").replace("@", "m").replace("COLUMNS", "3")
    )
    for level in ("-O0", "-O1", "-O3"):
        command = ["cc", *STRICT, level, "-shared", "-fPIC", "tree.c", "-o", "tree.so"]
        subprocess.run(command, cwd=tmp_path, check=True)

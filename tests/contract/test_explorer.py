"""Every model that has a tether can be explored in a report."""

from __future__ import annotations

import json
from base64 import b64decode

import numpy as np
import pytest
from every_model import KINDS, Subject, each, parts, transitions

import tether
from tether.report.building import chapter_of
from tether.report.explorer import SIDE_POINTS, explorer_data
from tether.report.page import book
from tether.report.reading import read_explorer
from tether.trusted import as_trusted

# Operators keep outputs between the same limits: one of them will do.
one_each = each(Subject(kind, "clip") for kind in KINDS if kind != "free")
SLICED = {"interval": "cells", "affine": "planes", "monotone": "planes", "direct": "everywhere"}


def explored(subject: Subject) -> dict:
    data = transitions(KINDS[subject.kind].angles, subject.trusted)
    probes = tether.Probes.from_box({"speed": 0.0}, count=50, like=data)
    return explorer_data(subject.model(), as_trusted(subject.trusted), data, probes, name=str(subject))


def decoded(coded: dict) -> np.ndarray:
    """As the page reads them."""
    low, step = (np.frombuffer(b64decode(coded[key]), "<f4").astype(float) for key in ("low", "step"))
    codes = np.frombuffer(b64decode(coded["codes"]), "<i2").reshape(coded["shape"]).astype(float)
    values = np.where(codes == -32768, np.nan, low + (codes + 32767) * step)
    return np.where(codes == 32767, np.inf, values)


@one_each
def test_every_tether_is_explored(subject, tmp_path):
    data = explored(subject)
    (tmp_path / "explorer.json").write_text(json.dumps(data))
    read = read_explorer(tmp_path)
    assert read == json.loads(json.dumps(data)) and len(json.dumps(data)) < 320_000
    assert [name for name in ("cells", "planes", "everywhere") if read[name]] == [SLICED[read["kind"]]]
    results = {"name": "x", "runs": [{"method": "Trusted"}], "units": {}}
    page = book("x", [chapter_of(results, tmp_path)])
    assert 'class="explorer"' in page and str(subject) in page


@one_each
def test_what_is_explored_is_what_the_model_says(subject):
    """Along lines, predictions between their limits; on planes, a delta that is the model's, or slightly more."""
    data, model = explored(subject), subject.model()
    for reference in data["references"]:
        lines = decoded(reference["lines"]).reshape(61, 3, 2, 4)
        assert np.isfinite(lines[..., 0]).mean() > 0.5
        _, off, lower, upper = np.moveaxis(lines[np.isfinite(lines[..., 0])], -1, 0)
        assert (lower <= off + 1e-3).all() and (off <= upper + 1e-3).all()
        for (across, up), coded in zip(data["planes"], reference["deltas"], strict=True):
            points = np.arange(SIDE_POINTS**2)
            rows = np.tile(reference["inputs"], (len(points), 1))
            for k, order in ((across, points % SIDE_POINTS), (up, points // SIDE_POINTS)):
                low, high = reference["spans"][k]
                rows[:, k] = low + (order + 0.5) / SIDE_POINTS * (high - low)
            found, shown = model.predict(*parts(rows), details=True).delta, np.exp(decoded(coded))
            # Spans are written with nine digits, so that a point at a face may change sides.
            near = np.isclose(shown, found, rtol=1e-3) | ((found <= 0) & np.isnan(shown))
            assert near.mean() > 0.9


@pytest.mark.parametrize("kind", ["free"])
def test_without_a_tether_there_is_nothing_to_explore(kind):
    with pytest.raises(ValueError, match="must stay near M to be explored; one of kind 'unconstrained'"):
        explored(Subject(kind, "clip"))

"""A few dozen forged files, in seconds; `python tests/fuzz/forged.py` runs the ten thousand."""

import json

import forged
import forged_boxes
import numpy as np
import pytest
from signing import rewrite


def test_forged_files_are_not_accepted():
    counts, wrong = forged.main(["--count", "48"])
    assert not wrong, "\n".join(wrong)
    assert counts["refused"] > 10 and counts["certificates refused"] > 1 and counts["accepted, affine"] > 0


@pytest.mark.parametrize("number", range(forged_boxes.SYSTEMS))
def test_what_is_not_forged_is_accepted(number, tmp_path):
    model, trusted = forged_boxes.model_of(number)
    forged.save(model, tmp_path / "model.safetensors")
    (tmp_path / "certificate.json").write_text(json.dumps(forged_boxes.certificate_of(number)))
    assert forged.tether.verify(tmp_path, trusted).verified


def test_a_false_claim_is_found(tmp_path):
    """The search itself: claims that are false by much, of intervals and of boxes."""
    for name, (model, trusted) in {
        "bounds.delta": forged.model_of(1),
        "bounds.remainder": forged_boxes.model_of(0),
    }.items():
        path = tmp_path / "forged.safetensors"
        forged.save(model, path)

        def less(arrays, words, name=name):
            arrays[name] *= 0.3

        rewrite(path, less)
        assert forged.refuted(path, trusted, np.random.default_rng(0), 3000) is not None

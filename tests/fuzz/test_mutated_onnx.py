"""A few mutated files on every run; `python tests/fuzz/mutated_onnx.py` takes as many as you like."""

from collections import Counter

import mutated_onnx

import tether


def test_mutated_files_are_refused_or_proved(tmp_path):
    path = tmp_path / "model.safetensors"
    tether.save(mutated_onnx.small_model(), path)
    counts = mutated_onnx.mutated(path, mutated_onnx.pushed, count=40, seed=7)
    assert counts["refused"] + counts["proved"] == 40
    assert counts["refused"] > 25 and counts["proved"] > 0, counts
    seen = Counter(name.split(",")[0] for name in counts if "," in name)
    assert len(seen) == len(mutated_onnx.MUTATIONS)

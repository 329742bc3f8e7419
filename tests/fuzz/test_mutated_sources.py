"""A few mutated files on every run; `python tests/fuzz/mutated_sources.py` takes as many as you like."""

import mutated_onnx
import mutated_sources

import tether
from compiled import needs_compiler


@needs_compiler
def test_mutated_files_are_refused_or_proved(tmp_path):
    path = tmp_path / "model.safetensors"
    tether.save(mutated_onnx.small_model(), path)
    counts = mutated_sources.mutated(path, mutated_onnx.pushed, count=90, seed=3)
    assert counts["refused"] + counts["proved"] == 90
    assert counts["refused"] > 60 and counts["proved"] > 0, counts
    seen = {name.split(",")[0] for name in counts if "," in name}
    assert len(seen) == 3 * (len(mutated_sources.TEXTS) + 1) + 2

"""A few dozen forged files, in seconds; `python tests/fuzz/forged.py` runs the ten thousand."""

import forged


def test_forged_files_are_not_accepted():
    counts, wrong = forged.main(["--count", "72", "--minutes", "0.5"])
    assert not wrong, "\n".join(wrong)
    assert counts["refused"] > 20 and counts["accepted"] > 0


def test_a_false_claim_is_found(tmp_path):
    """The search itself: a claim that is false by a third."""
    import numpy as np

    model, trusted = forged.model_of(1)
    path = tmp_path / "forged.safetensors"
    forged.save(model, path)
    tensors, words = forged.read_tensors(path)
    arrays = {name: values.numpy().copy() for name, values in tensors.items()}
    arrays["bounds.slopes"] *= 0.3
    forged.sign(path, arrays, words)
    assert forged.refuted(path, trusted, np.random.default_rng(0), 3000) is not None

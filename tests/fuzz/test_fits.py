"""A dozen random fits, in seconds; `python tests/fuzz/fits.py` runs the two thousand."""

import fits
import numpy as np
from subject import main


def test_a_few_fits():
    tally = main("fits", fits.run, count=12, arguments=[], seconds=120)
    assert tally.wrong == 0, "\n".join(tally.failures)
    assert sum(tally.counts[f"fits {kind}"] for kind in ("interval", "affine")) >= 4


def test_a_delta_that_is_too_small_is_found(monkeypatch):
    """Of an interval tether, whose worst case is reached where M's range ends."""
    true = fits.tether.fit

    def understated(data, *, trusted, **settings):
        model = true(data, trusted=trusted, **(settings | {"bounds": "interval", "evidence": "proved"}))
        model.tether.delta.mul_(0.5)
        model.tether.derive()
        return model

    monkeypatch.setattr(fits.tether, "fit", understated)
    monkeypatch.setattr(fits, "check_claims", lambda *arguments: None)
    tally = main("fits", fits.run, count=30, arguments=["--failures", "3"])
    assert tally.wrong == 3


def test_slopes_that_are_known_of_halves_of_a_leaf_alone_are_looked_for(tmp_path):
    """A system of equations along a knot of a table: `verify` gave a leaf up by M's range, which says little."""
    case = fits.make_case(np.random.default_rng(9914043))
    assert "linalg.solve" in case.system.source and "interp" in case.system.source
    settings = case.settings | {"bounds": "affine", "evidence": "proved", "leaves": 300, "order": 1}
    trusted = case.system.build()
    model = fits.tether.fit(case.data, trusted=trusted, **settings)
    fits.tether.save(model, tmp_path / "model.safetensors")
    assert fits.tether.verify(tmp_path / "model.safetensors", trusted).verified

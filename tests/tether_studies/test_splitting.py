"""Splits that are given come back from the library's own, by chance."""

from __future__ import annotations

import numpy as np
import pytest

from tether.data import make_schema
from tether.fitting import FitConfig, prepare
from tether_studies.splitting import arranged_probes, arranged_transitions

SCHEMA = make_schema(["x"], ["u"])


def _rows(count: int, value: float):
    rows = value + np.linspace(0, 0.5, count)[:, None]
    return rows, rows, rows


@pytest.mark.parametrize("seed", range(6))
def test_parts_come_back(seed):
    parts = tuple(_rows(count, value) for count, value in ((30, 0.0), (5, 1.0), (7, 2.0)))
    shares = (5 / 42, 7 / 42)
    data = arranged_transitions(parts, SCHEMA, seed=seed)  # type: ignore[arg-type]
    inputs = tuple(np.concatenate(part[:2], axis=1) for part in parts)
    probes = arranged_probes(inputs, SCHEMA, shares=shares, seed=seed)  # type: ignore[arg-type]
    config = FitConfig(seed=seed, validation=shares[0], test=shares[1])
    problem = prepare(data, trusted=lambda states, controls: states + controls, probes=probes, config=config)
    for part, found, omega in zip(inputs, problem.data, problem.probes, strict=True):
        np.testing.assert_array_equal(found.inputs, part)
        np.testing.assert_array_equal(np.sort(omega.inputs, axis=0), part)


def test_shares_must_be_those_of_the_parts():
    parts = tuple(np.zeros((count, 2)) for count in (30, 5, 7))
    with pytest.raises(ValueError, match=r"`shares` must be those of the parts held out; got \(0.5, 0.1\)"):
        arranged_probes(parts, SCHEMA, shares=(0.5, 0.1), seed=0)  # type: ignore[arg-type]

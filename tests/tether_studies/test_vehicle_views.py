"""Pictures, and the numbers they show."""

import io

import numpy as np
import pytest
from PIL import Image

from tether.report.figures import as_png, as_svg
from tether_studies.drift import drift_figure
from tether_studies.vehicle.data import SCHEMAS
from tether_studies.vehicle.town import HALF_WIDTH, build_town
from tether_studies.vehicle.trusted import unicycle
from tether_studies.vehicle.views import (
    at_rest_animation,
    at_rest_figure,
    drift_at_rest,
    drift_distances,
    drift_distribution_figure,
    envelope_at_rest,
    parked_poses,
    town_figure,
)

SCHEMA = SCHEMAS["pose"]


def creeping(states, controls):
    """A model that moves every parked car by 0.3 m and 0.4 m a step."""
    return states + np.array([0.3, 0.4, 0.0])


@pytest.fixture(scope="module")
def paths():
    start = parked_poses(SCHEMA, count=20)
    steps = {"Trusted": unicycle, "Vanilla": creeping, "Tethered (10)": unicycle}
    return {name: drift_at_rest(step, SCHEMA, start) for name, step in steps.items()}


def test_drift_is_the_distance_from_where_each_car_was_parked(paths):
    assert paths["Vanilla"].shape == (51, 21, 3)
    np.testing.assert_array_equal(paths["Vanilla"][0, 0], 0)
    np.testing.assert_allclose(drift_distances(paths["Vanilla"])[50], 25.0)
    assert drift_distances(paths["Tethered (10)"]).max() == 0
    assert np.abs(paths["Vanilla"][0, 1:, :2]).max() < HALF_WIDTH


def test_envelope_adds_up_what_each_step_is_allowed():
    class Details:
        delta = np.array([[0.03, 0.04, 0.001]])

        def __init__(self, states):
            self.next_states = states

    def predict(states, controls, details):
        assert details
        return Details(states)

    envelope = envelope_at_rest(predict, SCHEMA, np.zeros(3), steps=4)
    np.testing.assert_allclose(envelope, 0.05 * np.arange(5))


def test_figures_show_every_method_and_the_envelope(paths):
    first = {name: path[:, 0] for name, path in paths.items()}
    envelope = {"Tethered (10)": np.linspace(0, 0.1, 51)}
    text = as_svg(at_rest_figure({0: first, 1: first}, {0: envelope}))
    for words in ("Seed 0", "Seed 1", "Vanilla", "Tethered (10): certified", "25 m", "0 m"):
        assert words in text
    text = as_svg(drift_distribution_figure({n: drift_distances(p)[-1] for n, p in paths.items()}, steps=50))
    assert "Tethered (10) (100.0% still)" in text and "Vanilla (0.0% still)" in text
    assert "Drift from where it was parked" in as_svg(drift_figure(first))


def test_animation_runs_from_the_first_step_to_the_last(paths):
    first = {name: path[:6, 0] for name, path in paths.items()}
    animation = at_rest_animation(first, {"Tethered (10)": np.linspace(0, 0.1, 6)})
    with Image.open(io.BytesIO(animation)) as picture:
        assert picture.format == "GIF" and picture.n_frames >= 5
        frames = []
        for index in (0, picture.n_frames - 1):
            picture.seek(index)
            frames.append(np.asarray(picture.convert("L"), dtype=float))
    assert np.abs(frames[0] - frames[1]).max() > 100


@pytest.mark.parametrize("colour", ["speed", "friction"])
def test_the_town_is_drawn(colour, rng: np.random.Generator):
    positions, speeds = rng.uniform(-150, 150, (4, 3, 2)), rng.uniform(0, 9, (3, 3))
    figure = town_figure(build_town(0), positions, speeds, colour=colour)
    assert "snow (0.4)" in as_svg(figure) and colour in as_svg(figure)
    assert as_png(figure).startswith(b"\x89PNG")

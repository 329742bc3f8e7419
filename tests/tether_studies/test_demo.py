import json
import re

import numpy as np
import pytest

from tether.report.figures import as_png
from tether.report.page import Section, page
from tether.report.tables import Grid, number, percent
from tether_studies import parked_car
from tether_studies.demo import METHODS
from tether_studies.drift import drift_figure


@pytest.fixture
def demo(small_demo):
    return small_demo


def test_the_car_is_not_the_unicycle_but_rests():
    data = parked_car.drive(episodes=10, steps=40)
    error = np.abs(data.next_states - parked_car.unicycle(data.states, data.controls))
    assert 0.005 < error.max() < 0.5
    rest = np.zeros((1, 3)), np.zeros((1, 2))
    np.testing.assert_array_equal(parked_car.unicycle(*rest), rest[0])


def test_lipschitz_constants_of_the_unicycle_hold():
    rng = np.random.default_rng(0)
    low, high = [-50, -50, -np.pi, 0, -1], [50, 50, np.pi, parked_car.TOP_SPEED, 1]
    one, two = rng.uniform(low, high, (2, 20_000, 5))
    increments = [parked_car.unicycle(s[:, :3], s[:, 3:]) - s[:, :3] for s in (one, two)]
    constants = parked_car.TRUSTED.lipschitz_constants(parked_car.SCHEMA, "increment")
    assert constants is not None
    assert (np.abs(increments[0] - increments[1]) <= np.abs(one - two) @ constants.T + 1e-12).all()


def test_folder_holds_what_the_design_says(demo):
    folder, _, report = demo
    names = {path.name for path in folder.path.iterdir()}
    assert names == {
        "config.toml", "metrics.jsonl", "results.json", "model.safetensors", "certificate.json", "report.html",
        "drift.png", "drift.svg", "explorer.json", "box-delta.svg", "box-slices.svg",
    }  # fmt: skip
    results = json.loads((folder.path / "results.json").read_text())
    assert [run["method"] for run in results["runs"]] == ["Trusted", *(method.name for method in METHODS)]
    assert results["runs"][0]["drift_at_rest"] == 0.0
    certificate = json.loads((folder.path / "certificate.json").read_text())
    assert certificate["evidence"] == "proved" and certificate["certified"]
    assert certificate["approximation_cost"]["sharp_holds"] == 1.0
    assert report == folder.path / "report.html"


def test_report_is_self_contained(demo):
    text = demo[2].read_text()
    assert not re.search(
        r"""(?:src|href)=["'](?!#|data:image/)""", text.replace('xlink:href="#', "").replace('href="#', "")
    )
    assert "PROVED: for any weights" in text and "data:image/svg+xml" in text and "tether demo" in text
    assert len(text) < 1_000_000


def test_page_escapes_what_it_is_given():
    grid = Grid("<t>", ("a<b",), (("<script>alert",),))
    text = page("<title>", "v", [Section("<s>", ["<p>"], [grid])], command="<c>", versions={"x": "1"})
    assert "<script>alert" not in text and "&lt;script&gt;alert" in text


def test_the_drift_is_drawn():
    still = drift_figure({"Trusted": np.zeros((21, 3)), "Vanilla": np.cumsum(np.ones((21, 3)), 0)})
    assert "0 m" in [text.get_text() for text in still.axes[1].texts]
    assert as_png(still).startswith(b"\x89PNG")


def test_numbers_are_not_rounded_up():
    assert percent(1.0) == "100 %"
    assert percent(0.99999) == "> 99.99 %"
    assert percent(None) == "not measured"
    assert number(0.0) == "0" and number(None) == "-" and number(1.23456e-9) == "1.23e-09"

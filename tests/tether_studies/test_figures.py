"""What the figures of every study show stays inside them."""

from itertools import product

import pytest

from tether_studies.figures import memories_figure


@pytest.mark.parametrize("units", [("mg/dl",), ("m", "rad"), ("m", "rad", "m/s")])
def test_the_legend_of_delta_against_memories_is_inside_its_figure(units):
    delta = {f"x{k}": {"max": 2.0, "median": 1.0} for k in range(len(units))}
    runs = [
        {"method": method, "memories": memories, "delta_D": delta, "delta_certified": delta}
        for method, memories in product(("Constrained", "Tethered"), (1000, 2000))
    ]
    figure = memories_figure(runs, dict(zip(delta, units, strict=True)))
    assert figure is not None
    figure.canvas.draw()
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 4
    shown, whole = legend.get_window_extent(), figure.bbox
    assert whole.x0 <= shown.x0 and shown.x1 <= whole.x1
    assert whole.y0 <= shown.y0


def test_a_method_that_is_in_one_panel_only_is_in_the_legend():
    runs = [
        {"method": method, "memories": memories, "delta_D": delta, "delta_certified": delta}
        for method, name in (("Constrained", "x"), ("Monotone", "y"))
        for delta in [{name: {"max": 2.0, "median": 1.0}}]
        for memories in (10, 20)
    ]
    figure = memories_figure(runs, {"x": "m", "y": "rad"})
    assert figure is not None
    (legend,) = figure.legends
    assert {text.get_text().split(",")[0] for text in legend.get_texts()} == {"Constrained", "Monotone"}

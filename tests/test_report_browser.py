"""The report in a real Chromium: it opens from disk, and its parts answer."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tether.report.building import build_report
from tether.report.explorer import SIDE_POINTS, explorer_data

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


@pytest.fixture(scope="module")
def report(small_demo, small_study, tmp_path_factory) -> Path:
    """A run and two studies on one page."""
    return build_report(
        [small_study.parent, small_demo[2].parent], tmp_path_factory.mktemp("page") / "all.html"
    )


@pytest.fixture
def opened(browser, report):
    """Opens the report; afterwards there must have been no error, and nothing asked from anywhere."""
    complaints, contexts = [], []

    def open_page(path: Path | None = report, *, width: int = 1280, height: int = 900, scheme: str = "light"):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        # On a machine that is busy with something else, a browser may have to wait.
        page.set_default_timeout(180_000)
        page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda r: complaints.append(r.url) if not r.url.startswith(("file:", "data:")) else None,
        )
        if path is not None:
            page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def shown(page, selector: str):
    """The first such place, filled."""
    place = page.locator(selector).first
    place.scroll_into_view_if_needed()
    place.locator("canvas").first.wait_for()
    return place


def test_it_opens_small_and_fast(opened, report):
    assert report.stat().st_size < 5_000_000
    page = opened(path=None)
    session = page.context.new_cdp_session(page)
    # Seconds of computing, because a busy machine's clock says nothing of the page.
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(report.as_uri())
    metrics = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
    assert 0 < metrics["TaskDuration"] < 2
    for selector in ("div.curves", "div.explorer"):
        for k in range(page.locator(selector).count()):
            page.locator(selector).nth(k).scroll_into_view_if_needed()
            page.locator(selector).nth(k).locator("canvas").first.wait_for()
    assert page.locator(".bar a").count() == 4, "an overview and three chapters"
    assert page.locator("article").first.locator("tr.fails .mark").first.inner_text() == "✗ does not hold"


def test_a_click_toggles_a_curve(opened):
    page = opened()
    curves = shown(page, "div.curves")
    assert curves.locator(".chart").count() == 4
    state = (
        "place => [...place.querySelectorAll('.chart')].map(h => h.chart.series.filter(s => s.show).length)"
    )
    before = curves.evaluate(state)
    button = curves.locator("[data-method='Vanilla']")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert curves.evaluate(state) == [count - 3 for count in before], "a line and the two ends of its band"
    hidden = curves.evaluate(
        "place => place.querySelector('.chart').chart.series.find(s => s.label === 'Vanilla').show"
    )
    assert hidden is False
    page.locator("#theme").click()
    assert curves.evaluate(state) == [count - 3 for count in before], (
        "a change of colours shows nothing again"
    )
    button.click()
    assert curves.evaluate(state) == before
    button.click(modifiers=["Shift"])
    assert curves.evaluate(state) == [4] * 4, "steps, a line and its band"


def test_curves_zoom_and_tell_values(opened):
    page = opened()
    curves = shown(page, "div.curves")
    chart = curves.locator(".chart").first
    over = chart.locator(".u-over")
    box = over.bounding_box()
    over.hover(position={"x": box["width"] / 2, "y": box["height"] / 2})
    assert "step" in chart.locator(".tip").inner_text() and "Vanilla" in chart.locator(".tip").inner_text()
    span = "h => [h.chart.scales.x.min, h.chart.scales.x.max]"
    low, high = chart.evaluate(span)
    box = over.bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.2 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.8 * box["height"], steps=5)
    page.mouse.up()
    zoomed = chart.evaluate(span)
    assert low < zoomed[0] < zoomed[1] < high
    over.dblclick()
    assert chart.evaluate(span) == [low, high]


def test_an_axis_that_begins_just_below_a_decade_has_ticks(opened):
    """uPlot's own never come to an end there: the next step from 0.00097 is past 0.001, and no power of ten."""
    chart = shown(opened(), "div.curves").locator(".chart").first
    ticks = """h => new Promise(answer => {
        h.chart.hooks.draw = [u => answer(u.axes[1]._splits)];
        h.chart.setScale('y', { min: 0.00097, max: 0.02 });
    })"""
    leads = [k * 10.0**power for power in (-3, -2) for k in range(1, 10)]
    assert np.allclose(chart.evaluate(ticks), [tick for tick in leads if tick <= 0.02], rtol=1e-12, atol=0)


def test_a_training_looked_at_once_shows_points(opened, small_demo, tmp_path):
    """Of one evaluation a line would show nothing."""
    folder = tmp_path / "run"
    shutil.copytree(small_demo[2].parent, folder)
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(line for line in lines if json.loads(line)["step"] == 20))
    page = opened(build_report([folder], tmp_path / "page.html"))
    # Colour is of points alone: axes, labels and the grid are grey.
    coloured = """canvas => {
        const ink = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        let count = 0;
        for (let k = 0; k < ink.length; k += 4)
            count += ink[k + 3] > 200 && Math.max(ink[k], ink[k + 1], ink[k + 2]) - Math.min(ink[k], ink[k + 1], ink[k + 2]) > 60;
        return count;
    }"""
    assert shown(page, "div.curves").locator("canvas").first.evaluate(coloured) > 100


def test_a_click_on_a_heading_sorts(opened):
    page = opened()
    table = page.locator("article#c1 table.sortable").first
    column = "(t, k) => [...t.tBodies[0].rows].map(row => row.cells[k].textContent)"
    first = table.evaluate("t => [...t.tBodies[0].rows].map(row => row.cells[1].textContent)")
    assert any("±" in text for text in first)
    mean = lambda text: float(text.split(" ")[0])  # noqa: E731
    head = table.locator("th").nth(1)
    for order, expected in (
        ("ascending", sorted(first, key=mean)),
        ("descending", sorted(first, key=mean, reverse=True)),
    ):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == order
        now = table.evaluate(column.replace("(t, k)", "t").replace("[k]", "[1]"))
        assert [mean(text) for text in now] == [mean(text) for text in expected]
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") is None
    assert table.evaluate("t => [...t.tBodies[0].rows].map(row => row.cells[1].textContent)") == first


def test_the_explorer_answers(opened):
    """That of the model that is kept, which has leaves: delta on planes."""
    page = opened()
    explorer = shown(page, "div.explorer")
    canvas = explorer.locator(".panel > canvas")
    picture = "c => c.toDataURL()"
    before = canvas.evaluate(picture)
    start = [explorer.locator(f"[data-choice={k}]").input_value() for k in ("across", "up")]
    other = next(
        value for value in explorer.locator("[data-choice=across] option").evaluate_all("o => o.map(x => x.value)")
        if value not in start
    )  # fmt: skip
    explorer.locator("[data-choice=across]").select_option(other)
    after = canvas.evaluate(picture)
    assert after != before
    assert explorer.locator("[data-choice=along]").input_value() == other, "the line follows"
    assert "Fixed on this slice: 3 other inputs" in explorer.locator("details").inner_text()
    # The same input on both axes makes no plane: the other gives way.
    explorer.locator("[data-choice=up]").select_option(other)
    assert explorer.locator("[data-choice=across]").input_value() != other
    for name, value in zip(("across", "up"), start, strict=True):
        explorer.locator(f"[data-choice={name}]").select_option(value)
    assert canvas.evaluate(picture) == before
    deltas, box = set(), canvas.bounding_box()
    for share in (0.05, 0.35, 0.5, 0.65, 0.95):
        canvas.click(position={"x": 62 + share * (box["width"] - 80), "y": share * (box["height"] - 60)})
        deltas.add(explorer.get_attribute("data-delta"))
        assert "in the domain" in explorer.locator(".info").inner_text()
    assert len(deltas) > 1
    assert explorer.locator(".info tbody tr").count() == 3
    values = "place => place.querySelector('[data-line]').chart.data[4].filter(v => v !== null)"
    line = explorer.evaluate(values)
    explorer.locator("[data-choice=output]").select_option("1")
    assert explorer.evaluate(values) != line
    explorer.locator("[data-choice=mode]").select_option("absolute")
    explorer.locator("[data-choice=reference]").select_option("2")
    data = explorer.evaluate("place => place.querySelector('[data-line]').chart.data")
    for low, high, predicted in zip(data[1], data[2], data[4], strict=True):
        slack = 1e-4 * (1 + abs(predicted or 0))
        assert predicted is None or low - slack <= predicted <= high + slack


def test_a_map_shows_delta_of_the_model(opened, small_demo):
    """Of the marked point, whichever way round the plane is looked at."""
    _, comparison, path = small_demo
    page = opened(path)
    explorer = shown(page, "div.explorer")
    source = page.locator("script[id^=explorer]").first.evaluate("s => JSON.parse(s.textContent)")
    first, second = source["start"]
    for across, up in ((first, second), (second, first)):
        explorer.locator("[data-choice=across]").select_option(str(across))
        explorer.locator("[data-choice=up]").select_option(str(up))
        for k, reference in enumerate(source["references"]):
            explorer.locator("[data-choice=reference]").select_option(str(k))
            inputs = np.array([reference["inputs"]])
            for column in (across, up):  # to the nearest point of the map
                low, high = reference["spans"][column]
                place = np.floor((inputs[0, column] - low) / (high - low) * SIDE_POINTS).clip(
                    0, SIDE_POINTS - 1
                )
                inputs[0, column] = low + (place + 0.5) / SIDE_POINTS * (high - low)
            delta = comparison.kept.model.limits(inputs).delta[0, 0]
            assert float(explorer.get_attribute("data-delta")) == pytest.approx(delta, rel=2e-3)


@pytest.fixture(scope="module")
def of_method(small_demo, tmp_path_factory):
    """A page with the explorer of another method of the demonstration."""

    def build(name: str) -> tuple[Path, Any]:
        _, comparison, path = small_demo
        folder, problem = tmp_path_factory.mktemp(name) / "run", comparison.problem
        shutil.copytree(path.parent, folder)
        model = next(fit.model for fit in comparison.fits if fit.method.name == name)
        data = explorer_data(model, problem.trusted, problem.split.test, problem.probe_sets[2], name=name)
        (folder / "explorer.json").write_text(json.dumps(data))
        return build_report([folder], folder / "page.html"), model

    return build


def test_the_explorer_finds_the_nearest_memory(opened, of_method):
    """The picture's cells, found row by row, are those of a search through all memories."""
    path, model = of_method("Constrained")
    page = opened(path)
    explorer = shown(page, "div.explorer")
    source = page.locator("script[id^=explorer]").first.evaluate("s => JSON.parse(s.textContent)")
    for k, reference in enumerate(source["references"]):
        explorer.locator("[data-choice=reference]").select_option(str(k))
        chosen = int(explorer.get_attribute("data-cell"))
        assert chosen == model.limits(np.array([reference["inputs"]])).cell[0]
    explorer.locator("[data-choice=extent]").select_option("all")
    canvas, cells = explorer.locator(".panel > canvas"), set()
    box = canvas.bounding_box()
    for share in (0.2, 0.35, 0.5, 0.65, 0.8):
        canvas.click(position={"x": 62 + share * (box["width"] - 80), "y": share * (box["height"] - 60)})
        cells.add(explorer.get_attribute("data-cell"))
        assert f"Cell {explorer.get_attribute('data-cell')}" in explorer.locator(".info").inner_text()
    assert len(cells) > 1


def test_where_delta_is_the_same_everywhere_no_slice_is_shown(opened, of_method):
    path, model = of_method("Direct")
    explorer = shown(opened(path), "div.explorer")
    assert "is not shown" in explorer.inner_text() and explorer.locator("[data-choice=across]").count() == 0
    assert explorer.locator(".info tbody tr").count() == 3
    assert float(explorer.get_attribute("data-delta")) == pytest.approx(float(model.tether.deltas[0][0]))
    explorer.locator("[data-choice=along]").select_option("1")
    assert explorer.locator("[data-line]").evaluate("l => l.chart.data[4].every(v => v !== null)")


def test_dark_and_light(opened):
    background = "getComputedStyle(document.body).backgroundColor"
    light, dark = opened(scheme="light"), opened(scheme="dark")
    white, black = light.evaluate(background), dark.evaluate(background)
    assert white == "rgb(255, 255, 255)" and black != white
    light.locator("#theme").click()
    assert light.evaluate(background) == black
    assert light.evaluate("getComputedStyle(document.querySelector('figure')).backgroundColor") == white
    light.locator("#theme").click()
    assert light.evaluate(background) == white


def test_a_phone_scrolls_one_way(opened):
    page = opened(width=390, height=844)
    for selector in ("div.curves", "div.explorer"):
        shown(page, selector)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    tables = "[...document.querySelectorAll('.scroll')].every(t => t.getBoundingClientRect().right <= 390)"
    assert page.evaluate(tables)


def test_a_certificate_page_opens(opened, small_demo, tmp_path):
    from tether.files.runs import certificate_page

    path = tmp_path / "certificate.html"
    path.write_text(certificate_page(small_demo[1].certificate, command="tether certify"), encoding="utf-8")
    page = opened(path)
    assert "PROVED" in page.locator(".lead").inner_text()


def test_nothing_of_a_folder_runs(opened, small_study, tmp_path):
    """A drawing with a script, an event and a reference; the page's own scripts go on working."""
    hostile = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="400" height="100" onload="parent.document.title=1">'
        '<script>window.top.document.title="owned"</script><rect width="400" height="100" fill="#0a0"/></svg>'
    )
    folder = tmp_path / "study"
    shutil.copytree(small_study, folder)
    (folder / "drift.svg").write_text(hostile)
    results = json.loads((folder / "results.json").read_text())
    results["title"] = '<img src=x onerror="document.title=1">'
    results["sections"][0]["pictures"][0]["caption"] = '"><img src=x onerror="document.title=2">'
    (folder / "results.json").write_text(json.dumps(results))
    page = opened(build_report([folder], tmp_path / "page.html"))
    shown(page, "div.explorer")
    assert page.title().startswith("Tether: <img") and page.locator("main svg script").count() == 0
    picture = page.locator("figure img").first
    assert picture.evaluate("i => i.complete && i.naturalWidth") == 400
    assert page.locator("main img").count() == page.locator("figure > img").count()

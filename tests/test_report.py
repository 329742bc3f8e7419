"""Reports: built from folders alone, small, and honest about what older or damaged folders hold."""

import json
import re
import shutil
from base64 import b64decode, b64encode
from hashlib import sha256

import numpy as np
import pytest

from tether.data import Probes, Scaling, Transitions, make_schema
from tether.evidence import Sampled
from tether.geometry.cells import Cells
from tether.model import Frame, mlp
from tether.model.assembling import constrained_model
from tether.report.building import build_report
from tether.report.curves import TITLES, curves_data
from tether.report.explorer import explorer_data
from tether.report.page import Section, compact_svg, page
from tether.report.seeds import certificates_grid, deltas_grid
from tether.report.styles import line_styles, page_styles
from tether.tethers.bounds import IntervalBounds
from tether.trusted import TrustedModel

METRICS = tuple(TITLES)


def decoded(coded):
    """As the page reads them."""
    low, step = (np.frombuffer(b64decode(coded[key]), "<f4").astype(float) for key in ("low", "step"))
    codes = np.frombuffer(b64decode(coded["codes"]), "<i2").reshape(coded["shape"]).astype(float)
    assert not (codes == 32767).any(), "infinite: only outside the domain"
    return np.where(codes == -32768, np.nan, low + (codes + 32767) * step)


@pytest.fixture(scope="module")
def explored(small_demo):
    _, comparison, _ = small_demo
    problem = comparison.problem
    model = next(fit.model for fit in comparison.fits if fit.method.name == "Constrained")
    return model, problem, explorer_data(model, problem.trusted, problem.split.test, problem.probe_sets[2])


def test_rounded_cells_are_the_cells(explored):
    model, _, data = explored
    memories = decoded(data["cells"]["memories"])
    assert np.abs(memories - model.cells.memories).max() <= np.ptp(model.cells.memories, axis=0).max() / 65000
    assert data["cells"]["radii"] == [pytest.approx(model.cells.radii[0])]
    delta = np.exp(decoded(data["cells"]["delta"]))
    assert (delta >= model.bounds.delta).all(), "a delta is never shown smaller than it is"
    np.testing.assert_allclose(delta, model.bounds.delta, rtol=1e-3)


def test_a_delta_of_zero_stays_zero(explored):
    model, problem, _ = explored
    lower = np.zeros((len(model.cells), 3))
    zero = IntervalBounds(lower, lower, lower, lower, Sampled())
    frozen = constrained_model(model.network, model.frame, model.cells, zero)
    data = explorer_data(frozen, problem.trusted, problem.split.test, problem.probe_sets[2])
    assert np.isnan(decoded(data["cells"]["delta"])).all()


def test_lines_are_what_the_model_says(explored):
    model, problem, data = explored
    outputs = len(model.schema.outputs)
    for reference in data["references"]:
        inputs = np.array(reference["inputs"])
        lines = decoded(reference["lines"]).reshape(61, len(inputs), outputs, 4)
        for column, span in enumerate(reference["spans"]):
            rows = np.tile(inputs, (61, 1))
            rows[:, column] = np.linspace(*span, 61)
            told = model.predict(rows[:, :3], rows[:, 3:], details=True)
            trusted = problem.trusted(rows[:, :3], rows[:, 3:], model.schema)
            shown = ~np.isnan(lines[:, column, 0, 0])
            # The ends of a span were written with nine digits, so a point at the rim may change sides.
            assert (shown != told.in_domain).sum() <= 2 and shown.any()
            both = shown & told.in_domain
            answer, off, lower, upper = np.moveaxis(lines[both, column], -1, 0)
            step = np.ptp(trusted[both], axis=0) / 60_000 + 1e-5
            assert (np.abs(answer - trusted[both]) <= step).all()
            assert (np.abs(answer + off - told.next_states[both]) <= step + 1e-4).all()
            assert (lower <= off + 1e-4).all() and (off <= upper + 1e-4).all()


def test_references_are_held_out_rows_and_probes(explored):
    _, _, data = explored
    labels = [reference["label"] for reference in data["references"]]
    assert len(labels) == 6 and sum("held-out D" in label for label in labels) == 3
    assert len(set(data["start"])) == 2
    assert len(json.dumps(data)) < 150_000


def test_a_large_model_is_explored_in_little_room():
    """24 inputs, 12 outputs and 2,000 cells."""
    rng = np.random.default_rng(0)
    states, outputs = [f"s{k}" for k in range(20)], [f"y{k}" for k in range(12)]
    schema = make_schema(states, [f"u{k}" for k in range(4)], outputs)
    memories = rng.normal(size=(2000, 24))
    cells = Cells(
        memories, np.zeros((0, 2), np.int64), np.ones(24), np.array(4.0), np.full(24, -9.0), np.full(24, 9.0)
    )
    center = rng.normal(size=(2000, 12))
    bounds = IntervalBounds(center - 1, center + 1, rng.uniform(0.5, 2, (2000, 12)), center, Sampled())
    frame = Frame(
        schema, "next_state", Scaling(np.zeros(24), np.ones(24)), Scaling(np.zeros(12), np.ones(12))
    )
    model = constrained_model(mlp(24, 12, (8,)), frame, cells, bounds)
    rows = rng.normal(size=(500, 24))
    data = Transitions.from_arrays(
        rows[:, :20], rows[:, 20:], rows[:, :12], schema=schema, episodes=np.arange(500)
    )
    probes = Probes.from_arrays(rows[:, :20], rows[:, 20:], schema=schema)
    trusted = TrustedModel(lambda states, controls: states[:, :12])
    explored = explorer_data(model, trusted, data, probes)
    assert len(json.dumps(explored)) < 650_000 and len(explored["references"]) == 2
    assert explored["references"][0]["lines"]["shape"] == [61, 24 * 12 * 4]


def test_one_report_of_several_folders(small_demo, small_study, tmp_path):
    _, _, report = small_demo
    together = build_report([report.parent, small_study.parent], tmp_path / "new" / "all.html")
    text = together.read_text()
    assert "3 results" in text and "In this report" in text
    assert "the second study" in text and "tether demo --out run" in text and "uPlot" in text
    assert text.count("<article") == 4 and together.stat().st_size < 5_000_000


def test_a_study_says_what_held_and_what_failed(small_study, tmp_path):
    text = build_report([small_study], tmp_path / "report.html").read_text()
    assert "0 of 1 claims of ours hold, and 1 of 1 of the paper; 24 runs at scale smoke, 1 failed." in text
    assert "✗ does not hold" in text and "x: broke" in text and "&lt;b&gt; conforms" in text
    assert "A car" in text and "On the road" in text
    assert "of Tethered (60), seed 0, in plain words" in text and "PROVED: for any weights" in text


def test_an_older_folder_does_without(small_study, tmp_path):
    """No title, headings, sections, explorer; a certificate without float32."""
    old = tmp_path / "old"
    shutil.copytree(small_study, old)
    (old / "explorer.json").unlink()
    results = json.loads((old / "results.json").read_text())
    for key in ("title", "headings", "sections", "failed"):
        del results[key]
    for run in results["runs"]:
        for delta in run.get("certificate", {"deltas": []})["deltas"]:
            delta.pop("single", None)
    (old / "results.json").write_text(json.dumps(results))
    text = build_report([old], tmp_path / "report.html").read_text()
    assert "drift at rest" in text and "<h2>Explorer" not in text and "<figure>" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "must hold a finished run; it has no results.json"),
        ("{", "results.json` must be results of Tether; it cannot be read"),
        ("[]", r"must be results of Tether; `it` must be a table; got \[\]"),
        ('{"name": "x"}', "must be results of Tether; `runs` is missing"),
        ('{"name": "x", "runs": [3], "units": {}}', r"`runs\[0\]` must be a table; got 3"),
        ('{"name": "x", "runs": [{}], "units": {}}', r"`runs\[0\].method` is missing"),
        ('{"name": "x", "runs": [], "units": {}}', "must hold at least one run; got none"),
        ('{"name": NaN}', "NaN is no number of JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_damaged_folders_are_refused_in_one_line(tmp_path, content, message):
    folder = tmp_path / "run"
    folder.mkdir()
    if content is not None:
        (folder / "results.json").write_text(content)
    with pytest.raises(ValueError, match=message) as caught:
        build_report([folder], tmp_path / "report.html")
    assert "\n" not in str(caught.value) and not (tmp_path / "report.html").exists()


def test_no_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must be a folder of a finished run; there is none"):
        build_report([tmp_path / "nothing"], tmp_path / "report.html")
    with pytest.raises(ValueError, match="must name at least one finished run; got none"):
        build_report([], tmp_path / "report.html")


def test_a_report_is_built_again_without_training(small_demo, tmp_path):
    _, _, report = small_demo
    assert build_report([report.parent], tmp_path / "again.html").read_text() == report.read_text()


def test_curves_over_seeds():
    evaluations = [[{"step": 1, **dict.fromkeys(METRICS, v)}, {"step": 2, **dict.fromkeys(METRICS, 0.0)}] for v in (1.0, 100.0)]  # fmt: skip
    data = curves_data({"Trusted": [[]], "Vanilla": [*evaluations[:1], evaluations[1][:1]]})
    assert data is not None and [m["name"] for m in data["methods"]] == ["Vanilla"] and data["seeds"] == 2
    line = data["methods"][0]["metrics"]["approximation_loss_D"]
    assert line == {"mean": [10.0], "low": [1.0], "high": [100.0]}
    assert curves_data({"Trusted": [[]]}) is None


def test_styles_are_the_same_on_the_page():
    names = ["Trusted", "Vanilla", "Residual", "A", "B", "C", "Tethered (10)", "Tethered (20)"]
    for style, drawn in zip(line_styles(names).values(), page_styles(names), strict=True):
        assert drawn["color"] == style["color"] and (drawn["dash"] == []) == (style["ls"] == "-")


def test_drawings_are_shortened_and_labels_are_not():
    svg = '<svg id="a"><!-- x --><path id="b" d="M 1.23456 7.0001 L 1.5e-05 2"/><use href="#b"/><text x="3.14159">0.00123</text></svg>'
    short = compact_svg(svg)
    assert 'd="M 1.23 7.00 L 1.5e-05 2"' in short and 'x="3.14"' in short and "0.00123" in short
    assert 'id="b"' in short and 'id="a"' not in short and "<!--" not in short


def test_tables_of_runs_in_different_outputs():
    runs = [
        {"method": name, "memories": None, "seed": 0, "evidence_level": "proved", "coverage_D": 1.0, "coverage_omega": 1.0,
         "delta_certified": {output: {"max": 2.0, "median": 1.0}}, "delta_D": {output: {"median": 1.0}}}
        for name, output in (("one", "x"), ("two", "y"))
    ]  # fmt: skip
    assert deltas_grid(runs, {"x": "m"}).rows == (("x [m]", "2 / 1", "-"), ("y [-]", "-", "2 / 1"))
    assert certificates_grid(runs).rows[0] == ("one", "proved", "100 %", "100 %", "-", "-")


# --- folders from anywhere

SCRIPT = '<svg xmlns="http://www.w3.org/2000/svg" onload="document.title=1"><script>document.title=1</script></svg>'


@pytest.fixture
def folder(small_study, tmp_path):
    copy = tmp_path / "study"
    shutil.copytree(small_study, copy)
    return copy


def change(folder, edit):
    results = json.loads((folder / "results.json").read_text())
    edit(results)
    (folder / "results.json").write_text(json.dumps(results))


def test_drawings_of_a_folder_are_images_and_never_part_of_the_page(folder, tmp_path):
    (folder / "drift.svg").write_text(SCRIPT)
    text = build_report([folder], tmp_path / "page.html").read_text()
    assert "document.title=1" not in text and "<svg" not in text
    assert f"data:image/svg+xml;base64,{b64encode(SCRIPT.encode()).decode()}" in text


def test_only_scripts_of_our_own_may_run(folder, tmp_path):
    text = build_report([folder], tmp_path / "page.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
    assert "unsafe" not in policy and policy.startswith("default-src 'none'; script-src 'sha256-")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    allowed = {b64encode(sha256(script.encode()).digest()).decode() for script in scripts}
    assert allowed == set(re.findall(r"'sha256-([^']*)'", policy.split("style-src")[0]))


def test_text_of_a_folder_cannot_leave_its_element(folder, tmp_path):
    hostile = "</script><script>document.title=1</script><!--"
    change(folder, lambda r: r.update(title=hostile, command=hostile, name=hostile))
    explorer = json.loads((folder / "explorer.json").read_text())
    explorer["inputs"][0] = hostile
    (folder / "explorer.json").write_text(json.dumps(explorer))
    text = build_report([folder], tmp_path / "page.html").read_text()
    assert hostile not in text and "<!--" not in text and "\\u003c/script\\u003e" in text


@pytest.mark.parametrize(
    "name", ["../outside", "../../outside", "/etc/outside", "a/b", "..", "", ".hidden", "a\\b"]
)
@pytest.mark.parametrize("kind", ["pictures", "animations"])
def test_pictures_are_of_the_folder_itself(folder, tmp_path, kind, name):
    (tmp_path / "outside.svg").write_text("<svg/>")
    change(folder, lambda r: r["sections"][0].update({kind: [{"name": name, "caption": "A car"}]}))
    with pytest.raises(ValueError, match="results.json` must name pictures of its own folder; got"):
        build_report([folder], tmp_path / "page.html")


def test_links_out_of_the_folder_are_not_followed(folder, tmp_path):
    (tmp_path / "outside.svg").write_text("<svg/>")
    (folder / "drift.svg").unlink()
    (folder / "drift.svg").symlink_to(tmp_path / "outside.svg")
    with pytest.raises(ValueError, match="drift.svg` must be a file of its own folder; it is a link"):
        build_report([folder], tmp_path / "page.html")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("metrics.jsonl", '{"method": 3}', "line 1.step` is missing"),
        ("metrics.jsonl", "\n{", "metrics.jsonl` must be metrics of Tether; it cannot be read at line 2"),
        ("metrics.jsonl", "\udcff", "metrics.jsonl` must be text in UTF-8"),
        ("certificate.json", "{}", "certificate.json` must be a certificate of Tether; `claim` is missing"),
        ("certificate.json", '{"claim": 1e999}', "must be a certificate of Tether"),
        (
            "explorer.json",
            '{"format": "1"}',
            "explorer.json` must be a model of Tether to explore; `format` must be",
        ),
        ("drift.svg", "no drawing", "drift.svg` must be an SVG drawing"),
        ("drift.gif", "no animation", "drift.gif` must be a GIF"),
    ],
)
def test_damaged_files_beside_the_results_are_named(folder, tmp_path, name, content, message):
    (folder / name).write_bytes(content.encode(errors="surrogateescape"))
    animation = {"animations": [{"name": "drift", "caption": "It moves"}]}
    change(folder, lambda r: (r["sections"][0].update(animation), [run.pop("history") for run in r["runs"]]))
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        build_report([folder], tmp_path / "page.html")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: d["references"][0]["deltas"].pop(), "deltas` must have a square for each of"),
        (lambda d: d["references"][0]["deltas"][0].update(shape=[2, 3]), "must have 12 bytes for its shape"),
        (lambda d: d.update(planes=[[0, 9]] * len(d["planes"])), "`planes` must be there and of the inputs"),
        (lambda d: d.update(everywhere=[1.0] * 3), "must be one of them alone"),
        (lambda d: d.update(everywhere="all"), "`everywhere` must be"),
    ],
)
def test_a_damaged_explorer_is_named(folder, tmp_path, damage, message):
    explorer = json.loads((folder / "explorer.json").read_text())
    damage(explorer)
    (folder / "explorer.json").write_text(json.dumps(explorer))
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        build_report([folder], tmp_path / "page.html")
    assert "\n" not in str(caught.value) and "a model of Tether to explore" in str(caught.value)


@pytest.mark.parametrize("number", [1, 3])
def test_an_explorer_of_another_format_is_left_out(folder, tmp_path, number):
    (folder / "explorer.json").write_text(json.dumps({"format": number, "cells": 3}))
    assert "<h2>Explorer" not in build_report([folder], tmp_path / "page.html").read_text()


def test_many_methods_have_styles():
    assert len(line_styles([f"method {k}" for k in range(40)])) == 40


def test_a_certificate_without_a_run_it_is_of(small_demo, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(small_demo[2].parent, copy)
    change(copy, lambda r: [run.pop("coverage_D", None) for run in r["runs"]])
    assert "PROVED" in build_report([copy], tmp_path / "page.html").read_text()


def test_what_stands_between_backticks_is_code():
    """And nothing of it is ever part of the page."""
    made = page(
        "A page",
        "Give `delta=`.",
        [Section("Words", ["Not `<b>x</b>`, nor one ` alone."])],
        command="",
        versions={},
    )
    assert "Give <code>delta=</code>." in made
    assert "Not <code>&lt;b&gt;x&lt;/b&gt;</code>, nor one ` alone." in made

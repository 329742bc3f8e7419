"""What a report shows of a model over an operating box: the numbers behind it, and when it shows nothing."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from tether.claims.claims import Recheck
from tether.claims.cost import ApproximationCost
from tether.cli import results as shown
from tether.cli import terminal
from tether.data import Jitter, Transitions, make_schema
from tether.files.runs import RunFolder, compare
from tether.fitting import CONSTRAINED, TETHERED, VANILLA, FitConfig
from tether.learning.config import TrainingConfig
from tether.report import boxes
from tether.report.building import _run_verdicts, build_report, run_lead
from tether.report.tables import certificate_lines, cost_line, domain_lines, errors_grid, recheck_line


@pytest.fixture(scope="module")
def kept(small_demo):
    """A car: M is a unicycle, which bends along the heading alone."""
    comparison = small_demo[1]
    return comparison.kept.model, comparison.problem, comparison.certificate


def finished(transitions, trusted, methods, folder, bounds="affine"):
    """A run of a second or two, as ``tether fit`` makes it."""
    config = FitConfig(memories=20, bounds=bounds, hidden=(8,), alpha=0.1, training=TrainingConfig(steps=5))
    run = RunFolder.create(folder, "tether fit")
    comparison = compare(
        transitions, trusted=trusted, probes=Jitter(), methods=methods, config=config, folder=run
    )
    return comparison, run.finish(comparison, name="fit")


def cart_model(states, controls):
    """Bends along the speed, for the speed alone."""
    speed = states[:, 1]
    return np.stack([states[:, 0] + 0.1 * speed, speed + 0.1 * (controls[:, 0] - np.sin(speed))], axis=1)


# --- numbers


def test_cuts_are_where_leaves_end(kept):
    bounds = kept[0].bounds
    lower, upper = bounds.tree.boxes()
    found = boxes.cuts(bounds)
    assert found.sum() == bounds.tree.leaves - len(bounds.tree.roots)
    for output, row in enumerate(found):
        own = bounds.output == output
        whole = (lower[own] == bounds.tree.lower) & (upper[own] == bounds.tree.upper)
        assert ((row == 0) == whole.all(axis=0)).all()
    assert boxes.most_bending(bounds) == [2]
    assert boxes.most_moving(bounds)[:1] != [0] and len(boxes.most_moving(bounds)) >= 2


def test_the_box_is_told_input_by_input(kept):
    model, problem, certificate = kept
    grid = boxes.inputs_grid(model, problem.transitions.inputs)
    rows = {row[0]: row[1:] for row in grid.rows}
    low, high, least, most, bends, count = rows["heading [rad]"]
    assert (low, high, bends) == ("-3.142", "3.142", "x, y") and int(count.replace(",", "")) > 0
    assert -3.15 < float(least) < float(most) < 3.15
    assert rows["speed [m/s]"][-2:] == ("none (free)", "0")
    for name, row in zip(certificate.domain.box, rows.values(), strict=True):
        np.testing.assert_allclose([float(row[0]), float(row[1])], certificate.domain.box[name], rtol=1e-3)


def test_spreads_are_those_of_the_certificate(kept):
    model, problem, certificate = kept
    held_out = boxes.spreads(model, problem.split.test.inputs)
    assert held_out.covered == certificate.domain.coverage_D
    assert (held_out.delta >= held_out.remainder).all()
    for k, told in enumerate(certificate.deltas):
        np.testing.assert_allclose(np.quantile(held_out.delta[:, k], [0.5, 0.99]), told.held_out)
        assert np.quantile(held_out.remainder[:, k], 0.99) == pytest.approx(told.remainder[1])
        assert boxes.spreads(model, boxes.box_points(model)).delta[:, k].max() <= told.maximum


def test_slices_are_what_the_model_says(kept):
    model, problem, _ = kept
    through = boxes.median_row(model, problem.split.test.inputs)
    assert (problem.split.test.inputs == through).all(axis=1).any()
    for along in range(5):
        line = boxes.slice_along(model, problem, along, through)
        assert (line.at[0], line.at[-1]) == (
            model.bounds.tree.lower[along],
            model.bounds.tree.upper[along],
        )
        slack = 1e-12
        assert (line.lower <= line.prediction + slack).all() and (line.prediction <= line.upper + slack).all()
        assert (np.abs(line.lower) <= line.delta + slack).all()
        assert (np.abs(line.upper) <= line.delta + slack).all()
    row = np.tile(through, (1, 1))
    row[0, 4] = line.at[100]
    told = model.predict(row[:, :3], row[:, 3:], details=True)
    trusted = problem.trusted(row[:, :3], row[:, 3:], model.schema)
    np.testing.assert_allclose(line.prediction[100], (told.next_states - trusted)[0], atol=1e-9)
    np.testing.assert_allclose(line.delta[100], told.delta[0])


def test_the_band_is_judged_as_the_certificate_does(kept):
    model, problem, certificate = kept
    grid = boxes.band_grid(model, problem.split.test, certificate.band)
    total = len(problem.split.test)
    for row, missed in zip(grid.rows, certificate.band.missed, strict=True):
        assert row[1] == f"{round(missed * total):,} of {total:,}"
        assert (row[4] == "yes") == (missed <= 1 - certificate.band.probability)
    limits = model.limits(problem.split.test.inputs)
    flat = (limits.upper == limits.lower).any(axis=1).mean()
    assert boxes.closed_share(model, problem.split.test.inputs) == flat


def test_a_planted_glitch_is_named_by_its_place_in_the_data(cart, tmp_path):
    noise = np.random.default_rng(0).normal(0, 0.01, (len(cart), 2))
    following = cart_model(cart.states, cart.controls) + noise
    test = cart.split(seed=0).test
    row = int(np.flatnonzero(~np.isin(cart.episodes, test.episodes))[100])
    following[row] += [0, 5.0]
    data = Transitions.from_arrays(
        cart.states, cart.controls, following, episodes=cart.episodes, schema=cart.schema
    )
    comparison, report = finished(data, cart_model, [VANILLA, TETHERED], tmp_path / "run")
    band = comparison.certificate.band
    first = boxes.wild_rows(comparison.kept.model, comparison.problem, band.rows)[0]
    assert first.row == row and first.episode == cart.episodes[row]
    assert first.output == 1 and first.away == pytest.approx(5.0, abs=0.1)
    assert first.half_width < 1
    assert len(boxes.wild_rows(comparison.kept.model, comparison.problem, tuple(range(30)))) == 10
    assert "Rows to look at, farthest outside first" in report.read_text()


def test_a_trusted_model_that_has_no_answer_in_a_part_of_the_box(tmp_path):
    """A tank by Torricelli: there is no root of a level below 0, which the box reaches beyond the data."""

    def tank(states, controls):
        with np.errstate(invalid="ignore"):
            return states + 0.1 * (controls - np.sqrt(states))

    rng = np.random.default_rng(0)
    states, controls = rng.uniform(0.8, 4, (1200, 1)), rng.uniform(0, 2, (1200, 1))
    following = tank(states, controls) - 0.01 * controls
    schema = make_schema(["level"], ["pump"])
    data = Transitions.from_arrays(states, controls, following, episodes=np.arange(1200) // 30, schema=schema)
    comparison, report = finished(data, tank, [VANILLA, TETHERED], tmp_path / "run")
    lines = "\n".join(certificate_lines(comparison.certificate))
    assert "the box of the certificate but for leaves over which nothing is known of M, at least" in lines
    problem, model = comparison.problem, comparison.kept.model
    assert model.bounds.tree.lower[0] < 0
    line = boxes.slice_along(model, problem, 0, boxes.median_row(model, problem.split.test.inputs))
    assert (np.isnan(line.trusted[:, 0]) == (line.at < 0)).all()
    assert "Over the operating box" in report.read_text()


# --- the page


def test_a_run_holds_the_section_and_its_pictures(small_demo):
    folder = small_demo[2].parent
    sections = {s["title"]: s for s in json.loads((folder / "results.json").read_text())["sections"]}
    over = sections["Over the operating box"]
    assert [picture["name"] for picture in over["pictures"]] == ["box-delta", "box-slices"]
    assert "How often reality left the band" in [
        g["title"] for g in sections["Reality and the band"]["grids"]
    ]
    text = small_demo[2].read_text()
    assert (
        '"name":"Tethered (60)","kind":"affine"' in text
        and "none (free)" in text
        and "20,000" not in over["pictures"][0]["caption"]
    )
    for name in ("box-delta", "box-slices"):
        drawing = (folder / f"{name}.svg").read_text()
        assert "heading [rad]" in drawing and len(drawing) < 700_000


def test_an_interval_run_has_none(cart, tmp_path):
    comparison, report = finished(
        cart, cart_model, [VANILLA, CONSTRAINED], tmp_path / "run", bounds="interval"
    )
    assert boxes.box_sections(comparison.kept.model, comparison.problem, None) == []
    assert json.loads((report.parent / "results.json").read_text())["sections"] == []
    assert "operating box" not in report.read_text() and "<h2>Explorer" in report.read_text()
    assert not list(report.parent.glob("box-*.svg"))


def test_many_outputs_are_drawn_in_part(kept):
    schema = replace(kept[0].schema)
    assert boxes._some(schema, [0, 1]) == " The 2 outputs that bend most; 1 more are not drawn."
    assert boxes._some(schema, [0, 1, 2]) == ""


# --- a useless certificate, and words


def useless(comparison):
    certificate = comparison.certificate
    told = replace(certificate.conformance, concerns=("output 'x': the delta is too large",))
    others = tuple(claim for claim in certificate.claims if claim is not certificate.conformance)
    return replace(certificate, claims=(told, *others))


def test_a_useless_certificate_is_not_green_on_the_page(small_demo, tmp_path):
    _, comparison, report = small_demo
    certificate = useless(comparison)
    for name in ("results.json", "metrics.jsonl"):
        (tmp_path / name).write_text((report.parent / name).read_text())
    (tmp_path / "certificate.json").write_text(json.dumps(certificate.as_dict()))
    text = build_report([tmp_path], tmp_path / "page.html").read_text()
    row = text[: text.index("Its certificate is of use")].rsplit("<tr", 1)[1]
    assert 'class="fails"' in row and "✗ does not hold" in row
    assert text.index("Its certificate is of use") < text.index("of the trusted model, for any weights")
    assert "Of little use: output &#x27;x&#x27;: the delta is too large." in text
    assert "Of little use" in run_lead(comparison.results, certificate)
    assert "Of little use" not in run_lead(comparison.results, comparison.certificate)


def test_a_model_that_is_worse_than_the_trusted_one_is_called_that(small_demo):
    _, comparison, _ = small_demo
    better = "it is the better model here"
    assert better not in run_lead(comparison.results, comparison.certificate)
    runs = [dict(run) for run in comparison.results]
    runs[-1]["approximation_loss_D"] *= 1e6
    assert better in run_lead(runs, comparison.certificate)
    said = [verdict.said for verdict in _run_verdicts(runs, comparison.certificate.as_dict())]
    assert said[0] == "It is more accurate on held-out data than M alone"


def test_a_useless_certificate_is_red_in_the_terminal(small_demo, monkeypatch, tmp_path):
    _, comparison, report = small_demo
    spoilt = replace(
        comparison,
        fits=tuple(replace(fit, certificate=useless(comparison)) if fit is comparison.kept else fit
                   for fit in comparison.fits),
    )  # fmt: skip
    for told, red in ((spoilt, True), (comparison, False)):
        page = io.StringIO()
        console = Console(file=page, force_terminal=True, width=110, color_system="standard")
        monkeypatch.setattr(terminal, "console", console)
        monkeypatch.setattr(shown, "console", console)
        shown.show_comparison(told, report)
        assert ("\x1b[1;31m" in page.getvalue()) == red
        assert page.getvalue().index("M is the trusted model. D is your data") < page.getvalue().index("on Ω")
        assert page.getvalue().index("Methods with Δ predict the change") < page.getvalue().index("Vanilla Δ")


def test_a_band_that_misses_is_a_verdict(small_demo, tmp_path):
    _, comparison, report = small_demo
    content = comparison.certificate.as_dict()
    for missed, mark in ((0.0, "holds"), (0.5, "fails")):
        for name in ("results.json", "metrics.jsonl"):
            (tmp_path / name).write_text((report.parent / name).read_text())
        band = content["band"] | {"missed": [0.0, missed, 0.0]}
        (tmp_path / "certificate.json").write_text(json.dumps(content | {"band": band}))
        text = build_report([tmp_path], tmp_path / "page.html").read_text()
        row = text[: text.index("Reality stays in the band as often as claimed")].rsplit("<tr", 1)[1]
        assert f'class="{mark}"' in row


def test_sentences_are_for_people(small_demo):
    certificate = small_demo[1].certificate
    fresh = replace(certificate.conformance, recheck=Recheck(4800, 0.5, (0.1,), 0.2456))
    cells = replace(fresh, domain=replace(fresh.domain, radius=(0.2408, 0.2408)))
    line = recheck_line(replace(certificate, claims=(fresh,)))
    assert line == (
        "At 4,800 new points inside the leaves, no prediction that the model could make with any weights was "
        "farther from M than 0.500000 of delta. At 24.56 % of them it cannot give M's own answer exactly, only "
        "one within delta of it."
    )
    assert "at most 0.2408 away from a memory" in domain_lines(replace(certificate, claims=(cells,)))[0]
    told = cost_line(ApproximationCost((0.1,), None, None, 0.9, 1.0, (0.2,), 0.0822))
    assert "out of reach of the model for 8.22 % of held-out measurements" in told
    assert "Γ" not in told and "tether miss" not in told


def test_many_outputs_are_listed_down_the_page():
    def run(name, outputs):
        measured = {f"y{k}": 0.1 * k for k in range(outputs)}
        return {"method": name, "rmse": measured, "worst_error": measured}

    few = errors_grid([run("Trusted", 3), run("Direct", 3)], {"y1": "m"})
    assert few is not None and few.header == ("method", "y0", "y1 [m]", "y2")
    many = errors_grid([run("Trusted", 13), run("Direct", 13)], {"y1": "m"})
    assert many is not None and many.header == ("output", "Trusted", "Direct")
    assert len(many.rows) == 13 and many.rows[1] == ("y1 [m]", "0.1 (0.1)", "0.1 (0.1)")

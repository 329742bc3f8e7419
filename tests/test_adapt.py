"""New weights, the same tether: what adapting keeps, what it improves, and what it says."""

from __future__ import annotations

import copy
import json
from functools import cache

import numpy as np
import pytest
import torch

import tether
from conftest import TRUSTED_SOURCE, frictionless, write_csv
from tether.cli.running import run
from tether.data import Transitions, make_schema
from tether.files.storage import load, save
from tether.model import Model

SCHEMA = make_schema(["x", "v"], ["u"])


def drive(friction: float, *, episodes: int = 8, seed: int = 1) -> Transitions:
    rng = np.random.default_rng(seed)
    states, controls, following, names = [], [], [], []
    for episode in range(episodes):
        x, v = rng.normal(size=2)
        for force in rng.normal(size=25):
            states.append([x, v])
            controls.append([force])
            names.append(episode)
            x, v = x + 0.1 * v, v + 0.1 * (force - friction * v) + 0.001 * rng.normal()
            following.append([x, v])
    return Transitions.from_arrays(states, controls, following, episodes=names, schema=SCHEMA)


@cache
def learned(**settings) -> Model:
    training = tether.TrainingConfig(steps=40)
    data = drive(0.3, episodes=12, seed=0)
    return tether.fit(data, trusted=frictionless, training=training, memories=20, leaves=50, **settings)


def tether_bytes(model: Model) -> bytes:
    return b"".join(value.numpy().tobytes() for value in model.tether.state_dict().values())


def test_another_friction_is_learned_and_the_tether_stays():
    model, new = learned(), drive(0.38)
    weights = [value.clone() for value in model.network.parameters()]
    found = model.adapt(new, steps=50)
    assert found.after["v"] < 0.8 * found.before["v"] and "v" in found.changed
    assert tether_bytes(found.model) == tether_bytes(model)
    assert all(map(torch.equal, model.network.parameters(), weights)), "the model itself must stay as it is"
    shapes = [[value.shape for value in each.network.parameters()] for each in (model, found.model)]
    assert shapes[0] == shapes[1]
    assert torch.equal(found.model.network[2].weight == 0, model.network[2].weight == 0), "a sum stays one"
    again = model.adapt(new, steps=50).model.predict(new.states, new.controls)
    np.testing.assert_array_equal(again, found.model.predict(new.states, new.controls))


@pytest.mark.parametrize("settings", [{}, {"hidden": (8,)}, {"hidden": (8,), "operator": "sigmoid"},
                                      {"bounds": "interval", "hidden": (8,)}, {"bounds": "direct", "hidden": (8,)}])  # fmt: skip
@pytest.mark.parametrize("friction", [0.3, 0.9])
def test_no_output_is_worse_on_what_was_held_out(settings, friction):
    model = learned(**settings)
    found = tether.adapt(model, drive(friction, seed=3), steps=15)
    held_out = found.held_out
    for each, told in ((model, found.before), (found.model, found.after)):
        error = each.schema.distance(each.predict(held_out.states, held_out.controls), held_out.next_states)
        np.testing.assert_allclose(list(told.values()), np.sqrt((error**2).mean(axis=0)))
    assert all(found.after[name] <= found.before[name] for name in found.before)
    assert tether_bytes(found.model) == tether_bytes(model)


def test_weights_of_noise_do_not_come_in():
    """New data whose truth is noise around what the model says teach nothing."""
    model, new = learned(), drive(0.3, seed=5)
    noise = np.random.default_rng(0).choice([-1.0, 1.0], new.next_states.shape) * 1e-3
    told = model.predict(new.states, new.controls) + noise
    new = Transitions.from_arrays(new.states, new.controls, told, episodes=new.episodes, schema=SCHEMA)
    found = model.adapt(new, steps=5)
    change = np.abs(found.model.predict(new.states, new.controls) - model.predict(new.states, new.controls))
    assert change.max() < 1e-3


def test_truth_outside_the_band_is_counted_and_regrowing_takes_it_in():
    model, new = learned(), drive(1.2)
    found = model.adapt(new, steps=20)
    lower, upper = (
        getattr(model.predict(new.states, new.controls, details=True), end) for end in ("lower", "upper")
    )
    share = ((new.next_states < lower) | (new.next_states > upper)).mean(axis=0)
    np.testing.assert_allclose(list(found.outside.values()), share)
    assert found.outside["v"] > 0.2
    grown = model.adapt(new, steps=20, regrow=True)
    assert grown.regrown > 0 and grown.after["v"] < 0.7 * found.after["v"]
    told = grown.model.predict(new.states, new.controls, details=True)
    inside = ((new.next_states >= told.lower) & (new.next_states <= told.upper)).mean(axis=0)
    assert (inside >= 0.97).all()
    assert (grown.model.bounds.half_width >= model.bounds.half_width).all()
    assert (grown.model.bounds.remainder >= model.bounds.remainder).all()
    certificate = tether.certify(grown.model, frictionless, transitions=grown.held_out)
    assert certificate.certified and certificate.band.episodes == 8


def test_what_was_adapted_is_verified_and_remembers(tmp_path):
    model = learned()
    found = model.adapt(drive(0.4), steps=5).model.adapt(drive(0.5, seed=4), seconds=0.2, regrow=True)
    save(found.model, tmp_path / "model.safetensors")
    assert tether.verify(tmp_path / "model.safetensors", frictionless).verified
    noted = load(tmp_path / "model.safetensors").record["adapted"]
    assert [entry["rows"] for entry in noted] == [200, 200] and noted[1]["regrown"] == found.regrown


@pytest.mark.parametrize(("change", "said"), [
    ({"steps": 5, "seconds": 1.0}, "`steps` must come without `seconds`; got both"),
    ({"steps": 0}, "`steps` must"),
    ({"seconds": -1.0}, "`seconds` must"),
])  # fmt: skip
def test_settings_are_checked(change, said):
    with pytest.raises(ValueError, match=said):
        learned().adapt(drive(0.4), **change)


def test_data_are_checked():
    model = learned()
    with pytest.raises(
        ValueError, match="must hold at least 3 episodes.*got 2.*`--episode COLUMN`.*`--block ROWS`"
    ):
        model.adapt(drive(0.3, episodes=2))
    other = drive(0.3)
    named = make_schema(["x", "speed"], ["u"])
    other = Transitions.from_arrays(
        other.states, other.controls, other.next_states, episodes=other.episodes, schema=named
    )
    with pytest.raises(
        ValueError, match=r"`transitions` must have the states of the model \(x, v\); got x, speed"
    ):
        model.adapt(other)
    with pytest.raises(TypeError, match="must be Transitions; got ndarray"):
        model.adapt(other.states)
    with pytest.raises(ValueError, match="`regrow` must come with affine bounds.*got interval"):
        learned(bounds="interval", hidden=(8,)).adapt(drive(0.3), steps=1, regrow=True)


# --- the command


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trusted.py").write_text(TRUSTED_SOURCE)
    model, known = copy.deepcopy(learned()), tether.load_trusted("trusted.py:known")
    model.record |= {"trusted_source_sha256": known.source_digest}
    run_folder = tmp_path / "run"
    run_folder.mkdir()
    held_out = drive(0.3, seed=9)
    certificate = tether.certify(model, known, transitions=held_out)
    (run_folder / "certificate.json").write_text(json.dumps(certificate.as_dict()))
    save(model, run_folder / "model.safetensors")
    new = drive(0.6)
    rows = np.column_stack([new.episodes, new.states, new.controls])
    write_csv(tmp_path / "new.csv", ["episode", "x", "v", "u"], rows.tolist())
    return tmp_path


def test_the_command_keeps_the_certificate_without_m(folder, capsys):
    asked = ["adapt", "run", "--data", "new.csv", "--episode", "episode", "--steps", "10", "--out", "new"]
    assert run(asked) == 0
    out = capsys.readouterr().out
    assert "Error on held-out new episodes" in out and "outside the band" in out and "--regrow" in out
    written = [json.loads((folder / name / "certificate.json").read_text()) for name in ("run", "new")]
    for field in ("claim", "evidence", "assumptions", "recheck"):
        assert written[0][field] == written[1][field]
    assert [d["maximum"] for d in written[0]["deltas"]] == [d["maximum"] for d in written[1]["deltas"]]
    assert written[0]["band"]["missed"] != written[1]["band"]["missed"]
    assert run(["verify", "new", "--trusted", "trusted.py:known"]) == 0
    told = json.loads((folder / "new" / "adaptation.json").read_text())
    assert told["after"]["v"] < told["before"]["v"]


def test_the_command_regrows_with_m_and_refuses_without(folder, capsys):
    asked = ["adapt", "run", "--data", "new.csv", "--episode", "episode", "--steps", "5", "--regrow", "--out"]
    assert run([*asked, "wide"]) == 2
    assert "`--regrow` must come with `--trusted`" in capsys.readouterr().err
    assert not (folder / "wide").exists()
    assert run([*asked, "wide", "--trusted", "trusted.py:known"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "The room is wider than before in" in told and "old band" in told
    assert run(["verify", "wide", "--trusted", "trusted.py:known"]) == 0
    before, after = (json.loads((folder / n / "certificate.json").read_text()) for n in ("run", "wide"))
    assert after["deltas"][1]["maximum"] > before["deltas"][1]["maximum"]


@pytest.mark.parametrize(("change", "said"), [
    (["--data", "none.csv"], "none.csv"),
    (["--data", "new.csv"], "must hold at least 3 episodes"),
    (["--data", "new.csv", "--episode", "nobody"], "nobody"),
])  # fmt: skip
def test_the_command_refuses_in_a_line(folder, capsys, change, said):
    assert run(["adapt", "run", *change, "--out", "new"]) == 2
    errors = capsys.readouterr().err
    assert said in errors and errors.count("\n") == 1 and not (folder / "new").exists()
    assert run(["adapt", "run", "--data", "new.csv", "--episode", "episode", "--out", "run"]) == 2
    assert "nothing is overwritten" in capsys.readouterr().err

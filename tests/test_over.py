"""Statistical evidence over inputs of the user's own: rows, a box, or what a function draws."""

import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from conftest import TRUSTED_SOURCE, cart_rows, write_csv
from tether import cli
from tether.claims.certificate import certify
from tether.cli.parsing import inputs_over
from tether.evidence import Statistical, as_evidence
from tether.evidence.distributions import MOST_ROWS, Drawn, Rows, Within, settled
from tether.files.storage import load, save
from tether.fitting import FitConfig, plain_settings, prepare, train_method
from tether.fitting.methods import CONSTRAINED, TETHERED
from tether.foundation.atomic import content_digest, read_tensors, write_json, write_tensors
from tether.foundation.errors import CertificateError, StorageError
from tether.learning.config import TrainingConfig
from tether.model.assembling import constrained_model
from tether.verification import verify
from tether_studies import parked_car

TRANSITIONS = parked_car.drive(episodes=20, steps=30)
INPUTS = TRANSITIONS.schema.inputs
MODELS: dict = {}
CORNER = {"speed": (0.0, 0.5)}


def near_standstill(rng, count):
    """Rows of the data, slowed down."""
    rows = TRANSITIONS.inputs[rng.integers(0, len(TRANSITIONS.inputs), count)].copy()
    rows[:, INPUTS.index("speed")] *= 0.1
    return rows


def another(rng, count):
    return near_standstill(rng, count)


def fitted(over, kind="affine"):
    name = str(over)
    if (name, kind) not in MODELS:
        MODELS[name, kind] = fit(over, kind)
    return MODELS[name, kind]


def fit(over, kind):
    config = FitConfig(
        memories=40,
        bounds=kind,
        leaves=60,
        evidence=Statistical(epsilon=0.05, beta=1e-3, over=over),
        domain=parked_car.DOMAIN,
        hidden=(4,),
        training=TrainingConfig(steps=2, evaluate_every=2),
    )
    problem = prepare(TRANSITIONS, trusted=parked_car.unicycle, config=config)
    method = CONSTRAINED if kind == "interval" else TETHERED
    return train_method(problem, replace(method, loss="squared_error"), config).model


@pytest.mark.parametrize(
    ("over", "kind", "words"),
    [
        ("data", "affine", "a row drawn uniformly from"),
        ("box", "interval", "a point uniform in the box"),
        (CORNER, "affine", "speed 0 to 0.5"),
        (near_standstill, "interval", "what the function near_standstill"),
    ],
)
def test_a_claim_over_its_own_inputs_is_made_saved_and_verified(tmp_path, over, kind, words):
    model = fitted(over, kind)
    certificate = certify(model, parked_car.unicycle)
    assert words in certificate.claim and "memory" not in certificate.claim
    path = tmp_path / "model.safetensors"
    save(model, path)
    write_json(tmp_path / "certificate.json", certificate.as_dict())
    given = over if callable(over) else None
    assert certify(load(path), parked_car.unicycle, over=given).claim == certificate.claim
    found = verify(path, parked_car.unicycle, over=given)
    assert found.verified and "fresh draws" in found.statement and words in found.statement


def test_draws_are_from_what_was_said():
    rng = np.random.default_rng(3)
    model = fitted(CORNER)
    drawn = model.bounds.draw(model.cells, 500, model.schema, rng)[:, INPUTS.index("speed")]
    assert drawn.min() >= 0 and drawn.max() <= 0.5
    model = fitted("data")
    drawn = model.bounds.draw(model.cells, 500, model.schema, rng)
    assert {row.tobytes() for row in drawn} <= {row.tobytes() for row in TRANSITIONS.inputs}


def test_a_delta_made_smaller_is_refused_over_its_own_inputs(tmp_path):
    model = fitted("box", "interval")
    bounds = replace(model.bounds, delta=0.1 * model.bounds.delta)
    model = constrained_model(model.network, model.frame, model.cells, bounds)
    with pytest.raises(CertificateError, match=r"at most a fraction 0.05 of inputs must exceed delta"):
        certify(model, parked_car.unicycle)
    save(model, tmp_path / "model.safetensors")
    with pytest.raises(CertificateError, match=r"at most a share 0.05 of inputs may exceed delta"):
        verify(tmp_path / "model.safetensors", parked_car.unicycle)


def test_what_a_file_cannot_hold_is_asked_for(tmp_path):
    path = tmp_path / "model.safetensors"
    save(fitted(near_standstill, "interval"), path)
    with pytest.raises(CertificateError, match="`over` must be the function `near_standstill`"):
        certify(load(path), parked_car.unicycle)
    with pytest.raises(CertificateError, match="which a file cannot hold"):
        verify(path, parked_car.unicycle)
    with pytest.raises(CertificateError, match="another"):
        certify(load(path), parked_car.unicycle, over=another)
    with pytest.raises(CertificateError, match="is not that one"):
        verify(path, parked_car.unicycle, over=another)


def test_a_claim_over_other_inputs_takes_no_function(tmp_path):
    path = tmp_path / "model.safetensors"
    save(fitted("data"), path)
    for call in (lambda: certify(load(path), parked_car.unicycle, over=another),
                 lambda: verify(path, parked_car.unicycle, over=another)):  # fmt: skip
        with pytest.raises(ValueError, match="`over` must come with a claim over what a function draws"):
            call()


def test_rows_in_a_file_are_part_of_its_claim(tmp_path):
    """Other rows are another digest, and a claim that the certificate does not make."""
    path, model = tmp_path / "model.safetensors", fitted("data")
    write_json(tmp_path / "certificate.json", certify(model, parked_car.unicycle).as_dict())
    evidence = replace(model.bounds.evidence, over=Rows(model.bounds.evidence.over.inputs[:50]))
    bounds = replace(model.bounds, evidence=evidence)
    save(constrained_model(model.network, model.frame, model.cells, bounds), path)
    with pytest.raises(CertificateError, match="`claim` of `certificate.json`"):
        verify(path, parked_car.unicycle)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"evidence": "sampled"}, "`over` must come with evidence `statistical`"),
        ({"over": {"kind": "rows"}}, "`over.inputs` is missing"),
        ({"over": {"kind": "sampler"}}, "over.name"),
        ({"over": {"kind": "else"}}, "over.kind"),
        ({"over": None}, "it must hold nothing else; got `over.lower`"),
    ],
)
def test_files_that_contradict_themselves_are_refused(tmp_path, change, message):
    path = tmp_path / "model.safetensors"
    save(fitted("box", "interval"), path)
    tensors, metadata = read_tensors(path)
    metadata |= change
    del metadata["digest"]
    write_tensors(path, tensors, metadata | {"digest": content_digest(tensors, metadata)})
    for read in (load, lambda path: verify(path, parked_car.unicycle)):
        with pytest.raises(StorageError, match=message):
            read(path)


def settle(over):
    box = {"lower": np.zeros(len(INPUTS)), "upper": np.ones(len(INPUTS))}
    return settled(over, TRANSITIONS.schema, data=TRANSITIONS.inputs, **box, seed=0)


def test_what_can_be_given():
    assert isinstance(settle(TRANSITIONS.inputs[:7]), Rows)
    assert isinstance(settle(TRANSITIONS), Rows)
    assert isinstance(settle("box"), Within)
    assert isinstance(settle(another), Drawn)


@pytest.mark.parametrize(
    ("over", "message"),
    [
        (np.zeros((3, 1)), "`over` must have"),
        (np.zeros((MOST_ROWS + 1, len(INPUTS))), "`over` must have 1 to 100,000 rows"),
        (np.zeros((0, len(INPUTS))), "`over` must have 1 to 100,000 rows"),
        ({"nothing": (0, 1)}, "nothing"),
        ({"speed": (1, 0)}, "`over` must have finite limits"),
    ],
)
def test_what_cannot_be_given(over, message):
    with pytest.raises(ValueError, match=message):
        settle(over)


def test_words_that_say_nothing():
    with pytest.raises(ValueError, match="`over` must be 'data', 'box'"):
        Statistical(over="rows")
    with pytest.raises(ValueError, match="`over` must come with evidence `statistical`"):
        as_evidence("proved", over="data")


def test_a_function_that_draws_other_shapes():
    drawn = Drawn.by(lambda rng, count: np.zeros((count, 1)), 2)
    with pytest.raises(ValueError, match=r"`over` must draw rows of shape \(4, 2\)"):
        drawn.draw(4, np.random.default_rng(0))


def test_what_is_typed(tmp_path):
    source = tmp_path / "drawing.py"
    source.write_text("def mine(rng, count):\n    return rng.normal(size=(count, 5))\n")
    assert [inputs_over(text) for text in ("", "data", "box")] == [None, "data", "box"]
    assert inputs_over("speed=0:0.5") == CORNER
    assert inputs_over(f"{source}:mine").__name__ == "mine"
    with pytest.raises(ValueError, match="`--over` must be module:function or file.py:function"):
        inputs_over("rows")


def test_a_frame_is_read_by_the_names_of_its_columns():
    import pandas

    names, rows = list(INPUTS), TRANSITIONS.inputs[:5]
    frame = pandas.DataFrame(rows, columns=names)[names[::-1]]
    found = settle(frame)
    assert isinstance(found, Rows) and np.array_equal(found.inputs, rows)
    with pytest.raises(ValueError, match=f"`over` must have the columns .*: no '{names[0]}'"):
        settle(frame.drop(columns=names[0]))


def test_another_distribution_of_the_same_kind_is_another_setting():
    def draw(rng, count):
        return rng.uniform(0, 1, (count, 2))

    def draw_wider(rng, count):
        return rng.uniform(0, 2, (count, 2))

    kinds = [
        ("data", "box"),
        ({"x": (0, 1)}, {"x": (0, 2)}),
        (draw, draw_wider),
        (np.zeros((2, 2)), np.ones((2, 2))),
    ]
    told = [
        plain_settings(FitConfig(evidence=Statistical(over=over)))["evidence"]["over"]
        for pair in kinds
        for over in pair
    ]
    assert len(set(told)) == len(told) and all(isinstance(one, str) for one in told)


def test_share_and_confidence_come_first():
    assert Statistical(0.02, 1e-3) == Statistical(epsilon=0.02, beta=1e-3)
    with pytest.raises(ValueError, match="`over` must be 'data', 'box'"):
        Statistical(over=0.02)


def test_what_has_no_source_is_not_recognised(tmp_path):
    """Two of them would be taken for one another."""
    drawn = Drawn.by(partial(near_standstill), len(INPUTS))
    with pytest.raises(CertificateError, match="`over` must be the function"):
        drawn.given(partial(near_standstill))


def test_over_on_the_command_line(tmp_path, monkeypatch, capsys):
    """A fit over a sampler of one's own: certified and verified with it, refused without and with another."""
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "log.csv", ["episode", "x", "v", "u"], cart_rows())
    (tmp_path / "m.py").write_text(TRUSTED_SOURCE)
    (tmp_path / "draws.py").write_text(
        "def slow(rng, count):\n    return rng.uniform(-0.1, 0.1, (count, 3))\n\n\n"
        "def slower(rng, count):\n    return rng.uniform(-0.01, 0.01, (count, 3))\n"
    )

    def command(*words):
        monkeypatch.setattr(sys, "argv", ["tether", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return ended.value.code or 0, " ".join((said.out + said.err).split())

    trusted, over = ("--trusted", "m.py:frictionless"), ("--over", "draws.py:slow")
    weak = ("--evidence", "statistical", "--epsilon", "0.05", "--beta", "0.01")
    columns = ("--states", "x,v", "--controls", "u", "--episode", "episode")
    tiny = ("--memories", "6", "--leaves", "50", "--steps", "20", "--hidden", "8")
    code, said = command("fit", "--data", "log.csv", *columns, *trusted, *weak, *over, *tiny, "--out", "run")
    assert code == 0, said
    assert "at most a share 0.05" in said
    assert "slow" in said[said.index("Distribution:") :]
    for verb in ("certify", "verify"):
        assert command(verb, "run", *trusted, *over)[0] == 0
        for other in ((), ("--over", "draws.py:slower")):
            code, said = command(verb, "run", *trusted, *other)
            assert code in (1, 2)
            assert "over" in said

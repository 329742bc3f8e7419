"""`tether verify` of models whose claim holds by construction: monotone ones and direct ones."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from test_monotone import DECLARED, SMALL, M, observed

import tether
from tether.foundation.errors import CertificateError, StorageError
from tether.model.assembling import direct_model

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
from signing import rewrite


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A monotone model's file, its certificate beside it."""
    model = tether.fit(observed(), trusted=M, **SMALL)
    folder = tmp_path_factory.mktemp("monotone")
    tether.save(model, folder / "model.safetensors")
    (folder / "certificate.json").write_text(json.dumps(tether.certify(model, M).as_dict()))
    return folder


@pytest.fixture
def copied(fitted, tmp_path):
    for name in ("model.safetensors", "certificate.json"):
        (tmp_path / name).write_bytes((fitted / name).read_bytes())
    return tmp_path


@pytest.fixture
def bare(copied):
    """The file alone."""
    (copied / "certificate.json").unlink()
    return copied / "model.safetensors"


def test_a_monotone_model_is_verified_with_its_certificate(fitted):
    found = tether.verify(fitted, M)
    assert found.verified and found.evidence == "proved"
    assert found.not_vouched[0].startswith("monotonicity (its premises hold in the file")
    said = json.loads((fitted / "certificate.json").read_text())
    assert [found.deltas[entry["name"]] for entry in said["deltas"]] == [
        (entry["maximum"], entry["median"]) for entry in said["deltas"]
    ]


def test_any_code_that_adds_up_in_the_same_order_is_the_same_model(bare):
    def written(states, controls):
        a, b, c, d, e = *states.T, *controls.T
        return np.stack(
            [
                0.4 + 0.9 * a + b * 0.1 + -0.5 * c + 0.3 * d + -0.02 * e,
                -0.2 * a + -0.1 + 0.8 * b + -0.1 * c + 0.0 * d + -1.5 * e,
            ],
            axis=1,
        )

    assert tether.verify(bare, written).verified


@pytest.mark.parametrize(
    "other",
    [
        lambda s, u: np.column_stack([s, u]) @ M.weights.T + M.intercept,
        lambda s, u: M(s, u) + 0.0 * np.sin(s),
        lambda s, u: M(s, np.clip(u, 0, 2)),
        tether.AffineModel(M.weights, M.intercept + 1e-16),
        tether.AffineModel(np.nextafter(M.weights, 1), M.intercept),
        tether.AffineModel(M.weights[::-1], M.intercept[::-1]),
    ],
    ids=["matrix product", "sine", "clip", "intercept", "weights", "outputs exchanged"],
)
def test_another_trusted_model_is_refused(bare, other):
    with pytest.raises(CertificateError, match="its code does else|the trusted model has"):
        tether.verify(bare, other)


def rising(arrays, metadata):
    arrays["monotone.weights"][:, 2] = 0.5


def seeing(arrays, metadata):
    arrays["monotone.declared"] = arrays["monotone.declared"][:1]
    metadata["network"]["decreasing"] = metadata["network"]["decreasing"][:1]


def another_network(arrays, metadata):
    metadata["network"]["decreasing"] = metadata["network"]["decreasing"][::-1]


def negative(arrays, metadata):
    arrays["monotone.half_width"][0] = -1.0


def increments(arrays, metadata):
    metadata["target"] = "increment"


def turning(arrays, metadata):
    metadata["schema"]["angles"] = ["level"]


@pytest.mark.parametrize("change", [rising, seeing, another_network, negative, increments, turning])
def test_a_premise_that_is_not_met_is_refused(bare, change):
    rewrite(bare, change)
    with pytest.raises((CertificateError, StorageError), match=r"not verified: .*|must be a complete"):
        tether.verify(bare, M)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("deltas['level']", lambda said: said["deltas"][0].update(maximum=1e-9)),
        ("deltas['level']", lambda said: said["deltas"][0].update(single=1e-9)),
        ("monotonicity", lambda said: said["monotonicity"].update(declared=["food", *DECLARED])),
        ("monotonicity", lambda said: said.update(monotonicity=None)),
        ("claim", lambda said: said.update(claim="PROVED: reality is within delta.")),
        ("assumptions", lambda said: said.update(assumptions=[])),
        ("domain", lambda said: said["domain"].update(coverage_box=1.0)),
        ("certified", lambda said: said.update(certified="very")),
        ("sure", lambda said: said.update(sure=True)),
    ],
)
def test_a_certificate_that_says_else_is_refused(copied, field, change):
    said = json.loads((copied / "certificate.json").read_text())
    change(said)
    (copied / "certificate.json").write_text(json.dumps(said))
    with pytest.raises(CertificateError) as refusal:
        tether.verify(copied, M)
    assert f"`{field}`" in str(refusal.value)


def turned(states, controls):
    return np.column_stack([states[:, 0] + 0.1 * controls[:, 0], np.sin(states[:, 1])])


def direct_of(half_width, trusted=turned):
    schema = tether.make_schema(["heading", "x"], ["rate"], angles=["heading"])
    frame = tether.model.Frame(
        schema, "increment", tether.data.Scaling(np.zeros(3), np.ones(3)),
        tether.data.Scaling(np.zeros(2), np.ones(2)),
    )  # fmt: skip
    return direct_model(tether.mlp(4, 2, (4,)), frame, tether.TrustedModel(trusted), np.array(half_width))


@pytest.fixture
def direct(tmp_path):
    """Of its second output nothing is claimed."""
    tether.save(direct_of([0.1, np.inf]), tmp_path / "direct.safetensors")
    return tmp_path / "direct.safetensors"


@pytest.fixture
def run_of_direct(tmp_path):
    """A direct model and its certificate."""
    model = direct_of([0.1, 0.2])
    tether.save(model, tmp_path / "model.safetensors")
    written = tether.certify(model, turned).as_dict()
    (tmp_path / "certificate.json").write_text(json.dumps(written))
    return tmp_path


def test_what_can_be_verified_of_a_direct_model_is_said(direct):
    found = tether.verify(direct, turned)
    assert found.verified and found.deltas["x"] == (np.inf, np.inf)
    assert found.deltas["heading"] == pytest.approx((0.1, 0.1), rel=1e-9)
    assert found.deltas["heading"][0] > 0.1  # the rounding of adding it up is part of it
    assert "cannot be verified from a file" in found.statement
    assert found.not_vouched == ("the trusted model that is asked at run time",)


def test_a_direct_model_of_another_trusted_model_is_refused(direct):
    with pytest.raises(CertificateError, match="output 'x': the trusted model differs from the answer"):
        tether.verify(direct, lambda s, u: turned(s, u) + 1e-3 * np.cos(s))


def test_a_direct_model_without_a_limit_claims_nothing(direct):
    def unlimited(arrays, metadata):
        arrays["direct.half_width"][:] = np.inf

    rewrite(direct, unlimited)
    with pytest.raises(CertificateError, match="nothing is claimed; every half-width is infinite"):
        tether.verify(direct, turned)
    for ask in (tether.certify, tether.attack):
        with pytest.raises((CertificateError, TypeError), match="`model` must be (a )?constrained"):
            ask(tether.load(direct, trusted=turned), turned)


def test_the_certificate_of_a_direct_model_is_compared(run_of_direct):
    said = json.loads((run_of_direct / "certificate.json").read_text())
    assert said["certified"] and said["evidence"] == "proved" and said["domain"]["box"] == {}
    found = tether.verify(run_of_direct, turned)
    assert not any("certificate" in note for note in found.notes)
    assert found.not_vouched == ("the trusted model that is asked at run time", "recheck", "trusted_name")
    for entry in said["deltas"]:
        assert found.deltas[entry["name"]] == pytest.approx((entry["maximum"], entry["median"]), rel=1e-12)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("deltas['x']", lambda said: said["deltas"][1].update(maximum=0.1)),
        ("deltas['x']", lambda said: said["deltas"][1].update(single=0.2)),
        ("monotonicity", lambda said: said.update(monotonicity={"declared": ["rate"]})),
        ("claim", lambda said: said.update(claim="PROVED: reality is within delta.")),
        ("assumptions", lambda said: said.update(assumptions=said["assumptions"][1:])),
        ("evidence", lambda said: said.update(evidence="statistical")),
    ],
)
def test_a_certificate_of_a_direct_model_that_says_else_is_refused(run_of_direct, field, change):
    path = run_of_direct / "certificate.json"
    said = json.loads(path.read_text())
    change(said)
    path.write_text(json.dumps(said))
    with pytest.raises(CertificateError) as refusal:
        tether.verify(run_of_direct, turned)
    assert f"`{field}`" in str(refusal.value)


def test_a_direct_model_is_not_certified_against_another_trusted_model():
    with pytest.raises(CertificateError, match="a fresh one reached"):
        tether.certify(direct_of([0.1, 0.2]), lambda s, u: turned(s, u) + 1e-3)
    assert tether.attack(direct_of([0.1, 0.2]), lambda s, u: turned(s, u) + 1e-3, evaluations=100).broken


def rooted(states, controls):
    """Answers where the second state is not negative."""
    return np.column_stack([states[:, 0] + 0.1 * controls[:, 0], np.sqrt(states[:, 1])])


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_trusted_model_that_does_not_answer_everywhere():
    model = direct_of([0.1, 0.2], rooted)
    certificate = tether.certify(model, rooted)
    assert certificate.certified and 0 < certificate.conformance.recheck.points < 16 * 7
    assert not tether.attack(model, rooted, evaluations=300).broken
    nowhere = direct_of([0.1, 0.2], lambda s, u: np.full((len(s), 2), np.nan))
    with pytest.raises(CertificateError, match="`trusted` must answer somewhere near the data"):
        tether.certify(nowhere, nowhere.tether.trusted)

"""The whole way, from Python, on the embedded car and on a system whose outputs are not its states."""

import json
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import tether
from tether.claims.cost import approximation_cost
from tether.data import Probes, Schema, Transitions, make_schema
from tether.fitting import (
    CONSTRAINED,
    HARDNET,
    TETHERED,
    VANILLA,
    FitConfig,
    build,
    build_for,
    judge,
    learn_method,
    measure_trusted,
    prepare,
    train_method,
)
from tether.fitting.config import check_angles
from tether.learning.config import TrainingConfig
from tether.model.assembling import constrained_model, unconstrained_model
from tether.programs import EnclosureError
from tether_studies import parked_car

SMALL = FitConfig(
    bounds="interval",
    memories=100,
    evidence="lipschitz",
    domain=parked_car.DOMAIN,
    hidden=(32,),
    training=TrainingConfig(steps=200, evaluate_every=100),
)


@pytest.fixture(scope="module")
def problem():
    transitions = parked_car.drive(episodes=60, steps=30)
    probes = parked_car.parked(transitions, count=1000)
    return prepare(transitions, trusted=parked_car.TRUSTED, probes=probes, config=SMALL)


@pytest.fixture(scope="module")
def tethered(problem):
    return build(problem, "interval", SMALL)


def test_no_episode_in_two_parts(problem):
    parts = [
        set(part.episodes) for part in (problem.split.train, problem.split.validation, problem.split.test)
    ]
    assert not parts[0] & parts[1] and not parts[0] & parts[2] and not parts[1] & parts[2]


def test_memories_as_asked(tethered):
    assert tethered.tether.memories == 100
    assert tethered.target == "increment"
    assert (tethered.tether.bounds.lower <= tethered.tether.bounds.upper).all()


def test_results_have_every_key(problem, tethered):
    fitted = judge(problem, learn_method(problem, CONSTRAINED, SMALL, built=tethered))
    result = fitted.measures.as_dict()
    expected = {
        "method", "memories", "seed", "steps", "approximation_loss_D", "constraint_loss_D_mean",
        "constraint_loss_D_max", "constraint_loss_omega_mean", "constraint_loss_omega_max", "delta_certified",
        "evidence_level", "coverage_D", "coverage_omega", "tether_miss_D", "seconds_memories", "seconds_bounds",
        "seconds_training",
    }  # fmt: skip
    assert expected <= set(result)
    json.dumps(result, allow_nan=False)
    assert result["coverage_D"] >= 0.99 and result["coverage_omega"] >= 0.99
    trusted = measure_trusted(problem, 0).as_dict()
    assert trusted["constraint_loss_omega_max"] == 0 < trusted["approximation_loss_D"]


def test_constraining_costs_at_most_the_tether_miss(problem, tethered):
    bare = train_method(problem, VANILLA, SMALL).model
    model = train_method(problem, CONSTRAINED, SMALL, built=tethered).model
    cost = approximation_cost(model, bare, problem.split.test)
    assert cost.sharp_holds == 1.0
    assert cost.paper_bound is not None and cost.paper_holds is not None
    assert all(b >= 2 * e for b, e in zip(cost.paper_bound, cost.epsilon, strict=True))


def test_the_papers_theorem_is_not_a_theorem():
    """f = f_θ = 0 within δ = L |S| of M, as the paper supposes; ε = 0, f_θ is constant, and yet the error is 0.3."""
    schema = Schema(("x",), (), ("y",), advances=(-1,))
    frame = tether.model.Frame(
        schema,
        "next_state",
        tether.data.Scaling(np.zeros(1), np.ones(1)),
        tether.data.Scaling(np.zeros(1), np.ones(1)),
    )
    network = tether.mlp(1, 1, ())
    for parameter in network.parameters():
        parameter.detach().zero_()

    def trusted(states, controls):
        return np.where(states <= 1, 0.3 + 0.1 * states, 0.4 - 0.5 * (states - 1))

    # Cells [0, 1] and [1, 2], of diameter 1; M changes by at most 0.5 over that.
    cells = tether.geometry.cells.Cells(
        np.array([[0.5], [1.5]]), np.array([[0, 1]]), np.ones(1), 0.5, np.zeros(1), np.full(1, 2.0)
    )
    bounds = tether.tethers.bounds.bound_by_intervals(
        cells, tether.TrustedModel(trusted), schema, "next_state", inputs=cells.centers
    )
    np.testing.assert_allclose(bounds.lower, [[0.3], [-0.1]], atol=1e-6)
    np.testing.assert_allclose(bounds.upper, [[0.4], [0.4]], atol=1e-6)
    rows = np.linspace(0, 2, 81)[:, None]
    delta = 0.5
    assert np.abs(trusted(rows, None) - 0.0).max() < delta, "f satisfies the constraint"
    transitions = Transitions.from_arrays(rows, np.empty((81, 0)), np.zeros((81, 1)), schema=schema)
    cost = approximation_cost(
        constrained_model(network, frame, cells, bounds), unconstrained_model(network, frame), transitions
    )
    assert cost.paper_bound == (0.0,) and cost.paper_holds == pytest.approx(0.5, abs=0.02)
    assert cost.sharp_holds == 1.0 and cost.tether_miss == pytest.approx((0.3,), abs=1e-6)


def test_fit_predict_certify_save_load(tmp_path):
    transitions = parked_car.drive(episodes=12, steps=40)
    model = tether.fit(transitions, trusted=parked_car.unicycle, memories=40, hidden=(16,),
                       training=TrainingConfig(steps=50, evaluate_every=50))  # fmt: skip
    prediction = model.predict(transitions.states, transitions.controls, details=True)
    assert prediction.next_states.shape == (480, 3)
    assert prediction.in_domain.mean() > 0.9
    tether.save(model, tmp_path / "model.safetensors")
    again = tether.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(
        again.predict(transitions.states, transitions.controls), prediction.next_states
    )
    assert again.record["config"]["memories"] == 40
    certificate = tether.certify(again, parked_car.unicycle, transitions=transitions)
    assert certificate.domain.coverage_D == prediction.in_domain.mean()


def test_outside_the_domain():
    transitions = parked_car.drive(episodes=8, steps=30)
    model = tether.fit(transitions, trusted=parked_car.unicycle, memories=20, hidden=(4,),
                       training=TrainingConfig(steps=5, evaluate_every=5))  # fmt: skip
    far, still = np.array([[900.0, 0.0, 0.0]]), np.array([[0.0, 0.0]])
    flagged = model.predict(far, still, details=True)
    assert not flagged.in_domain[0] and np.isinf(flagged.delta).all()
    with pytest.raises(ValueError, match="inputs must lie in the model's domain; got 1 of 1 rows outside"):
        model.predict(far, still, outside="raise")
    with pytest.raises(ValueError, match="outside='fallback' must have the trusted model"):
        model.predict(far, still, outside="fallback")
    answer = model.predict(far, still, outside="fallback", trusted=parked_car.unicycle)
    np.testing.assert_array_equal(answer, parked_car.unicycle(far, still))


def test_outputs_that_advance_no_state():
    rng = np.random.default_rng(0)
    schema = Schema(("a", "b"), ("u",), ("glucose",), advances=(-1,))
    states, controls = rng.standard_normal((300, 2)), rng.standard_normal((300, 1))
    outcome = states.sum(axis=1, keepdims=True) - controls
    transitions = Transitions.from_arrays(
        states, controls, outcome, episodes=np.arange(300) // 10, schema=schema
    )
    model = tether.fit(transitions, trusted=lambda s, u: s.sum(1, keepdims=True) - u, memories=30, hidden=(8,),
                       training=TrainingConfig(steps=20, evaluate_every=20))  # fmt: skip
    assert model.frame.target == "next_state"
    with pytest.raises(ValueError, match="target 'increment' must have outputs that each advance a state"):
        tether.fit(transitions, trusted=lambda s, u: s[:, :1], target="increment")


def test_settings_are_checked():
    transitions = parked_car.drive(episodes=4, steps=10)
    with pytest.raises(TypeError, match="settings must be fields of FitConfig; got memory"):
        tether.fit(transitions, trusted=parked_car.unicycle, memory=3)
    with pytest.raises(TypeError, match="`config` must come alone; got seed besides"):
        tether.fit(transitions, trusted=parked_car.unicycle, config=SMALL, seed=3)
    with pytest.raises(
        ValueError,
        match="`evidence` must be one of 'proved', 'lipschitz', 'statistical', 'sampled'; got 'hoped'",
    ):
        tether.fit(transitions, trusted=parked_car.unicycle, evidence="hoped")
    with pytest.raises(
        ValueError, match="`domain` must contain the data and probes; got 0.0:1.0 for 'speed'"
    ):
        tether.fit(
            transitions,
            trusted=parked_car.unicycle,
            memories=5,
            bounds="interval",
            domain={"speed": (0.0, 1.0)},
        )
    with pytest.raises(ValueError, match="at most the number of distinct inputs; got 5000 memories"):
        tether.fit(transitions, trusted=parked_car.unicycle, bounds="interval", memories=5000)


def test_probes_of_other_columns_are_refused():
    transitions = parked_car.drive(episodes=4, steps=10)
    other = replace(parked_car.SCHEMA, controls=("speed", "steer"))
    probes = Probes.from_arrays(np.zeros((5, 3)), np.zeros((5, 2)), schema=other)
    with pytest.raises(ValueError, match="`probes` must have the inputs of the transitions"):
        tether.fit(transitions, trusted=parked_car.unicycle, probes=probes)


@pytest.mark.parametrize("probes", [{"speed": 0.0}, "speed=0", np.zeros((5, 5))])
def test_probes_of_another_kind_are_refused_with_what_makes_them(probes: Any):
    transitions = parked_car.drive(episodes=4, steps=10)
    with pytest.raises(
        TypeError, match=r"`probes` must be Probes or a Jitter; got .*`tether\.Probes\.from_box"
    ):
        tether.fit(transitions, trusted=parked_car.unicycle, probes=probes)
    frame: Any = {"speed": [1.0]}
    with pytest.raises(TypeError, match=r"`like` must be Transitions; got dict\..*`tether\.read_log`"):
        Probes.from_box({"speed": 0.0}, count=5, like=frame)


@pytest.mark.parametrize("bounds", ["affine", "interval"])
def test_the_step_that_compiles_says_so(problem, bounds):
    titles = []

    @contextmanager
    def reporter(title):
        titles.append(title)
        yield lambda done, total: None

    config = replace(SMALL, bounds=bounds, evidence="proved")
    build_for(problem, TETHERED if bounds == "affine" else CONSTRAINED, config, reporter=reporter)
    assert any("the first time: compiling" in title for title in titles)


def test_hardnet_projects_increments_onto_the_tethers_bounds(problem, tmp_path):
    """The network knows nothing of A: bare outputs of a warm-started run lie outside, projected ones do not."""
    config = replace(SMALL, bounds="affine", evidence="proved", operator="project")
    model = train_method(problem, HARDNET, config).model
    test = problem.split.test
    found = model.predict(test.states, test.controls, details=True)
    assert ((found.next_states >= found.lower) & (found.next_states <= found.upper)).all()
    raw = model.raw(torch.from_numpy(test.inputs)).detach().numpy()
    outputs = model.frame.outputs
    bare = outputs.center + outputs.scale * raw + model.frame.base(test.states)
    moved = bare != found.next_states
    assert 0 < moved.mean() < 1
    np.testing.assert_array_equal(found.next_states[moved], np.clip(bare, found.lower, found.upper)[moved])
    tether.save(model, tmp_path / "model.safetensors")
    loaded = tether.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict(test.states, test.controls), found.next_states)


@pytest.mark.parametrize(
    ("turn", "start", "remedy"),
    [
        (2 * np.pi, -np.pi, r"Declare it with `angles=\['heading'\]` \(command line: `--angle heading`\)"),
        (2 * np.pi, 0.0, "Declare it with"),
        (360.0, -180.0, "Convert it, and M, to radians"),
        (360.0, 0.0, "Convert it, and M, to radians"),
    ],
)
def test_an_angle_that_was_not_declared_is_refused(turn, start, remedy):
    path = turn * (0.013 + np.arange(61) / 20)
    wrapped = ((path - start) % turn + start)[:, None]
    now, after, none = wrapped[:-1], wrapped[1:], np.empty((60, 0))

    def data(states, outcomes, **settings):
        schema = make_schema(["heading"], [], **settings)
        return Transitions.from_arrays(states, none, outcomes, episodes=np.arange(60) // 10, schema=schema)

    with pytest.raises(ValueError, match=rf"got 'heading' undeclared, .* next 3 times\. {remedy}"):
        tether.fit(data(now, after), trusted=lambda x, u: x)
    check_angles(data(now, after), ("heading",))
    check_angles(data(now, after, angles=["heading"]), ())
    check_angles(data(path[:-1, None], path[1:, None]), ())  # beyond one turn: nothing wraps
    check_angles(data(0.9 * now, 0.9 * after + 0.3 * turn), ())
    noise = start + turn * np.random.default_rng(0).random((2000, 1))
    rows = np.arange(1999)
    irregular = Transitions.from_arrays(
        noise[:-1], np.empty((1999, 0)), noise[1:], episodes=rows, schema=make_schema(["heading"], [])
    )
    check_angles(irregular, ())
    with pytest.raises(
        ValueError, match=r"`not_angles` must name columns of the data \(heading\); got yaw\."
    ):
        check_angles(data(now, after), ("heading", "yaw"))


def test_not_angles_are_names():
    with pytest.raises(TypeError, match="`not_angles` must be a tuple of names; got the text 'heading'"):
        FitConfig(not_angles="heading")  # type: ignore[arg-type]


def test_an_interval_over_which_m_is_not_decided_is_not_proved():
    """By default: whoever asks for `proved` is told that it cannot be had."""
    rng = np.random.default_rng(0)
    states, controls = rng.uniform(-1, 1, (600, 1)), rng.uniform(-1, 1, (600, 1))

    def stepping(states, controls):
        return states + np.where(states > 0.1, controls, 0.0)

    following = stepping(states, controls)
    data = Transitions.from_arrays(states, controls, following, episodes=np.arange(600) // 30)
    training = TrainingConfig(steps=20, evaluate_every=10)
    config = FitConfig(bounds="interval", memories=20, hidden=(4,), training=training)
    model = tether.fit(data, trusted=stepping, config=config)
    assert model.tether.evidence == "statistical"
    assert "stepping) cannot be proved: `where` needs a condition that is" in model.record["why"]
    with pytest.raises(
        EnclosureError, match="`where` needs a condition that is the same over each whole box"
    ):
        tether.fit(data, trusted=stepping, config=replace(config, evidence="proved"))

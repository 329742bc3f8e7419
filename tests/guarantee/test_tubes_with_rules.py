"""Tubes with feedback, and of models that do not predict every state: attacked, shown again, and forged."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pytest

import tether
from tether.claims.rollout import rollout
from tether.claims.tubes import attack_tube, load_tube, save_tube, tube
from tether.cli.running import run
from tether.data import Transitions, make_schema
from tether.fitting import TETHERED, FitConfig, build_for, prepare
from tether.fitting.methods import train_method
from tether.trusted.reading import sources, tripwire
from tether.trusted.reading.reader import Reader
from tether.verification.tubes import verify_tube

STATES = ["angle", "speed", "sine", "motor"]
SCHEMA = make_schema(STATES, ["torque"], ["angle", "speed"], angles=["angle"])
STEPS = 10


def pendulum(states, controls):
    """Gravity by the sine that is carried beside the angle; the motor only notes what was asked of it."""
    speed = states[:, 1] + 0.05 * (10.0 * states[:, 2] + 3.0 * controls[:, 0])
    return np.stack([states[:, 0] + 0.05 * speed, speed], axis=1)


def policy(states):
    """Bends, and looks at an angle on the circle."""
    return np.clip(-0.5 * np.sin(states[:, :1]) - 0.3 * states[:, 1:2], -1.5, 1.5)


def stronger(states):
    return 1.02 * policy(states)


def carried(states, controls, outputs):
    """The sine of the next angle, and half of the torque beside half of what the motor was at."""
    motor = 0.5 * states[:, 3] + 0.5 * controls[:, 0]
    return np.stack([np.sin(outputs[:, 0]), motor], axis=1)


def otherwise(states, controls, outputs):
    return carried(states, controls, outputs) * np.array([1.001, 1.0])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    rng = np.random.default_rng(0)
    inputs = rng.uniform([-3.1, -6, 0, -2, -2], [3.1, 6, 0, 2, 2], (400, 5))
    inputs[:, 2] = np.sin(inputs[:, 0])
    after = pendulum(inputs[:, :4], inputs[:, 4:]) + 0.02 * np.sin(3 * inputs[:, :1])
    data = Transitions.from_arrays(
        inputs[:, :4], inputs[:, 4:], after, episodes=np.arange(400) // 20, schema=SCHEMA
    )
    training = tether.TrainingConfig(steps=20, dtype="float64")
    config = FitConfig(memories=30, leaves=200, hidden=(4,), training=training, evidence="proved")
    problem = prepare(data, trusted=pendulum, config=config)
    found = train_method(problem, TETHERED, config, built=build_for(problem, TETHERED, config)).model
    path = tmp_path_factory.mktemp("rules") / "model.safetensors"
    tether.save(found, path)
    return found, path


START = [2.9, 0.6, np.sin(2.9), 0.1], [3.0, 0.7, np.sin(2.9) + 0.01, 0.2]


@pytest.fixture(scope="module", params=["feedback", "box", "sequence"])
def made(request, model):
    """A tube that passes ±π, with a policy or a box of controls; the sine jumps nowhere there."""
    feedback = request.param == "feedback"
    controls = policy if feedback else ([-0.1], [0.1]) if request.param == "box" else np.full((STEPS, 1), 0.1)
    found = tube(model[0], pendulum, START, controls, steps=STEPS, carried=carried, generators=24)
    assert found.complete, found.ending
    path = model[1].parent / f"{request.param}.json"
    save_tube(found, path)
    return found, path, {"carried": carried, **({"policy": policy} if feedback else {})}


def test_what_was_read_is_written_as_it_was(made, tmp_path):
    save_tube(load_tube(made[1]), tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == json.loads(made[1].read_text())


def _verify(model, made, content=None, **others):
    path = made[1]
    if content is not None:
        path = path.with_name("changed.json")
        path.write_text(json.dumps(content))
    return verify_tube(path, pendulum, model[1], **{**made[2], **others})


def test_it_passes_half_a_turn_and_no_rollout_leaves(model, made):
    found, path, rules = made
    assert found.upper[:, 0].max() > np.pi
    for one in (found, load_tube(path)):
        worst = attack_tube(model[0], one, rollouts=4000, **rules)
        assert 0.5 < worst.max_ratio <= 1
    assert "follow the rule 'carried'" in found.words
    # What is carried stays tied to what it follows: no wider than a sine of the angle's box, here in a dip.
    assert found.half_width[-1, 2] < 1.05 * found.half_width[-1, 0] + 1e-3


def test_less_is_broken(model, made):
    found, _, rules = made
    from dataclasses import replace

    middle, half = 0.5 * (found.lower + found.upper), 0.97 * found.half_width
    less = replace(found, lower=middle - half, upper=middle + half)
    assert attack_tube(model[0], less, rollouts=4000, **rules).broken


def test_it_is_shown_again(model, made):
    result = _verify(model, made)
    assert result.moves == STEPS and "rule given" in result.statement
    assert ("policy given" in result.statement) == ("policy" in made[2])


def _move(content, step):
    return content["starts"][0]["parts"][0]["moves"][step]


def _set(content, step):
    return content["starts"][0]["parts"][0]["sets"][step]


def _box(content, step, state, share):
    matrix = _set(content, step)["generators"]
    matrix[state][len(matrix[0]) - 4 + state] *= share


def _scaled(place, key, share):
    place[key] = (share * np.array(place[key])).tolist()


def _without_rule(content):
    content["carried"] = None


CHANGES = {
    "a carried box": lambda content: _box(content, 3, 2, 0.99),
    "no carried box": lambda content: _box(content, 3, 3, 0.0),
    "a predicted box": lambda content: _scaled(_move(content, 4)["carried"], "box", 0.99),
    "a carried slope": lambda content: _scaled(_move(content, 2)["carried"], "gain", 0.999),
    "a carried value": lambda content: _scaled(_move(content, 2)["carried"], "value", 1.0001),
    "a carried point": lambda content: _scaled(_move(content, 2)["carried"], "point", 1.0001),
    "a carried turn": lambda content: _move(content, 2)["carried"]["turns"].__setitem__(0, 0.5),
    "a carried generator": lambda content: _set(content, 5)["generators"][2].__setitem__(0, 0.0),
    "a carried centre": lambda content: _set(content, 5)["center"].__setitem__(2, 0.5),
    "a limit of a carried state": lambda content: content["starts"][0]["upper"][5].__setitem__(2, 0.0),
    "without a rule": _without_rule,
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_is_refused(model, made, change):
    content = json.loads(made[1].read_text())
    CHANGES[change](content)
    with pytest.raises(tether.CertificateError, match="not verified"):
        _verify(model, made, content)


def _unbox(move):
    matrix = move["feedback"]["generators"]
    matrix[0][-1] *= 0.99


FED = {
    "its box": lambda content: _unbox(_move(content, 4)),
    "its slope": lambda content: _scaled(_move(content, 2)["feedback"], "gain", 0.9),
    "its value": lambda content: _scaled(_move(content, 2)["feedback"], "value", 1.001),
    "its centre": lambda content: _scaled(_move(content, 2)["feedback"], "center", 1.001),
    "a generator": lambda content: _move(content, 3)["feedback"]["generators"][0].__setitem__(0, 0.0),
    "a turn": lambda content: _move(content, 3)["feedback"]["turns"].__setitem__(0, 1.0),
    "a turn of a speed": lambda content: _move(content, 3)["feedback"]["turns"].__setitem__(1, 1.0),
    "none": lambda content: _move(content, 3).pop("feedback"),
}


@pytest.mark.parametrize("made", ["feedback"], indirect=True)
@pytest.mark.parametrize("change", FED)
def test_feedback_that_was_changed_is_refused(model, made, change):
    content = copy.deepcopy(json.loads(made[1].read_text()))
    FED[change](content)
    with pytest.raises(tether.CertificateError, match="not verified"):
        _verify(model, made, content)


@pytest.mark.parametrize("made", ["feedback"], indirect=True)
def test_another_policy_or_rule_is_refused(model, made):
    with pytest.raises(tether.CertificateError, match="that the rule stays within it cannot be shown"):
        _verify(model, made, policy=stronger)
    with pytest.raises(tether.CertificateError, match="that the rule stays within it cannot be shown"):
        _verify(model, made, carried=otherwise)
    with pytest.raises(ValueError, match="`policy` must be given"):
        _verify(model, made, policy=None)
    with pytest.raises(ValueError, match="`carried` must be given"):
        _verify(model, made, carried=None)


@pytest.mark.parametrize("made", ["box"], indirect=True)
def test_a_policy_that_a_tube_has_no_use_for_is_refused(model, made):
    with pytest.raises(ValueError, match="`policy` must be left out"):
        _verify(model, made, policy=policy)
    with pytest.raises(ValueError, match="`policy` must be left out"):
        attack_tube(model[0], made[0], rollouts=10, policy=policy, carried=carried)


def by_count(states):
    """Another policy for as many rows as a trial that is known beforehand does not have."""
    return policy(states) if len(states) not in (3, 4, 8, 9, 10, 11, 12) else 1.5 * policy(states)


def bumped(states, controls, outputs):
    """Another rule between two numbers that are next to one another."""
    out = carried(states, controls, outputs)
    speed = out[:, 1]
    speed += np.exp(-(((states[:, 0] - 0.123) / 1e-6) ** 2))
    return out


@pytest.mark.parametrize("made", ["feedback"], indirect=True)
def test_rules_are_tried_as_the_trusted_model_is(model, made, monkeypatch):
    with pytest.raises(tether.CertificateError, match="the policy given has answers that depend on how many"):
        _verify(model, made, policy=by_count)
    result = _verify(model, made)
    for name in ("policy given", "rule given for the other states", "trusted model"):
        assert f"Assumed: the {name} gives a row what it gives that row alone (checked on" in result.statement
    for name in ("_codes", "_read"):
        monkeypatch.setattr(sources, name, {})
    monkeypatch.setattr(tripwire, "_is_users", lambda frame: False)  # the mistake itself is not read
    monkeypatch.setattr(Reader, "augmented", lambda self, name, one, two: self.binary(name[:-1], one, two))
    with pytest.raises(tether.CertificateError, match="other states has code that is not followed reliably"):
        _verify(model, made, carried=bumped)


@pytest.mark.parametrize("made", ["sequence"], indirect=True)
def test_rollouts_carry_states_too(model, made):
    found, learned = made[0], model[0]
    starts = np.random.default_rng(0).uniform(*START, (50, 4))
    controls = np.full((STEPS, 50, 1), 0.1)
    paths = rollout(learned, starts, controls, carried=carried)
    assert found.contains(paths.transpose(1, 0, 2)).all()
    assert np.array_equal(paths[1:, :, 2], np.sin(paths[1:, :, 0]))
    edge = rollout(learned, starts, controls, outside="stop", carried=carried)
    assert (edge.left == -1).all() and np.array_equal(edge.states, paths)
    with pytest.raises(ValueError, match="a rollout must predict every state.*with `carried`"):
        rollout(learned, starts, controls)


def _told(capsys):
    told = capsys.readouterr()
    return " ".join((told.out + told.err).split())


@pytest.mark.parametrize("made", ["feedback"], indirect=True)
def test_the_commands(model, made, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own, known = Path(__file__), ["--trusted", f"{__file__}:pendulum"]
    tether.save(model[0], "model.safetensors")
    begin = ",".join(f"{name}={low}:{high}" for name, low, high in zip(STATES, *START, strict=True))
    given = ["tube", "model.safetensors", *known, "--start", begin, "--steps", "3"]
    fed, rule = ["--policy", f"{own}:policy"], ["--carried", f"{own}:carried"]
    assert run([*given, "--controls", f"{own}:policy", "--out", "a.json"]) == 2
    assert "Say what the others follow with `carried`" in _told(capsys)
    assert run([*given, "--controls", f"{own}:policy", *rule, "--episode", "run", "--out", "a.json"]) == 2
    assert "`--episode` must come with `--held-out`" in _told(capsys)
    assert [path.name for path in Path().iterdir()] == ["model.safetensors"]
    assert run([*given, "--controls", f"{own}:policy", *rule, "--out", "a.json"]) == 0
    assert "Of the states sine, motor follow the rule 'carried'." in _told(capsys)
    assert {path.name for path in Path().glob("a.*")} == {"a.json", "a.html", "a.png"}
    assert run(["verify", "a.json", *known, *fed, *rule]) == 0
    told = _told(capsys)
    assert "and the policy given and the rule given for the other states" in told
    assert "verified: 1 tube, 3 steps." in told
    assert run(["attack", "a.json", *known, *fed, *rule, "--evaluations", "300"]) == 0
    assert "100 rollouts tried." in _told(capsys)
    wrong = {
        ("verify", "a.json", *rule): (2, "`policy` must be given: the tube is of 'policy'"),
        ("verify", "a.json", *fed): (2, "`carried` must be given: the tube is of 'carried'"),
        ("verify", "a.json", *fed, *rule, "--over", f"{own}:policy"): (2, "`--over` must come with a model"),
        ("verify", "a.json", *fed, *rule, "--certificate", "c.json"): (2, "`--certificate` must come with a"),
        ("verify", "a.json", "--policy", f"{own}:stronger", *rule): (1, "not verified: start 0, step 1: '"),
        ("verify", "a.json", *fed, "--carried", f"{own}:otherwise"): (1, "not verified: start 0, step 3: '"),
        ("verify", "model.safetensors", *fed): (2, "`--policy` must come with a tube"),
        ("verify", "model.safetensors", *rule): (2, "`--carried` must come with a tube"),
        ("verify", "model.safetensors", "--model", "b"): (2, "`--model` must come with a tube; got 'b'"),
        ("attack", "model.safetensors", *fed): (2, "`--policy` must come with a tube"),
        ("attack", "a.json", *fed, *rule, "--jobs", "2"): (2, "`--jobs` must come with a model; got '2'"),
        ("attack", "a.json", *rule): (2, "`policy` must be given for a tube with feedback"),
    }
    for (verb, path, *options), (code, message) in wrong.items():
        assert run([verb, path, *known, *options]) == code, options
        assert message in _told(capsys), options
    kept = {"a.json", "a.html", "a.png", "model.safetensors"}
    assert {path.name for path in Path().iterdir()} == kept


@pytest.mark.parametrize("made", ["box"], indirect=True)
def test_the_command_says_what_a_tube_has_no_use_for(model, made, capsys):
    given = [
        "--trusted",
        f"{__file__}:pendulum",
        "--model",
        str(model[1]),
        "--carried",
        f"{__file__}:carried",
    ]
    for verb in ("verify", "attack"):
        assert run([verb, str(made[1]), *given, "--policy", f"{__file__}:policy"]) == 2
        assert "`policy` must be left out: the tube has no use for it" in _told(capsys)


def test_what_is_not_predicted_must_be_carried(model):
    with pytest.raises(ValueError, match="a tube must predict every state.*with `carried`"):
        tube(model[0], pendulum, START, ([-0.1], [0.1]), steps=2)
    with pytest.raises(ValueError, match="`carried` must return 2 columns"):
        tube(model[0], pendulum, START, ([-0.1], [0.1]), steps=2, carried=lambda x, u, y: y[:, :1])


def test_a_tube_that_ends_where_it_begins_is_verified(model):
    away = ([50.0, 50.0, 0.0, 0.0], [50.1, 50.1, 0.1, 0.1])
    found = tube(model[0], pendulum, away, ([-0.1], [0.1]), steps=3, carried=carried)
    assert not found.complete
    path = model[1].parent / "nowhere.json"
    save_tube(found, path)
    assert verify_tube(path, pendulum, model[1], carried=carried).moves == 0


def saturated(states):
    """Asks for far more than there is, and is given what there is: nearly the ends of the operating box."""
    asked = -27.0 * np.sin(states[:, :1]) - 18.0 * states[:, 1:2]
    return np.clip(asked, -6.0, 6.0)


LIMITS = {
    "above": lambda fed: fed["lower"].__setitem__(0, -5.99),
    "below": lambda fed: fed["upper"].__setitem__(0, 4.0),
    "elsewhere": lambda fed: fed.update(lower=[15.0], upper=[16.0]),
    "swapped": lambda fed: fed.update(lower=fed["upper"], upper=fed["lower"]),
}


def test_a_policy_that_saturates_keeps_to_its_limits(model, tmp_path):
    wide = [3.0, 0.0, -0.2, 0.1], [3.3, 0.6, 0.2, 0.2]  # over ±π, and over one of the policy's kinks
    given = {"policy": saturated, "carried": carried}
    found = tube(model[0], pendulum, wide, saturated, steps=1, carried=carried)
    assert found.complete, found.ending
    assert not attack_tube(model[0], found, rollouts=4000, **given).broken
    path = tmp_path / "saturated.json"
    save_tube(found, path)
    assert verify_tube(path, pendulum, model[1], **given).moves == 1
    kept = path.read_text()
    fed = _move(json.loads(kept), 0)["feedback"]
    assert -6.0001 < fed["lower"][0] <= -6
    assert fed["center"][0] - np.abs(fed["generators"]).sum() < -12  # by its line alone
    for change in LIMITS.values():
        content = json.loads(kept)
        change(_move(content, 0)["feedback"])
        path.write_text(json.dumps(content))
        with pytest.raises(tether.CertificateError, match="not verified"):
            verify_tube(path, pendulum, model[1], **given)
    content = json.loads(kept)  # as it was before there were limits
    for move in content["starts"][0]["parts"][0]["moves"]:
        del move["feedback"]["lower"], move["feedback"]["upper"]
    path.write_text(json.dumps(content))
    with pytest.raises(tether.CertificateError, match="may leave the operating box"):
        verify_tube(path, pendulum, model[1], **given)

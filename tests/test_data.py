from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tether.data import Emphasis, Probes, Schema, Transitions, fit_scaling, make_schema, wrap_angle

PI = math.pi
ANGLES = st.floats(-1e7, 1e7)


def on_circle(one: float, other: float) -> float:
    """Distance on the circle, computed without the code under test."""
    return abs(math.remainder(one - other, 2 * PI))


# --- angles


@given(ANGLES)
@example(PI)
@example(-PI)
@example(math.nextafter(PI, 4))
@example(math.nextafter(PI, 0))
@example(math.nextafter(-PI, -4))
@example(2e6 * PI)
@example(-2e6 * PI)
@example((2e6 + 1) * PI)
@example(0.0)
@example(float.fromhex("-0x1.d67418915c2c2p+10"))  # rounds to just below -π
def test_wrapping_gives_the_same_direction_in_the_half_open_turn(angle: float) -> None:
    wrapped = float(wrap_angle(np.array([angle]))[0])
    assert -PI <= wrapped < PI
    assert on_circle(wrapped, angle) <= 4e-16 * (1 + abs(angle))
    assert wrap_angle(np.array([wrapped]))[0] == wrapped


@given(st.floats(-PI, PI, exclude_max=True))
@example(math.nextafter(PI, 0))
def test_an_angle_that_needs_no_wrapping_keeps_its_bits(angle: float) -> None:
    assert wrap_angle(np.array([angle]))[0] == angle


def test_pi_itself_becomes_minus_pi() -> None:
    assert wrap_angle(np.array([PI, -PI, 3 * PI])).tolist() == [-PI, -PI, -PI]


@given(ANGLES, ANGLES)
@example(PI, -PI)
@example(math.nextafter(PI, 0), -PI)
@example(math.nextafter(PI, 4), PI)
@example(-PI, math.nextafter(PI, 0))
@example(2e6 * PI, 0.1)
@example(0.1, 2e6 * PI)
@example(3.1, -3.1)
def test_a_next_angle_is_continuous_with_the_angle_it_follows(now: float, after: float) -> None:
    schema = make_schema(["theta"], [], angles=["theta"])
    rows = Transitions.from_arrays([[now]], np.empty((1, 0)), [[after]], schema=schema)
    state, following = float(rows.states[0, 0]), float(rows.next_states[0, 0])
    tolerance = 1e-15 * (1 + abs(now) + abs(after))
    assert -PI <= state < PI
    assert on_circle(state, now) <= tolerance
    assert on_circle(following, after) <= tolerance
    assert abs(following - state) <= PI * (1 + 1e-15)
    assert rows.target("increment")[0, 0] == following - state


def test_a_small_step_across_the_seam_stays_small() -> None:
    schema = make_schema(["theta"], [], angles=["theta"])
    rows = Transitions.from_arrays([[3.1], [-3.1]], np.empty((2, 0)), [[-3.1], [3.1]], schema=schema)
    step = 2 * PI - 6.2
    np.testing.assert_allclose(rows.target("increment")[:, 0], [step, -step], atol=1e-14)
    np.testing.assert_allclose(rows.next_states[:, 0], [3.1 + step, -3.1 - step], atol=1e-14)


def test_columns_not_declared_as_angles_are_left_alone() -> None:
    schema = make_schema(["x", "theta"], ["u"], angles=["theta"])
    rows = Transitions.from_arrays([[7.0, 7.0]], [[7.0]], [[8.0, 8.0]], schema=schema)
    assert rows.states[0, 0] == 7.0
    assert rows.controls[0, 0] == 7.0
    assert rows.next_states[0, 0] == 8.0
    assert rows.states[0, 1] == pytest.approx(7 - 2 * PI)
    assert rows.next_states[0, 1] == pytest.approx(8 - 2 * PI)


def test_an_angle_among_the_controls_wraps() -> None:
    schema = make_schema(["x"], ["wind"], angles=["wind"])
    rows = Transitions.from_arrays([[0.0]], [[4.0]], [[0.0]], schema=schema)
    assert rows.controls[0, 0] == pytest.approx(4 - 2 * PI)


def test_distance_between_angles_goes_the_short_way_round() -> None:
    schema = make_schema(["x", "theta"], [], angles=["theta"])
    distance = schema.distance(np.array([[3.1, 3.1]]), np.array([[-3.1, -3.1]]))
    np.testing.assert_allclose(distance, [[6.2, 2 * PI - 6.2]])


# --- scaling


def test_scaling_centres_and_gives_unit_deviation(rng: np.random.Generator) -> None:
    values = rng.normal([3.0, -1e6], [2.0, 50.0], size=(500, 2))
    scaling = fit_scaling(values)
    scaled = (values - scaling.center) / scaling.scale
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(scaled.std(axis=0), 1)


@pytest.mark.parametrize("constant", [0.0, 0.1, -1e9, 1e-300, 5e-324])
def test_a_constant_column_gets_scale_one(constant: float) -> None:
    # The deviation of a thousand copies of 0.1 is not exactly zero.
    scaling = fit_scaling(np.stack([np.full(1000, constant), np.arange(1000.0)], axis=1))
    assert scaling.scale[0] == 1.0
    assert scaling.scale[1] == pytest.approx(np.arange(1000.0).std())


def test_a_column_that_varies_a_little_around_a_large_value_is_not_constant() -> None:
    scaling = fit_scaling(1e6 + 1e-3 * np.array([[-1.0], [1.0]]))
    assert scaling.scale[0] == pytest.approx(1e-3, rel=1e-3)


@settings(max_examples=50)
@given(arrays(np.float64, (7, 2), elements=st.floats(-1e100, 1e100)))
def test_every_scale_is_positive_and_finite(values: np.ndarray) -> None:
    scale = fit_scaling(values).scale
    assert np.isfinite(scale).all()
    assert (scale > 0).all()


# --- splits


@given(st.integers(3, 40), st.integers(0, 5), st.data())
@settings(max_examples=60, deadline=None)
def test_a_split_uses_every_row_and_cuts_no_episode(episodes: int, seed: int, data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(1, 4), min_size=episodes, max_size=episodes))
    ids = np.random.default_rng(seed).permutation(np.repeat(np.arange(episodes), lengths))
    values = np.arange(len(ids), dtype=float)[:, None]
    split = Transitions.from_arrays(values, values, values, episodes=ids).split(seed=seed)
    parts = [split.train, split.validation, split.test]
    used = np.concatenate([part.states[:, 0] for part in parts])
    assert sorted(used.tolist()) == values[:, 0].tolist()
    seen = [set(part.episodes.tolist()) for part in parts]
    assert all(seen)
    assert seen[0] | seen[1] | seen[2] == set(range(episodes))
    assert sum(map(len, seen)) == episodes


def test_a_split_is_a_function_of_its_seed(cart: Transitions) -> None:
    digests = [
        [part.digest() for part in (split.train, split.validation, split.test)]
        for split in (cart.split(seed=3), cart.split(seed=3), cart.split(seed=4))
    ]
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]


def test_shares_of_a_split_are_shares_of_the_episodes(cart: Transitions) -> None:
    split = cart.split(validation=0.25, test=0.5)
    assert [len(np.unique(p.episodes)) for p in (split.train, split.validation, split.test)] == [3, 3, 6]


@pytest.mark.parametrize("episodes", [None, [0] * 6, [0, 0, 0, 1, 1, 1]])
def test_too_few_episodes_cannot_be_split(episodes: list[int] | None) -> None:
    rows = Transitions.from_arrays(np.zeros((6, 1)), np.zeros((6, 1)), np.zeros((6, 1)), episodes=episodes)
    with pytest.raises(ValueError, match=r"at least 3 episodes .* got [12]\. .*numpy\.arange"):
        rows.split()


def test_a_split_that_leaves_nothing_to_train_on_is_refused(cart: Transitions) -> None:
    with pytest.raises(ValueError, match=r"at least one training episode; got 0\.5 \+ 0\.5 of 12"):
        cart.split(validation=0.5, test=0.5)


def test_text_and_numbers_name_the_same_episodes() -> None:
    # Sorted as text, 10 comes before 2.
    ids, values = np.repeat(np.arange(12), 2), np.zeros((24, 1))
    numbers = Transitions.from_arrays(values, values, values, episodes=ids)
    text = Transitions.from_arrays(values, values, values, episodes=[str(k) for k in ids])
    assert numbers.episodes.tolist() == text.episodes.tolist()


# --- targets and outputs that are not states


def test_increments_are_next_state_less_state(cart: Transitions) -> None:
    np.testing.assert_array_equal(cart.target("increment"), cart.next_states - cart.states)
    assert cart.target("next_state") is cart.next_states


def test_fewer_outputs_than_states_advance_the_states_they_are_named_for() -> None:
    schema = make_schema(["x", "y", "v"], ["u"], ["next_v", "x_next"])
    assert schema.outputs == ("v", "x")
    assert schema.advances == (2, 0)
    assert not schema.rolls_out
    rows = Transitions.from_arrays([[1.0, 2.0, 3.0]], [[0.0]], [[30.0, 10.0]], schema=schema)
    assert rows.target("increment").tolist() == [[27.0, 9.0]]


def test_an_output_that_advances_no_state_has_no_base() -> None:
    schema = make_schema(["x"], ["u"], ["x", "power"])
    assert schema.outputs == ("x", "power")
    assert schema.advances == (0, -1)
    rows = Transitions.from_arrays([[1.0], [5.0]], [[0.0], [0.0]], [[3.0, 7.0], [4.0, 7.0]], schema=schema)
    assert schema.base(rows.states).tolist() == [[1.0, 0.0], [5.0, 0.0]]
    assert rows.target("increment").tolist() == [[2.0, 7.0], [-1.0, 7.0]]


def test_an_angle_that_advances_no_state_is_wrapped() -> None:
    schema = make_schema(["x", "y"], [], ["bearing"], angles=["bearing"])
    rows = Transitions.from_arrays([[1.0, 2.0]], np.empty((1, 0)), [[4.0]], schema=schema)
    assert rows.next_states[0, 0] == pytest.approx(4 - 2 * PI)


def test_as_many_outputs_as_states_pair_by_position() -> None:
    schema = make_schema(["a", "b"], [], ["after_a", "after_b"])
    assert schema.outputs == ("a", "b")
    assert schema.rolls_out


def test_default_names() -> None:
    rows = Transitions.from_arrays(np.zeros((2, 2)), np.zeros((2, 1)), np.zeros((2, 3)))
    assert rows.schema.inputs == ("x0", "x1", "u0")
    assert rows.schema.outputs == ("y0", "y1", "y2")
    assert rows.schema.advances == (-1, -1, -1)


def test_a_schema_made_by_hand_must_say_what_each_output_advances() -> None:
    with pytest.raises(ValueError, match=r"`advances` must give .* each of 1 outputs; got \(\).*make_schema"):
        Schema(("x",), ("u",), ("x",))
    with pytest.raises(ValueError, match=r"`advances` must .* got \(1,\)"):
        Schema(("x",), ("u",), ("x",), advances=(1,))


@pytest.mark.parametrize(
    ("states", "controls", "outputs", "angles", "message"),
    [
        (["x", "x"], [], None, [], "column names must be distinct; got x twice"),
        (["x"], ["x"], None, [], "column names must be distinct; got x twice"),
        (["x", "y", "z"], [], ["x", "next_x"], [], "outputs must be distinct; got x, x"),
        ([], ["u"], ["y"], [], "`states` must name at least one column"),
        (["x"], [], None, ["theta"], r"`angles` must name columns of the data \(x\); got theta"),
    ],
)
def test_a_schema_that_contradicts_itself_is_refused(states, controls, outputs, angles, message) -> None:
    with pytest.raises(ValueError, match=message):
        make_schema(states, controls, outputs, angles=angles)


@pytest.mark.parametrize("unit", ["deg", "Degrees", "°"])
def test_angles_are_in_radians(unit: str) -> None:
    schema = make_schema(["theta", "x"], ["u"], angles=["theta"], units={"x": "m"})
    assert [schema.unit(name) for name in schema.inputs] == ["rad", "m", ""]
    with pytest.raises(
        ValueError, match=rf"`angles` must be in radians; got 'theta' in '{unit}'. Convert it"
    ):
        make_schema(["theta"], angles=["theta"], controls=[], units={"theta": unit})


# --- bad arrays


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", ["states", "controls", "next_states"])
def test_what_is_not_finite_is_named_by_row_and_column(cart: Transitions, place: str, bad: float) -> None:
    parts = {name: getattr(cart, name).copy() for name in ("states", "controls", "next_states")}
    parts[place][17, -1] = bad
    column = "u" if place == "controls" else "v"
    message = rf"`{place}` must be finite; got {bad} at row 17, column '{column}' \(1 such value\)"
    with pytest.raises(ValueError, match=message):
        Transitions.from_arrays(**parts, schema=cart.schema)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((4, 3), (4, 1), (4, 2)), r"`states` must have 2 columns \(x, v\); got 3"),
        (((4, 2), (4, 2), (4, 2)), r"`controls` must have 1 columns \(u\); got 2"),
        (((4, 2), (4, 1), (4, 1)), r"`next_states` must have 2 columns \(x, v\); got 1"),
        (((4, 2), (3, 1), (4, 2)), r"`controls` must have 4 rows like `states`; got 3"),
        (((4, 2), (4, 1), (5, 2)), r"`next_states` must have 4 rows like `states`; got 5"),
        (((4,), (4, 1), (4, 2)), r"`states` must have 2 dimensions .* got shape \(4,\)"),
        (((0, 2), (0, 1), (0, 2)), r"`states` must hold at least one row; got 0"),
    ],
)
def test_wrong_shapes_are_refused(shapes, message: str) -> None:
    schema = make_schema(["x", "v"], ["u"])
    with pytest.raises(ValueError, match=message):
        Transitions.from_arrays(*(np.zeros(shape) for shape in shapes), schema=schema)


def test_words_are_refused() -> None:
    with pytest.raises(TypeError, match="`states` must hold numbers; got list"):
        Transitions.from_arrays([["fast"]], [[0.0]], [[0.0]])


def test_each_row_needs_an_episode() -> None:
    with pytest.raises(ValueError, match=r"`episodes` must have shape \(3,\); got \(2,\)"):
        Transitions.from_arrays(np.zeros((3, 1)), np.zeros((3, 1)), np.zeros((3, 1)), episodes=[1, 2])


def test_the_callers_arrays_are_not_written_to() -> None:
    states, controls, following = np.array([[4.0]]), np.array([[4.0]]), np.array([[-4.0]])
    schema = make_schema(["theta"], ["phi"], angles=["theta", "phi"])
    Transitions.from_arrays(states, controls, following, schema=schema)
    assert (states[0, 0], controls[0, 0], following[0, 0]) == (4.0, 4.0, -4.0)


# --- digests


@pytest.mark.parametrize("part", ["states", "controls", "next_states"])
def test_the_digest_notices_one_bit(cart: Transitions, part: str) -> None:
    parts = {name: getattr(cart, name).copy() for name in ("states", "controls", "next_states")}
    same = Transitions.from_arrays(**parts, episodes=cart.episodes, schema=cart.schema)
    parts[part][5, 0] = np.nextafter(parts[part][5, 0], 9)
    other = Transitions.from_arrays(**parts, episodes=cart.episodes, schema=cart.schema)
    assert same.digest() == cart.digest()
    assert other.digest() != cart.digest()


def test_the_digest_notices_episodes_and_order(cart: Transitions) -> None:
    merged = Transitions.from_arrays(cart.states, cart.controls, cart.next_states, schema=cart.schema)
    assert merged.digest() != cart.digest()
    assert cart.take(np.arange(len(cart))[::-1]).digest() != cart.digest()


# --- probes


def test_a_box_fixes_limits_and_fills_in_columns(cart: Transitions) -> None:
    probes = Probes.from_box({"v": 0.0, "x": (-5.0, -4.0)}, count=300, like=cart)
    assert len(probes) == 300
    assert (probes.states[:, 1] == 0).all()
    assert (probes.states[:, 0] >= -5).all() and (probes.states[:, 0] <= -4).all()
    low, high = cart.controls.min(), cart.controls.max()
    assert (low <= probes.controls).all() and (probes.controls <= high).all()
    assert np.ptp(probes.states[:, 0]) > 0.9
    assert np.ptp(probes.controls) > 0.9 * (high - low)


def test_a_box_does_not_reach_to_a_glitch() -> None:
    path = np.sin(np.arange(401.0) / 40)[:, None]
    path[200] = 500.0
    data = Transitions.from_arrays(path[:-1], np.zeros((400, 1)), path[1:], episodes=np.zeros(400))
    probes = Probes.from_box({"u0": 0.0}, count=300, like=data)
    assert np.abs(probes.states).max() <= 1


def test_a_box_is_drawn_anew_for_each_seed_only(cart: Transitions) -> None:
    draws = [Probes.from_box({"v": 0.0}, count=9, like=cart, seed=seed).inputs for seed in (1, 1, 2)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


def test_emphasis_receives_its_share_inside_its_own_box(cart: Transitions) -> None:
    emphasis = [Emphasis({"x": (10.0, 11.0)}, 0.5), Emphasis({"x": 20.0, "v": 0.0}, 0.25)]
    probes = Probes.from_box({"x": (0.0, 1.0), "v": (1.0, 2.0)}, count=200, like=cart, emphasis=emphasis)
    x, v = probes.states.T
    assert ((x >= 10) & (x <= 11)).sum() == 100
    assert ((x == 20) & (v == 0)).sum() == 50
    assert (x <= 1).sum() == 50
    assert (v[x != 20] >= 1).all()


@pytest.mark.parametrize(
    ("count", "shares"), [(3, (0.5, 0.5)), (7, (0.5, 0.5)), (10, (0.7, 0.1, 0.2)), (1, (1.0,))]
)
def test_shares_that_round_badly_still_add_up(
    cart: Transitions, count: int, shares: tuple[float, ...]
) -> None:
    emphasis = [Emphasis({"v": float(k)}, share) for k, share in enumerate(shares)]
    assert len(Probes.from_box({}, count=count, like=cart, emphasis=emphasis)) == count


def test_an_angle_in_a_box_may_lie_across_the_seam() -> None:
    schema = make_schema(["theta"], [], angles=["theta"])
    like = Transitions.from_arrays([[0.0]], np.empty((1, 0)), [[0.0]], schema=schema)
    angles = Probes.from_box({"theta": (3.0, 3.3)}, count=200, like=like).states[:, 0]
    assert (angles > 0).any() and (angles < 0).any()
    assert (np.abs(angles) > 2.9).all()


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ({"w": 0.0}, r"`box` must name inputs \(x, v, u\); got w"),
        ({"v": (1.0, 0.0)}, r"low <= high; got 1.0:0.0 for 'v'"),
        ({"v": (0.0, math.inf)}, r"finite limits.* got 0.0:inf for 'v'"),
        ({"v": math.nan}, r"finite limits.* got nan:nan for 'v'"),
    ],
)
def test_bad_boxes_are_refused(cart: Transitions, box, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Probes.from_box(box, count=5, like=cart)


@pytest.mark.parametrize("shares", [(0.0,), (-0.1,), (1.1,), (0.6, 0.6), (math.nan,)])
def test_bad_shares_are_refused(cart: Transitions, shares: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"emphasis shares must be in \(0, 1\] and add up to at most 1"):
        Probes.from_box({}, count=5, like=cart, emphasis=[Emphasis({"v": 0.0}, share) for share in shares])


def test_jitter_moves_rows_by_shares_of_their_deviation(cart: Transitions) -> None:
    probes = Probes.from_jitter(cart, spread=0.01, seed=1)
    assert len(probes) == len(cart)
    gaps = (probes.inputs[:, None] - cart.inputs[None]) / cart.inputs.std(axis=0)
    nearest = np.linalg.norm(gaps, axis=2).min(axis=1)
    assert (nearest > 0).all()
    assert nearest.max() < 0.01 * 5


def test_jitter_leaves_a_constant_column_constant() -> None:
    rows = Transitions.from_arrays(np.arange(9.0)[:, None], np.full((9, 1), 2.5), np.zeros((9, 1)))
    probes = Probes.from_jitter(rows, spread=0.5)
    assert (probes.controls == 2.5).all()
    assert not np.isin(probes.states, rows.states).any()


@pytest.mark.parametrize("count", [1, 5, 1000])
def test_jitter_draws_as_many_as_asked(cart: Transitions, count: int) -> None:
    assert len(Probes.from_jitter(cart, count=count)) == count


@pytest.mark.parametrize("spread", [-0.1, math.nan, math.inf])
def test_bad_spreads_are_refused(cart: Transitions, spread: float) -> None:
    with pytest.raises(ValueError, match="`spread` must be a finite number >= 0"):
        Probes.from_jitter(cart, spread=spread)


@pytest.mark.parametrize("count", [0, -1])
def test_no_probes_at_all_are_refused(cart: Transitions, count: int) -> None:
    with pytest.raises(ValueError, match=f"`count` must be at least 1; got {count}"):
        Probes.from_jitter(cart, count=count)
    with pytest.raises(ValueError, match=f"`count` must be at least 1; got {count}"):
        Probes.from_box({}, count=count, like=cart)


def test_probes_from_arrays_are_checked(cart: Transitions) -> None:
    schema = cart.schema
    with pytest.raises(ValueError, match=r"`probes` must have 1 columns \(u\); got 2"):
        Probes.from_arrays(np.zeros((3, 2)), np.zeros((3, 2)), schema=schema)
    with pytest.raises(ValueError, match=r"at least one row .* got 3 and 2"):
        Probes.from_arrays(np.zeros((3, 2)), np.zeros((2, 1)), schema=schema)
    with pytest.raises(ValueError, match=r"`probes` must be finite; got nan at row 0, column 'u'"):
        Probes.from_arrays(np.zeros((1, 2)), [[math.nan]], schema=schema)


def test_outputs_advance_the_states_they_are_named_after():
    states = ["x", "v"]
    assert make_schema(states, [], ["next_v", "next_x"]).advances == (1, 0)
    assert make_schema(states, [], ["v", "x"]).outputs == ("v", "x")
    assert make_schema(states, [], ["a", "b"]).advances == (0, 1)
    assert make_schema(states, [], ["x_next", "b"]).advances == (0, 1)
    assert make_schema(states, [], ["v"]).advances == (1,)
    with pytest.raises(ValueError, match="got 'next_v' in the place of 'x', though 'v' is a state"):
        make_schema(states, [], ["next_v", "b"])

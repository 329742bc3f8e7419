"""Recordings written here by hand, in exactly CARLA's format; the client is the real one where installed."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tether_studies import carla as adapter
from tether_studies.carla import LOG_COLUMNS, collect, connect, read_carla


def write_frame(folder: Path, number: int, *, millis: int, player: dict) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "frameNumber": str(number + 17),
        "platformTimestamp": 900 + millis,
        "playerMeasurements": player,
    }
    if millis:  # protocol buffers leave out what is zero
        record["gameTimestamp"] = millis
    (folder / f"measurements_{number}.json").write_text(json.dumps(record))


def player(x: float, y: float, yaw: float, speed: float) -> dict:
    transform = {
        "location": {"x": x, "y": y, "z": 38.1},
        "orientation": {"x": math.cos(math.radians(yaw)), "y": math.sin(math.radians(yaw))},
        "rotation": {"yaw": yaw, "roll": -0.01},
    }
    measured = {"transform": transform, "acceleration": {"x": 0.1}, "autopilotControl": {"throttle": 0.5}}
    return measured if speed == 0 else {**measured, "forwardSpeed": speed}


def circle(frame: int) -> dict:
    """10 m/s, turning by 30 degrees a second, through the cut at ±180 degrees."""
    yaw = 170.0 + 3.0 * frame
    return player(100.0 + frame, 200.0, yaw - 360.0 * (yaw > 180.0), 10.0)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    for episode, frames in (("episode_00000", 12), ("episode_00001", 4)):
        for number in range(frames):
            write_frame(tmp_path / episode, number, millis=100 * number, player=circle(number))
    (tmp_path / "metadata.json").write_text("{}")
    return tmp_path


def test_measurements_of_0_8_are_read_in_the_order_of_their_numbers(recorded: Path):
    transitions = read_carla(recorded)
    # The first frame has no past, so no yaw rate; the last has no outcome. 12 and 4 frames: 10 and 2 rows.
    assert np.bincount(transitions.episodes).tolist() == [10, 2]
    # Sorted as text, frame 10 would come after frame 1.
    np.testing.assert_allclose(transitions.states[:10, 0], 101.0 + np.arange(10))
    np.testing.assert_allclose(transitions.next_states[:, 0], transitions.states[:, 0] + 1.0)
    np.testing.assert_allclose(transitions.controls, [[10.0, math.radians(30.0)]] * 12)
    assert (np.abs(transitions.states[:, 2]) <= np.pi).all()
    np.testing.assert_allclose(transitions.next_states[:, 2] - transitions.states[:, 2], math.radians(3.0))


def test_yaw_rate_does_not_know_the_next_heading(tmp_path: Path):
    for number, yaw in enumerate([0.0, 1.0, 3.0, 90.0]):
        write_frame(tmp_path / "episode_0", number, millis=100 * number, player=player(0, 0, yaw, 1.0))
    for episode in (1, 2):
        for number in range(3):
            write_frame(
                tmp_path / f"episode_{episode}", number, millis=100 * number, player=player(0, 0, 0, 1)
            )
    rates = read_carla(tmp_path).controls[:2, 1]
    np.testing.assert_allclose(rates, np.radians([10.0, 20.0]))


def test_what_protocol_buffers_leave_out_is_zero(tmp_path: Path):
    parked = {"transform": {"location": {"z": 38.0}, "rotation": {}}}
    for number in range(3):
        write_frame(tmp_path / "episode_0", number, millis=100 * number, player=parked)
    transitions = read_carla(tmp_path)
    assert transitions.inputs.tolist() == [[0, 0, 0, 0, 0]]


def test_heading_from_orientation_where_there_is_no_rotation(tmp_path: Path):
    for number in range(3):
        measured = player(1.0, 2.0, -120.0, 3.0)
        del measured["transform"]["rotation"]
        write_frame(tmp_path / "episode_0", number, millis=100 * number, player=measured)
    assert read_carla(tmp_path).states[0, 2] == pytest.approx(math.radians(-120.0))


def test_a_dropped_frame_breaks_the_chain(tmp_path: Path):
    for number, millis in enumerate([0, 100, 200, 500, 600, 700]):
        write_frame(tmp_path / "episode_0", number, millis=millis, player=player(millis, 0, 0, 1.0))
    # 200 -> 500 is no step, and after the gap the yaw rate at 500 is unknown.
    assert read_carla(tmp_path).states[:, 0].tolist() == [100, 600]


def test_position_moves_to_the_rear_axle(recorded: Path):
    plain, axle = read_carla(recorded), read_carla(recorded, axle_behind=1.5)
    heading = plain.states[:, 2]
    np.testing.assert_allclose(axle.states[:, 0], plain.states[:, 0] - 1.5 * np.cos(heading))
    np.testing.assert_allclose(
        axle.next_states[:, 1], plain.next_states[:, 1] - 1.5 * np.sin(plain.next_states[:, 2])
    )


def write_log(path: Path, rows: int, tick: float = 0.05) -> None:
    lines = [",".join(LOG_COLUMNS)]
    lines += [f"{5 + k * tick},{k},0,{179 + k},{20 * k},{20.0},0.5,0,0.1" for k in range(rows)]
    path.write_text("\n".join(lines))


def test_logs_of_0_9_are_thinned_to_the_step(tmp_path: Path):
    write_log(tmp_path / "episode_0000.csv", 7)
    transitions = read_carla(tmp_path, step_seconds=0.1)
    assert transitions.states[:, 0].tolist() == [0, 2, 4]
    assert transitions.next_states[:, 0].tolist() == [2, 4, 6]
    np.testing.assert_allclose(
        transitions.controls, [[0, math.radians(20)], [40, math.radians(20)], [80, math.radians(20)]]
    )
    np.testing.assert_allclose(transitions.next_states[:, 2] - transitions.states[:, 2], math.radians(2.0))


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda folder: (folder / "episode_0000.csv").write_text("time,x\n1,2\n"), "must have columns .* no 'y'"),
        (lambda folder: write_log(folder / "episode_0000.csv", 5, tick=0.07), "`step_seconds` must be a multiple of .* 0.07 s apart"),
        (lambda folder: (folder / "episode_0000.csv").unlink(), "must hold episode_\\* folders"),
        (lambda folder: (folder / "episode_00001").mkdir(), "must hold measurements_\\*.json files"),
    ],
)  # fmt: skip
def test_broken_recordings_are_refused_with_their_name(tmp_path: Path, break_it, message: str):
    write_log(tmp_path / "episode_0000.csv", 7)
    break_it(tmp_path)
    with pytest.raises(ValueError, match=message):
        read_carla(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "must be JSON"),
        ("{}", "must hold playerMeasurements .*KeyError"),
        ("[]", "must hold playerMeasurements"),
    ],
)
def test_broken_frames_are_refused_with_their_name(recorded: Path, text: str, message: str):
    (recorded / "episode_00001" / "measurements_2.json").write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read_carla(recorded)
    assert "measurements_2.json" in str(caught.value)


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="must be a folder of CARLA episodes"):
        read_carla(tmp_path / "absent")


def test_collect_says_in_one_line_that_no_server_answers(tmp_path: Path):
    pytest.importorskip(
        "carla", reason="the CARLA client has no wheel for this platform, or is not installed"
    )
    with pytest.raises(ValueError, match=r"server must answer at 127\.0\.0\.1:2963; .*Start it") as caught:
        connect("127.0.0.1", 2963, timeout=0.5)
    assert "\n" not in str(caught.value)


def test_collect_checks_its_arguments_before_it_connects(tmp_path: Path):
    (tmp_path / "kept.txt").write_text("mine")
    with pytest.raises(ValueError, match="must be a new or empty folder"):
        collect(out=tmp_path)
    with pytest.raises(ValueError, match="`minutes` must be positive"):
        collect(out=tmp_path / "new", minutes=0)


def test_a_missing_client_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "carla", None)
    with pytest.raises(ValueError, match=r"pip install carla"):
        connect()


class StandInCar:
    """A car at 8 m/s on a circle, answering with the client's own value types."""

    def __init__(self, carla, world: "StandInWorld"):
        self.carla, self.world, self.destroyed, self.autopilot = carla, world, False, None

    def get_transform(self):
        return self.carla.Transform(
            self.carla.Location(x=0.4 * self.world.ticks, y=-3.0), self.carla.Rotation(yaw=90.0)
        )

    def get_velocity(self):
        return self.carla.Vector3D(x=0.5, y=8.0)

    def get_angular_velocity(self):
        return self.carla.Vector3D(z=12.0)

    def get_control(self):
        return self.carla.VehicleControl(throttle=0.5, steer=-0.25)

    def set_autopilot(self, enabled: bool, port: int) -> None:
        self.autopilot = (enabled, port)

    def destroy(self) -> None:
        self.destroyed = True


class StandInWorld:
    """What `collect` asks of a world; the second of its starting places is taken."""

    def __init__(self, carla):
        self.carla, self.ticks, self.cars = carla, 0, []
        self.settings = carla.WorldSettings()

    def get_map(self):
        return SimpleNamespace(get_spawn_points=lambda: [self.carla.Transform() for _ in range(3)])

    def get_blueprint_library(self):
        return SimpleNamespace(find=lambda name: name)

    def try_spawn_actor(self, blueprint, start):
        self.cars.append(StandInCar(self.carla, self))
        return self.cars[-1]

    def get_settings(self):
        return self.carla.WorldSettings(
            self.settings.synchronous_mode,
            self.settings.no_rendering_mode,
            self.settings.fixed_delta_seconds or 0.0,
        )

    def apply_settings(self, settings) -> None:
        self.settings = settings

    def tick(self) -> None:
        assert self.settings.synchronous_mode
        self.ticks += 1

    def get_snapshot(self):
        return SimpleNamespace(timestamp=SimpleNamespace(elapsed_seconds=0.05 * self.ticks))


def test_what_collect_writes_read_carla_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # No server runs here: world and car are stand-ins, values and settings are the real client's.
    carla = pytest.importorskip(
        "carla", reason="the CARLA client has no wheel for this platform, or is not installed"
    )
    world = StandInWorld(carla)
    traffic = SimpleNamespace(
        get_port=lambda: 8000, set_synchronous_mode=lambda on: None, set_random_device_seed=lambda seed: None
    )
    client = SimpleNamespace(get_world=lambda: world, get_trafficmanager=lambda: traffic)
    monkeypatch.setattr(adapter, "connect", lambda host, port: client)
    paths = collect(minutes=2 / 60, episode_seconds=1.0, out=tmp_path / "logs")
    assert [path.name for path in paths] == ["episode_0000.csv", "episode_0001.csv"]
    transitions = read_carla(tmp_path / "logs")
    assert np.bincount(transitions.episodes).tolist() == [9, 9]
    np.testing.assert_allclose(transitions.controls, [[8.0, math.radians(12.0)]] * 18, rtol=1e-6)
    np.testing.assert_allclose(
        transitions.next_states[:, 0] - transitions.states[:, 0], 0.8, rtol=1e-5
    )  # CARLA's numbers are float32
    assert all(car.destroyed and car.autopilot == (True, 8000) for car in world.cars)
    assert not world.settings.synchronous_mode

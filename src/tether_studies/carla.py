"""CARLA: recorded episodes in, and a collector that records them.

Two kinds of recording are read.

- CARLA 0.8: folders ``episode_*`` of ``measurements_*.json``, one file per frame, as its data collectors
  write them: SI units, yaw in degrees, times in milliseconds. Protocol buffers leave out what is zero, so
  a missing ``forwardSpeed`` is a car at rest. There is no yaw rate among the measurements; it is taken from
  the heading of the frame *before*, never from the next one.
- CARLA 0.9: files ``episode_*.csv``, as :func:`collect` writes them, with the columns of `LOG_COLUMNS`.

CARLA's axes are left-handed (x ahead, y to the right, yaw clockwise). A car still moves along
``(cos yaw, sin yaw)``, so nothing needs to be turned round. Its position is the pivot of the car's mesh,
which is not the rear axle; see `axle_behind`.
"""

from __future__ import annotations

import csv
import importlib
import io
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Schema, Transitions, make_schema, wrap_angle
from tether.data.files import read_table
from tether.foundation.atomic import write_text
from tether.foundation.documents import load_json, read_text
from tether.foundation.limits import check_number, check_seed, check_whole
from tether.foundation.progress import Reporter, silent

SCHEMA: Schema = make_schema(
    ["x", "y", "heading"],
    ["speed", "yaw_rate"],
    units={"x": "m", "y": "m", "heading": "rad", "speed": "m/s", "yaw_rate": "rad/s"},
    angles=["heading"],
)
LOG_COLUMNS = ("time", "x", "y", "yaw", "speed", "yaw_rate", "throttle", "brake", "steer")
"""Columns of a 0.9 log: s, m, m, degrees, m/s along the heading, degrees/s, and the driver's controls."""
TICK_SECONDS = 0.05
"""Time between two rows of a log that :func:`collect` writes."""

_WARM_UP_TICKS = 20
_BLUEPRINT = "vehicle.tesla.model3"
_MOST_MINUTES = 1e6
_LATE = 0.1
"""Share of a step by which a frame may come early or late."""


@dataclass(frozen=True, eq=False)
class _Frames:
    """One recorded episode, (F,) each: seconds, metres, radians."""

    name: str
    time: Array
    x: Array
    y: Array
    heading: Array
    speed: Array
    yaw_rate: Array
    """NaN where it is not known."""


def read_carla(source: str | Path, *, step_seconds: float = 0.1, axle_behind: float = 0.0) -> Transitions:
    """Transitions (x, y, heading; speed, yaw rate) from a folder of recorded CARLA episodes.

    Args:
        source: a folder that holds ``episode_*`` folders (0.8) or ``episode_*.csv`` files (0.9).
        step_seconds: length of a transition; recordings must have frames that far apart.
        axle_behind: metres from the recorded position back to the rear axle, where a car moves along its
            heading; 0 keeps the position as recorded.
    """
    folder = Path(source)
    if not folder.is_dir():
        raise ValueError(
            f"`{folder}` must be a folder of CARLA episodes; it is not a folder. Check the path."
        )
    entries = sorted(folder.glob("episode_*"), key=_number)
    episodes = [_read_measurements(entry) for entry in entries if entry.is_dir()]
    episodes += [_read_log(entry) for entry in entries if entry.suffix == ".csv"]
    if not episodes:
        raise ValueError(
            f"`{folder}` must hold episode_* folders of measurements_*.json (CARLA 0.8) or episode_*.csv "
            "files (CARLA 0.9); it holds neither. Give the folder above the episodes."
        )
    parts = [_pair(frames, step_seconds, axle_behind) for frames in episodes]
    ids = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    if len(ids) == 0:
        raise ValueError(f"`{folder}` must hold frames {step_seconds} s apart; got none. Record for longer.")
    states, controls, outcomes = (np.concatenate([part[k] for part in parts]) for k in range(3))
    return Transitions.from_arrays(states, controls, outcomes, episodes=ids, schema=SCHEMA)


def _number(path: Path) -> tuple[int, str]:
    """Sorts by the number in a name: measurements_10 comes after measurements_9."""
    digits = re.findall(r"\d+", path.stem)
    return (int(digits[-1]) if digits else -1, path.name)


def _pair(frames: _Frames, step_seconds: float, axle_behind: float) -> tuple[Array, Array, Array]:
    """States, controls and outcomes of transitions that do not overlap."""
    if len(frames.time) < 2:
        return np.empty((0, 3)), np.empty((0, 2)), np.empty((0, 3))
    stride = _stride(frames, step_seconds)
    now = np.arange(0, len(frames.time) - stride)
    late = np.abs(frames.time[now + stride] - frames.time[now] - step_seconds)
    kept = (late <= _LATE * step_seconds) & np.isfinite(frames.yaw_rate[now])
    # Every stride-th frame, counted from the first that can be used, so that transitions follow on another.
    now = now[kept]
    now = now[(now - now[0]) % stride == 0] if len(now) else now
    heading = frames.heading
    pose = np.stack(
        [frames.x - axle_behind * np.cos(heading), frames.y - axle_behind * np.sin(heading), heading], axis=1
    )
    control = np.stack([frames.speed, frames.yaw_rate], axis=1)
    return pose[now], control[now], pose[now + stride]


def _stride(frames: _Frames, step_seconds: float) -> int:
    """Frames per step."""
    tick = float(np.median(np.diff(frames.time)))
    stride = max(1, round(step_seconds / tick)) if tick > 0 else 0
    if tick <= 0 or abs(stride * tick - step_seconds) > _LATE * step_seconds:
        raise ValueError(
            f"`step_seconds` must be a multiple of the time between frames; got {step_seconds} s, and frames "
            f"{tick:.4g} s apart in {frames.name}. Choose a multiple of {tick:.4g}."
        )
    return stride


# CARLA 0.8 ------------------------------------------------------------------------------------------


def _read_measurements(folder: Path) -> _Frames:
    """An ``episode_*`` folder of ``measurements_*.json``."""
    files = sorted(folder.glob("measurements_*.json"), key=_number)
    if not files:
        raise ValueError(
            f"`{folder}` must hold measurements_*.json files; it holds none. Remove it, or record it again."
        )
    rows = np.array([_read_frame(path) for path in files])
    time, x, y, heading, speed = rows.T
    return _Frames(folder.name, time, x, y, heading, speed, _past_yaw_rate(time, heading))


def _read_frame(path: Path) -> tuple[float, float, float, float, float]:
    """Seconds, x, y, heading, speed of one file."""
    text = read_text(path)
    try:
        record = load_json(text)
    except ValueError as error:
        raise ValueError(f"`{path}` must be JSON; {error}. Repair or remove it.") from None
    try:
        player = record["playerMeasurements"]
        transform = player["transform"]
        # What is zero is left out of the file; a location that is left out altogether is a broken one.
        location = transform["location"]
        stamp = float(record.get("gameTimestamp", 0))
        x, y, speed = (
            float(part.get(key, 0.0))
            for part, key in ((location, "x"), (location, "y"), (player, "forwardSpeed"))
        )
        heading = _heading(transform)
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"`{path}` must hold playerMeasurements with transform.location and numbers in it; "
            f"{type(error).__name__}: {error}. Repair or remove it."
        ) from None
    return stamp / 1000.0, x, y, heading, speed


def _heading(transform: Mapping[str, Any]) -> float:
    """Radians: from the rotation, or from the unit vector that early versions write instead."""
    if "rotation" in transform or "orientation" not in transform:
        return math.radians(float(transform.get("rotation", {}).get("yaw", 0.0)))
    ahead = transform["orientation"]
    return math.atan2(float(ahead.get("y", 0.0)), float(ahead.get("x", 0.0)))


def _past_yaw_rate(time: Array, heading: Array) -> Array:
    """(F,) turn since the frame before, per second; NaN for the first frame and after a gap."""
    gap = np.diff(time)
    rate = np.full(len(time), np.nan)
    if len(gap):
        usual = (gap > 0) & (gap < 1.5 * np.median(gap))
        rate[1:][usual] = wrap_angle(np.diff(heading))[usual] / gap[usual]
    return rate


# CARLA 0.9 ------------------------------------------------------------------------------------------


def _read_log(path: Path) -> _Frames:
    """An ``episode_*.csv`` file."""
    table = read_table(path)
    missing = [name for name in LOG_COLUMNS[:6] if name not in table]
    if missing:
        raise ValueError(f"`{path}` must have columns {', '.join(LOG_COLUMNS[:6])}; got no '{missing[0]}'.")
    time, x, y, yaw, speed, yaw_rate = (_numbers(table[name], name, path) for name in LOG_COLUMNS[:6])
    return _Frames(path.name, time, x, y, np.radians(yaw), speed, np.radians(yaw_rate))


def _numbers(column: NDArray[Any], name: str, path: Path) -> Array:
    try:
        values = np.array(column, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"`{path}` must hold numbers; column '{name}': {error}.") from None
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"`{path}` must be finite; got {values[row]} at row {row}, column '{name}'.")
    return values


# The collector --------------------------------------------------------------------------------------


def connect(host: str = "127.0.0.1", port: int = 2000, *, timeout: float = 10.0) -> Any:
    """A ``carla.Client`` whose server answers."""
    try:
        carla = importlib.import_module("carla")
    except ImportError:
        raise ValueError(
            "collecting from CARLA must have its client; it is not installed. "
            "Run `pip install carla==0.9.16`."
        ) from None
    client = carla.Client(host, port)
    client.set_timeout(timeout)
    with _plain_errors(host, port):
        server, own = client.get_server_version(), client.get_client_version()
    if server != own:
        raise ValueError(
            f"the CARLA server must have the client's version, {own}; got {server}. "
            f"Start a server of version {own}, or install carla=={server}."
        )
    return client


@contextmanager
def _plain_errors(host: str, port: int) -> Iterator[None]:
    """The client's errors, which are RuntimeErrors of its C++ library, as one line with a remedy."""
    try:
        yield
    except RuntimeError as error:
        raise ValueError(
            f"a CARLA server must answer at {host}:{port}; {error}. "
            "Start it (`./CarlaUE4.sh`), or give its host and port."
        ) from error


def collect(
    host: str = "127.0.0.1",
    port: int = 2000,
    town: str | None = None,
    minutes: float = 30.0,
    out: str | Path = "carla",
    *,
    episode_seconds: float = 60.0,
    seed: int = 0,
    reporter: Reporter = silent,
) -> list[Path]:
    """Drives with CARLA's own autopilot and writes one ``episode_*.csv`` per episode into `out`.

    Args:
        host: of the server.
        port: of the server.
        town: map to load, for example ``Town01``; by default the one that is loaded.
        minutes: simulated time to record, over all episodes.
        out: a folder, new or empty; read it with :func:`read_carla`.
        episode_seconds: length of an episode; each starts at a place of its own.
        seed: of starting places and autopilot.
        reporter: opens a progress display.
    """
    check_number("minutes", minutes, above=0.0, most=_MOST_MINUTES)
    check_number("episode_seconds", episode_seconds, above=0.0, most=60.0 * _MOST_MINUTES)
    check_whole("port", port, least=1, most=65535)
    check_seed("seed", seed)
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"`{folder}` must be a new or empty folder; nothing is overwritten. Choose another.")
    client = connect(host, port)
    folder.mkdir(parents=True, exist_ok=True)
    with _plain_errors(host, port):
        world = client.load_world(town) if town is not None else client.get_world()
        traffic = client.get_trafficmanager()
        count = max(1, round(minutes * 60.0 / episode_seconds))
        ticks = round(min(episode_seconds, minutes * 60.0) / TICK_SECONDS)
        starts = np.random.default_rng(seed).permutation(world.get_map().get_spawn_points())
        paths = [folder / f"episode_{episode:04d}.csv" for episode in range(count)]
        with _in_lockstep(world, traffic, seed), reporter("Driving in CARLA") as progress:
            for episode, path in enumerate(paths):
                with _driven_car(world, traffic, np.roll(starts, -episode)) as car:
                    write_text(path, _drive(world, car, ticks))
                progress(episode + 1, count)
    return paths


@contextmanager
def _in_lockstep(world: Any, traffic: Any, seed: int) -> Iterator[None]:
    """Server and autopilot wait for each tick; the world's own settings come back whatever happens."""
    before, settings = world.get_settings(), world.get_settings()
    settings.synchronous_mode, settings.fixed_delta_seconds = True, TICK_SECONDS
    try:
        world.apply_settings(settings)
        traffic.set_synchronous_mode(True)
        traffic.set_random_device_seed(seed)
        yield
    finally:
        traffic.set_synchronous_mode(False)
        world.apply_settings(before)


@contextmanager
def _driven_car(world: Any, traffic: Any, starts: NDArray[Any]) -> Iterator[Any]:
    """A car on autopilot at the first starting place that is free; destroyed at the end."""
    blueprint = world.get_blueprint_library().find(_BLUEPRINT)
    tries = (world.try_spawn_actor(blueprint, start) for start in starts)
    car = next((car for car in tries if car is not None), None)
    if car is None:
        raise ValueError(
            f"the town must have a free place to start from; none of {len(starts)} is. Remove other vehicles."
        )
    try:
        car.set_autopilot(True, traffic.get_port())
        yield car
    finally:
        car.destroy()


def _drive(world: Any, car: Any, ticks: int) -> str:
    """The log of `ticks` ticks, once the car has dropped onto its wheels."""
    for _ in range(_WARM_UP_TICKS):
        world.tick()
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(LOG_COLUMNS)
    for _ in range(ticks):
        world.tick()
        writer.writerow(_row(world.get_snapshot().timestamp.elapsed_seconds, car))
    return text.getvalue()


def _row(seconds: float, car: Any) -> list[float]:
    """`LOG_COLUMNS` of a ``carla.Vehicle`` now."""
    transform, velocity, control = car.get_transform(), car.get_velocity(), car.get_control()
    ahead = transform.get_forward_vector()
    speed = velocity.x * ahead.x + velocity.y * ahead.y + velocity.z * ahead.z
    place = transform.location
    return [
        seconds, place.x, place.y, transform.rotation.yaw, speed, car.get_angular_velocity().z,
        control.throttle, control.brake, control.steer,
    ]  # fmt: skip

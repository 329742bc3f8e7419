"""Work on a real Dask cluster and in real processes: the same as here, and nothing lost when a worker is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import joblib
import numpy as np
import pytest

import tether
from tether.data import Probes, Transitions, make_schema
from tether.foundation.errors import ClusterError, TrustedModelError
from tether.foundation.executors import Cluster, Inline, Processes, current, is_spread, spread_over
from tether.trusted import TrustedModel
from tether_studies.runner import run_all
from tether_studies.study import StudyData

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("default::ResourceWarning", "default::DeprecationWarning")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        client.run(os.getpid)
        yield client


def squared(number: int) -> int:
    return number**2


def killed_once(mark: Path, number: int) -> int:
    """The process that comes to 3 first ends there."""
    if number == 3 and not mark.exists():
        mark.write_text("x")
        os.kill(os.getpid(), signal.SIGKILL)
    with (mark.parent / f"{number}.done").open("a") as file:
        file.write("x")
    return number**2


def killed_always(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def pendulum(states: np.ndarray, controls: np.ndarray) -> np.ndarray:
    angle, speed = states[:, 0], states[:, 1]
    return np.stack([angle + 0.05 * speed, speed + 0.05 * (controls[:, 0] - np.sin(angle))], axis=1)


def slow(states: np.ndarray, controls: np.ndarray) -> np.ndarray:
    time.sleep(0.01 * len(states))
    return pendulum(states, controls)


def killing(mark: Path, states: np.ndarray, controls: np.ndarray) -> np.ndarray:
    """Ends the first worker that asks it, once."""
    if is_worker() and not mark.exists():
        mark.write_text("x")
        os.kill(os.getpid(), signal.SIGKILL)
    return pendulum(states, controls)


def is_worker() -> bool:
    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True


def pendulum_data() -> Transitions:
    rng = np.random.default_rng(0)
    states, controls = rng.uniform(-2, 2, (600, 2)), rng.uniform(-1, 1, (600, 1))
    following = pendulum(states, controls) + 0.01 * states[:, ::-1] ** 2
    return Transitions.from_arrays(
        states,
        controls,
        following,
        episodes=np.arange(600) // 30,
        schema=make_schema(["angle", "speed"], ["torque"]),
    )


def fitted(trusted: Any = pendulum, client: Any = None) -> tether.Model:
    settings: dict[str, Any] = {"memories": 20, "leaves": 600}
    training = tether.TrainingConfig(steps=20)
    return tether.fit(pendulum_data(), trusted=trusted, training=training, client=client, **settings)


@dataclass(frozen=True)
class Run:
    """A task of a study that takes no time, and of which the third ends its worker once."""

    folder: Path
    seed: int
    entry: None = None

    @property
    def plan(self) -> SimpleNamespace:
        return SimpleNamespace(scale="smoke", options={}, definition=SimpleNamespace(simulate=self.simulate))

    def simulate(self, *_: Any) -> StudyData:
        with (self.folder / f"{self.seed}.begun").open("a") as file:
            file.write("x")
        if self.seed == 2 and len((self.folder / "2.begun").read_text()) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        data = pendulum_data()
        return StudyData(data, Probes.from_arrays(data.states, data.controls, schema=data.schema))

    @property
    def result(self) -> Path:
        return self.folder / f"{self.seed}.npz"

    failure = progress = property(lambda self: self.folder / f"{self.seed}.none")

    @property
    def done(self) -> bool:
        return self.result.exists()


@pytest.fixture(scope="module")
def alone() -> tether.Model:
    """Fitted in this process."""
    return fitted()


def same(one: tether.Model, two: tether.Model) -> bool:
    left, right = one.state_dict(), two.state_dict()
    return left.keys() == right.keys() and all(
        np.array_equal(left[name].numpy(), right[name].numpy()) for name in left
    )


@pytest.mark.parametrize("executor", [Inline(), Processes(2)])
def test_pieces_come_back_in_order(executor) -> None:
    assert list(executor.map(squared, zip(range(50)))) == [k**2 for k in range(50)]
    assert list(executor.map(squared, [])) == []


class _AllAtOnce(joblib.parallel.ThreadingBackend):
    """As Ray's: no results before all are there."""

    supports_return_generator = False


def test_a_backend_without_generators_gives_them_back_in_order() -> None:
    joblib.register_parallel_backend("all at once", _AllAtOnce)
    with joblib.parallel_config("all at once"):
        assert list(Processes(2).map(squared, zip(range(50)))) == [k**2 for k in range(50)]


def test_a_cluster_gives_them_back_in_order(client) -> None:
    assert list(Cluster(client).map(squared, zip(range(50)))) == [k**2 for k in range(50)]
    assert list(Cluster(client).map(squared, [])) == []


def test_a_process_that_is_killed_is_replaced(tmp_path: Path) -> None:
    work = partial(killed_once, tmp_path / "mark")
    assert list(Processes(2).map(work, zip(range(20)))) == [k**2 for k in range(20)]
    assert (tmp_path / "mark").exists()


def test_a_worker_that_is_killed_costs_its_own_piece(client, tmp_path: Path) -> None:
    work = partial(killed_once, tmp_path / "mark")
    assert list(Cluster(client).map(work, zip(range(40)))) == [k**2 for k in range(40)]
    assert (tmp_path / "mark").exists()
    again = [k for k in range(40) if len((tmp_path / f"{k}.done").read_text()) > 1]
    # What the other worker had done, or what was done and not fetched when it ended, at most.
    assert len(again) <= 4


@pytest.mark.slow
def test_work_that_kills_every_process_is_said_so() -> None:
    with pytest.raises(ClusterError, match="must not end the process that does it; 3 processes"):
        list(Processes(2).map(killed_always, zip(range(4))))


def test_nothing_is_spread_unless_asked_for(client) -> None:
    assert not is_spread()
    with spread_over(client):
        assert is_spread()
        with spread_over(None):
            assert is_spread()
    assert not is_spread() and isinstance(current(), Inline)


def test_a_fit_is_the_same_bit_by_bit(client, alone: tether.Model) -> None:
    assert same(alone, fitted(client=client))


def test_a_fit_survives_a_worker_killed_while_it_asks_M(client, tmp_path: Path) -> None:
    trusted = partial(killing, tmp_path / "mark")
    trusted.__qualname__ = "pendulum"  # type: ignore[attr-defined]
    with spread_over(client):
        states, controls = pendulum_data().states, pendulum_data().controls
        found = TrustedModel(trusted)(states, controls, pendulum_data().schema)
    assert (tmp_path / "mark").exists()
    assert np.array_equal(found, pendulum(states, controls))


def test_proofs_survive_a_worker_killed_meanwhile(
    client, alone: tether.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers are killed from outside while leaves are proved."""
    from tether.evidence import proved

    monkeypatch.setattr(proved, "_LEAVES", 16)
    killed: list[int] = []
    inner = Cluster.map

    def map_and_kill(self: Cluster, function: Any, pieces: Any) -> Iterator[Any]:
        for number, result in enumerate(inner(self, function, pieces)):
            if "expand_boxes" in repr(function) and number == 0 and not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)
            yield result

    monkeypatch.setattr(Cluster, "map", map_and_kill)
    spread = fitted(client=client)
    assert killed
    assert same(alone, spread)


def test_a_study_survives_a_worker_killed_in_a_run(client, tmp_path: Path) -> None:
    runs: list[Any] = [Run(tmp_path, seed) for seed in range(8)]
    with spread_over(client):
        assert run_all([runs[:4], runs[4:]], jobs=1) == []
    begun = [len((tmp_path / f"{run.seed}.begun").read_text()) for run in runs]
    assert begun[2] == 2  # the run that was killed, and of the rest what was done is not begun again
    assert sum(begun) == 9


def test_attack_verify_and_tube_say_the_same(
    client, alone: tether.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tether.claims.attack._SHARD_BUDGET", 2000)
    model = alone
    search: dict[str, Any] = {"evaluations": 8000, "seed": 3}
    assert tether.attack(model, pendulum, **search, jobs=1) == tether.attack(
        model, pendulum, **search, client=client
    )
    tether.save(model, tmp_path / "model.safetensors")
    here = tether.verify(tmp_path / "model.safetensors", pendulum)
    assert here == tether.verify(tmp_path / "model.safetensors", pendulum, client=client)
    start, controls = {"angle": (0.0, 0.4), "speed": (0.0, 0.2)}, np.zeros((5, 1))
    tubes = [tether.tube(model, pendulum, start, controls, halvings=2, client=c) for c in (None, client)]
    assert np.array_equal(tubes[0].lower, tubes[1].lower) and np.array_equal(tubes[0].upper, tubes[1].upper)


@pytest.mark.slow
def test_a_slow_model_is_nearly_twice_as_fast_on_two_workers(client) -> None:
    rng = np.random.default_rng(0)
    states, controls = rng.uniform(-2, 2, (3840, 2)), rng.uniform(-1, 1, (3840, 1))
    model, schema = TrustedModel(slow), pendulum_data().schema
    begun = time.monotonic()
    alone = model(states, controls, schema)
    one = time.monotonic() - begun
    client.wait_for_workers(2, timeout=300)
    with spread_over(client):
        model(states[:16], controls[:16], schema)
        begun = time.monotonic()
        spread = model(states, controls, schema)
        two = time.monotonic() - begun
    assert np.array_equal(alone, spread)
    assert one / two > 1.8, (one, two)


def test_a_model_that_raises_on_a_worker_says_what_it_says_here(client) -> None:
    def broken(states, controls):
        raise RuntimeError("no")

    data = pendulum_data()
    with spread_over(client), pytest.raises(TrustedModelError, match="must not raise; got RuntimeError: no"):
        TrustedModel(broken)(data.states, data.controls, data.schema)


def test_a_model_that_cannot_travel_is_refused(client) -> None:
    import threading

    lock, data = threading.Lock(), pendulum_data()

    def locked(states, controls):
        with lock:
            return pendulum(states, controls)

    with spread_over(client), pytest.raises(TypeError, match="must be able to travel to the workers"):
        TrustedModel(locked)(data.states, data.controls, data.schema)


def test_another_object_is_no_client() -> None:
    with (
        pytest.raises(TypeError, match="must be a Dask client or the address of a scheduler; got int"),
        spread_over(3),
    ):
        pass


def test_a_scheduler_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tether.foundation.executors._CONNECT_SECONDS", 1)
    for address in ("tcp://127.0.0.1:1", "nonsense://x"):
        with (
            pytest.raises(ClusterError, match="must be the address of a Dask scheduler"),
            spread_over(address),
        ):
            pass


def test_without_dask_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(ValueError, match=r"Run `pip install 'tether-dynamics\[cluster\]'`"),
        spread_over("tcp://x:1"),
    ):
        pass


def test_importing_it_does_not_import_dask() -> None:
    code = "import tether.foundation.executors, sys; assert 'distributed' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_a_scheduler_that_is_lost_is_one_line(tmp_path: Path) -> None:
    """Killed while M is asked, and the client's own tries to reach it again cut short."""
    import dask

    about = tmp_path / "scheduler.json"
    run = [sys.executable, "-m", "dask"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen([*run, "scheduler", "--port", "0", "--scheduler-file", str(about)], **quiet)
    worker = subprocess.Popen([*run, "worker", "--scheduler-file", str(about), "--nthreads", "1"], **quiet)
    try:
        while not about.exists():
            time.sleep(0.2)
        with dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
            client = distributed.Client(scheduler_file=str(about), set_as_default=False)
            client.wait_for_workers(1)
            found = Cluster(client).map(abs, zip(range(10_000)))
            assert next(found) == 0
            scheduler.kill()
            with pytest.raises(ClusterError, match="must stay reachable; tcp://.* was lost after"):
                list(found)
            client.close(timeout=1)
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()

"""A small system that every test may use: a cart pushed by a force, logged as episodes."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tether.data import Transitions, make_schema
from tether.files.runs import Comparison, RunFolder
from tether.report.curves import TITLES
from tether_studies.demo import demo_config, run_demo

collect_ignore = ["jax_models.py"]  # a script for a process of its own, where there is JAX

TRUSTED_SOURCE = '''
import numpy as np
from tether import TrustedModel


def frictionless(states, controls):
    """x' = x + 0.1 v, v' = v + 0.1 u."""
    return states + 0.1 * np.stack([states[:, 1], controls[:, 0]], axis=1)


known = TrustedModel(
    frictionless,
    lipschitz=[[1.0, 0.1, 0.0], [0.0, 1.0, 0.1]],
    increment_lipschitz=[[0.0, 0.1, 0.0], [0.0, 0.0, 0.1]],
)
'''


def pytest_configure(config: pytest.Config) -> None:
    """Before processes share the work (``-n``): one thread for each, and kernels compiled once, by nobody twice."""
    if hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None):
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    script = str(Path(__file__).with_name("compiling.py"))
    parts = [subprocess.Popen([sys.executable, script, part]) for part in ("programs", "geometry")]
    if any([part.wait() for part in parts]):
        raise pytest.UsageError("kernels must compile; see above.")


def seeds(few: int, many: int) -> list[Any]:
    """`many` seeds, of which all but the first `few` are for `make test-slow`."""
    return [*range(few), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(few, many))]


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def cart_rows(episodes: int = 12, steps: int = 20, *, seed: int = 0) -> list[list[float]]:
    """Rows ``episode, x, v, u`` of a cart with friction, which its trusted model does not know."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(episodes):
        x, v = rng.normal(size=2)
        for force in rng.normal(size=steps):
            rows.append([episode, float(x), float(v), float(force)])
            x, v = x + 0.1 * v, v + 0.1 * (force - 0.3 * v)
    return rows


def frictionless(states: np.ndarray, controls: np.ndarray) -> np.ndarray:
    return states + 0.1 * np.stack([states[:, 1], controls[:, 0]], axis=1)


@pytest.fixture(scope="session")
def cart() -> Transitions:
    """12 episodes of 19 transitions of the cart."""
    rows = np.array(cart_rows()).reshape(12, 20, 4)
    now, after = rows[:, :-1].reshape(-1, 4), rows[:, 1:].reshape(-1, 4)
    schema = make_schema(["x", "v"], ["u"], units={"x": "m", "v": "m/s"})
    return Transitions.from_arrays(now[:, 1:3], now[:, 3:], after[:, 1:3], episodes=now[:, 0], schema=schema)


@pytest.fixture
def cart_csv(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "cart.csv", ["episode", "x", "v", "u"], cart_rows())


@pytest.fixture
def trusted_file(tmp_path: Path) -> Path:
    path = tmp_path / "cart_physics.py"
    path.write_text(TRUSTED_SOURCE)
    return path


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def small_demo(tmp_path_factory) -> tuple[RunFolder, Comparison, Path]:
    """The demo in a few seconds: its folder, what was compared, and the report."""
    config = demo_config()
    config = replace(
        config, memories=60, hidden=(8,), training=replace(config.training, steps=20, evaluate_every=10)
    )
    folder = RunFolder.create(tmp_path_factory.mktemp("demo") / "run", "tether demo --out run")
    return folder, *run_demo(folder, config=config)


@pytest.fixture(scope="session")
def small_study(small_demo, tmp_path_factory) -> Path:
    """A folder of two studies; the first."""
    top = tmp_path_factory.mktemp("reproduced")
    for name in ("first", "second"):
        _write_study(top / name, small_demo)
    return top / "first"


def _write_study(folder: Path, demo) -> None:
    """A study of three seeds and two methods, as the runner writes it, from the demo's files."""
    _, comparison, report = demo
    folder.mkdir(parents=True)
    certificate = comparison.certificate.as_dict()
    runs = []
    for result in comparison.results:
        for seed in range(3):
            history = [{"step": 10 * k, **{key: seed + 10.0 / k for key in TITLES}} for k in range(1, 30)]
            run = dict(result) | {"seed": seed, "history": [] if result["method"] == "Trusted" else history}
            runs.append(run | ({"certificate": certificate} if "coverage_D" in run else {}))
    claims = [
        {"said": "The paper: <b> conforms", "measured": "2 against 1", "holds": True, "source": "the paper"},
        {"said": "It flies", "measured": "no", "holds": False},
    ]
    shutil.copy(report.parent / "drift.svg", folder / "drift.svg")
    shutil.copy(report.parent / "explorer.json", folder / "explorer.json")
    own = {
        "title": "On the road",
        "paragraphs": [],
        "grids": [],
        "pictures": [{"name": "drift", "caption": "A car"}],
    }
    units = {"x": "m", "y": "m", "heading": "rad"}
    results = {"name": folder.name, "title": f"the {folder.name} study", "scale": "smoke", "command": "tether study",
               "versions": {"python": "3"}, "units": units, "claims": claims, "failed": ["x: broke"],
               "headings": {"drift_at_rest": "drift [m]"}, "sections": [own], "runs": runs}  # fmt: skip
    (folder / "results.json").write_text(json.dumps(results))


def chromium(drive) -> str | None:
    """Where a Chromium is: named by CHROMIUM, on the path, or playwright's own."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    own = drive.chromium.executable_path
    return found or (own if Path(own).exists() else None)


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as drive:
        path = chromium(drive)
        if path is None:
            pytest.skip("there is no Chromium here: `make browser` tries to get one")
        started = drive.chromium.launch(executable_path=path, args=["--no-sandbox"], timeout=180_000)
        yield started
        started.close()

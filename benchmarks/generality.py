"""What the paper says its method extends to: other networks, a slow black box as M, inputs by the hundred.

    python benchmarks/generality.py

Prints, for each: what is guaranteed, of how many inputs, and what it took. Draws docs/images/dimensions.png: delta and
time against the number of inputs, of systems whose structure is known: a chain of oscillators whose history of
positions is among the inputs (which bend nothing), and one in which every input bends an output.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import nn

import tether
from sizes import TINY, size
from tether.data import Transitions, make_schema
from tether.evidence import SamplingConfig
from tether.fitting import CONSTRAINED, TETHERED, FitConfig, build_for, prepare
from tether.learning.config import TrainingConfig
from tether.report.figures import as_png, styled

DIMENSIONS = size((15, 30, 60, 120, 240), (15, 30))
ROWS = size(6000, 400)
LEAVES = size(5000, 200)
STEPS = size(1500, 30)
JOINTS, STEP = 6, 0.02
NETWORKS = {"few inputs bend": "history", "all inputs bend": "bending"}


@dataclass(frozen=True, eq=False)
class System:
    """Data of a chain, and M."""

    data: Transitions
    trusted: object


def chain(inputs: int, kind: str, seed: int = 0) -> System:
    """Six joints with springs and motors; the other inputs are their past, or loads that bend every torque.

    The truth has friction that M does not know.
    """
    rng = np.random.default_rng(seed)
    others = inputs - 3 * JOINTS if inputs > 3 * JOINTS else 0
    joints = (inputs - others) // 3
    states = [f"angle{k}" for k in range(joints)] + [f"speed{k}" for k in range(joints)]
    names = states + [f"past{k}" for k in range(inputs - 3 * joints)]
    schema = make_schema(names, [f"motor{k}" for k in range(joints)], states)
    mixing = rng.normal(0.0, 1.0 / np.sqrt(max(others, 1)), (max(others, 1), joints))

    def trusted(states, controls):
        angles, speeds, past = states[:, :joints], states[:, joints : 2 * joints], states[:, 2 * joints :]
        pull = controls - 4.0 * np.sin(angles)
        if past.shape[1]:
            pull = pull + (np.sin(past) if kind == "bending" else past) @ mixing[: past.shape[1]]
        faster = speeds + STEP * pull
        return np.concatenate([angles + STEP * faster, faster], axis=1)

    rows = rng.uniform(-1.0, 1.0, (ROWS, inputs))
    given, controls = rows[:, : len(names)], rows[:, len(names) :]
    following = trusted(given, controls)
    slip = STEP * 0.3 * np.tanh(3.0 * given[:, joints : 2 * joints])
    following[:, joints:] -= slip
    episodes = np.arange(ROWS) // size(100, 20)
    return System(
        Transitions.from_arrays(given, controls, following, episodes=episodes, schema=schema), trusted
    )


def against_dimension(kind: str) -> list[tuple[int, float, float, float]]:
    """Inputs, then delta of the median held-out row over the residual's size: affine, interval; seconds of CPU."""
    found = []
    for inputs in DIMENSIONS:
        system = chain(inputs, kind)
        config = FitConfig(leaves=LEAVES, memories=size(500, 30), evidence="proved", target="increment")
        problem = prepare(system.data, trusted=system.trusted, config=config)
        test = problem.split.test
        residual = np.abs(test.next_states - problem.data[2].trusted)
        unit = np.sqrt((residual**2).mean(axis=0))[JOINTS if inputs >= 3 * JOINTS else inputs // 3 :]
        deltas = []
        for method in (TETHERED, CONSTRAINED):
            start = time.process_time()
            built = build_for(problem, method, config)
            seconds = time.process_time() - start
            delta = built.tether.rows(test.inputs).delta[:, -len(unit) :]
            deltas.append((float(np.median(delta / unit)), seconds))
        (affine, seconds), (interval, _) = deltas
        found.append((inputs, affine, interval, seconds))
        print(
            f"{inputs:4d} inputs, {kind}: proved delta of the median held-out row {affine:.3g} of the residual's "
            f"RMS (the paper's intervals: {interval:.3g}), built in {seconds:.2f} s of the processor",
            flush=True,
        )
    return found


class Flow(nn.Module):
    """A neural ODE: features to outputs through a learned vector field."""

    def __init__(self, inputs: int, outputs: int, width: int = 24) -> None:
        super().__init__()
        self.lift, self.read = nn.Linear(inputs, width), nn.Linear(width, outputs)
        self.field = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        from torchdiffeq import odeint

        times = torch.linspace(0.0, 1.0, 2, device=features.device, dtype=features.dtype)
        path = odeint(
            lambda t, y: self.field(y), self.lift(features), times, method="rk4", options={"step_size": 0.5}
        )
        return self.read(path[-1])


class Remembering(nn.Module):
    """A recurrent network over the history that is among the inputs: steps of `width` signals, then the rest."""

    def __init__(self, steps: int, signals: int, rest: int, outputs: int, width: int = 24) -> None:
        super().__init__()
        self.steps, self.signals = steps, signals
        self.memory = nn.GRU(signals, width, batch_first=True)
        self.read = nn.Linear(width + rest, outputs)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        past = features[:, : self.steps * self.signals].reshape(-1, self.steps, self.signals)
        _, last = self.memory(past)
        return self.read(torch.cat([last[0], features[:, self.steps * self.signals :]], dim=1))


def other_network(name: str, network: nn.Module, system: System) -> None:
    """Fits, certifies and attacks a tethered model around a network of another kind."""
    start = time.perf_counter()
    model = tether.fit(
        system.data, trusted=system.trusted, network=network, leaves=LEAVES, evidence="proved",
        training=TrainingConfig(steps=STEPS, evaluate_every=max(10, STEPS // 5)),
    )  # fmt: skip
    seconds = time.perf_counter() - start
    certificate = tether.certify(model, system.trusted, transitions=system.data)
    found = tether.attack(model, system.trusted, evaluations=size(50_000, 2_000), jobs=1)
    away = np.abs(model.predict(system.data.states, system.data.controls) - system.data.next_states)
    alone = np.abs(system.trusted(system.data.states, system.data.controls) - system.data.next_states)
    print(
        f"{name}: {certificate.evidence}, {system.data.inputs.shape[1]} inputs, attacked to {found.max_ratio:.4f} of "
        f"delta, RMS error {np.sqrt((away**2).mean()) / np.sqrt((alone**2).mean()):.2f} of M's, {seconds:.1f} s"
    )


def slow_black_box() -> None:
    """An M of which nothing but values can be had, a millisecond each: a statistical claim."""
    system, calls = chain(15, "history"), [0]
    pause = size(1e-3, 1e-5)

    def slow(states, controls):
        calls[0] += len(states)
        time.sleep(pause * len(states))
        plain = [
            system.trusted(np.array(s)[None], np.array(c)[None])[0]
            for s, c in zip(states, controls, strict=True)
        ]
        return np.array([[float(str(value)) for value in row] for row in plain])

    start = time.perf_counter()
    model = tether.fit(
        system.data, trusted=slow, leaves=size(300, 50), sampling=SamplingConfig(calls=size(20_000, 2_000)),
        evidence=tether.Statistical(epsilon=0.05, beta=0.01),
        training=TrainingConfig(steps=STEPS, evaluate_every=max(10, STEPS // 5)),
    )  # fmt: skip
    seconds, asked = time.perf_counter() - start, calls[0]
    certificate = tether.certify(model, slow, transitions=system.data)
    print(
        f"a slow black box as M: {certificate.evidence}, {asked:,} rows asked of it in {seconds:.0f} s, of which it "
        f"took {asked * pause:.0f} s itself"
    )


def warm_up() -> None:
    """Kernels are compiled before anything is timed."""
    system = chain(15, "history")
    config = FitConfig(leaves=20, memories=10, evidence="proved", target="increment")
    build_for(prepare(system.data, trusted=system.trusted, config=config), TETHERED, config)


def draw(found: dict[str, list[tuple[int, float, float, float]]]) -> bytes:
    """Delta, and the time it takes, against the number of inputs."""
    with styled():
        figure = Figure(figsize=(9, 4.2), layout="constrained")
        FigureCanvasAgg(figure)
        delta, seconds = figure.subplots(1, 2)
        for (name, rows), colour in zip(found.items(), ("#0072B2", "#E69F00"), strict=True):
            inputs, affine, interval, taken = np.array(rows).T
            delta.plot(inputs, affine, "o-", color=colour, label=f"{name}, affine")
            delta.plot(inputs, interval, "s--", color=colour, label=f"{name}, interval (the paper)")
            seconds.plot(inputs, taken, "o-", color=colour, label=name)
        delta.set(ylabel="proved delta / RMS of the residual, median row")
        seconds.set(ylabel="seconds of CPU to build the tether")
        for axis in (delta, seconds):
            axis.set(xscale="log", yscale="log", xlabel="inputs")
            axis.set_xticks(DIMENSIONS, [str(inputs) for inputs in DIMENSIONS])
            axis.minorticks_off()
        figure.legend(*delta.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)
    return as_png(figure)


def main() -> None:
    warm_up()
    found = {name: against_dimension(kind) for name, kind in NETWORKS.items()}
    path = Path(__file__).parents[1] / "docs" / "images" / "dimensions.png"
    picture = draw(found)
    if not TINY:
        path.write_bytes(picture)
    print(path.name)
    small = chain(15, "history")
    outputs = len(small.data.schema.outputs)
    try:
        import torchdiffeq  # noqa: F401

        other_network("a neural ODE inside", Flow(15, outputs), small)
    except ImportError:
        print("a neural ODE inside: SKIPPED, torchdiffeq is not installed")
    wide = chain(size(78, 48), "history")
    # 2 x 6 angles and speeds, then the past in steps of six, then six motors: the past is read step by step.
    steps = (wide.data.inputs.shape[1] - 3 * JOINTS) // JOINTS
    order = Reordered(
        Remembering(steps, JOINTS, 3 * JOINTS, len(wide.data.schema.outputs)), 2 * JOINTS, steps * JOINTS
    )
    other_network("a recurrent network over a history inside", order, wide)
    slow_black_box()


class Reordered(nn.Module):
    """A network that is given the columns from `first` on, `count` of them, before all others."""

    def __init__(self, network: nn.Module, first: int, count: int) -> None:
        super().__init__()
        self.network, self.first, self.count = network, first, count

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        past = features[:, self.first : self.first + self.count]
        rest = torch.cat([features[:, : self.first], features[:, self.first + self.count :]], dim=1)
        return self.network(torch.cat([past, rest], dim=1))


if __name__ == "__main__":
    main()

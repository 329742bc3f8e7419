"""Random tubes: no rollout may leave one, whatever the weights, and `verify_tube` must not refuse many.

    python tests/fuzz/rolled.py --count 300 --seed 0 --minutes 60

Systems that bend, jump, turn and look things up, leaves of first and second order, outputs in any order; controls by
sequences, boxes and policies, states that follow a rule, tubes for any weights and for those at hand. Rollouts take
any number between the limits at each step; each is held against the boxes without tolerance, up to whole turns.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from subject import EnclosureError, Tally, main, run_text

import tether
from tether.claims.tubes import attack_tube, save_tube, tube
from tether.verification.tubes import verify_tube

REFUSALS = (EnclosureError, ValueError, TypeError, tether.CertificateError, tether.TrustedModelError)
TERMS = (
    "np.sin({0})", "{0} * {1}", "np.cos({0}) * np.tanh({1})", "np.sign({0} - 0.3)", "np.floor(2.0 * {0})",
    "np.where({0} > {1}, 0.3, {1})", "np.interp({0}, [-1.0, 0.2, 1.5], [0.5, -0.5, 1.0])", "({0} % 1.3)",
    "np.arctan2({0}, {1} - 0.1)", "np.abs({0} - 0.1)", "np.clip({0}, -0.4, 0.6) * {1}", "1.0 / (5.0 + {0})",
    "np.exp(-({0} / 0.01) ** 2)", "{0} ** 2", "{0}", "np.linalg.det(np.stack([np.stack([{0}, {1}], -1), "
    "np.stack([{1}, 2.0 + 0.0 * {0}], -1)], -2))", "np.sqrt({0} ** 2 + 0.01)",
)  # fmt: skip


class Case(NamedTuple):
    """M and rules as source, and what a fit and a tube need besides."""

    source: str
    schema: Any
    order: int
    target: str
    own: bool
    policy: bool
    steps: int


def write(rng: np.random.Generator) -> Case:
    dx, du = int(rng.integers(1, 4)), int(rng.integers(0, 2))
    states = [f"x{k}" for k in range(dx)]
    angles = [name for name in states if rng.random() < 0.4]
    outputs = rng.permutation(states).tolist()
    if dx > 1 and rng.random() < 0.3:
        outputs = outputs[:-1]
    columns = [f"s[:, {k}]" for k in range(dx)] + [f"u[:, {k}]" for k in range(du)]

    def term(columns: list[str]) -> str:
        size = float(10.0 ** rng.uniform(-2, -0.5))
        return f"{size!r} * {str(rng.choice(TERMS)).format(*rng.choice(columns, 2))}"

    parts = [
        " + ".join([f"s[:, {states.index(name)}]", *(term(columns) for _ in range(rng.integers(1, 3)))])
        for name in outputs
    ]
    lines = ["import numpy as np", "def model(s, u):", f"    return np.stack([{', '.join(parts)}], axis=1)"]
    if len(outputs) < dx:
        known = [*columns, *(f"y[:, {k}]" for k in range(len(outputs)))]
        left = [f"0.9 * s[:, {states.index(name)}] + {term(known)}" for name in states if name not in outputs]
        lines += ["def carried(s, u, y):", f"    return np.stack([{', '.join(left)}], axis=1)"]
    lines += ["def policy(s):", f"    return np.stack([{term(columns[:dx])}], axis=1)", ""]
    schema = tether.make_schema(states, ["u"][:du], outputs, angles=angles)
    return Case(
        "\n".join(lines), schema, int(rng.integers(1, 3)), str(rng.choice(["increment", "next_state"])),
        bool(rng.random() < 0.3), bool(du and rng.random() < 0.4), int(rng.integers(2, 8)),
    )  # fmt: skip


def fitted(case: Case, model: Any, rng: np.random.Generator) -> Any:
    schema = case.schema
    dx, count = len(schema.states), 240
    inputs = rng.uniform(-2, 2, (count, len(schema.inputs)))
    truth = np.asarray(model(inputs[:, :dx], inputs[:, dx:]), float)
    truth = truth + rng.choice([0.0, 1e-6, 0.02]) * rng.standard_normal(truth.shape)
    data = tether.Transitions.from_arrays(
        inputs[:, :dx], inputs[:, dx:], truth, episodes=np.arange(count) // 12, schema=schema
    )
    return tether.fit(
        data,
        trusted=model,
        evidence="proved",
        order=case.order,
        target=case.target,
        leaves=int(rng.choice([40, 300])),
        memories=20,
        hidden=(4,),
        training=tether.TrainingConfig(steps=30, evaluate_every=15),
        seed=0,
    )


def run(tally: Tally, seed: int) -> None:
    rng = np.random.default_rng([seed, 0x7B])
    case = write(rng)
    told = f"# seed {seed}: {case._replace(source='')}\n{case.source}"
    space = run_text(case.source)
    model, rule = space["model"], space.get("carried")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tally.counts["programs"] += 1
        try:
            learned = fitted(case, model, rng)
            found, controls = _tube(case, learned, model, rule, space["policy"], rng)
        except REFUSALS as error:
            tally.refuse(error, told)
            return
        policy = controls if callable(controls) else None
        tally.counts["steps"] += int((~np.isnan(found.lower).any(axis=-1)).sum()) - len(found)
        for number in range(3):
            worst = attack_tube(learned, found, rollouts=1500, seed=number, policy=policy, carried=rule)
            tally.counts["rollouts"] += worst.rollouts
            if worst.max_ratio > 1:
                tally.fail(f"# a rollout leaves the tube: {worst}\n{told}")
                return
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            tether.save(learned, place / "model.safetensors")
            save_tube(found, place / "tube.json")
            try:
                verify_tube(
                    place / "tube.json", model, place / "model.safetensors", policy=policy, carried=rule
                )
                tally.counts["verified"] += 1
            except REFUSALS as error:
                tally.refuse(ValueError(f"verify: {error}"), told)


def _tube(case: Case, learned: Any, model: Any, rule: Any, policy: Any, rng: np.random.Generator) -> Any:
    dx, du = len(case.schema.states), len(case.schema.controls)
    turning = np.array([name in case.schema.angles for name in case.schema.states])
    center = rng.uniform(-1, 1, (2, dx)) + np.where(turning, rng.choice([0.0, 3.1, -3.1, 20.0], (2, dx)), 0.0)
    wide = rng.choice([0.0, 1e-9, 0.05, 0.4])
    level = rng.uniform(-1, 1, (case.steps, du))
    controls: Any = (level, level + rng.choice([0.0, 0.2])) if du else None
    found = tube(
        learned, model, (center, center + wide), policy if case.policy else controls, steps=case.steps,
        weights="own" if case.own else "any", carried=rule, generators=int(rng.choice([8, 60])),
    )  # fmt: skip
    return found, policy if case.policy else controls


if __name__ == "__main__":
    torch.set_num_threads(1)
    main("rolled", run, count=300, seconds=120)

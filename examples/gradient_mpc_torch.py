"""Gradient-based MPC in torch: a tethered car drives to a place, by descent on its controls.

The model is a torch module; `across=True` gives its gradient over several leaves, not within one.
"""

import os

import numpy as np
import torch
from matplotlib.figure import Figure

import tether
from tether_studies import parked_car

TINY = bool(os.environ.get("TETHER_TINY"))
HORIZON, DESCENT, STEPS = (5, 3, 3) if TINY else (20, 25, 60)
GOAL = torch.tensor([12.0, 6.0], dtype=torch.float64)

driven = parked_car.drive(episodes=12 if TINY else 60)
car = tether.fit(
    driven, trusted=parked_car.TRUSTED, probes=parked_car.parked(driven, count=500), domain=parked_car.DOMAIN,
    memories=50 if TINY else 500, leaves=300 if TINY else 4000, hidden=(64, 64),
    training=tether.TrainingConfig(steps=20 if TINY else 1000),
)  # fmt: skip
least, most = torch.tensor([0.0, -0.8], dtype=torch.float64), torch.tensor([8.0, 0.8], dtype=torch.float64)


def cost(pose: torch.Tensor, controls: torch.Tensor) -> torch.Tensor:
    """How far from the goal the plan comes, and how fast it is there."""
    total = torch.zeros((), dtype=torch.float64)
    for control in controls:
        pose = car(pose, control, across=True)
        total = total + ((pose[:2] - GOAL) ** 2).sum()
    return total + 20 * controls[-1, 0] ** 2


pose, controls = torch.zeros(3, dtype=torch.float64), torch.ones(HORIZON, 2, dtype=torch.float64)
driven_path = [pose[:2].numpy()]
for step in range(STEPS):
    plan = controls.clone().requires_grad_()
    optimizer = torch.optim.Adam([plan], lr=0.2)
    for _ in range(DESCENT):
        optimizer.zero_grad()
        cost(pose, plan).backward()
        optimizer.step()
        plan.data = torch.clamp(plan.data, least, most)
    controls = torch.cat([plan.detach()[1:], plan.detach()[-1:]])
    known = car.predict(pose[None].numpy(), plan.detach()[:1].numpy(), details=True)
    pose = torch.from_numpy(known.next_states[0])
    driven_path.append(pose[:2].numpy())
    if step % 10 == 0 or step == STEPS - 1:
        away, delta = float(torch.linalg.vector_norm(pose[:2] - GOAL)), known.delta[0, :2].max()
        print(f"step {step}: {away:.2f} m from the goal; within {delta:.3g} m of the unicycle")

figure = Figure(figsize=(6, 4), layout="constrained")
axes = figure.subplots()
axes.plot(*np.transpose(driven_path), "o-", ms=3, label="where the car drove")
axes.plot(*GOAL, "k*", ms=14, label="goal")
axes.set(xlabel="x [m]", ylabel="y [m]", aspect="equal")
axes.legend()
figure.savefig("gradient_mpc_torch.png", dpi=120)
print("picture: gradient_mpc_torch.png")

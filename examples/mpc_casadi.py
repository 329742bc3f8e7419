"""A car follows a path: model predictive control with the tethered car in CasADi, by do-mpc.

It is exported to C and loaded by CasADi with its Jacobian; plans keep the delta of one step away from the
edge of the lane. Needs `pip install casadi do-mpc` and a C compiler.
"""

import os
import tempfile
import time
import warnings

import casadi
import numpy as np
from matplotlib.figure import Figure

import tether
from tether.export import export
from tether_studies import parked_car

warnings.filterwarnings("ignore")  # of what do-mpc could do with more packages, and of NumPy in CasADi
import do_mpc  # noqa: E402

TINY = bool(os.environ.get("TETHER_TINY"))
STEPS, HORIZON = (3, 5) if TINY else (60, 15)
# Between leaves the model has jumps, smaller than its delta: no plan is worth more digits.
ROUGHLY = {"ipopt.tol": 1e-2, "ipopt.acceptable_tol": 0.1, "ipopt.acceptable_iter": 2, "ipopt.max_iter": 30}


def controller(step, lane=1.0, **solver):
    """MPC that drives along y = 3 sin(x / 8) at about 6 m/s, at most `lane` away from it."""
    model = do_mpc.model.Model("discrete", "MX")
    state, control = model.set_variable("_x", "state", (3, 1)), model.set_variable("_u", "control", (2, 1))
    model.set_rhs("state", step(state, control))
    model.setup()
    control, away = model.u["control"], model.x["state"][1] - 3 * casadi.sin(model.x["state"][0] / 8)
    mpc = do_mpc.controller.MPC(model)
    mpc.settings.n_horizon, mpc.settings.t_step = HORIZON, 0.1
    mpc.settings.nlpsol_opts = {"ipopt.print_level": 0, "print_time": 0, "ipopt.sb": "yes", **solver}
    mpc.set_objective(mterm=away**2, lterm=away**2 + 0.05 * (control[0] - 6) ** 2)
    mpc.set_rterm(control=np.array([0.01, 0.01]))
    mpc.bounds["lower", "_u", "control"], mpc.bounds["upper", "_u", "control"] = [0, -0.9], [14, 0.9]
    for side, way in (("left", away), ("right", -away)):
        mpc.set_nl_cons(side, way, ub=lane, soft_constraint=True, penalty_term_cons=50)
    mpc.setup()
    return mpc


def closed_loop(mpc):
    """Where the car that slips drove, and seconds of processor time of a step."""
    pose, body, seconds, way = np.array([[0.0, 0.0, 0.3]]), np.zeros((1, 2)), [], []
    mpc.x0 = pose[0]
    mpc.set_initial_guess()
    for _ in range(STEPS):
        begun = time.process_time()
        control = mpc.make_step(pose.T).T
        seconds.append(time.process_time() - begun)
        pose, body = parked_car.car(control, pose, body)
        way.append(pose[0, :2])
    return np.array(way).T, float(np.median(seconds))


if __name__ == "__main__":
    driven = parked_car.drive(episodes=10 if TINY else 60)
    car = tether.fit(
        driven, trusted=parked_car.TRUSTED, probes=parked_car.parked(driven, count=500), hidden=(64, 64),
        domain=parked_car.DOMAIN, memories=50 if TINY else 500, leaves=300 if TINY else 20_000,
        training=tether.TrainingConfig(steps=20 if TINY else 1000),
    )  # fmt: skip
    delta = np.hypot(*car.predict([[0, 0, 0.3]], [[6, 0]], details=True).delta[0, :2])
    with tempfile.TemporaryDirectory() as folder:
        step = casadi.external("car", str(export(car, to="casadi", out=folder, name="car")[-1]))
        (x, y), seconds = closed_loop(controller(step, 1.0 - delta, **ROUGHLY))
    path = 3 * np.sin(x / 8)
    print(f"at most {np.abs(y - path).max():.3f} m from the path, {1e3 * seconds:.1f} ms a step")
    axes = (figure := Figure(figsize=(7, 3), layout="constrained")).subplots()
    axes.fill_between(x, path - 1 + delta, path + 1 - delta, alpha=0.2)
    axes.plot(x, path, "k--", x, y, "o-", ms=3, lw=1)
    axes.set(xlabel="x [m]", ylabel="y [m]", aspect="equal", title="path (dashed), lane less delta, the car")
    figure.savefig("mpc_casadi.png", dpi=120)

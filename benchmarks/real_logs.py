"""How a fit with default settings and box bounds is judged on a log: against M, and against what else could be
learned from the same episodes.

For each split by episode: root mean square error by output as a share of M's (1.00 is never to be exceeded), the
geometric mean over outputs, the same of ridge, of boosted trees and of an MLP on M's residual (fitted on training and
validation episodes, their shares of M's error each), the same over rollouts of 50 steps, how often reality leaves the
band by output, and the worst leaf's remainder as a share of what M is off by.
"""

import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tether
from sizes import size
from tether.claims.rollout import rollout

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(os.environ.get("TETHER_REAL_LOGS", ROOT.parent / "shared" / "reference" / "real"))
HORIZON = 50


def log(name):
    """The file, or None and a line that says so."""
    path = FOLDER / name
    if path.is_file():
        return path
    print(f"no real log: {name} is not there. Set TETHER_REAL_LOGS to its folder.")
    return None


def splits():
    """Seeds of the splits that are reported; settings were chosen on others."""
    return range(size(3, 1))


def residual_models():
    boosted = HistGradientBoostingRegressor(early_stopping=True, random_state=0)
    network = MLPRegressor(
        hidden_layer_sizes=(64, 64), early_stopping=True, max_iter=size(300, 2), random_state=0
    )
    return {
        "ridge": RidgeCV(np.logspace(-3, 5, 20), alpha_per_target=True),
        "boosted trees": MultiOutputRegressor(boosted),
        "M + MLP": network,
    }


def rivals(trusted, seen, schema):
    """Steps of M plus what regressions make of M's residual on the parts seen."""
    inputs = np.concatenate([part.inputs for part in seen])
    answers = np.concatenate([trusted(part.states, part.controls) for part in seen])
    observed = np.concatenate([part.next_states for part in seen])
    residual = schema.near(observed, answers) - answers
    scale = residual.std(axis=0)
    scale[scale == 0] = 1.0  # an output that M knows exactly
    for name, kind in residual_models().items():
        with warnings.catch_warnings(category=ConvergenceWarning, action="ignore"):
            found = make_pipeline(StandardScaler(), kind).fit(inputs, residual / scale)

        def step(states, controls, found=found):
            wrapped = schema.wrap_inputs(states, controls)
            return trusted(states, controls) + scale * found.predict(wrapped).reshape(len(states), -1)

        yield name, step


def one_step_error(step, part):
    """(P,) root mean square error."""
    found = step(part.states, part.controls)
    return root_mean_square(part.schema.distance(found, part.next_states))


def root_mean_square(error):
    return np.sqrt((error**2).mean(axis=0))


def windows(part):
    """(W, HORIZON) row numbers of pieces of episodes, none in two."""
    ends = np.flatnonzero(np.diff(part.episodes, append=part.episodes[-1] + 1) != 0) + 1
    starts = np.concatenate([[0], ends[:-1]])
    firsts = [np.arange(a, b - HORIZON + 1, HORIZON) for a, b in zip(starts, ends, strict=True)]
    return np.concatenate(firsts)[:, None] + np.arange(HORIZON)


def rollout_error(step, part):
    """(P,) root mean square error of all steps of all rollouts; infinite where one runs away."""
    rows = windows(part)
    with np.errstate(all="ignore"):
        try:
            found = rollout(
                step, part.states[rows[:, 0]], part.controls[rows].swapaxes(0, 1), schema=part.schema
            )[1:]
        except ValueError:  # what ran away is refused
            return np.full(len(part.schema.outputs), np.inf)
        error = part.schema.distance(found, part.next_states[rows].swapaxes(0, 1))
    return root_mean_square(np.nan_to_num(error, nan=np.inf).reshape(-1, error.shape[-1]))


def mean_share(error, own):
    """Geometric mean over outputs."""
    with np.errstate(divide="ignore"):
        return float(np.exp(np.log(error / own).mean()))


def report(data, trusted, seed, further=None):
    """Prints the table of one split; `further` gives more rivals by name, from the data and seed."""
    split = data.split(seed=seed)
    start = time.perf_counter()
    training = tether.TrainingConfig(steps=size(2000, 50))
    model = tether.fit(data, trusted=trusted, seed=seed, training=training)
    seconds = time.perf_counter() - start
    steps = {"tethered": model.predict, **dict(rivals(trusted, (split.train, split.validation), data.schema))}
    steps |= further(data, trusted, seed, training) if further else {}
    test, bounds = split.test, model.bounds
    own, far = one_step_error(trusted, test), rollout_error(trusted, test)
    print(f"split {seed}: fit in {seconds:.1f} s, {bounds.tree.leaves} leaves ({model.record['stopped']})")
    print(
        f"  error / M's    {'  '.join(f'{name:>9.9}' for name in data.schema.outputs)}       mean  {HORIZON} steps"
    )
    shares = {name: one_step_error(step, test) / own for name, step in steps.items()}
    over = {name: mean_share(rollout_error(step, test), far) for name, step in steps.items()}
    for name, share in shares.items():
        columns = "  ".join(f"{value:9.4f}" for value in share)
        print(f"  {name:14} {columns}  {mean_share(share, 1.0):9.4f}  {over[name]:8.4f}")
    others = [name for name in shares if name in residual_models()]
    best, best_over = (
        min(mean_share(shares[name], 1.0) for name in others),
        min(over[name] for name in others),
    )
    tethered = mean_share(shares["tethered"], 1.0)
    print(
        f"  of the best of {', '.join(others)}: {tethered / best:.4f}; over {HORIZON} steps {over['tethered'] / best_over:.4f}"
    )
    _print_band(model, test, own)


def _print_band(model, test, own):
    found, bounds = model.predict(test.states, test.controls, details=True), model.bounds
    truth = test.schema.near(test.next_states, 0.5 * found.lower + 0.5 * found.upper)
    outside = ((truth < found.lower) | (truth > found.upper)).mean(axis=0)
    worst = np.array([bounds.remainder[bounds.output == k].max() for k in range(len(own))])
    print(
        f"  gain {np.round(model.record['gain'], 2)}; in the domain: {found.in_domain.mean():.4f}; outside the band: {outside.round(4)}"
    )
    print(f"  worst leaf / M's error: {(worst / own).round(4)}")

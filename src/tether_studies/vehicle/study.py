"""The vehicle studies: what is run at which scale, what is measured, and what is claimed.

Two studies. `vehicle` has the paper's inputs, `vehicle-rich` has speed and yaw rate in the state and what the
driver asks for as control. In both, the data are poses on the map. Rows that say "own axes" are fitted along
the car's own axes, where M hardly bends, and their predictions are turned back into poses before anything is
measured. With `--omega patch` the parked cars are where the authors' are: within half a metre of the origin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from tether.claims.rollout import Step
from tether.data import Array
from tether.evidence import Proved
from tether.fitting import (
    AUGMENTED_LAGRANGIAN,
    CONSTRAINED,
    DIRECT,
    RESIDUAL,
    TETHERED,
    VANILLA,
    VANILLA_INCREMENT,
    Fit,
    FitConfig,
    Method,
    Problem,
)
from tether.foundation.progress import Reporter
from tether.learning.config import TrainingConfig
from tether.model import Model, Prediction
from tether.report.page import Animation, Picture, Section
from tether.report.seeds import grouped, values_of
from tether.report.tables import number, percent
from tether_studies.claims import (
    BY_CONSTRUCTION,
    VARIANTS,
    Said,
    conformance_claims,
    factor_claim,
    family,
    paper_claims,
    seeds_told,
)
from tether_studies.matrix import Matrix
from tether_studies.printed import CLIMBS
from tether_studies.shown import one_of_each
from tether_studies.study import (
    Claim,
    Entry,
    Measured,
    Outcome,
    Recast,
    Scale,
    Study,
    StudyData,
    no_rows,
)
from tether_studies.vehicle.data import (
    DOMAINS,
    PATCH,
    PROBES,
    SCHEMAS,
    TEST_SHARE,
    TRUSTED_MODELS,
    Variant,
    as_body,
    as_pose_step,
    drive_town,
    parked_probes,
)
from tether_studies.vehicle.simulator import Fidelity
from tether_studies.vehicle.town import HALF_WIDTH, build_town
from tether_studies.vehicle.trusted import compose
from tether_studies.vehicle.views import (
    POSES,
    STEPS_AT_REST,
    at_rest_animation,
    at_rest_figure,
    drift_at_rest,
    drift_distances,
    drift_distribution_figure,
    envelope_at_rest,
    parked_poses,
    town_figure,
)

STILL = 1e-9
"""Metres up to which a parked car counts as standing still."""

_STEPS: dict[Scale, int] = {"smoke": 300, "paper": 12_000}
_PATCH_STEPS: dict[Scale, int] = {"smoke": 100, "paper": 2_000}
_MEMORIES: dict[Scale, tuple[int, ...]] = {"smoke": (200,), "paper": (500, 1000, 2500)}
# As the paper has it, but for the clip: absolute next states, cells by the spread of the data.
_CLIMBED = {"bounds": "interval", "target": "next_state", "sampling": CLIMBS}
_FAST = {"learning_rate": 1e-2}
_OWN_AXES = {
    replace(method, name=f"{method.name}, own axes"): f"{method.name} Δ"
    for method in (VANILLA, AUGMENTED_LAGRANGIAN, TETHERED)
}
"""Methods along the car's own axes, and by whose settings they are trained."""
_TETHERED_OWN = f"{TETHERED.name}, own axes"
_SAID = Said(mean=1e4, largest=1e3, within=300)
"""By four and three orders of magnitude, in under 300 steps where the Lagrangian takes 12,000."""
_LITTLE, _LARGE = 0.1, 1.0
"""Metres of drift from rest that are little, and large."""
_ERROR, _OMEGA = "approximation_loss_D", "constraint_loss_omega_mean"


def _simulate(
    variant: Variant, scale: Scale, seed: int, options: Mapping[str, str], reporter: Reporter
) -> StudyData:
    fidelity = cast(Fidelity, options.get("fidelity", "multibody"))
    transitions = drive_town(scale, seed=seed, variant=variant, fidelity=fidelity, reporter=reporter)
    around = PATCH if options.get("omega") == "patch" else HALF_WIDTH
    probes = parked_probes(transitions, count=PROBES[scale], seed=seed, half_width=around)
    return StudyData(transitions, probes)


def _config(variant: Variant, scale: Scale) -> FitConfig:
    return FitConfig(
        bounds="affine",
        evidence="proved",
        domain=DOMAINS[variant],
        hidden=(1024, 1024) if scale == "paper" else (64, 64),
        leaves=20_000 if scale == "paper" else 3_000,
        order="auto",
        validation=TEST_SHARE,
        test=TEST_SHARE,
        training=TrainingConfig(evaluate_every=100 if scale == "paper" else 50),
    )


def _matrix(scale: Scale) -> tuple[Entry, ...]:
    """As many steps for everybody; the learning rate decays to nothing over them."""
    return _rows(scale).entries()


def _rows(scale: Scale) -> Matrix:
    return Matrix("vehicle", _MEMORIES[scale], _STEPS[scale])


def _entries(scale: Scale) -> tuple[Entry, ...]:
    steps, middle, rows = _STEPS[scale], _middle(scale), _rows(scale)
    return (
        *rows.entries(),
        rows.settled(Entry(RESIDUAL, steps, seeds=1)),
        *(rows.settled(_on_own_axes(method, steps, middle), like=like) for method, like in _OWN_AXES.items()),
    )


def _on_own_axes(method: Method, steps: int, memories: int) -> Entry:
    if method.tether is None:
        return Entry(method, steps, recast="body", seeds=1)
    return Entry(method, steps, memories, recast="body")


def _middle(scale: Scale) -> int:
    return _MEMORIES[scale][len(_MEMORIES[scale]) // 2]


def _patch_entries(scale: Scale) -> tuple[Entry, ...]:
    """The paper's methods and Tethered."""
    rows = Matrix("vehicle", _MEMORIES[scale], _PATCH_STEPS[scale]).entries()
    return tuple(entry for entry in rows if entry.method.target == "next_state")


def _rich_entries(scale: Scale) -> tuple[Entry, ...]:
    steps = _STEPS[scale] // 3
    counts = _MEMORIES[scale]
    return (
        Entry(VANILLA, steps, training=_FAST),
        Entry(VANILLA_INCREMENT, steps, training=_FAST),
        Entry(CONSTRAINED, steps, counts[-1], _CLIMBED, _FAST),
        Entry(TETHERED, steps, counts[-1], recast="body"),
        Entry(DIRECT, steps),
    )


def _check(options: Mapping[str, str]) -> None:
    if options.get("omega", "map") not in ("map", "patch"):
        raise ValueError(f"`--omega` must be 'map' or 'patch'; got '{options['omega']}'.")


def _variant(options: Mapping[str, str]) -> Study | None:
    return _PATCH_STUDY if options.get("omega") == "patch" else None


def _as_body(data: StudyData) -> StudyData:
    return replace(data, transitions=as_body(data.transitions))


def _measure(problem: Problem, predict: Step) -> Measured:
    """What becomes of parked cars: at the origin, and anywhere on the map."""
    schema = problem.split.test.schema
    trajectories = drift_at_rest(predict, schema, parked_poses(schema))
    distances = drift_distances(trajectories)
    origin, poses = distances[:, 0], distances[-1, 1:]
    values = {
        **{f"drift_at_rest_{steps}": float(origin[steps]) for steps in STEPS_AT_REST},
        "drift_poses_median": float(np.median(poses)),
        "drift_poses_max": float(poses.max()),
        "drift_poses_still": float((poses < STILL).mean()),
    }
    return Measured(values, {"from_origin": trajectories[:, 0], "drift_poses": poses})


def _inspect(problem: Problem, fitted: Fit, scale: Scale) -> Measured:
    """What the certificate says of parked cars, of a model that has one."""
    del problem, scale
    model = fitted.model
    if not model.tether.bounded:
        return Measured({}, {})
    schema = model.schema
    start = parked_poses(schema)
    details = model.predict(start, np.zeros((len(start), len(schema.controls))), details=True)
    arrays = {
        "rest_in_domain": details.in_domain[1:].astype(np.float64),
        "rest_room": (details.upper - details.lower)[1:, :2].max(axis=1),
        "rest_other_room": (details.upper - details.lower)[1:, 2:].max(axis=1),
    }
    if "speed" in schema.states:
        # A predicted speed that is not quite zero moves M itself: steps do not add up to an envelope.
        return Measured({}, arrays)
    envelope = envelope_at_rest(_poses_with_details(model), schema, start[0], steps=max(STEPS_AT_REST))
    if not np.isfinite(envelope).all():
        return Measured({}, arrays)
    return Measured({"certified_at_rest": float(envelope[-1])}, arrays | {"envelope": envelope})


def _poses_with_details(model: Model) -> Callable[..., Prediction]:
    """The model's prediction with details, its next states as poses whatever its outputs are."""

    def predict(states: Array, controls: Array, *, details: bool) -> Prediction:
        del details
        prediction = model.predict(states, controls, details=True)
        if "ahead" not in model.schema.outputs:
            return prediction
        return replace(prediction, next_states=compose(states, prediction.next_states))

    return predict


def _sections(outcome: Outcome) -> list[Section]:
    from tether.report.figures import as_svg

    seeds = sorted({seed for _, seed in outcome.arrays})
    few = one_of_each(name for name, seed in outcome.arrays if seed == seeds[0] and name != "Trusted")
    paths = {
        s: {n: outcome.arrays[n, s]["from_origin"] for n in few if (n, s) in outcome.arrays} for s in seeds
    }
    envelopes = {seed: _envelopes(outcome, seed, few) for seed in seeds}
    drifts = {name: outcome.arrays[name, seeds[0]]["drift_poses"] for name in few}
    last = max(STEPS_AT_REST)
    shown = seeds[:2]
    pictures = [
        Picture(
            as_svg(at_rest_figure({s: paths[s] for s in shown}, {s: envelopes[s] for s in shown})),
            "A car parked at the origin with zero input, as each model predicts it. It should not move. "
            "Shaded: how far its certificate allows a tethered car to move.",
            "at_rest",
        ),
        Picture(
            as_svg(drift_distribution_figure(drifts, steps=last, tolerance=STILL)),
            f"The same from {POSES:,} poses anywhere on the map, seed {seeds[0]}: the share of poses "
            "(upwards) that drifts at most so far (to the right).",
            "parked",
        ),
    ]
    animation = Animation(
        at_rest_animation(paths[seeds[0]], envelopes[seeds[0]]),
        f"The parked car of the first figure, seed {seeds[0]}, {last} steps of 0.1 s in real time.",
        "at_rest",
    )
    at_rest = Section("At rest", _rest_lines(outcome), pictures=pictures, animations=[animation])
    return [at_rest, Section("The town", pictures=[_town_picture(outcome, seed) for seed in seeds[:1]])]


def _envelopes(outcome: Outcome, seed: int, names: list[str]) -> dict[str, Array]:
    """Metres that a proved certificate allows a car parked at the origin to move, by step."""
    proved = {n for n, runs in grouped(outcome.runs).items() if runs[0].get("evidence_level") == Proved.name}
    arrays = {name: outcome.arrays.get((name, seed), {}) for name in names if name.startswith("Tethered")}
    return {
        name: found["envelope"] for name, found in arrays.items() if name in proved and "envelope" in found
    }


def _town_picture(outcome: Outcome, seed: int) -> Picture:
    from tether.report.figures import as_svg

    transitions = outcome.data[seed].transitions
    cars = len(np.unique(transitions.episodes))
    # Rows are by car, then by time; as many of each car.
    now, after = (part[:, :2].reshape(cars, -1, 2) for part in (transitions.states, transitions.next_states))
    positions = np.swapaxes(np.concatenate([now, after[:, -1:]], axis=1), 0, 1)
    speed = transitions.inputs[:, transitions.schema.inputs.index("speed")].reshape(cars, -1).T
    caption = f"What was driven (seed {seed}), by speed, on ground of different grip."
    return Picture(as_svg(town_figure(build_town(seed), positions, speed)), caption, "town")


def _rest_lines(outcome: Outcome) -> list[str]:
    """Of each method with cells: how many of the poses stay put, and why the worst does not."""
    lines = []
    for name, runs in grouped(outcome.runs).items():
        arrays = {r["seed"]: outcome.arrays[name, r["seed"]] for r in runs if r.get("memories")}
        if arrays:
            seed, found = max(arrays.items(), key=lambda pair: pair[1]["drift_poses"].max())
            still = min(values_of(runs, "drift_poses_still"))
            lines.append(
                f"{name}: {percent(still)} of {POSES:,} poses (worst seed) stay within {STILL:g} m for "
                f"{max(STEPS_AT_REST)} steps. The worst pose, of seed {seed}, {_worst_pose(found)}"
            )
    return lines


def _worst_pose(arrays: Mapping[str, Array]) -> str:
    """Where the pose is that drifts most, how far, and the reason."""
    drift = arrays["drift_poses"]
    worst = int(drift.argmax())
    if drift[worst] < STILL:
        return f"drifts {number(float(drift[worst]))} m."
    x, y, heading = parked_poses(SCHEMAS["pose"])[1 + worst]
    place = f"at ({x:.1f} m, {y:.1f} m, {heading:.2f} rad)"
    return f"{place}, drifts {number(float(drift[worst]))} m: {_reason(arrays, worst)}."


def _reason(arrays: Mapping[str, Array], pose: int) -> str:
    """Why a parked car moves: nothing is claimed there, or its cell leaves it room."""
    if not arrays["rest_in_domain"][pose]:
        return "it lies outside the domain"
    room = float(arrays["rest_room"][pose])
    if room > 0:
        return f"its bounds leave it {number(room)} m of room in each step"
    return "its bounds leave room to turn or to gain speed" if arrays["rest_other_room"][pose] else "rounding"


def _paper_claims(outcome: Outcome, said: Said) -> list[Claim]:
    """What the paper says in every study, and of cars at rest."""
    claims = paper_claims(outcome, said)
    for kind in VARIANTS:
        for name in family(outcome, kind)[-1:]:
            drift = max(_drifts(outcome, name))
            moves = f"little or no movement from rest ({STEPS_AT_REST[0]} steps, below {_LITTLE:g} m)"
            told = f"{number(drift)} m in the worst seed{seeds_told(outcome, (name,))}"
            claims.append(Claim(f"The paper, of {name}: {moves}", told, drift < _LITTLE))
    rivals = dict.fromkeys(rival for pair in VARIANTS.values() for rival in pair)
    return claims + [_drifts_claim(outcome, name) for name in rivals if family(outcome, name)]


def _drifts(outcome: Outcome, name: str) -> list[float]:
    """Metres from the origin, by seed."""
    return values_of(grouped(outcome.runs)[name], f"drift_at_rest_{STEPS_AT_REST[0]}")


def _drifts_claim(outcome: Outcome, name: str) -> Claim:
    """That a network without limits drifts far."""
    least = min(_drifts(outcome, name))
    said = f"The paper: {name} drifts far from rest ({STEPS_AT_REST[0]} steps, {_LARGE:g} m or more)"
    told = f"{number(least)} m in the seed that drifts least{seeds_told(outcome, (name,))}"
    return Claim(said, told, least >= _LARGE)


def _accuracy_claims(outcome: Outcome, tethered: str, rivals: Mapping[str, str]) -> list[Claim]:
    return [factor_claim(outcome, said, rival, tethered, _ERROR, 1.0) for rival, said in rivals.items()]


def _every_seed_claim(outcome: Outcome, names: list[str]) -> Claim:
    """That no seed is less accurate than M."""
    groups = grouped(outcome.runs)
    own = {run["seed"]: run[_ERROR] for run in groups["Trusted"]}
    shares = [run[_ERROR] / own[run["seed"]] for name in names for run in groups[name]]
    measured = f"{min(shares):.3g} to {max(shares):.3g} of M's error"
    return Claim("… in every seed", measured, max(shares) <= 1.0)


def _rest_claims(outcome: Outcome, names: list[str]) -> list[Claim]:
    runs = [run for name in names for run in grouped(outcome.runs)[name]]
    still, worst = min(values_of(runs, "drift_poses_still")), max(values_of(runs, "drift_poses_max"))
    origin = max(values_of(runs, f"drift_at_rest_{max(STEPS_AT_REST)}"))
    return [
        Claim(
            f"Tethered stays at rest (below {STILL:g} m after {max(STEPS_AT_REST)} steps) from 99 % of "
            f"{POSES:,} poses, in every run",
            f"{percent(still)}, worst pose {number(worst)} m, from the origin {number(origin)} m",
            still >= 0.99 and origin < STILL,
        ),
    ]


def _delta_claim(outcome: Outcome, names: list[str]) -> Claim:
    """That the largest delta of any cell is centimetres and milliradians."""
    runs = [run for name in names for run in grouped(outcome.runs)[name]]
    deltas = [(output, each["max"]) for run in runs for output, each in run["delta_certified"].items()]
    metres = max(delta for output, delta in deltas if output in ("ahead", "left", "x", "y"))
    radians = max(delta for output, delta in deltas if output in ("turn", "heading"))
    said = "… have a delta of centimetres and milliradians (worst cell below 10 cm and 10 mrad a step)"
    return Claim(said, f"{1e3 * metres:.3g} mm, {1e3 * radians:.3g} mrad", metres < 0.1 and radians < 0.01)


def _claims(outcome: Outcome) -> list[Claim]:
    tethered, axes = (family(outcome, kind)[-1] for kind in (TETHERED.name, _TETHERED_OWN))
    constrained = family(outcome, CONSTRAINED.name)[-1]
    return [
        *_paper_claims(outcome, _SAID),
        *_tethered_claims(outcome, tethered),
        _every_seed_claim(outcome, [tethered]),
        factor_claim(outcome, "… 1,000 times below Constrained's", constrained, tethered, _ERROR, 1e3),
        factor_claim(
            outcome, f"Tethered's distance to M on Ω{BY_CONSTRUCTION} is 10,000 times below Constrained's",
            constrained, tethered, _OMEGA, 1e4,
        ),
        *_rest_claims(outcome, [tethered, axes]),
        *conformance_claims(outcome, [tethered, axes]),
        _delta_claim(outcome, [tethered, axes]),
    ]  # fmt: skip


def _tethered_claims(outcome: Outcome, tethered: str) -> list[Claim]:
    """Against each rival on next states and, which is what most of the gap is, on increments."""
    rivals = {
        VANILLA.name: "Tethered's error on D is below Vanilla's",
        AUGMENTED_LAGRANGIAN.name: "… below Augmented Lagrangian's",
        VANILLA_INCREMENT.name: "… not above Vanilla Δ's",
        f"{AUGMENTED_LAGRANGIAN.name} Δ": "… not above Augmented Lagrangian Δ's",
        f"{AUGMENTED_LAGRANGIAN.name}, own axes": "… not above Augmented Lagrangian, own axes'",
        f"{DIRECT.name} Δ": "… not above Direct Δ's",
        "Trusted": "… not above M's own",
    }
    return _accuracy_claims(outcome, tethered, rivals)


def _patch_claims(outcome: Outcome) -> list[Claim]:
    """The paper's, where its authors' parked cars are."""
    names = family(outcome, TETHERED.name)
    return [*_paper_claims(outcome, _SAID), *conformance_claims(outcome, names)]


def _rich_claims(outcome: Outcome) -> list[Claim]:
    tethered = f"Tethered ({_MEMORIES[outcome.scale][-1]})"
    rivals = {
        VANILLA.name: "Tethered's error on D is below Vanilla's",
        VANILLA_INCREMENT.name: "… not above Vanilla Δ's",
        "Trusted": "… not above M's own",
    }
    return [
        *_accuracy_claims(outcome, tethered, rivals),
        _every_seed_claim(outcome, [tethered]),
        *_rest_claims(outcome, [tethered]),
        *conformance_claims(outcome, [tethered]),
        _delta_claim(outcome, [tethered]),
    ]


STUDY = Study(
    name="vehicle",
    title="a car that slips, and that must stay where it is parked",
    simulate=partial(_simulate, "pose"),
    trusted=lambda data, config: TRUSTED_MODELS["pose"],
    config=partial(_config, "pose"),
    entries=_entries,
    measure=_measure,
    headings={
        f"drift_at_rest_{max(STEPS_AT_REST)}": "drift from origin [m]",
        "drift_poses_median": "median drift [m]",
        "drift_poses_still": "share at rest",
    },
    sections=_sections,
    claims=_claims,
    needs=("vehiclemodels", "commonroad-vehicle-models==3.0.2"),
    recasts={"body": Recast(_as_body, TRUSTED_MODELS["body"], as_pose_step)},
    inspect=_inspect,
    options={"omega": "Where cars are parked: on the map, or (`patch`) within half a metre of the origin."},
    check=_check,
    variant=_variant,
    matrix=_matrix,
    searched=lambda scale: _rows(scale).unsettled(),
    authors={"omega": "patch"},
)
_PATCH_STUDY = replace(
    STUDY,
    title="the car, parked only where the paper's authors park it: within half a metre of the origin",
    entries=_patch_entries,
    claims=_patch_claims,
)
RICH_STUDY = replace(
    STUDY,
    name="vehicle-rich",
    title="the car, driven by acceleration and steering",
    simulate=partial(_simulate, "rich"),
    trusted=lambda data, config: TRUSTED_MODELS["rich"],
    config=partial(_config, "rich"),
    entries=_rich_entries,
    claims=_rich_claims,
    recasts={"body": Recast(_as_body, TRUSTED_MODELS["rich_body"], as_pose_step)},
    options={},
    check=None,
    variant=None,
    matrix=no_rows,
    searched=no_rows,
    authors={},
)

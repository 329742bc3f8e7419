"""The README's table of results, from the committed results: ``python benchmarks/results_table.py``."""

import csv
from pathlib import Path
from statistics import mean

RESULTS = Path(__file__).parent.parent / "docs" / "results"
STUDIES = {
    "vehicle": ("vehicle", 2500),
    "pancreas": ("pancreas, our simulator", 2000),
    "pancreas-traces": ("pancreas, the paper's traces", 2000),
    "drones": ("drones", 2000),
}
# What the authors' code measured, means over its seeds: error on D, mean distance² to M on Ω.
AUTHORS = {
    "vehicle": {"Vanilla": (238, 253), "Augmented Lagrangian": (32, 12), "Constrained": (114, 0.073)},
    "pancreas-traces": {
        "Vanilla": (19.9, 41.6),
        "Augmented Lagrangian": (4.0, 8.4),
        "Constrained": (9.2, 0.68),
    },
    "drones": {
        "Vanilla": (0.033, 0.44),
        "Augmented Lagrangian": (0.030, 0.031),
        "Constrained": (0.013, 1.5e-12),
    },
}
METHODS = (
    "Trusted",
    "Vanilla",
    "Vanilla Δ",
    "Augmented Lagrangian",
    "Constrained",
    "HardNet",
    "Direct",
    "Tethered",
    "Tethered, monotone",
)
_KEYS = ("approximation_loss_D", "constraint_loss_omega_mean")


def rows(study: str) -> list[str]:
    """The table's rows about one study."""
    title, memories = STUDIES[study]
    with (RESULTS / study / "runs.csv").open(encoding="utf-8", newline="") as file:
        runs = list(csv.DictReader(file))
    lines = []
    for method in METHODS:
        own = [run for run in runs if run["method"] == method]
        # One number of memories: the largest that the paper used; for what was run with one, that one.
        own = [run for run in own if run["memories"] == str(memories)] or own
        if not own:
            continue
        ours = [_short(mean(float(run[key]) for run in own)) for key in _KEYS]
        theirs = [_short(value) for value in AUTHORS.get(study, {}).get(method, ())] or ["", ""]
        name = {"Trusted": "M alone", "Tethered": "**Tethered**"}.get(method, method)
        lines.append(f"| {title} | {name} | {' | '.join([*ours, *theirs])} |")
        title = ""
    return lines


def _short(value: float) -> str:
    if value == 0 or value < 1e-20:
        return "0" if value == 0 else "< 1e-20"
    if 1 <= value < 1e4:
        return f"{value:.3g}"
    return f"{value:.2g}" if 1e-3 <= value < 1 else f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e")


if __name__ == "__main__":
    for name in STUDIES:
        print("\n".join(rows(name)))

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
    "Lagrangian (paper)",
    "Augmented Lagrangian",
    "Augmented Lagrangian Δ",
    "Constrained (paper)",
    "Constrained",
    "Constrained Δ",
    "HardNet",
    "HardNet Δ",
    "Direct",
    "Direct Δ",
    "Tethered",
    "Tethered Δ",
    "Tethered, own axes",
    "Tethered, monotone",
)
# The authors' own methods, by the row that is theirs where there is one.
THEIRS = {"Lagrangian (paper)": "Augmented Lagrangian", "Constrained (paper)": "Constrained"}
_KEYS = ("approximation_loss_D", "constraint_loss_omega_mean")


def rows(study: str) -> list[str]:
    """The table's rows about one study."""
    title, memories = STUDIES[study]
    with (RESULTS / study / "runs.csv").open(encoding="utf-8", newline="") as file:
        runs = list(csv.DictReader(file))
    means = {method: found for method in METHODS if (found := _means(runs, method, memories))}
    # M's own distance to itself wins nothing.
    rivals = [found for method, found in means.items() if method != "Trusted"]
    least = [min(found[k] for found in rivals) for k in range(len(_KEYS))]
    printed = {row: theirs for row, theirs in THEIRS.items() if row in means}
    theirs_by_row = {row: row for row in means if row not in printed.values()} | printed
    lines = []
    for method, found in means.items():
        ours = [_marked(value, best) for value, best in zip(found, least, strict=True)]
        ours = [_short(value) for value in found] if method == "Trusted" else ours
        known = AUTHORS.get(study, {}).get(theirs_by_row.get(method, ""), ())
        theirs = [_short(value) for value in known] or ["", ""]
        name = "M alone" if method == "Trusted" else method
        lines.append(f"| {title} | {name} | {' | '.join([*ours, *theirs])} |")
        title = ""
    return lines


def _means(runs: list[dict[str, str]], method: str, memories: int) -> list[float]:
    """Of a method, over seeds: with the most memories that the paper used, or with those it was run with."""
    own = [run for run in runs if run["method"] == method]
    own = [run for run in own if run["memories"] == str(memories)] or own
    return [mean(float(run[key]) for run in own) for key in _KEYS] if own else []


def _marked(value: float, best: float) -> str:
    """Bold where nothing is better, but for rounding."""
    return f"**{_short(value)}**" if value == best or max(value, best) < 1e-20 else _short(value)


def _short(value: float) -> str:
    if value == 0 or value < 1e-20:
        return "0" if value == 0 else "< 1e-20"
    if 1 <= value < 1e4:
        return f"{value:.3g}"
    return f"{value:.2g}" if 1e-3 <= value < 1 else f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e")


if __name__ == "__main__":
    for name in STUDIES:
        print("\n".join(rows(name)))

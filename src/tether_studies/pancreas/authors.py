"""What the paper's authors measured on their traces: their published logs and the paper's table of rises.

Means over their seeds, squared errors in (mg/dl)², rises in mg/dl; keys as in ``results.json``.
"""

from __future__ import annotations

AUTHORS: dict[str, dict[str, float]] = {
    "Vanilla": {
        "approximation_loss_D": 19.9,
        "constraint_loss_D_mean": 35.0,
        "constraint_loss_omega_mean": 41.6,
        "constraint_loss_omega_max": 67.0,
        "monotonicity_rise_max": 3.8356,
        "monotonicity_rise_mean": 1.315,
    },
    "Augmented Lagrangian": {
        "approximation_loss_D": 4.0,
        "constraint_loss_D_mean": 6.7,
        "constraint_loss_omega_mean": 8.4,
        "constraint_loss_omega_max": 19.5,
        "monotonicity_rise_max": 3.8072,
        "monotonicity_rise_mean": 1.245,
    },
    "Constrained (1000)": {
        "approximation_loss_D": 9.9,
        "constraint_loss_D_mean": 8.23,
        "constraint_loss_omega_mean": 0.89,
        "constraint_loss_omega_max": 6.63,
        "monotonicity_rise_max": 0.9157,
        "monotonicity_rise_mean": 0.0092,
    },
    "Constrained (1500)": {
        "approximation_loss_D": 9.33,
        "constraint_loss_D_mean": 7.57,
        "constraint_loss_omega_mean": 0.757,
        "constraint_loss_omega_max": 5.3,
        "monotonicity_rise_max": 0.2047,
        "monotonicity_rise_mean": 0.0027,
    },
    "Constrained (2000)": {
        "approximation_loss_D": 9.23,
        "constraint_loss_D_mean": 7.0,
        "constraint_loss_omega_mean": 0.683,
        "constraint_loss_omega_max": 4.8,
        "monotonicity_rise_max": 0.1775,
        "monotonicity_rise_mean": 0.0026,
    },
}


def figures_of(name: str) -> dict[str, float]:
    """What the authors measured of the row of this name; nothing where they have no such row."""
    return AUTHORS.get(_CALLED.get(name, name.replace(" (paper)", "")), {})


_CALLED = {"Lagrangian (paper)": "Augmented Lagrangian"}
"""Their augmented Lagrangian has weights that stay what they are."""

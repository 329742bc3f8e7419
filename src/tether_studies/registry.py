"""The case studies by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from tether_studies.study import Study

# Modules, not studies: a simulator or a plotting library is only imported for the study that is run.
_STUDIES = {
    "vehicle": ("tether_studies.vehicle.study", "STUDY"),
    "vehicle-rich": ("tether_studies.vehicle.study", "RICH_STUDY"),
    "pancreas": ("tether_studies.pancreas.study", "STUDY"),
    "drones": ("tether_studies.drones.study", "STUDY"),
}
NAMES = tuple(_STUDIES)


def find_study(name: str) -> Study:
    """The study of that name."""
    if name not in _STUDIES:
        raise ValueError(f"the study must be one of {', '.join(NAMES)}; got '{name}'.")
    module, constant = _STUDIES[name]
    return cast("Study", getattr(import_module(module), constant))

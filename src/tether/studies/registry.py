"""The case studies by name."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from tether.studies.study import Study

# Modules, not studies: a simulator or a plotting library is only imported for the study that is run.
_MODULES = {"drones": "tether.studies.drones.study", "pancreas": "tether.studies.pancreas.study"}
NAMES = tuple(_MODULES)


def find_study(name: str) -> Study:
    """The study of that name."""
    if name not in _MODULES:
        raise ValueError(f"the study must be one of {', '.join(NAMES)}; got '{name}'.")
    return cast(Study, import_module(_MODULES[name]).STUDY)

"""A MuJoCo model, ``.xml`` or `MjModel`: a black box that steps, with MuJoCo's own derivatives.

States are positions, velocities and activations, in that order; controls are MuJoCo's. Each row starts anew:
what the solver remembers of the row before would make M depend on it.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tether.data import Array
from tether.foundation.documents import shorten
from tether.foundation.limits import check_whole
from tether.trusted.forms.form import Form, needed
from tether.trusted.model import TrustedModel

_EPSILON = 1e-6
_WHY = "MuJoCo computes it, a black box"
_MOST_STEPS = 1_000_000


def _holds(value: Any) -> bool:
    return isinstance(value, sys.modules["mujoco"].MjModel)


def _read(given: Any, *, frame_skip: int = 1) -> TrustedModel:
    """The model, and how many of its steps are one of M's."""
    mujoco = needed("mujoco")
    check_whole("frame_skip", frame_skip, least=1, most=_MOST_STEPS)
    try:
        model = mujoco.MjModel.from_xml_path(str(given)) if isinstance(given, Path) else given
    except ValueError as error:
        raise ValueError(f"`trusted` must be a MuJoCo model; {given}: {shorten(error)}.") from None
    function = MujocoStep(model, frame_skip, given.stem if isinstance(given, Path) else "MjModel")
    # Of positions that are no vectors (quaternions) MuJoCo's derivatives are by other coordinates, and of
    # RK4 it has none.
    known = model.nq == model.nv and model.opt.integrator != mujoco.mjtIntegrator.mjINT_RK4
    return TrustedModel(function, jacobian=function.jacobian if known else None, black_box=_WHY)


class MujocoStep:
    """``(states (N, nq + nv + na), controls (N, nu)) -> (N, nq + nv + na)``, some steps later."""

    def __init__(self, model: Any, frame_skip: int, name: str) -> None:
        self.model, self.frame_skip = model, frame_skip
        self.__qualname__ = f"{name}, {frame_skip} steps" if frame_skip > 1 else name
        self._datas: list[Any] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_datas": []}

    @property
    def states(self) -> int:
        """How many states there are."""
        return self.model.nq + self.model.nv + self.model.na

    def __call__(self, states: Array, controls: Array) -> Array:
        """On all cores."""
        rollout = import_module("mujoco.rollout")
        whole = self._whole(states, controls)
        warm = np.zeros((len(states), self.model.nv))
        moves = np.repeat(np.ascontiguousarray(controls)[:, None], self.frame_skip, axis=1)
        found, _ = rollout.rollout(
            self.model, self._rooms(), whole, moves, nstep=self.frame_skip, initial_warmstart=warm
        )
        return found[:, -1, 1 : 1 + self.states].copy()

    def jacobian(self, states: Array, controls: Array) -> Array:
        """(N, P, D) by MuJoCo's finite differences, step after step."""
        mujoco = needed("mujoco")
        self._check(states, controls)
        model, data = self.model, self._rooms()[0]
        found = np.empty((len(states), self.states, self.states + model.nu))
        by_state, by_control = np.zeros((self.states, self.states)), np.zeros((self.states, model.nu))
        kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
        for row, whole in enumerate(self._whole(states, controls)):
            mujoco.mj_resetData(model, data)
            mujoco.mj_setState(model, data, whole, kind)
            data.ctrl[:] = controls[row]
            total = np.eye(self.states, self.states + model.nu)
            for _ in range(self.frame_skip):
                mujoco.mjd_transitionFD(model, data, _EPSILON, True, by_state, by_control, None, None)
                total = by_state @ total
                total[:, self.states :] += by_control
                mujoco.mj_step(model, data)
            found[row] = total
        return found

    def _check(self, states: Array, controls: Array) -> None:
        if states.shape[1] != self.states or controls.shape[1] != self.model.nu:
            raise ValueError(
                f"the MuJoCo model has {self.states} states (positions, velocities, activations) and "
                f"{self.model.nu} controls"
            )

    def _whole(self, states: Array, controls: Array) -> Array:
        """MuJoCo's own states: time first, and after ours what plugins keep."""
        mujoco = needed("mujoco")
        self._check(states, controls)
        size = mujoco.mj_stateSize(self.model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        whole = np.zeros((len(states), size))
        whole[:, 1 : 1 + self.states] = states
        return whole

    def _rooms(self) -> list[Any]:
        mujoco = needed("mujoco")
        while len(self._datas) < (os.cpu_count() or 1):
            self._datas.append(mujoco.MjData(self.model))
        return self._datas


FORM = Form("mujoco", _holds, _read, ".xml")

"""An FMU for model exchange (FMI 2.0): a black box whose rates of change are integrated by RK4.

States are the FMU's continuous states and controls its real inputs, both in its own order. Each row starts
from a reset FMU, so that nothing is kept from row to row. Events are looked for after each substep.
"""

from __future__ import annotations

import ctypes
import shutil
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tether.data import Array
from tether.foundation.documents import shorten
from tether.foundation.limits import check_number, check_whole
from tether.trusted.forms.form import Form, needed
from tether.trusted.model import TrustedModel

_MOST_SUBSTEPS = 100_000
_WHY = "an FMU computes it, a black box"
_MOST_EVENTS = 100


def _read(path: Path, *, step: float | None = None, substeps: int = 10, jobs: int = 1) -> TrustedModel:
    """The FMU, how long a step of M is, and how many substeps of RK4 that takes."""
    fmpy = needed("fmpy")
    check_whole("substeps", substeps, least=1, most=_MOST_SUBSTEPS)
    try:
        description = fmpy.read_model_description(str(path))
    except Exception as error:
        raise ValueError(f"`trusted` must be an FMU; {path}: {shorten(error)}.") from None
    if description.fmiVersion != "2.0" or description.modelExchange is None:
        raise ValueError(
            f"`trusted` must be an FMU 2.0 for model exchange, whose states can be set; {path.name} is not "
            f"(FMI {description.fmiVersion}). Pass a function that runs it."
        )
    experiment = description.defaultExperiment
    if step is None:
        step = float(getattr(experiment, "stepSize", None) or 0)
        if not step > 0:
            raise ValueError(f"`step` must be given: {path.name} names none. Say how long a step of M is.")
    check_number("step", step, above=0.0)
    function = FmuStep(path.resolve(), step, substeps)
    known = description.modelExchange.providesDirectionalDerivative
    return TrustedModel(
        function,
        jacobian=function.jacobian if known else None,
        jobs=jobs,
        black_box=_WHY,
    )


class FmuStep:
    """``(states (N, dx), controls (N, du)) -> (N, dx)``, one step later."""

    def __init__(self, path: Path, step: float, substeps: int) -> None:
        self.path, self.step, self.substeps = path, step, substeps
        self.__qualname__ = path.stem
        self._running: _Running | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_running": None}

    @property
    def running(self) -> _Running:
        """The FMU, loaded once for each process."""
        if self._running is None:
            self._running = _Running(self.path)
        return self._running

    def __call__(self, states: Array, controls: Array) -> Array:
        """Row by row."""
        return np.stack([self._row(*row)[0] for row in zip(states, controls, strict=True)])

    def jacobian(self, states: Array, controls: Array) -> Array:
        """(N, P, D) from the FMU's own directional derivatives, through the method; not through events."""
        return np.stack([self._row(*row, slopes=True)[1] for row in zip(states, controls, strict=True)])

    def _row(self, state: Array, control: Array, slopes: bool = False) -> tuple[Array, Array]:
        fmu, length = self.running, self.step / self.substeps
        fmu.start(state, control)
        total = np.eye(len(state), len(state) + len(control))
        for k in range(self.substeps):
            before = fmu.indicators()
            state, total = _rk4(fmu.rate(total.shape[1], slopes), state, total, k * length, length)
            fmu.place((k + 1) * length, state)
            if fmu.had_event(before):
                state = fmu.after_event()
        return state, total


Pair = tuple[Array, Array]


def _rk4(rate: Callable[..., Pair], state: Array, slope: Array, time: float, length: float) -> Pair:
    """The state a substep later, and its derivatives."""
    first = rate(time, state, slope)
    second = rate(time + length / 2, *_moved(state, slope, first, length / 2))
    third = rate(time + length / 2, *_moved(state, slope, second, length / 2))
    fourth = rate(time + length, *_moved(state, slope, third, length))
    change = tuple(
        (a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(first, second, third, fourth, strict=True)
    )
    return _moved(state, slope, change, length)


def _moved(state: Array, slope: Array, change: Sequence[Array], length: float) -> Pair:
    return state + length * change[0], slope + length * change[1]


class _Running:
    """An FMU in this process."""

    def __init__(self, path: Path) -> None:
        fmpy, fmi2 = needed("fmpy"), needed("fmpy.fmi2")
        description = fmpy.read_model_description(str(path))
        self.states = [unknown.variable.derivative.valueReference for unknown in description.derivatives]
        self.rates = [unknown.variable.valueReference for unknown in description.derivatives]
        self.inputs = [
            variable.valueReference
            for variable in description.modelVariables
            if variable.causality == "input" and variable.type == "Real"
        ]
        folder = fmpy.extract(str(path))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.fmu = fmi2.FMU2Model(
            guid=description.guid,
            unzipDirectory=folder,
            modelIdentifier=description.modelExchange.modelIdentifier,
            instanceName="tether",
        )
        self.fmu.instantiate()
        self.started = False
        self.count = len(self.states)
        self.room = (ctypes.c_double * max(self.count, 1))()
        self.looked = (ctypes.c_double * max(description.numberOfEventIndicators or 0, 1))()
        self.watched = description.numberOfEventIndicators or 0

    def start(self, state: Array, control: Array) -> None:
        """As if it had just been made, at these values."""
        if (len(state), len(control)) != (self.count, len(self.inputs)):
            raise ValueError(f"the FMU has {self.count} states and {len(self.inputs)} real inputs")
        fmu = self.fmu
        if self.started:
            fmu.reset()
        self.started = True
        fmu.setupExperiment(startTime=0.0)
        fmu.enterInitializationMode()
        self._set(control)
        fmu.exitInitializationMode()
        self._settle()
        self._set(control)
        self.place(0.0, state)

    def _set(self, control: Array) -> None:
        if self.inputs:
            self.fmu.setReal(self.inputs, [float(value) for value in control])

    def place(self, time: float, state: Array) -> None:
        """Time and states."""
        self.fmu.setTime(time)
        self.room[:] = [float(value) for value in state]
        self.fmu.setContinuousStates(self.room, self.count)

    def rate(self, columns: int, slopes: bool) -> Callable[..., Pair]:
        """Rates of change at a time and state, and of the derivatives by the first state and the control."""

        def found(time: float, state: Array, slope: Array) -> Pair:
            self.place(time, state)
            self.fmu.getDerivatives(self.room, self.count)
            change = np.array(self.room[: self.count])
            if not slopes:
                return change, np.zeros_like(slope)
            moved = self._by(self.states) @ slope
            moved[:, columns - len(self.inputs) :] += self._by(self.inputs)
            return change, moved

        return found

    def _by(self, references: list[int]) -> Array:
        columns = [self.fmu.getDirectionalDerivative(self.rates, [one], [1.0]) for one in references]
        return np.array(columns).T.reshape(self.count, len(references))

    def indicators(self) -> Array:
        """Signs that change at an event."""
        if self.watched:
            self.fmu.getEventIndicators(self.looked, self.watched)
        return np.sign(np.array(self.looked[: self.watched]))

    def had_event(self, before: Array) -> bool:
        """Whether there was one, by the FMU's word or by its indicators."""
        asked, _ = self.fmu.completedIntegratorStep()
        return bool(asked) or bool((before * self.indicators() < 0).any())

    def after_event(self) -> Array:
        """The states as the event leaves them."""
        self.fmu.enterEventMode()
        self._settle()
        self.fmu.getContinuousStates(self.room, self.count)
        return np.array(self.room[: self.count])

    def _settle(self) -> None:
        for _ in range(_MOST_EVENTS):
            more, *_ = self.fmu.newDiscreteStates()
            if not more:
                break
        self.fmu.enterContinuousTimeMode()


FORM = Form("fmpy", lambda value: False, _read, ".fmu")

"""The CommonRoad vehicle models, compiled: the package's own functions, on the package's own parameters.

The functions are not copied. Numba compiles their byte code, with the functions they call replaced by
compiled ones and their nested parameter objects by named tuples of the same attributes.
"""

from __future__ import annotations

import importlib
from collections import namedtuple
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import Any

from tether.foundation.kernels import compiled

BMW_320I = 2
"""The package's number of the car."""

_TYRES = (
    "sign",
    "formula_longitudinal",
    "formula_lateral",
    "formula_longitudinal_comb",
    "formula_lateral_comb",
)


@dataclass(frozen=True, eq=False)
class Dynamics:
    """The package's right-hand sides, ``(state, (steering speed, acceleration), car) -> list of rates``.

    Attributes:
        multibody: 29 states, compiled.
        drift: 9 states, compiled.
        multibody_as_shipped: plain Python.
        drift_as_shipped: plain Python.
    """

    multibody: Any
    drift: Any
    multibody_as_shipped: Callable[..., list[float]]
    drift_as_shipped: Callable[..., list[float]]


def package_module(name: str) -> ModuleType:
    """A module of the package, or a ValueError that says how to install it."""
    try:
        return importlib.import_module(f"vehiclemodels.{name}")
    except ImportError:
        raise ValueError(
            "the vehicle study must have commonroad-vehicle-models; it is not installed. "
            "Run `pip install commonroad-vehicle-models==3.0.2`."
        ) from None


def compile_with(function: Callable[..., Any], variant: str = "", /, **replacements: Any) -> Any:
    """`function`, compiled, with the given globals instead of its own.

    Globals instead of closures or arguments, because only then does Numba find the result in its cache. The
    cache knows a function by name and line, so two sets of globals for one function need a `variant` each.
    """
    assert isinstance(function, FunctionType)
    clone = FunctionType(function.__code__, {**function.__globals__, **replacements}, function.__name__)
    # The cache lies beside the package and names types by this module: one that moved must not find the old.
    told = [function.__qualname__, *([variant] if variant else []), __name__.replace(".", "_")]
    clone.__qualname__ = "_".join(told)
    return compiled(clone)


@lru_cache
def load_dynamics() -> Dynamics:
    """The package's dynamics, plain and compiled."""
    multibody = package_module("vehicle_dynamics_mb").vehicle_dynamics_mb
    drift = package_module("vehicle_dynamics_std").vehicle_dynamics_std
    limits = {
        "steering_constraints": compile_with(
            package_module("utils.steering_constraints").steering_constraints
        ),
        "acceleration_constraints": compile_with(
            package_module("utils.acceleration_constraints").acceleration_constraints
        ),
    }
    kinematic = compile_with(
        package_module("utils.vehicle_dynamics_ks_cog").vehicle_dynamics_ks_cog, **limits
    )
    tyres = _compiled_tyres()
    shared = {**limits, "vehicle_dynamics_ks_cog": kinematic}
    return Dynamics(
        multibody=compile_with(multibody, tireModel=tyres, **shared),
        drift=compile_with(drift, tire_model=tyres, **shared),
        multibody_as_shipped=multibody,
        drift_as_shipped=drift,
    )


def _compiled_tyres() -> ModuleType:
    """The package's tyre formulas as a module of compiled functions."""
    source, tyres = package_module("utils.tire_model"), ModuleType("compiled_tyres")
    for name in _TYRES:
        replaced = {key: value for key, value in vars(tyres).items() if key in _TYRES}
        setattr(tyres, name, compile_with(getattr(source, name), **replaced))
    return tyres


@lru_cache
def load_car(friction: float = 1.0) -> Any:
    """The BMW's parameters on a road whose peak friction is `friction` times the tyre's own.

    Only the peaks of the tyre curves are scaled; their slopes at small slip stay, as on a wet road.
    """
    parameters = package_module("vehicle_parameters").setup_vehicle_parameters(vehicle_id=BMW_320I)
    values = asdict(parameters)
    del values["trailer"]
    values["tire"] |= {name: friction * values["tire"][name] for name in ("p_dx1", "p_dy1")}
    for part, kind in (("steering", Steering), ("longitudinal", Longitudinal), ("tire", Tyre)):
        values[part] = kind(**{name: float(values[part][name]) for name in kind._fields})
    return Car(**{name: values[name] for name in Car._fields})


# At module level under their own names, so that Numba's cache can find the types again.
Steering = namedtuple("Steering", ["min", "max", "v_min", "v_max"])
Longitudinal = namedtuple("Longitudinal", ["v_min", "v_max", "v_switch", "a_max"])
Tyre = namedtuple(
    "Tyre",
    "p_cx1 p_dx1 p_dx3 p_ex1 p_kx1 p_hx1 p_vx1 r_bx1 r_bx2 r_cx1 r_ex1 r_hx1 p_cy1 p_dy1 p_dy3 p_ey1 p_ky1 "
    "p_hy1 p_hy3 p_vy1 p_vy3 r_by1 r_by2 r_by3 r_cy1 r_ey1 r_hy1 r_vy1 r_vy3 r_vy4 r_vy5 r_vy6",
)
Car = namedtuple(
    "Car",
    "steering longitudinal tire m m_s m_uf m_ur a b I_Phi_s I_y_s I_z I_xz_s K_sf K_sdf K_sr K_sdr T_f T_r "
    "K_ras K_tsf K_tsr K_rad K_zt h_raf h_rar h_s I_uf I_ur I_y_w K_lt R_w T_sb T_se D_f D_r E_f E_r",
)

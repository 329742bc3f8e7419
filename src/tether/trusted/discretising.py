"""From a rate of change to a step: ``dx/dt = f(x, u)`` as M, by a Runge-Kutta or Euler method.

What is trusted, enclosed and proved is the method's result, with as many substeps as were asked for; how far
that is from the exact solution of the differential equation is not bounded here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, get_args

from tether.foundation.limits import check_number, check_whole
from tether.trusted.accepting import as_trusted
from tether.trusted.forms.writing import compiled, number_text, plain
from tether.trusted.model import TrustedModel

Method = Literal["rk4", "euler", "semi-implicit"]
_MOST_SUBSTEPS = 10_000


def discretise(rate: Any, step: float, *, method: Method = "rk4", substeps: int = 1) -> TrustedModel:
    """M that takes one step of ``dx/dt = rate(x, u)``, controls held.

    Args:
        rate: ``(states (N, dx), controls (N, du)) -> (N, dx)``, or such a model in another form.
        step: how long a step is.
        method: `rk4`; `euler`; `semi-implicit`, for states of which the first half are positions and the
            second half velocities: these change first, and positions by the new ones.
        substeps: how many steps of the method are one of M's.

    Raises:
        ValueError: no such method, or numbers that make no sense.
    """
    check_number("step", step, above=0.0)
    check_whole("substeps", substeps, least=1, most=_MOST_SUBSTEPS)
    if method not in get_args(Method):
        raise ValueError(f"`method` must be one of {', '.join(get_args(Method))}; got {method!r}.")
    known = as_trusted(rate)
    told = f"{method}, step {step!r}, {substeps} substeps of {plain(known.name)}"
    told += f", SHA-256 {known.source_digest or 'not known'}"
    lines = [f'    """Discretised: {told}."""', f"    for _ in range({substeps}):"]
    lines += [f"        {line}" for line in _rounds(method, step / substeps)]

    def integrated(function: Callable[..., Any]) -> Callable[..., Any]:
        return compiled([*lines, "    return states"], {"rate": function}, f"{known.name}_{method}")

    of = known.translation
    translation = None if of is None else replace(of, original=integrated(of.original))
    return TrustedModel(
        integrated(known.function), jobs=known.jobs, translation=translation, black_box=known.black_box
    )


def _rounds(method: str, step: float) -> list[str]:
    """One substep."""
    whole, half, sixth = (number_text(step * share) for share in (1.0, 0.5, 1 / 6))
    first = [
        "first = rate(states, controls)",
        "if first.shape != states.shape:",
        '    raise ValueError("the rate of change must have a column for each state")',
    ]
    if method == "euler":
        return [*first, f"states = states + {whole} * first"]
    if method == "rk4":
        return [
            *first,
            f"second = rate(states + {half} * first, controls)",
            f"third = rate(states + {half} * second, controls)",
            f"fourth = rate(states + {whole} * third, controls)",
            f"states = states + {sixth} * (first + 2.0 * second + 2.0 * third + fourth)",
        ]
    return [
        *first,
        "middle = states.shape[1] // 2",
        "if 2 * middle != states.shape[1]:",
        '    raise ValueError("positions and velocities must be as many")',
        f"velocities = states[:, middle:] + {whole} * first[:, middle:]",
        "moved = rate(np.concatenate([states[:, :middle], velocities], axis=1), controls)",
        f"positions = states[:, :middle] + {whole} * moved[:, :middle]",
        "states = np.concatenate([positions, velocities], axis=1)",
    ]

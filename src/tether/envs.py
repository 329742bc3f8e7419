"""Gymnasium environments whose world is a model: to train and test a controller where the guarantee holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether.data import Array
from tether.foundation.extras import installing
from tether.model import Model, Prediction
from tether.trusted import TrustedModel

try:
    import gymnasium
    from gymnasium.vector import AutoresetMode, VectorEnv
except ImportError:
    raise ImportError(
        f"tether.envs must have gymnasium; it is not installed. Run {installing('gymnasium')}."
    ) from None

Reward = Callable[[Array, Array, Array], ArrayLike]
"""From states (N, dx), controls (N, du) and next states (N, dx) to (N,)."""
Leaving = Literal["truncate", "flag", "fallback"]
_HORIZON = 200


class _World:
    """What one environment and many have in common: spaces, where to begin, a step of all rows."""

    def __init__(
        self,
        model: Model,
        reward: Reward,
        horizon: int,
        outside: Leaving,
        *,
        trusted: TrustedModel | Callable | None,
        actions: tuple[ArrayLike, ArrayLike] | None,
        start: Callable[[np.random.Generator], ArrayLike] | None,
    ) -> None:
        schema = model.schema
        if not schema.rolls_out:
            raise ValueError(
                "`model` must predict every state to be a world; got outputs "
                f"{', '.join(schema.outputs)} for states {', '.join(schema.states)}."
            )
        if isinstance(horizon, bool) or not isinstance(horizon, int) or horizon < 1:
            raise ValueError(f"`horizon` must be a whole number of at least 1; got {horizon!r}.")
        if outside not in ("truncate", "flag", "fallback"):
            raise ValueError(f"`outside` must be 'truncate', 'flag' or 'fallback'; got {outside!r}.")
        if outside == "fallback" and trusted is None:
            raise ValueError("outside='fallback' must have the trusted model; got none. Pass `trusted=M`.")
        self.model, self.reward, self.horizon, self.outside = model, reward, horizon, outside
        self.trusted, self.start = trusted, start
        self.order, count = np.argsort(schema.advances), len(schema.states)
        self.observations = gymnasium.spaces.Box(-np.inf, np.inf, (count,), np.float64)
        self.actions = gymnasium.spaces.Box(*self._limits(actions), dtype=np.float64)

    def _limits(self, actions: tuple[ArrayLike, ArrayLike] | None) -> tuple[Array, Array]:
        """(du,) of the controls: as given, else those of the domain."""
        controls = len(self.model.schema.controls)
        if actions is not None:
            low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (controls,)) for end in actions)
            if not (low <= high).all():
                raise ValueError(f"`actions` must be limits, low <= high; got {actions!r:.80}.")
            return low, high
        if not self.model.tether.limited:
            raise ValueError("`actions` must be given as (low, high) for a model without a domain; got none.")
        region = self.model.bounds.region(self.model.cells)
        first = len(self.model.schema.states)
        return region.lower[first:], region.upper[first:]

    def begin(self, rng: np.random.Generator, count: int) -> Array:
        """(count, dx) states to begin with: as asked for, else memories, which are where the data were."""
        states = len(self.model.schema.states)
        if self.start is not None:
            rows = [np.asarray(self.start(rng), dtype=np.float64) for _ in range(count)]
        else:
            centers = self.model.cells.centers[:, :states]
            rows = list(centers[rng.integers(0, len(centers), count)])
        if any(row.shape != (states,) for row in rows):
            raise ValueError(f"`start` must give a state of {states} numbers; got shape {rows[0].shape}.")
        return self.on_circle(np.stack(rows))

    def on_circle(self, states: Array) -> Array:
        """States with angles in [-π, π)."""
        nothing = np.zeros((len(states), len(self.model.schema.controls)))
        return self.model.schema.wrap_inputs(states, nothing)[:, : states.shape[1]]

    def step(self, states: Array, controls: Array) -> tuple[Array, Array, Prediction]:
        """Next states, rewards and what is known of each row."""
        answer = "fallback" if self.outside == "fallback" else "flag"
        found = self.model.predict(states, controls, details=True, outside=answer, trusted=self.trusted)
        following = self.on_circle(found.next_states[:, self.order])
        rewards = np.asarray(self.reward(states, controls, following), dtype=np.float64)
        if rewards.shape != (len(states),):
            raise ValueError(
                f"`reward` must give one number for each of {len(states)} rows; got shape {rewards.shape}."
            )
        return following, rewards, found


class ModelEnv(gymnasium.Env):
    """One rollout of a model: the state is observed, the control is the action.

    `info` of each step says whether the guarantee covers it (`in_domain`), how far it is from M at most
    (`delta`), and between which limits it is (`lower`, `upper`).

    Args:
        model: whose outputs are its states.
        reward: from states (N, dx), controls (N, du) and next states (N, dx) to (N,); here N is 1.
        horizon: steps of an episode.
        outside: what happens where an input leaves the domain: the episode is cut off (`truncate`), goes on
            with the model (`flag`), or with the trusted model (`fallback`).
        trusted: M, for `fallback`.
        actions: limits of the controls, low and high; by default those of the domain.
        start: from a generator to a state; by default a memory, which is where data were.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        model: Model,
        reward: Reward,
        *,
        horizon: int = _HORIZON,
        outside: Leaving = "truncate",
        trusted: TrustedModel | Callable | None = None,
        actions: tuple[ArrayLike, ArrayLike] | None = None,
        start: Callable[[np.random.Generator], ArrayLike] | None = None,
    ) -> None:
        self._world = _World(model, reward, horizon, outside, trusted=trusted, actions=actions, start=start)
        self.observation_space, self.action_space = self._world.observations, self._world.actions
        self._state, self._steps = np.zeros(len(model.schema.states)), 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begins anew; `options` may hold the `state` to begin with."""
        super().reset(seed=seed)
        given = (options or {}).get("state")
        begun = self._world.begin(self.np_random, 1)[0] if given is None else np.asarray(given, np.float64)
        if begun.shape != self._state.shape:
            raise ValueError(f"`state` must hold {len(self._state)} numbers; got shape {begun.shape}.")
        self._state, self._steps = self._world.on_circle(begun[None])[0], 0
        return self._state.copy(), {}

    def step(self, action: ArrayLike) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """One step of the model."""
        control = np.asarray(action, dtype=np.float64).reshape(1, -1)
        following, rewards, found = self._world.step(self._state[None], control)
        self._state, self._steps = following[0], self._steps + 1
        inside = bool(found.in_domain[0])
        left = self._world.outside == "truncate" and not inside
        info = {name: getattr(found, name)[0] for name in ("delta", "lower", "upper")} | {"in_domain": inside}
        over = left or self._steps >= self._world.horizon
        return self._state.copy(), float(rewards[0]), False, over, info


class ModelVectorEnv(VectorEnv):
    """Many rollouts of a model, one call of it for all; what is over begins anew with the next step.

    Args:
        model: as of :class:`ModelEnv`, and so are the others.
        reward: here N is `count`.
        count: how many there are.
        horizon: steps of an episode.
        outside: what happens where an input leaves the domain.
        trusted: M, for `fallback`.
        actions: limits of the controls.
        start: from a generator to a state.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        model: Model,
        reward: Reward,
        *,
        count: int,
        horizon: int = _HORIZON,
        outside: Leaving = "truncate",
        trusted: TrustedModel | Callable | None = None,
        actions: tuple[ArrayLike, ArrayLike] | None = None,
        start: Callable[[np.random.Generator], ArrayLike] | None = None,
    ) -> None:
        super().__init__()
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"`count` must be a whole number of at least 1; got {count!r}.")
        self._world = _World(model, reward, horizon, outside, trusted=trusted, actions=actions, start=start)
        self.num_envs = count
        self.single_observation_space, self.single_action_space = (
            self._world.observations,
            self._world.actions,
        )
        self.observation_space, self.action_space = (
            gymnasium.vector.utils.batch_space(space, count)
            for space in (self.single_observation_space, self.single_action_space)
        )
        self._states = np.zeros((count, len(model.schema.states)))
        self._steps, self._over = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begins all of them anew; `options` may hold the `states` to begin with, (count, dx)."""
        super().reset(seed=seed)
        given = (options or {}).get("states")
        if given is None:
            self._states = self._world.begin(self.np_random, self.num_envs)
        else:
            given = np.asarray(given, dtype=np.float64)
            if given.shape != self._states.shape:
                raise ValueError(f"`states` must have shape {self._states.shape}; got {given.shape}.")
            self._states = self._world.on_circle(given)
        self._steps[:], self._over[:] = 0, False
        return self._states.copy(), {}

    def step(
        self, actions: ArrayLike
    ) -> tuple[Array, Array, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """One step of all; those that were over begin anew, whatever their action."""
        controls = np.asarray(actions, dtype=np.float64).reshape(self.num_envs, -1)
        anew = self._over.copy()
        following, rewards, found = self._world.step(self._states, controls)
        if anew.any():
            following[anew] = self._world.begin(self.np_random, int(anew.sum()))
        self._states, self._steps = following, np.where(anew, 0, self._steps + 1)
        left = ~found.in_domain if self._world.outside == "truncate" else np.zeros(self.num_envs, dtype=bool)
        self._over = ~anew & (left | (self._steps >= self._world.horizon))
        info: dict[str, Any] = {
            name: getattr(found, name) for name in ("delta", "lower", "upper", "in_domain")
        }
        info |= {f"_{name}": ~anew for name in list(info)}
        never = np.zeros(self.num_envs, dtype=bool)
        return self._states.copy(), np.where(anew, 0.0, rewards), never, self._over.copy(), info

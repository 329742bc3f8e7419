"""JAX functions against their translations; run on its own, for JAX's threads and settings are its process's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tether.data import make_schema
from tether.programs import enclose
from tether.trusted import as_trusted, check_trusted

SCHEMA = make_schema(["angle", "speed"], ["torque"])
RNG = np.random.default_rng(0)
INPUTS = RNG.uniform(-2, 2, (300, 3))


def pendulum(x, u):
    def rate(x):
        drag = jnp.where(x[1] > 0, x[1] ** 2, -(x[1] ** 2))
        return jnp.array([x[1], u[0] - 9.81 * jnp.sin(x[0]) - drag])

    def step(_, x):
        k1 = rate(x)
        k2 = rate(x + 0.025 * k1)
        return x + 0.05 * k2

    return jax.lax.fori_loop(0, 2, step, x)


def network(first, second):
    def forward(x, u):
        hidden = jax.nn.softplus(jnp.concatenate([x, u]) @ first)
        hidden = jax.nn.relu(hidden) + jax.nn.sigmoid(hidden)
        return x.at[0].set(0.1 * (hidden @ second)[0]) + jnp.linalg.norm(x) + jnp.sum(x[::-1]) / (3 + u[0])

    return forward


def rolling(x, u):
    def body(carry, gain):
        carry = carry + gain * jnp.tanh(carry) - u[0] * 0.1
        return carry, carry.sum()

    last, sums = jax.lax.scan(body, x, jnp.array([0.1, 0.2, 0.3]))
    return jnp.stack([last[0] + sums[1], jnp.maximum(last[1], -0.5)])


def branching(x, u):
    return jax.lax.cond(x[0] > u[0], lambda: x, lambda: -x)


def inside(x):
    """Where no comparison at points looks."""
    return (x > 0.3) & (x < 0.300001)


def halved(x, u):
    """A half of a whole number is none: 0 everywhere."""
    return jnp.where(inside(x).astype(int) // 2 == 0, x, x + 1)


def narrowed(x, u):
    return jnp.where(inside(x), x.astype(jnp.float32).astype(x.dtype), x)


def wrapped(x, u):
    return jnp.where(inside(x).astype(jnp.int8) * jnp.int8(127) * jnp.int8(3) > 126, x + 1, x)


def main() -> None:
    weights = jnp.asarray(RNG.normal(size=(3, 5))), jnp.asarray(RNG.normal(size=(5, 2)))
    done = 0
    for x64 in (False, True):
        jax.config.update("jax_enable_x64", x64)
        functions = (pendulum, network(*weights), rolling, branching) if x64 else (pendulum,)
        for function in functions:
            trusted = as_trusted(jax.jit(function), states=2, controls=1)
            check_trusted(trusted, INPUTS, SCHEMA)
            found = enclose(trusted.function, [[0.1, 0.2, 0.0]], [[0.2, 0.3, 0.05]], states=2)
            assert (found.lower < found.upper).all()
            done += 1
    whole = jax.jit(lambda x, u: jax.lax.switch(jnp.int32(u[0]), (lambda: x, lambda: -x)))
    erf = jax.jit(lambda x, u: jax.scipy.special.erf(x))
    noisy = jax.jit(lambda x, u: x + jax.random.normal(jax.random.PRNGKey(0), (2,)))
    for function, construct in ((whole, "int32"), (erf, "`erf`"), (noisy, "PRNGKey")):
        black = as_trusted(function, states=2, controls=1)
        check_trusted(black, INPUTS, SCHEMA)
        assert construct in black.black_box
    with pytest.raises(ValueError, match=r"Let it choose by jnp.where or lax.cond"):
        as_trusted(jax.jit(lambda x, u: x if x[0] > 0 else -x), states=2, controls=1)
    with pytest.raises(ValueError, match="states=2, controls=1"):
        as_trusted(jax.jit(pendulum))
    for wrong, words in ((halved, "`div` of int64"), (narrowed, "float32"), (wrapped, "`mul` of int8")):
        assert words in as_trusted(jax.jit(wrong), states=2, controls=1).black_box
    print(f"{done} models")


if __name__ == "__main__":
    main()

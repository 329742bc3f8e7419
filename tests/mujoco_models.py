"""A pendulum in MuJoCo, and its derivatives by differences."""

from __future__ import annotations

import numpy as np

PENDULUM = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <body>
      <joint name="hinge" type="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" size="0.05" fromto="0 0 0 0 0 -1"/>
    </body>
  </worldbody>
  <actuator><motor joint="hinge"/></actuator>
</mujoco>
"""


def differences(function, inputs, step=1e-5):
    """(N, P, D) by central differences."""
    found = []
    for column in np.eye(inputs.shape[1]):
        above, below = inputs + step * column, inputs - step * column
        found.append(
            (function(above[:, :2], above[:, 2:]) - function(below[:, :2], below[:, 2:])) / (2 * step)
        )
    return np.stack(found, axis=-1)

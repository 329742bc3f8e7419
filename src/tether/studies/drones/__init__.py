"""Six Crazyflie quadrotors circling in PyBullet, and rigid-body dynamics as the trusted model."""

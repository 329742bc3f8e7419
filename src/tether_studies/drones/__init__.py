"""Six Crazyflie quadrotors circling in PyBullet, and rigid-body dynamics as the trusted model.

``fly`` -> transitions (D), ``hover_probes`` -> probes (Ω), ``TRUSTED`` (M), ``DOMAIN`` (where it is claimed),
``roll_out`` (predictions fed back). Measurements and figures are in ``views``, which imports matplotlib.
"""

from tether_studies.drones.data import (
    CAMPAIGNS,
    DOMAIN,
    SCHEMA,
    Campaign,
    as_flights,
    fly,
    hover_probes,
    roll_out,
)
from tether_studies.drones.trusted import TRUSTED

__all__ = [
    "CAMPAIGNS",
    "DOMAIN",
    "SCHEMA",
    "TRUSTED",
    "Campaign",
    "as_flights",
    "fly",
    "hover_probes",
    "roll_out",
]

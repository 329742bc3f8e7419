"""The model in float32 from the first subtraction to the last sum, with a delta for what it then returns.

M is not needed: everything follows from what the bounds claim over whole regions. A float32 model may be run
by anything that keeps to IEEE 754: any order of summation and fused products are allowed; matrix products,
which hardware may shorten, are not used. An input is exactly the float32 number given, angles included,
which are not wrapped; beyond [-π, π) they are outside the domain.

Words of the error analysis, which each tether has beside its code (:mod:`.boxes`, :mod:`.interval`): ``u =
2^-24`` is the unit roundoff, ``γ_n = n u / (1 - n u)``, a hat marks a float32 number, D is the number of
inputs. What both have in common:

- *Limits.* ``fl(â ± ĥ)`` errs by u (|â| + ĥ); the clamp between them is exact, whatever the operator; and
  ``fl(state + target)`` errs by u |output|. The half-width ĥ is the number as computed, so that rounding it,
  or picking the other of two nearly tied memories for it, costs nothing.
- *Delta* is a sum of positive numbers that are few roundings deep. A last factor of ``1 + (D + 24) 2^-23``
  makes up for these.
- *Flushing* of subnormal results to zero costs ``2^-126`` per operation, collected in a slack. Hardware that
  takes subnormal inputs for zeros as well is asked about zeros: delta is then of M there. No limit or
  threshold is subnormal, so that comparisons are the same on it.
"""

from tether.model.single.model import (
    SinglePrecisionModel,
    SinglePrediction,
    single_delta,
    single_precision,
)

__all__ = ["SinglePrecisionModel", "SinglePrediction", "single_delta", "single_precision"]

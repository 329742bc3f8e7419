"""M's code is read: each operation in it is asked of a tracer, so that no other code meets a symbol.

A tracer implements :class:`Symbols`; then ``Reader(symbols)`` runs M on symbols::

    with Reader(symbols) as reader:
        returned = reader.call(function, states, controls)

The reader rewrites the source of M, and of each function of the user's that it calls, so that operators,
calls, attributes, indices, loops and conditions become calls of the reader. It does itself what is done to
plain values alone, by Python and NumPy, where the function called is one that is known to compute; what has
to do with symbols is the tracer's (:class:`Symbols`); anything else is refused, and the user's line is on the
stack while it is. No list of what is forbidden is needed: what is not known is not done.

While M runs, Python tells of each function that starts; one of the user's that was not read is refused
(compiled code would have called it). Only what was made while M runs can be changed by it.
"""

from tether.trusted.reading.reader import Reader
from tether.trusted.reading.symbols import Symbols

__all__ = ["Reader", "Symbols"]

"""Commands that the studies add to ``tether``."""

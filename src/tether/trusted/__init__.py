"""The trusted model M: what it is, how it is loaded, and what its code may do."""

from tether.trusted.model import Function, TrustedModel, as_trusted, check_trusted

__all__ = ["Function", "TrustedModel", "as_trusted", "check_trusted"]

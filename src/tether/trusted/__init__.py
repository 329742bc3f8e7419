"""The trusted model M: what it is, how it is loaded, and what its code may do."""

from tether.trusted.accepting import as_trusted
from tether.trusted.model import Function, Translation, TrustedModel, check_trusted

__all__ = ["Function", "Translation", "TrustedModel", "as_trusted", "check_trusted"]

"""Verification: a model's claim established again, by code that shares nothing with what built its bounds."""

from tether.verification.verdict import Verification
from tether.verification.verifying import verify

__all__ = ["Verification", "verify"]

"""Verification: a model's claim established again, by code that shares nothing with what built its bounds."""

from tether.verification.verifying import Verification, verify

__all__ = ["Verification", "verify"]

"""Tubes of files, shown again step by step."""

from tether.verification.tubes.verifying import TubeVerification, verify_tube

__all__ = ["TubeVerification", "verify_tube"]

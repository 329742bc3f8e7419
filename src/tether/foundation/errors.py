"""The errors that mean something more than a bad value."""

from __future__ import annotations


class TrustedModelError(ValueError):
    """The trusted model broke its contract: it raised, or returned what it must not."""


class CertificateError(RuntimeError):
    """A guarantee could not be established. Never downgraded to a warning."""


class StorageError(ValueError):
    """A file is not what it should be: corrupt, foreign, or of a newer format."""


class DivergedError(ValueError):
    """A training's loss is no number any more."""


class ClusterError(RuntimeError):
    """Workers, or who gives them their work, were lost."""

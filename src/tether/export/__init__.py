"""Exports that keep the guarantee: a model as files that run without Tether, its claim inside."""

from tether.export.exporting import FORMATS, Request, export
from tether.export.verifying import verify

__all__ = ["FORMATS", "Request", "export", "verify"]

"""Models and runs on disk."""

"""The studies of the paper, and the demonstration: a user of the library, installed beside it.

Commands are registered in ``pyproject.toml``, group ``tether.commands``; ``tether`` does not know of them.
"""

"""Case studies: they import the library and are never imported by it."""

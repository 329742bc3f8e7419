"""Other people's formats: files of data in, trusted models in."""

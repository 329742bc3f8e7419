"""What every room stands on: errors, limits of sizes, files read and written with care, progress, text."""

"""Training: losses, the gradient that leads back between limits, checkpoints."""

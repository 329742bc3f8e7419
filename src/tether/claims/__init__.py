"""What is claimed of a model and how it is tried: certificates, attacks, rollouts."""

"""Where things are: partitions of the inputs, and how a row finds its part."""

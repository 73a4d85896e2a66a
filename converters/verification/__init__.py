"""What every converter's `verify` is made of: inputs that a model takes, and the comparison of outputs."""

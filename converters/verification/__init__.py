"""The parts that every converter's `verify` shares: generated inputs and the comparison of outputs."""

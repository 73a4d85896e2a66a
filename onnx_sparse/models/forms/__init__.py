"""The forms of a model: canonical (`canonical`), and without kernels of ours (`function_bodies`)."""

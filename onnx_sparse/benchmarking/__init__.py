"""Latency and throughput of a model, by batch size and number of threads, next to the model that it came from."""

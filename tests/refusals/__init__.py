"""A census of refusals: what the project says no to, how often, and whether that no is right."""

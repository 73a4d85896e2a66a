"""`check` and `inspect`: what is in a model, what is wrong with it, and what can run it.

`check` and `inspect` are the functions, over `findings` and `contents`. `embedding_tables` finds tables and replaces
their values. `forms`, `runnable_backends` and `ort_limits` say what runs a model, and `operators` what the declarations
of its operators say.
"""

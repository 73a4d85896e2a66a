"""What commands are given: a model (`model_settings`, `model_graph`) and its inputs, as arrays or messages.

`feeds` reads the arrays, `messages` the messages, and `named_values` arguments of the form NAME=VALUE.
"""

"""`convert` and `save`: from a source to a file.

`convert` and `save` are the functions, `settings` what `convert` is asked for, and `source` does it. `smaller_tables`
and `written_inputs` are options of it.
"""

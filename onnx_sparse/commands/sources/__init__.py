"""What is done with a source before a file is written: loaded, converted and verified (`steps`).

`explanation` and `verification` are what is reported about it.
"""

"""An atlas of ONNX Runtime's answers on values: each operator that is written here, on the ends of each type.

    python -m atlas                          every operator     (in the folder tests)
    python -m atlas --operator Slice --show
    PYTHONPATH=FOLDER python -m atlas        in the version of ONNX Runtime that pip has installed into a folder

A node runs in ONNX Runtime as it is, and as the passes write it in which every road ends; both in child processes,
whose death is a finding. Its judge is named in `judges`. What differs after the passes must be in `expected`, and what
is there must differ: the program ends with 1 otherwise. What differs only before them is what guards cure.
"""

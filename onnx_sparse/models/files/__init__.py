"""Models as files, and the files with their tables: read and written whole.

`load_and_save` reads and writes a file, and `model_files` takes a model in any form. `large_models` holds models
without their tables, whose data `external_data` writes, and `data_parts` guards with checksums.
"""

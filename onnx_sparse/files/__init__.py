"""How files are read: the guarded opener of all readers, and the checksum of TensorFlow's files."""

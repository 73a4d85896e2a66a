"""TensorFlow's files, read without TensorFlow: SavedModels, frozen graphs, and checkpoints of TensorFlow 1."""

"""Files of rows to files of scores: what reads, scores and writes them, here or on Ray or Spark."""

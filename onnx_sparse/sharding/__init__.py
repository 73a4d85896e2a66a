"""Models whose tables are split over machines: what is split, how it is written, how the parts answer together."""

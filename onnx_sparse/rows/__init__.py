"""Rows as people hold them: the features that a model records, Arrow columns, and examples."""

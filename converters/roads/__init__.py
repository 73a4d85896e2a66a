"""What a road is, the table of all roads, and `convert` and `verify` for whatever source there is."""

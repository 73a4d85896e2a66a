"""ATB graphs: readers, records of tensors from dumps, and one handler per operation."""

"""ATB graphs: readers, what dumps say of tensors, and one handler per operation."""

"""GE graphs: one reader for their protobuf, and one handler per operator."""

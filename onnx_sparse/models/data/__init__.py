"""Data of tensors that are not in memory.

`references` say where they lie, and `arrays_on_disk` are arrays that are too large for memory.
`wire_format` passes over the parts of a message that nobody needs, and `message_classes` makes classes of messages.
"""

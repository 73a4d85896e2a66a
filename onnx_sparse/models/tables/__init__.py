"""Tables of a model: in fewer bits (`quantization`), and changed while they are served (`live_tables`).

`key_flows` follows the positions of keys to the lookups that read them; `constant_keys` checks indexes.
"""

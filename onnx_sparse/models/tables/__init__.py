"""Tables of a model: in fewer bits (`quantization`), and changed while they are served (`live_tables`)."""

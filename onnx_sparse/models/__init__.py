"""From model to model: canonical form, function bodies, inlining, quantized tables, and files of models."""

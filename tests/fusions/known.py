"""Faults of ONNX Runtime's optimizer that no guard covers yet: what they look like, and the smallest graph of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """A fault.

    Attributes:
        why: What it is.
        outcome: A pattern of the outcomes of graphs that have it.
        graph: A pattern of these graphs.
        smallest: One of them, in onnx's text form.
        shape: The shape of its input, all elements of which are 1.
    """

    why: str
    outcome: str
    graph: str
    smallest: str
    shape: tuple[int, ...] = ()

    def is_like(self, said: Mapping[str, str]) -> bool:
        """Whether an outcome is this fault."""
        return bool(re.search(self.outcome, said["outcome"]) and re.search(self.graph, said["what"], re.DOTALL))


KNOWN = (
    Known(
        "RMS normalization loses the node that another one reads; the model does not load",
        "Invalid model. Node input",
        "Pow.*ReduceMean.*Sqrt.*Div",
        """g (float[5] x) => (float[a, b] y)
        <float two = {2}, int64[1] axis = {-1}, float small = {0.25}, float[1,5] w = {1,1,0,2,2},
        float[5] b = {1,1,1,1,1}>
        {c = Clip (x, "", two) p = Pow (c, two) m = ReduceMean (p, axis) s = Add (m, small) r = Sqrt (s) d = Div (c, r)
        n = Mul (d, w) y = Add (n, b)}""",
        (5,),
    ),
    Known(
        "FastGelu takes no scalar; the run fails",
        "FastGelu node.*expected to have 1 or more dim",
        "Tanh",
        """g (float x) => (float[a] y)
        <float[1] k = {0.044715}, float three = {3}, float c = {0.7978845}, float[1] one = {1}, float half = {0.5}>
        {p = Pow (x, three) q = Mul (k, p) s = Add (x, q) u = Mul (c, s) t = Tanh (u) w = Add (t, one) h = Mul (x, half)
        g = Mul (h, w) y = Transpose <perm = [0]> (g)}""",
    ),
)

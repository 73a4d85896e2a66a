"""Random regular expressions of RE2, and random texts, of which some are not UTF-8."""

from __future__ import annotations

import random

ATOMS = (
    *(
        "a",
        "b",
        "c",
        ".",
        "[ab]",
        "[^a]",
        r"\w",
        r"\d",
        r"\s",
        r"\W",
        "日",
        "[^日]",
        r"\pL",
        r"\p{Mn}",
        r"\PL",
        "[a-c日]",
    ),
    *(
        "\n",
        "^",
        "$",
        r"\b",
        r"\B",
        r"\A",
        r"\z",
        "é",
        "K",
        "\u017f",
        r"\x{212a}",
        "[[:upper:]]",
        "[[:^alpha:]]",
        r"\Qa.b\E",
    ),
    *(r"\x41", r"\101", r"[\d-z]", "[]a]", "[^]a]", r"[a\-b-]", r"\p{Greek}", r"\p{^Lu}", r"[^\pL]", r"[\PLb]", r"\t"),
    *("{", "}", "a{", "-", r"\-", r"\/", " ", "()", r"[\s\S]", r"\p{Any}", "(?i)k", r"[^\W]", "[[:word:]é]", "[k-s]"),
)
REPEATS = (
    "*",
    "+",
    "?",
    "*?",
    "+?",
    "??",
    "{2}",
    "{1,2}",
    "{0,1}",
    "{2,}",
    "{0,2}?",
    "{0}",
    "{3,2}",
    "**",
    "+*",
    "{,2}",
)
GROUPS = ("(", "(?:", "(?i:", "(?s:", "(?m:", "(?U:", "(?-s:", "(?P<name>", "(?<name>")
PIECES = (
    *(b"a", b"b", b"c", b"K", b"k", b"s", b"A", b"B", b"\n", b" ", b"1", b"a.b", b"-", b"]", b"\0", b"a{", b"_"),
    *("日é É \u017f \u212a \u0301 \u03c3 😀".encode().split()),
    *(b"\xff", b"\xe6\x97", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\x80"),
)


def expression(draw: random.Random, depth: int) -> str:
    """A random pattern, which RE2 may refuse."""
    kind = draw.random()
    if depth <= 0 or kind < 0.35:
        return draw.choice(ATOMS)
    if kind < 0.6:
        return "".join(expression(draw, depth - 1) for _ in range(draw.randint(1, 3)))
    if kind < 0.75:
        return "|".join(expression(draw, depth - 1) if draw.random() < 0.9 else "" for _ in range(draw.randint(2, 3)))
    if kind < 0.9:
        repeat = draw.choice(REPEATS) if draw.random() < 0.6 else ""
        return f"{draw.choice(GROUPS)}{expression(draw, depth - 1)}){repeat}"
    return expression(draw, depth - 1) + draw.choice(REPEATS)


def texts(draw: random.Random, count: int) -> list[bytes]:
    """So many random texts."""
    return [b"".join(draw.choice(PIECES) for _ in range(draw.randint(0, 9))) for _ in range(count)]

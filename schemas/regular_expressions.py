"""Operators that find regular expressions, which are given as the instructions of a small machine."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from onnx_sparse.schemas.declaration import Attribute, Example, Family, Input, Op, Output, Values


class Instruction(IntEnum):
    """What an instruction does."""

    MATCH = 0
    CHARACTERS = 1
    FORK = 2
    SAVE = 3
    ASSERT = 4


class Condition(IntEnum):
    """The condition of an `ASSERT`."""

    TEXT_BEGIN = 0
    TEXT_END = 1
    LINE_BEGIN = 2
    LINE_END = 3
    BOUNDARY = 4
    NO_BOUNDARY = 5


#: The most instructions of a program.
MOST_INSTRUCTIONS = 1 << 16
#: The most groups that are kept, with the match itself.
MOST_GROUPS = 10

_BYTES = "\n- Strings are bytes: UTF-8 or not, and with any number of zero bytes."
_BODY_NOTES = "Standard ONNX has no operators for this."

_PROGRAM = """

A program is a list of instructions `[code, x, y]`:

| code | name | does |
|---|---|---|
| 0 | `MATCH` | ends the match. |
| 1 | `CHARACTERS` | passes one character of class x, and continues at the next instruction. |
| 2 | `FORK` | continues at instruction x or, if that leads to no match, at instruction y. |
| 3 | `SAVE` | keeps the position as number x, and continues at the next instruction. Group g begins at number 2 g and \
ends at number 2 g + 1; 2 <= x < 20. |
| 4 | `ASSERT` | continues at the next instruction if condition x holds. |

The conditions are 0: the beginning of the text, 1: its end, 2: the beginning of a line, which is that of the text or a
place after a line feed, 3: the end of a line, which is that of the text or a place before a line feed, 4: a word (ASCII
letters, digits and `_`) begins or ends, 5: none does.

- The match is the first one from left to right. From one place, it is the first that a search would find which begins
  with instruction 0, tries x of a `FORK` before y, and gives up a way on which it comes to an instruction a second
  time in one place.
- Matches may begin at every byte. Class k has the ranges `class_splits[k]` to `class_splits[k+1] - 1`. A range has the
  characters from its first to its last, both included; ranges may overlap, and have numbers that no character has.
  Characters are encoded in UTF-8. Ranges may also have surrogates, encoded in three bytes like others.
- Bytes that are not UTF-8 are not matched, and overlong encodings neither, with one exception: a class with a
  range from 128 or less to 1114111 or more matches every byte from C2 to F4 with the one to three continuation bytes
  that it calls for.
- A program has 1 to 65536 instructions. Codes, conditions, numbers of instructions, positions and classes that do not
  exist are an error. So is a last instruction that continues at the next.
"""


def _program(prefix: str, letters: Sequence[str], what: str) -> tuple[Input, ...]:
    rows, columns, ranges, bounds, splits = letters
    return (
        Input(
            f"{prefix}program",
            "int64",
            f"{rows}, {columns}",
            f"The instructions of {what}; {columns} = 3.",
            Values("program", of=f"{prefix}class_splits"),
        ),
        Input(
            f"{prefix}ranges",
            "int64",
            f"{ranges}, {bounds}",
            f"The first and the last character of each range; {bounds} = 2.",
        ),
        Input(
            f"{prefix}class_splits",
            "int64",
            splits,
            "Where the ranges of each class begin and end.",
            Values("row_splits", of=ranges),
        ),
    )


REGEX_REPLACE = Op(
    name="RegexReplace",
    summary="Replaces the matches of a regular expression.",
    semantics="""
Matches in the strings are replaced from left to right; the rest is kept. The replacement is `rewrite[0]`, then the text
of group `groups[0]`, `rewrite[1]`, the text of group `groups[1]`, and so on, ending with the last of `rewrite`. Group 0
is the match. A group that is not part of the match is the empty text.

- `matches` = `ALL` replaces all matches, `FIRST` the first of each string.
- The search for the next match begins where the last match ends. If it finds an empty match there, the character that
  begins there is kept (or the byte, if none does), and the search goes on after it.
- `rewrite` has one element more than `groups`. Groups are in [0, 10).
""".strip()
    + _BYTES
    + _PROGRAM.rstrip(),
    source="RE2::GlobalReplace and RE2::Replace (tf.raw_ops.RegexReplace, StaticRegexReplace)",
    inputs=(
        Input("input", "string", "*S", "The strings."),
        *_program("", "PFCDL", "the expression"),
        Input("rewrite", "string", "W", "The texts around and between groups."),
        Input("groups", "int64", "G", "The groups in the replacement.", Values("group")),
    ),
    outputs=(Output("output", "string", "*S", "The strings with the matches replaced."),),
    types={},
    attributes=(Attribute("matches", ("ALL", "FIRST"), "Which matches are replaced.", "ALL"),),
    body_notes=_BODY_NOTES,
    examples=(
        Example(
            "matches in brackets",
            {},
            {
                "input": ["aabac", "", "c"],
                "program": [[2, 1, 4], [1, 0, 0], [2, 1, 3], [0, 0, 0], [1, 1, 0], [0, 0, 0]],
                "ranges": [[97, 97], [98, 98]],
                "class_splits": [0, 1, 2],
                "rewrite": ["[", "]"],
                "groups": [0],
            },
            {"output": ["[aa][b][a]c", "", "c"]},
            {"matches": "ALL"},
        ),
        Example(
            "the first match of `(.)=(.)` turned around",
            {},
            {
                "input": [["a=日, b=c"]],
                "program": [
                    *([3, 2, 0], [1, 0, 0], [3, 3, 0], [1, 1, 0], [3, 4, 0], [1, 0, 0], [3, 5, 0]),
                    [0, 0, 0],
                ],
                "ranges": [[0, 1114111], [61, 61]],
                "class_splits": [0, 1, 2],
                "rewrite": ["", ":", ""],
                "groups": [2, 1],
            },
            {"output": [["日:a, b=c"]]},
            {"matches": "FIRST"},
        ),
    ),
)

REGEX_SPLIT = Op(
    name="RegexSplit",
    summary="Splits strings at the matches of a regular expression, and may keep some of these.",
    semantics="""
The tokens of `input[i]` are number `row_splits[i]` to `row_splits[i+1] - 1` of `tokens`: the texts before, between and
after the delimiters, without empty ones, and delimiters that the expression `kept_program` matches as a whole.
`starts` and `ends` are the positions of the bytes where tokens begin and end in their string.

- Delimiters are the matches of the expression `program`. Each search begins where the last match ends, and takes the
  text from there on as the whole text.
- An empty match of a delimiter is an error.
""".strip()
    + _BYTES
    + _PROGRAM.rstrip(),
    source="tensorflow_text's RegexSplitWithOffsets, which never ends if a match is empty",
    inputs=(
        Input("input", "string", "N", "The strings."),
        *_program("", "PFCDL", "the expression of delimiters"),
        *_program("kept_", "KHBJA", "the expression of delimiters that are kept"),
    ),
    outputs=(
        Output("tokens", "string", "M", "The tokens of all strings."),
        Output("row_splits", "int64", "N + 1", "Where the tokens of each string begin."),
        Output("starts", "int64", "M", "Where each token begins in its string."),
        Output("ends", "int64", "M", "Where each token ends in its string."),
    ),
    types={},
    body_notes=_BODY_NOTES,
    examples=(
        Example(
            "words and commas",
            {},
            {
                "input": ["to be, or", "", " "],
                "program": [[2, 1, 4], [1, 0, 0], [2, 1, 3], [0, 0, 0], [1, 1, 0], [0, 0, 0]],
                "ranges": [[32, 32], [44, 44]],
                "class_splits": [0, 1, 2],
                "kept_program": [[1, 0, 0], [0, 0, 0]],
                "kept_ranges": [[44, 44]],
                "kept_class_splits": [0, 1],
            },
            {
                "tokens": ["to", "be", ",", "or"],
                "row_splits": [0, 4, 4, 4],
                "starts": [0, 3, 5, 7],
                "ends": [2, 5, 6, 9],
            },
        ),
    ),
)

FAMILY = Family(
    "regular_expressions",
    (REGEX_REPLACE, REGEX_SPLIT),
    origin="`tf.strings.regex_replace`, tensorflow_text's RegexSplitter and BertTokenizer",
)

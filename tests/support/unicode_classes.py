"""The characters of Unicode's properties and letters of either case, from the RE2 of an installed TensorFlow.

`python -m tests.support.unicode_classes` writes the table anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

TABLE = Path(__file__).parents[2] / "converters" / "tensorflow" / "unicode_classes.txt"

#: General categories that are not made of others.
CATEGORIES = "Cc Cf Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs"
#: Those with characters that have another case: letters, numbers and symbols of letters, one mark.
_CASED = ("Ll", "Lu", "Lt", "Nl", "So", "Mn")
#: Names of Unicode's scripts; those that RE2 does not know are left out.
SCRIPTS = """
Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki Bopomofo
Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Chorasmian Common
Coptic Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs
Elbasan Elymaic Ethiopic Garay Georgian Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi Gurmukhi Gurung_Khema
Han Hangul Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi
Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kawi Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki
Khudawadi Kirat_Rai Lao Latin Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic
Manichaean Marchen Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi
Mongolian Mro Multani Myanmar Nabataean Nag_Mundari Nandinagari New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong Ogham
Ol_Chiki Ol_Onal Old_Hungarian Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_Sogdian Old_South_Arabian
Old_Turkic Old_Uyghur Oriya Osage Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang
Runic Samaritan Saurashtra Sharada Shavian Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo Sundanese Sunuwar
Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan
Tifinagh Tirhuta Todhri Toto Tulu_Tigalari Ugaritic Vai Vithkuqi Wancho Warang_Citi Yezidi Yi Zanabazar_Square
"""

_CHARACTERS = [chr(number).encode("utf-8", "surrogatepass") for number in range(0x110000)]


def lines() -> list[str]:
    """The lines of the table: properties with their ranges, then the characters that differ in case only."""
    written = lines_of([*CATEGORIES.split(), *SCRIPTS.split()])
    cased = [_matched(rf"\p{{{name}}}") for name in _CASED]
    numbers = np.sort(np.concatenate([found for found in cased if found is not None]))
    return [*written, *(" ".join(f"{number:x}" for number in orbit) for orbit in _orbits(numbers))]


def lines_of(names: Iterable[str]) -> list[str]:
    """The lines of some properties."""
    named = {name: _matched(rf"\p{{{name}}}") for name in names}
    return [f"{name} {_ranges(found)}" for name, found in named.items() if found is not None]


def _matched(pattern: str) -> np.ndarray | None:
    """The characters that a pattern matches; None if RE2 refuses it."""
    import tensorflow as tf

    try:
        return np.flatnonzero(tf.strings.regex_full_match(_CHARACTERS, pattern).numpy())
    except (tf.errors.InvalidArgumentError, ValueError):  # which TensorFlow raises for the text of its error
        return None


def _ranges(numbers: np.ndarray) -> str:
    parts = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    return " ".join(f"{part[0]:x}-{part[-1]:x}" if len(part) > 1 else f"{part[0]:x}" for part in parts)


def _orbits(cased: np.ndarray) -> Iterable[list[int]]:
    """The characters that match each other where case is ignored; of one character, there is no line."""
    import tensorflow as tf

    texts = np.array([_CHARACTERS[number] for number in cased], object)
    seen: set[int] = set()
    for number in cased.tolist():
        if number in seen:
            continue
        orbit = cased[tf.strings.regex_full_match(texts, rf"(?i)\x{{{number:x}}}").numpy()].tolist()
        seen.update(orbit)
        if len(orbit) > 1:
            yield orbit


if __name__ == "__main__":
    TABLE.write_text("".join(f"{line}\n" for line in lines()), "utf-8")

"""Text: how wide it will be, which nobody knows before it is drawn: widths of Helvetica's letters, and of its kin."""

from __future__ import annotations

__all__ = ["FONT", "shortened", "width"]

#: the first of these that a reader has
FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"

#: widths in thousandths of the height of the font; other letters count as wide as a digit
_WIDTHS = {
    222: "ijl'",
    278: " ftI./,:;![]|\\",
    333: "r()-`",
    355: '"',
    389: "*",
    500: "cksvxyzJ",
    584: "+=<>~",
    611: "FTZ",
    667: "ABEKPSVXY&",
    722: "CDHNRUw",
    778: "GOQ",
    833: "mM",
    889: "%",
    944: "W",
    1015: "@",
}
_WIDTH_OF = {letter: width for width, letters in _WIDTHS.items() for letter in letters}
_DIGIT = 556


def width(text: str, size: float) -> float:
    """Return about how wide a line of text is.

    >>> width("iii", 10.0) < width("WWW", 10.0)
    True
    """
    # letters of other scripts may be as wide as they are high
    letters = [_WIDTH_OF.get(letter, _DIGIT if letter < "\u2000" else 1000) for letter in text]
    return sum(letters) * size / 1000


def shortened(text: str, longest: int) -> str:
    """Return a text of at most so many letters; the middle of a longer one is left out.

    >>> shortened("convolution", 7)
    'con…ion'
    """
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[: longest - 1 - half]}…{text[len(text) - half :]}"

"""Text: estimate the width of text, which depends on the fonts of the reader."""

from __future__ import annotations

__all__ = ["FONT", "room", "shorten", "width"]

#: fonts in order of preference
FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"

#: widths of Helvetica's characters in thousandths of the font size; others count as wide as a digit
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

#: the same for DejaVu Sans
_ROOM = {
    280: "ijl'",
    320: " I./,:;|\\",
    360: "ft-",
    400: "r()[]!",
    460: '"',
    500: "_*`",
    530: "sz",
    555: "cJ",
    590: "kvxy",
    620: "FTZaeo",
    700: "ABEKPRSVXY",
    780: "CDHNUGOQ&",
    820: "w",
    840: "+=<>~",
    870: "M",
    980: "mW%",
    1000: "@",
}
_WIDER = {letter: width for width, letters in _ROOM.items() for letter in letters}


def width(text: str, size: float) -> float:
    """Return the width of a line of text in Helvetica and similar fonts.

    >>> width("iii", 10.0) < width("WWW", 10.0)
    True
    """
    # characters of other scripts may be as wide as high
    letters = [_WIDTH_OF.get(letter, _DIGIT if letter < "\u2000" else 1000) for letter in text]
    return sum(letters) * size / 1000


def room(text: str, size: float) -> float:
    """Return the maximum width of a line of text: in DejaVu Sans, the widest of the usual fallback fonts.

    >>> room("batchnorm", 10.0) > width("batchnorm", 10.0)
    True
    """
    letters = [_WIDER.get(letter, 640 if letter < "\u2000" else 1000) for letter in text]
    return sum(letters) * size / 1000


def shorten(text: str, longest: int) -> str:
    """Return a text of at most ``longest`` characters; a longer one loses its middle.

    >>> shorten("convolution", 7)
    'con…ion'
    """
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[: longest - 1 - half]}…{text[len(text) - half :]}"

"""Fonts for names outside Latin script: installed fonts, or escapes."""

from collections.abc import Iterable

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.text import Text

REGULAR = (400, "normal", "regular")
PLACEHOLDERS = "Last Resort"  # A font of boxes that comes with matplotlib.


def fit_fonts(figure: Figure, truetype: bool) -> str:
    """Give all text fonts with the required characters; for a PDF, TrueType fonts.

    Characters missing in all fonts are escaped, and returned.
    """
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text)]
    usual = findfont(FontProperties())
    missing = set("".join(text.get_text() for text in texts)) - _glyphs(usual) - {"\n"}
    families = [get_font(usual).family_name]
    for name, path in _installed() if missing else ():
        found = missing & _glyphs(path)
        if found and (_is_truetype(path) or not truetype):
            families.append(name)
            missing -= found
    escapes = str.maketrans({c: c.encode("unicode_escape").decode() for c in missing})
    for text in texts:
        text.set_fontfamily(families)
        text.set_text(text.get_text().translate(escapes))
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        # A tick takes its text from the axis.
        labels = [label.get_text() for label in axis.get_ticklabels()]
        if missing & set("".join(labels)):
            axis.set_ticklabels([label.translate(escapes) for label in labels])
    return "".join(sorted(missing))


def _installed() -> Iterable[tuple[str, str]]:
    """Names and files of upright fonts of normal weight."""
    upright = (f for f in fontManager.ttflist if f.style == "normal")
    regular = {(f.name, f.fname) for f in upright if f.weight in REGULAR}
    return sorted(font for font in regular if not font[0].startswith(PLACEHOLDERS))


def _is_truetype(path: str) -> bool:
    from fontTools.ttLib import TTFont  # Only a PDF with such names needs it.

    with TTFont(path, fontNumber=0, lazy=True) as font:
        return "glyf" in font


def _glyphs(path: str) -> set[str]:
    return set(map(chr, get_font(path).get_charmap()))

"""A strict reader of the page, with Python's parser: elements, texts, balance of tags."""

from html.parser import HTMLParser

EMPTY = {"meta", "img"}


class Reader(HTMLParser):
    """Elements as pairs of name and attributes, cells of tables, contents of scripts."""

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict]] = []
        self.texts: dict[str, list[str]] = {}
        self.sections: dict[str, str] = {}
        self._section = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag == "section":
            self._section = dict(attrs)["id"]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data):
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)
        if self._section:
            before = self.sections.get(self._section, "")
            self.sections[self._section] = before + " " + data

    def named(self, tag: str) -> list[dict]:
        """Attributes of the elements of a name."""
        return [attributes for name, attributes in self.elements if name == tag]

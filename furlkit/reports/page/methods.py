"""Text about the methods of a run, with citations and BibTeX from the catalogue."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple

from furlkit import catalogue
from furlkit.catalogue import Paper
from furlkit.reports.page.collect import Run
from furlkit.reports.text import counted, word


class Text(NamedTuple):
    """Sentences with [n] for the n-th paper, and the papers."""

    sentences: tuple[str, ...]
    papers: tuple[Paper, ...]


def methods_text(run: Run) -> Text:
    """Describe partition, training, aggregation and evaluation of a run."""
    papers: list[Paper] = []

    def cited(name: str, entries: Any) -> str:
        entry = catalogue.entry_of(entries, name)
        if entry is None or entry.paper is None:
            return name
        if entry.paper not in papers:
            papers.append(entry.paper)
        equation = f", {entry.equation}" if entry.equation else ""
        return f"{name} [{papers.index(entry.paper) + 1}{equation}]"

    sentences = tuple(_sentences(run, cited))
    return Text(sentences, tuple(papers))


def _sentences(run: Run, cited: Any) -> Iterator[str]:
    stages = run.methods.get("stages", {})
    clients = counted(len(run.clients), "client")
    if run.split is not None:
        images = f"{sum(run.split.sizes):,} images"
        scheme = cited(run.split.scheme, catalogue.SCHEMES)
        public = f"; {run.split.public:,} images are public" if run.split.public else ""
        yield f"{images} are divided among {clients} by the scheme {scheme}{public}."
    network = _network(run.methods.get("architecture", {}))
    for place, options in stages.items():
        if place.startswith("local-train "):
            yield _training(options, clients, network, run.rounds, cited)
    rules = [o for s, o in stages.items() if s == "aggregate" and "rule" in o]
    for options in rules:
        rule = cited(word(options["rule"]), catalogue.RULES)
        yield f"The server combines the uploads by the rule {rule}."
    for place, options in stages.items():
        if place == "distill":
            teacher = cited(word(options.get("teacher")), catalogue.TEACHERS)
            yield f"The server distils on public images with the teacher {teacher}."
    known = {**catalogue.PROTOCOLS, **catalogue.AUDITS}
    scored = [p for p in run.methods.get("protocols", ()) if p in known]
    if scored:
        names = ", ".join(cited(name, known) for name in scored)
        yield f"Models are evaluated by {names}."


def _network(architecture: dict[str, Any]) -> str:
    encoder = word(architecture.get("encoder", "unknown"))
    width = architecture.get("width")
    return f"{encoder} of width {word(width)}" if width not in (None, 1) else encoder


def _training(
    options: dict[str, Any], clients: str, network: str, rounds: int, cited: Any
) -> str:
    objective = cited(word(options.get("objective")), catalogue.OBJECTIVES)
    text = f"{clients[:1].upper()}{clients[1:]} train the encoder {network} with the "
    text += f"objective {objective} in {counted(rounds, 'round')} of "
    text += counted(options.get("epochs"), "local epoch")
    names = ("batch-size", "optimiser", "lr", "weight-decay", "temperature")
    known = (f"{n} {word(options[n])}" for n in names if options.get(n) is not None)
    text += f" ({', '.join(known)})"
    update = word(options.get("update", "replace"))
    if update != "replace":
        text += f"; rounds start with the update {cited(update, catalogue.UPDATES)}"
    for term in catalogue.TERMS.values():
        if options.get(term.switch):
            text += f"; the loss has the term {cited(term.name, catalogue.TERMS)}"
    personal = word(options.get("personal", "none"))
    if catalogue.entry_of(catalogue.PERSONAL, personal) and personal != "none":
        text += f"; clients keep a model by {cited(personal, catalogue.PERSONAL)}"
    return f"{text}."


def citation(paper: Paper) -> str:
    """Return a paper in a line: authors, title, year."""
    authors = paper.authors.split(" and ")
    names = [" ".join(reversed(author.split(", "))) for author in authors]
    short = f"{names[0]} et al." if len(names) > 2 else " and ".join(names)
    return " ".join(
        filter(None, (short, f"({paper.year}).", f"{paper.title}."))
    ).strip()


def bibtex(paper: Paper) -> str:
    """Return the BibTeX entry of a paper."""
    letters = unicodedata.normalize("NFKD", paper.name)
    key = re.sub("[^a-z0-9]", "", letters.lower()) + str(paper.year)
    title = paper.title.replace("&", r"\&")
    fields = {
        "title": f"{{{title}}}",
        "author": paper.authors or "Anonymous",
        "year": str(paper.year),
    }
    _, arxiv, number = paper.url.partition("://arxiv.org/abs/")
    if arxiv:
        fields |= {"eprint": number, "archivePrefix": "arXiv"}
    fields["url"] = paper.url
    lines = (f"  {name} = {{{value}}}," for name, value in fields.items())
    return "\n".join([f"@misc{{{key},", *lines, "}"])

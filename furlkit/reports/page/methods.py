"""Text about the methods of a run, with citations and BibTeX from the catalogue."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from furlkit import catalogue
from furlkit.catalogue import Method, Paper, papers
from furlkit.reports.page.collect import Run, Stage
from furlkit.reports.text import counted, word


class Text(NamedTuple):
    """Sentences with [n] for the n-th paper, and the papers."""

    sentences: tuple[str, ...]
    papers: tuple[Paper, ...]


# A part of an equation that belongs to an option: with `--noise` McMahan et al. 2018.
OPTIONAL = re.compile(r"with `--([\w-]+)` (.*)")
FAMILIES: dict[str, Callable[[], Mapping[str, Any]]] = {
    "scheme": lambda: catalogue.SCHEMES,
    "objective": catalogue.objectives,
    "update": catalogue.updates,
    "personal": lambda: catalogue.PERSONAL,
    "term": catalogue.terms,
    "exchange": catalogue.exchanges,
    "rule": catalogue.rules,
    "teacher": lambda: catalogue.TEACHERS,
    "kind": lambda: catalogue.ATTACKS,
}


def methods_text(run: Run) -> Text:
    """Describe partition, training, aggregation and evaluation of a run."""
    cited = Citations()
    sentences = tuple(_sentences(run, cited))
    return Text(sentences, tuple(cited.papers))


class Citations:
    """Papers of the methods named so far."""

    def __init__(self) -> None:
        self.papers: list[Paper] = []
        found = [each for each in vars(papers).values() if isinstance(each, Paper)]
        self._by_name = {paper.name: paper for paper in found}

    def number(self, paper: Paper) -> str:
        """Number of a paper, like [3]."""
        if paper not in self.papers:
            self.papers.append(paper)
        return f"[{self.papers.index(paper) + 1}]"

    def method(self, entry: Method, options: Mapping[str, Any]) -> str:
        """Name of a method with paper, equation and options."""
        names = (option.name for option in entry.options)
        values = [f"{n} {word(options[n])}" for n in names if _is_told(options.get(n))]
        origin = f"{entry.paper.name} {self.number(entry.paper)}" if entry.paper else ""
        about = ", ".join(filter(None, (origin, *self._equations(entry, options))))
        inside = "; ".join(filter(None, (about, ", ".join(values))))
        return f"{entry.name} ({inside})" if inside else entry.name

    def _equations(self, entry: Method, options: Mapping[str, Any]) -> Iterator[str]:
        """Parts of a method's equation, without equal equations of other papers."""
        for part in filter(None, entry.equation.split("; ")):
            named = [p for n, p in self._by_name.items() if n in part]
            if optional := OPTIONAL.fullmatch(part):
                if options.get(optional[1]):
                    numbers = "".join(f" {self.number(paper)}" for paper in named)
                    yield f"{optional[2]}{numbers}"
            elif not entry.paper or named in ([], [entry.paper]):
                yield part


def _is_told(value: Any) -> bool:
    return value is not None and not isinstance(value, dict) and value is not False


def _sentences(run: Run, cited: Citations) -> Iterator[str]:
    stages: list[Stage] = run.methods.get("stages", [])
    clients = counted(len(run.clients), "client")
    network = _network(run.methods.get("architecture", {}))
    for stage in stages:
        by_family: dict[str, list[str]] = {}
        for family, name in stage.methods:
            entry = catalogue.entry_of(FAMILIES[family](), name)
            if entry is not None and name != "replace":  # The global model, as usual.
                text = cited.method(entry, stage.options)
                by_family.setdefault(family, []).append(text)
        yield from _about(stage, by_family, run, clients, network)
    known = {**catalogue.PROTOCOLS, **catalogue.AUDITS}
    scored = [p for p in run.methods.get("protocols", ()) if p in known]
    if scored:
        names = ", ".join(cited.method(known[name], {}) for name in scored)
        yield f"Models are evaluated by {names}."


def _about(
    stage: Stage, methods: dict[str, list[str]], run: Run, clients: str, network: str
) -> Iterator[str]:
    """Sentences about a stage; `methods` has texts by family."""
    first = {family: texts[0] for family, texts in methods.items()}
    epochs = counted(stage.options.get("epochs"), "epoch")
    match stage.command:
        case "partition" if run.split is not None:
            images = f"{sum(run.split.sizes):,} images"
            public = run.split.public
            more = f"; {public:,} images are public" if public else ""
            scheme = first.get("scheme", run.split.scheme)
            yield f"{images} are divided among {clients} by the scheme {scheme}{more}."
        case "pretrain-align":
            yield (
                "Before the first round, the server trains an alignment model on public "
                f"images with the objective {first.get('objective')}."
            )
        case "pretrain-style":
            yield "Before the first round, each client trains a private style model."
        case "local-train":
            yield _training(stage.options, methods, clients, network, run.rounds)
        case "aggregate":
            rule = catalogue.entry_of(catalogue.rules(), _chosen(stage, "rule"))
            kinds = rule.reads.replace("|", " or ") if rule else "file"
            kinds = "models" if kinds == "checkpoint" else f"{kinds} files"
            yield f"The server combines the {kinds} by the rule {first.get('rule')}."
        case "distill":
            yield (
                f"The server trains on public images for {epochs} with the teacher "
                f"{first.get('teacher')}."
            )
        case "attack":
            yield f"Hostile clients send uploads of the attack {first.get('kind')}."


def _chosen(stage: Stage, family: str) -> str:
    return next((name for word, name in stage.methods if word == family), "")


def _network(architecture: dict[str, Any]) -> str:
    encoder = word(architecture.get("encoder", "unknown"))
    width = architecture.get("width")
    return f"{encoder} of width {word(width)}" if width not in (None, 1) else encoder


def _training(
    options: dict[str, Any],
    methods: dict[str, list[str]],
    clients: str,
    network: str,
    rounds: int,
) -> str:
    (objective,) = methods.get("objective", ["unknown"])
    text = f"{clients[:1].upper()}{clients[1:]} train the encoder {network} with the "
    text += f"objective {objective} in {counted(rounds, 'round')} of "
    text += counted(options.get("epochs"), "local epoch")
    names = ("batch-size", "optimiser", "lr", "weight-decay")
    values = (f"{n} {word(options[n])}" for n in names if options.get(n) is not None)
    text += f" ({', '.join(values)})"
    for update in methods.get("update", ()):
        text += f"; rounds start with the update {update}"
    for term in methods.get("term", ()):
        text += f"; the loss has the term {term}"
    for exchange in methods.get("exchange", ()):
        text += f"; training uses the exchange {exchange}"
    for personal in methods.get("personal", ()):
        text += f"; clients keep a model by {personal}"
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

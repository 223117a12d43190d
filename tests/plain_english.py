"""Measure how many pronouns the sentences of the project contain.

    python -m tests.plain_english [--worst N] [PATH...]       furlkit README.md examples

A sentence full of "that", "those", "what" and "one" forces readers to guess nouns.
The density of a sentence is the share of these words among the sentence's words.
Sentences come from docstrings, string literals (help texts, messages) and Markdown.
Well-kept projects have a mean density of 0.03 to 0.044 in docstrings.
"""

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

STAND_INS = re.compile(
    r"\b(that|those|what|whose|which|it|its|them|they|one|ones|same|other|others|own"
    r"|so|such|where|none|nothing|nobody|all|each|as|else)\b",
    re.IGNORECASE,
)
BREAKS = re.compile(r"(?<=[.:;!?])\s+(?=[A-Z`\"'(])|\n\s*\n")
SHORTEST = 9  # words; the density of a shorter sentence means little
HARD = 0.25
DOCSTRINGS, MESSAGES, PROSE = "docstrings", "messages and help", "prose"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Sentence(NamedTuple):
    density: float
    place: str  # path:line of the text that contains the sentence
    text: str
    kind: str


class Text(NamedTuple):
    kind: str
    line: int
    text: str


def density(sentence: str) -> float:
    return len(STAND_INS.findall(sentence)) / len(sentence.split())


def split(text: str) -> Iterator[str]:
    """Sentences of at least SHORTEST words; formulas without words are skipped."""
    for part in BREAKS.split(text):
        words = part.split()
        if len(words) >= SHORTEST and re.search("[a-z]{3}", part):
            yield " ".join(words)


def python_texts(source: str) -> Iterator[Text]:
    """Docstrings and string literals; "X" replaces the values of f-strings."""
    nodes = list(ast.walk(ast.parse(source)))
    used = set()
    for node in nodes:
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            used.add(node.body[0].value)
            yield Text(DOCSTRINGS, node.body[0].lineno, text)
        elif isinstance(node, ast.JoinedStr):
            used.update(node.values)
            parts = (
                v.value if isinstance(v, ast.Constant) else "X" for v in node.values
            )
            yield Text(MESSAGES, node.lineno, "".join(parts))
    for node in nodes:
        text = isinstance(node, ast.Constant) and node not in used and node.value
        if isinstance(text, str):
            yield Text(MESSAGES, node.lineno, text)


def markdown_texts(source: str) -> Iterator[Text]:
    """Paragraphs; not code, tables, headings and comments."""
    fenced, block, start = False, [], 1
    for number, line in enumerate([*source.splitlines(), ""], 1):
        words = line.strip()
        if words.startswith("```"):
            fenced = not fenced
        elif not fenced and words and not words.startswith(("|", "#", "<!--")):
            start = start if block else number
            block.append(line)
        elif block:
            yield Text(PROSE, start, " ".join(block))
            block = []


READERS = {".py": python_texts, ".md": markdown_texts}


def sentences(*paths: Path) -> list[Sentence]:
    """Sentences of Python and Markdown files, given by path or by folder."""
    inside = (sorted(p.rglob("*")) if p.is_dir() else [p] for p in paths)
    files = [path for group in inside for path in group if path.suffix in READERS]
    return [
        Sentence(density(sentence), f"{path}:{line}", sentence, kind)
        for path in files
        for kind, line, text in READERS[path.suffix](path.read_text())
        for sentence in split(text)
    ]


def mean_density(measured: list[Sentence]) -> float:
    return sum(s.density for s in measured) / max(len(measured), 1)


def hard_sentences(measured: list[Sentence]) -> list[Sentence]:
    return [s for s in measured if s.density > HARD]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worst", type=int, default=20, help="sentences to print")
    parser.add_argument("paths", nargs="*", type=Path)
    args = parser.parse_args()
    project = [Path("furlkit"), Path("README.md"), Path("examples")]
    measured = sentences(*(args.paths or project))
    for kind in (DOCSTRINGS, MESSAGES, PROSE):
        if chosen := [s for s in measured if s.kind == kind]:
            mean, hard = mean_density(chosen), len(hard_sentences(chosen))
            share = f"{hard / len(chosen):.1%}"
            print(f"{kind}: {len(chosen):,} sentences, mean {mean:.3f}, ", end="")
            print(f"{hard} above {HARD} ({share})")
    for sentence in sorted(measured, reverse=True)[: args.worst]:
        print(f"  {sentence.density:.2f} {sentence.place}  {sentence.text}")


if __name__ == "__main__":
    main()

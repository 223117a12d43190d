"""Results of audits in words."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from furlkit.files.secret import SECRET
from furlkit.reports.metrics import is_number
from furlkit.reports.text import count, plain

PAGE = "examples/privacy/README.md"
# Orders of magnitude by kind of file and audit, from the tables of PAGE.
MEASURED = {
    "upload": {
        "membership": "Owners of candidate images recognise training images at chance "
        "level after 5 epochs on hundreds of images (AUC 0.51), and recognise most images "
        "after 400 epochs on 50 images (AUC 0.97); 200 epochs on 21 images give an AUC of "
        "0.62 to 0.93, by the augmentation.",
        "classes": "The classes of a site with two of ten classes are inferred with AUC "
        "0.93.",
    },
    "model": {
        "membership": "Owners of candidate images recognise training images at chance "
        "level in the mean of five clients after one round (AUC 0.49).",
    },
    "rows": {
        "rows": "Owners of the site's model, such as the server, recognise nearly every "
        "image behind a row (AUC 0.99 to 1.00; 75% to 100% identified among 100 "
        "candidates). Owners of only the mean model, such as another client, recognise "
        "images with AUC 0.53 to 0.98, by the training. With --row-noise 0.05, 0.1 and "
        "0.2 the AUC is 0.94, 0.78 and 0.61.",
        "classes": "Owners of the site's model infer the classes (AUC 0.91 to 1.00).",
        "inversion": "Owners of the site's model reconstruct rough images.",
    },
    "mixtures": {
        "rows": "Without the key of the mixture, owners of candidate images and of the "
        "site's model recognise images at chance level (AUC 0.51).",
    },
    "answers": {
        "classes": "The classes of a site with two of ten classes are inferred with AUC "
        "0.76 to 0.95, also from the largest 1% of the similarities in int8.",
    },
}
SAME = {"similarity": "answers", "ensemble": "answers"}


def audit_line(output: Path, document: dict[str, Any]) -> str:
    """Result of an audit for people, in one line."""
    seconds = document.get("cpu_seconds")
    time = f", {seconds:.1f} CPU seconds" if is_number(seconds) else ""
    knows = plain(str(document.get("attacker")))
    return f"{output}: {describe_audit(document)}{time}; {knows}"


def describe_audit(document: dict[str, Any]) -> str:
    """Protocol and numbers of an audit, as far as the document has numbers."""
    parts = [*_success(document), *_further(document)]
    parts += filter(None, [describe_amounts(document.get("n"))])
    rows = document.get("rows")
    if isinstance(rows, dict) and rows.get("drawn_by") == SECRET:
        parts += _describe_checks(rows)
    name = plain(str(document.get("protocol")))
    return f"audit {name}: {'; '.join(parts) or 'no numbers'}"


def _describe_checks(rows: dict[str, Any]) -> list[str]:
    """Comparison of the secret and the images with the record of the rows."""
    secret = "the secret is not checked: a wrong secret gives a low number"
    if rows.get("secret_confirmed") is True:
        secret = "the secret fits the record of the rows"
    images = "no record confirms the candidates: other images give a low number"
    if rows.get("images_confirmed") is True:
        images = "the candidates fit the record of the rows"
    return [secret, images]


def describe_amounts(n: Any) -> str:
    """Numbers of images, rows or clients of an audit; empty if missing."""
    known = sorted(n.items()) if isinstance(n, dict) else []
    return ", ".join(f"{count(v)} {plain(str(k)).replace('_', ' ')}" for k, v in known)


def _success(document: dict[str, Any]) -> list[str]:
    found = []
    if is_number(auc := document.get("auc")):
        found.append(f"AUC {auc:.3f}{_interval(document.get('auc_interval'), '.3f')}")
    if is_number(tpr := document.get("tpr_at_1_fpr")):
        shown = f"TPR {tpr:.1%} at 1% FPR"
        found.append(f"{shown}{_interval(document.get('tpr_interval'), '.1%')}")
    return found


def _interval(ends: Any, form: str) -> str:
    if not isinstance(ends, list) or len(ends) != 2 or not all(map(is_number, ends)):
        return ""
    low, high = ends
    return f" ({low:{form}} to {high:{form}})"


def _further(document: dict[str, Any]) -> list[str]:
    """Numbers that only some audits have."""
    found = []
    if is_number(share := document.get("identified")):
        k = count(document.get("k"))
        found.append(f"{share:.1%} identified among {k} candidates")
    if is_number(value := document.get("ssim")):
        mean = document.get("ssim_of_mean")
        shown = f" ({mean:.3f} by the mean image)" if is_number(mean) else ""
        found.append(f"SSIM {value:.3f}{shown}")
    if is_number(rank := document.get("rank")):
        found.append(f"median rank {rank:g} of {count(document.get('ranked'))}")
    return found


def measured_attacks(document: dict[str, Any]) -> set[str]:
    """Attacks of which an audit replaces the usual numbers; empty without numbers.

    Rows that were attacked with another model than the client's, for example by another
    client, do not replace the numbers for the server.
    """
    model, rows = document.get("checkpoint"), document.get("rows")
    if isinstance(rows, dict):
        facts = model.get("facts") if isinstance(model, dict) else None
        if not isinstance(facts, dict) or any(
            facts.get(name) != rows.get(name) for name in ("client", "round")
        ):
            return set()
    numbers = [*_success(document), *_further(document)]
    return {str(document.get("protocol"))} if numbers else set()


def describe_measured(shared: str, audited: Collection[str] = ()) -> list[str]:
    """Orders of magnitude for a kind of shared file, with a link to the tables.

    `audited`: attacks that audits of the file have measured.
    """
    known = MEASURED.get(SAME.get(shared, shared))
    if known is None:
        text = f"No audit of this kind of file has been measured; see {PAGE}."
        return [] if audited else [text]
    sentences = [text for name, text in known.items() if name not in audited]
    if not sentences:
        return []
    return [
        f"Not this file, but files like it on digits and CIFAR-10 ({PAGE}): "
        f"{' '.join(sentences)} Other data and longer training may leak more; furlkit "
        "audit measures this file."
    ]

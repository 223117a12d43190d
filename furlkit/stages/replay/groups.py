"""Find the table of groups, for example patients, of a file.

A header has the hash of the group numbers of the images, which does not depend on names
and paths of tables. Every candidate table is read for the images to compare the hashes.
"""

from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from furlkit.data.sets.fingerprint import label_fingerprint
from furlkit.data.sets.groups import FOLDER
from furlkit.data.sets.source import Source
from furlkit.errors import FurlkitError
from furlkit.stages.replay.chain import Link
from furlkit.stages.replay.words import Words, path_word


def group_words(
    link: Link, words: Words, root: Path | None, tables: Iterable[Path]
) -> tuple[Words, str]:
    """--groups for the command in `words`, and a reason if no table fits."""
    how, wanted = (k.get("groups") for k in (link.header.options, link.header.inputs))
    if how is None:  # Groups come with packed images.
        return [], ""
    if how == FOLDER:
        return ["--groups", FOLDER], ""
    value = dict(pairwise(words))
    source = Source(value["--data"], root, split=value.get("--split", "train"))
    for table in tables:
        with suppress(FurlkitError):
            groups = source.with_groups(source.labels(), str(table)).groups
            if groups is not None and label_fingerprint(groups) == wanted:
                return ["--groups", path_word(table)], ""
    return [], "the table of groups is not among the files; add --among FOLDER"

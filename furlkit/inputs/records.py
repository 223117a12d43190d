"""Records of published files: a new record replaces only a record of the same output."""

from collections.abc import Sequence
from pathlib import Path

from furlkit.errors import FurlkitError, InputError, UsageError
from furlkit.files.container.header import Header, canonical
from furlkit.files.container.read import Container
from furlkit.files.container.write import record_of
from furlkit.files.facts import Provenance
from furlkit.files.published import KIND, published_by
from furlkit.files.secret import DRAWN_BY, SYSTEM


def check_places(outputs: Sequence[Path]) -> None:
    """Check that records beside the outputs replace no other file, also of this command."""
    records = [record_of(output) for output in outputs]
    for output, record in zip(outputs, records, strict=True):
        if records.count(record) > 1 or record in outputs:
            raise UsageError(
                f"{output}: this command writes {record} twice, because the record of "
                "the file has this name; choose other names of outputs"
            )
        check_place(record)


def check_place(record: Path) -> Header | None:
    """Return the header of an existing record; raise if another file is there."""
    if not record.exists() or (record.is_file() and not record.stat().st_size):
        return None
    try:
        header = Container(record).header
    except FurlkitError:
        header = None
    if header is None or header.kind != KIND:
        raise InputError(
            f"{record}: exists and is no record; the record of the output would replace "
            "the file: move the file, or choose another name"
        )
    return header


def check_record(output: Path, kind: str, provenance: Provenance) -> None:
    """Raise if the record of an output would replace the record of another file.

    An output is made again if the record has the content of the present file, or the
    inputs and options of this command, unless the command draws other noise. Beside an
    output, the name tells: a record of the same command is of an earlier output.
    """
    if provenance.withheld is None or kind == "metrics":  # Documents stay.
        return
    withheld = provenance.published(kind)
    if withheld is None:
        return
    record = withheld.record or record_of(output)
    header = check_place(record)
    if header is None or published_by(header) == _content(output):
        return
    same = header.facts.get("output", output.name) == output.name
    if withheld.record is None:
        same &= header.stage == provenance.stage
    else:
        drawn_anew = provenance.options.get(DRAWN_BY) == SYSTEM
        same &= _command(header) == _command(provenance) and not drawn_anew
    if not same:
        raise InputError(
            f"{record}: is the record of another file than {output}; keep the record "
            "with that file, and choose another --record"
        )


def _content(path: Path) -> str | None:
    try:
        return Container(path).content
    except FurlkitError:
        return None


def _command(made: Header | Provenance) -> str:
    return canonical([made.stage, made.options, made.seed, made.inputs])

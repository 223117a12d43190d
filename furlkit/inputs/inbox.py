"""Inbox: a folder in which uploads arrive.

Files in an inbox are not trusted. Files that are not complete uploads of this round are
left out, with the reason, and stay in the folder; the round continues without them.
"""

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from os.path import dirname, realpath
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from furlkit import console
from furlkit.catalogue import add_plugins, kinds_of
from furlkit.errors import FurlkitError, InputError, UsageError
from furlkit.files.checkpoint import open_checkpoint
from furlkit.files.clients import ClientId, client_of, client_order
from furlkit.files.container.read import Container
from furlkit.files.kinds import KINDS
from furlkit.files.secret import ENDING as SECRET_ENDING
from furlkit.files.signatures import ENDING, signature_of
from furlkit.inputs.likeness import name_copies, name_differences
from furlkit.inputs.members import Admission, admission_of, weights_of
from furlkit.inputs.parent import EarlierUpload, check_parent, check_round
from furlkit.inputs.paths import check_output
from furlkit.inputs.publishing import is_anonymous
from furlkit.inputs.records import check_place, check_places
from furlkit.inputs.uploads import (
    OpenedUpload,
    Sent,
    Taken,
    Upload,
    UploadOptions,
    agreeing,
    check_enough,
    check_model_sizes,
    check_table_size,
    options_of,
)

S = TypeVar("S", bound=OpenedUpload)
U = TypeVar("U", bound=Upload)
LINES = 20  # Maximum number of printed reasons.
MOST_NAMES = 20  # Maximum number of clients named in a line.
POLL = 0.5  # Seconds between two looks.
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Kind(NamedTuple, Generic[S, U]):
    """Functions that open and check the uploads of a rule.

    `open` reads a header. `examine` reads the tensors and compares a hash: `content`,
    `check` or None. The flag of `examine`: other users may change the file, so remember
    the bytes for later passes. `check_together` raises UnfitUpload.
    """

    kinds: Sequence[str]
    open: Callable[[Path], S]
    examine: Callable[[S, str | None, bool], U]
    check_together: Callable[[list[U]], None]


def open_uploads(
    values: Mapping[str, Any], kind: Kind[S, U]
) -> tuple[UploadOptions, list[U]]:
    """Read and check the uploads of a command, separately and then together.

    The uploads decide whether the result names clients, unless an option decides.
    """
    options = options_of(values)
    admission = admission_of(options)
    reader = _Reader(options, _parent(options), admission, kind)
    folders = _folders(options)
    files = (*options.inputs, options.parent, options.state)
    files += (options.members, options.signers)
    check_output(options.output, files)
    written: tuple[Path, ...] = (options.output,)
    for flag, path in (
        ("--state-out", options.state_out),
        ("--record", options.record),
    ):
        if path:
            check_output(path, (*files, *written), flag)
            written += (path,)
    if options.record:
        check_place(options.record)
    named = reader.read_named([p for p in options.inputs if p not in folders])
    inbox = Inbox(folders, kind.kinds, reader.read_sent, admission.names)
    taken: dict[Path, Taken[U]] = {}

    def look() -> tuple[list[U], dict[Path, str]]:
        found, broken = inbox.look()
        taken.update({each.file.path: each for each in (*named, *found)})
        clients, unfit = agreeing(
            [each.upload for each in (*named, *found)],
            kind.check_together,
            [each.upload for each in named],
            verified=not options.trust_headers,
        )
        return clients, {**broken, **unfit}

    enough = options.expect or options.at_least
    clients = wait_for(look, enough, seconds_of(options.wait), inbox.missing)
    check_enough(options, clients)
    counted = [taken[client.path] for client in clients]
    name_copies(counted)
    name_differences(counted)
    headers = (each.file.header for each in counted)
    anonymous = is_anonymous(options.anonymous, options.record, headers)
    if anonymous and not options.record:
        check_places([options.output])
    return replace(options, anonymous=anonymous), clients


class _Reader(NamedTuple, Generic[S, U]):
    """Read uploads of a kind by members; the uploads start from `parent` if given."""

    options: UploadOptions
    parent: Sent | None
    admission: Admission
    kind: Kind[S, U]

    def read_named(self, paths: Iterable[Path]) -> list[Taken[U]]:
        """Read files named on the command line: first the headers, then the tensors."""
        opened = [self._open(path) for path in self._reported(paths)]
        check_model_sizes(opened)
        # Hashing takes longer than reading, and lets other threads run.
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            return list(pool.map(self._examine, opened))

    def _reported(self, paths: Iterable[Path]) -> Iterator[Path]:
        """Yield named files; with a quorum, skip missing files with a warning."""
        for path in paths:
            if self.options.at_least > 1 and not path.exists():
                console.warn(f"{path}: no such file; the round goes on without it")
            else:
                yield path

    def read_sent(self, path: Path) -> Taken[U]:
        """Read a file of an inbox, which other users may change at any time."""
        return self._examine(self._open(path), inbox=True)

    def _open(self, path: Path) -> S:
        sent = self.kind.open(path)
        self.admission.check_name(sent)
        # An inbox has many uploads of earlier rounds; ssh-keygen takes milliseconds.
        if self.parent:
            check_round(sent, self.parent)
        self.admission.check_signature(sent)
        if self.parent:
            partial = bool(self.options.settings.get("complete"))
            check_parent(sent, self.parent, partial)
        check_table_size(sent, self.options.max_upload)
        return sent

    def _examine(self, sent: S, inbox: bool = False) -> Taken[U]:
        # The pass that combines named files compares the checksums; an error in this
        # pass is early enough.
        cheap = "check" if inbox or self.options.dry_run else None
        by = cheap if self.options.trust_headers else "content"
        # A signature is worth as much as the hash of the bytes that are combined.
        remember = inbox or self.options.signers is not None
        return Taken(self.kind.examine(sent, by, remember), sent.opened)


def _parent(options: UploadOptions) -> Sent | None:
    """Open the global model at the start of the round, without reading tensors."""
    if options.parent is None:
        return None
    opened, facts = open_checkpoint(options.parent)
    if facts.role != "global":
        raise InputError(
            f"--parent {options.parent}: is a checkpoint of role {facts.role}, expected "
            "the global model that this round's clients were given"
        )
    return Sent(opened.path, opened.content, opened, facts)


def _folders(options: UploadOptions) -> list[Path]:
    """Return the inboxes among the inputs; inboxes need more options than files."""
    folders = [path for path in options.inputs if path.is_dir()]
    if (options.wait or options.expect) and not folders:
        raise UsageError("--wait: uploads arrive in a folder; give the folder: UPLOAD")
    if options.expect and options.expect < options.at_least:
        raise UsageError(
            f"--expect {options.expect}: is less than --at-least {options.at_least}"
        )
    for folder in folders:
        if options.parent is None:
            raise InputError(
                f"{folder}: is a folder; expected a file, or give --parent, the global "
                "model that this round's clients were given: an inbox may have files of "
                "other rounds"
            )
        if options.settings.get("staleness") is not None:
            raise UsageError(
                f"--staleness: needs models of earlier rounds, but {folder} has only "
                "this round's models; give files"
            )
        outputs = {"-o": options.output, "--state-out": options.state_out}
        for flag, path in {**outputs, "--record": options.record}.items():
            if path and realpath(folder) == dirname(realpath(path)):
                raise UsageError(
                    f"{flag} {path}: is in {folder}, which clients write to; choose "
                    "another place"
                )
    return folders


class State(NamedTuple):
    """State that reveals a change of a file since reading."""

    inode: int
    size: int
    changed: int


States = tuple[State, State | None]  # Of an upload and of the signature.


class Inbox(Generic[U]):
    """Folders of uploads; `read` opens and checks a file of one of these `kinds`.

    `members`: names of the expected clients, if the server has a list.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        kinds: Sequence[str],
        read: Callable[[Path], Taken[U]],
        members: set[str] | None = None,
    ):
        self._folders, self._kinds, self._read = folders, kinds, read
        self._members = members
        self._known: dict[
            Path, tuple[States, Taken[U] | EarlierUpload | str | None]
        ] = {}

    def look(self) -> tuple[list[Taken[U]], dict[Path, str]]:
        """Return the present uploads, and the reasons against the remaining files."""
        found = {path: self._outcome(path) for path in self._paths()}
        taken = [each for each in found.values() if isinstance(each, Taken)]
        return taken, {k: each for k, each in found.items() if isinstance(each, str)}

    def _paths(self) -> Iterator[Path]:
        """Yield the files, except signatures and hidden, incomplete copies."""
        for folder in self._folders:
            for name in sorted(os.listdir(folder)):
                if not name.startswith(".") and not name.endswith(ENDING):
                    yield folder / name

    def missing(self, uploads: Iterable[U]) -> list[ClientId]:
        """Return members, or clients of the last earlier round, not in `uploads`."""
        clients = self._expected()
        clients -= {getattr(upload.facts, "client", None) for upload in uploads}
        return sorted((each for each in clients if each is not None), key=client_order)

    def _expected(self) -> set[ClientId | None]:
        if self._members is not None:
            return {client_of(name) for name in self._members}
        found = [outcome for _, outcome in self._known.values()]
        earlier = [each for each in found if isinstance(each, EarlierUpload)]
        last = max((each.round for each in earlier), default=0)
        return {each.client for each in earlier if each.round == last}

    def _outcome(self, path: Path) -> Taken[U] | EarlierUpload | str | None:
        """Return an upload, or the reason against the file; None for another rule."""
        try:
            state = _state(path), _state_of_signature(path)
            before = self._known.get(path)
            if before is None or before[0] != state:
                self._known[path] = state, self._opened(path)
        except (FurlkitError, OSError, MemoryError) as error:
            return str(error) or f"{path}: does not fit into memory"
        return self._known[path][1]

    def _opened(self, path: Path) -> Taken[U] | EarlierUpload | str | None:
        try:
            if path.name.endswith(SECRET_ENDING):
                raise InputError(
                    f"{path}: is named like the secret of a site, which must not be sent; "
                    "the site must replace a secret that others have"
                )
            kind = Container(path).header.kind
            if kind in KINDS and KINDS[kind].stays:
                raise InputError(f"{path}: is a {kind} file, which must not be sent")
            if kind not in self._kinds and _is_upload(kind):
                return None  # A rule passes over the uploads to other rules.
            return self._read(path)
        except EarlierUpload as error:
            return error
        except FurlkitError as error:
            return str(error)


def _is_upload(kind: str) -> bool:
    """Return whether a rule of furlkit or of an installed package reads this kind."""
    if kind not in KINDS:
        add_plugins()
    return kind in kinds_of("aggregate", "client")


def _state(path: Path) -> State:
    """Refuse anything but a plain file before opening: a FIFO would block."""
    if not path.name.isprintable() or "\\" in path.name:
        raise InputError(
            f"{path.parent}: has a file called {path.name[:80]!r}; expected a name "
            "without control characters and backslashes"
        )
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        link = stat.S_ISLNK(found.st_mode)
        raise InputError(
            f"{path}: is {'a symbolic link' if link else 'no regular file'}; expected a "
            "file"
        )
    return State(found.st_ino, found.st_size, found.st_mtime_ns)


def _state_of_signature(path: Path) -> State | None:
    """Return None without a readable signature, which may arrive after the upload."""
    try:
        return _state(signature_of(path))
    except (InputError, OSError):
        return None


def wait_for(
    look: Callable[[], tuple[list[U], dict[Path, str]]],
    enough: int,
    seconds: float,
    missing: Callable[[list[U]], list[ClientId]],
) -> list[U]:
    """Wait for enough uploads or the deadline; report the files left out."""
    deadline, before = time.monotonic() + seconds, -1
    while True:
        uploads, reasons = look()
        left = deadline - time.monotonic()
        if len(uploads) >= enough or left <= 0:
            break
        if len(uploads) != before:
            count = f"{len(uploads)} of {enough} clients have reported"
            console.info(f"{count}; waiting{_names(' for ', missing(uploads))}")
        before = len(uploads)
        time.sleep(min(POLL, left))
    name_left_out(reasons)
    if late := missing(uploads):
        console.info(_names("no upload in this round from ", late))
    return uploads


def _names(before: str, clients: Sequence[ClientId]) -> str:
    """List clients after the words `before`; empty without clients."""
    more = len(clients) - MOST_NAMES
    names = ", ".join(str(client) for client in clients[:MOST_NAMES])
    others = f" and {more:,} more" if more > 0 else ""
    return f"{before}{names}{others}" if clients else ""


def name_left_out(reasons: Mapping[Path, str]) -> None:
    """Warn about files left out: a line for each reason, with the first file."""
    groups: dict[str, list[str]] = {}
    for path, reason in reasons.items():
        # Files with one reason differ in paths, numbers and names of clients.
        text = re.sub("(?<=client )[^ ,:]+|[0-9]+", "0", reason.replace(str(path), ""))
        groups.setdefault(text, []).append(reason)
    for found in islice(groups.values(), LINES):
        alike = len(set(found)) - 1
        more = f", and {alike:,} more files like this" if alike else ""
        console.warn(f"{found[0]}; left out{more}")
    if rest := [*groups.values()][LINES:]:
        count = sum(map(len, rest))
        console.warn(f"{count:,} more files are left out, for {len(rest):,} reasons")


def seconds_of(text: str | None) -> float:
    """Parse a time like 90s, 30m, 2h or 1d to seconds; 0 for None."""
    if text is None:
        return 0.0
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smhd])", text)
    if match is None:
        raise UsageError(f"--wait {text}: expected a time like 90s, 30m, 2h or 1d")
    return float(match[1]) * UNITS[match[2]]


def closed_round(values: Mapping[str, Any]) -> tuple[Path, str] | None:
    """Return an output that has closed this round of an inbox, and the content hash.

    A closed round stays closed: clients have continued from the result, so a late or
    deleted upload must not change the result.
    """
    options = options_of(values)
    output, parent = options.output, _parent(options)
    if options.force or parent is None or not _folders(options) or not output.exists():
        return None
    try:
        opened = Container(output)
        opened.check_body()
    except FurlkitError as error:
        console.info(f"{error}; making it again")
        return None
    header = opened.header
    facts, same = header.facts, header.stage == "aggregate"
    recorded = dict(options.recorded)
    if options.members or weights_of(options.settings.get("weights")):
        # The header does not record the file.
        recorded["weights"] = header.options.get("weights")
    same &= all(header.options.get(k) == v for k, v in recorded.items())
    same &= facts.get("round") == parent.facts.round + 1
    same &= facts.get("parent") in (None, parent.content)
    same &= _has_content(options.state_out, facts.get("state"))
    return (output, opened.content) if same else None


def _has_content(path: Path | None, content: str | None) -> bool:
    """Return whether an output file exists with this content."""
    if path is None:
        return True
    try:
        return Container(path).content == content
    except FurlkitError:
        return False

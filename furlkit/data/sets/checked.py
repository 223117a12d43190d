"""Which files of a folder can be read as images, and what they are."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from furlkit import console
from furlkit.data.sets.folder import in_blocks, list_folder


@dataclass(frozen=True)
class Checked:
    """What decoding every image of a folder has found.

    `broken` has a reason for each path that cannot be read, `skipped` says what is no
    image, `sizes` counts images by (width, height).
    """

    images: int
    broken: dict[str, str]
    skipped: str
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    grey: int = 0


def checked_folder(root: Path) -> Checked:
    """Decode every image of a folder and keep none of them."""
    from furlkit.data.sets.decode import decoded_or_reason

    listing, sizes, grey = list_folder(root), Counter[tuple[int, int]](), 0
    broken, paths = dict(listing.broken), sorted(listing.images)

    def decode(name: str) -> tuple[tuple[int, int], bool] | None:
        image = decoded_or_reason(root / name, 3)
        if isinstance(image, str):
            broken[name] = image
            return None
        return image.size, image.grey

    done = 0
    with console.bar(f"checking {root}", len(paths)) as bar:
        for block in in_blocks(decode, paths):
            found = [image for image in block if image]
            sizes.update(size for size, _ in found)
            grey += sum(is_grey for _, is_grey in found)
            bar.reach(done := done + len(block))
    return Checked(sizes.total(), broken, listing.skipped, sizes, grey)

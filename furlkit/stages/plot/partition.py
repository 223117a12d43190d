"""plot partition: images of each client by class."""

from pathlib import Path

from furlkit.errors import InputError
from furlkit.files.partition import read_partition
from furlkit.reports.explain import class_names, domains_of
from furlkit.reports.figures import Frame
from furlkit.reports.text import plain
from furlkit.stages.plot.picture import Picture, figure, picture


@picture
def run(partition: Path, style: str, frame: Frame) -> Picture:
    """Draw the number of images of each class and client; heat or bubbles.

    Clients with a single domain are labelled by domain.
    """
    found = read_partition(partition)
    histogram, sizes, public = found.histogram, found.sizes, len(found.public)
    clients, classes = histogram.shape
    if not clients or histogram.min(initial=0) < 0:
        raise InputError(
            f"{partition}: has {clients} clients and a least count of "
            f"{histogram.min(initial=0)}; re-create the partition"
        )
    if frame.title is None:
        title = f"{found.facts.scheme}: {clients:,} clients, {sizes.sum():,} images"
        title += f", {public:,} public" if public else ""
        title += "" if classes else ", without labels"
        frame = frame._replace(title=title)
    text = f"{clients:,} clients, {classes:,} classes as {style}"
    if not classes:
        style, text = "sizes", f"sizes of {clients:,} clients; it has no labels"
    shown: dict[str, tuple] = {
        "heat": (histogram, sizes, class_names(found)),
        "bubbles": (histogram, class_names(found)),
        "sizes": (sizes,),
    }
    data = {"style": style, "clients": clients, "classes": classes}
    domains: list[str] = []
    if found.domains is not None:
        domains = [plain(domain or "") for domain in domains_of(found)]
        text += f", {len(set(filter(None, domains)))} domains"
        data["domains"] = domains
    return (
        lambda: figure(f"partition:draw_{style}")(*shown[style], frame, domains),
        text,
        data,
    )

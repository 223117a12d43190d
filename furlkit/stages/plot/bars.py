"""plot bars: means over seeds side by side, for example of an ablation."""

from furlkit.errors import UsageError
from furlkit.reports.figures import Frame
from furlkit.reports.metrics import Value, domains_in, files_of, read_all
from furlkit.reports.results import Results
from furlkit.reports.text import plain
from furlkit.stages.plot.picture import Picture, Series, figure, picture


@picture
def run(
    series: Series,
    value: str,
    protocol: str,
    by_domain: bool,
    reference: str | None,
    start: float,
    allow_different: tuple[str, ...],
    frame: Frame,
) -> Picture:
    """Draw a bar for each series: mean and deviation, with a dot for each file.

    A label may start with a group, GROUP:LABEL; with `by_domain` domains are groups.
    """
    given = []
    for label, paths in series:
        *group, name = label.split(":", 1)
        files = files_of(paths, protocol, last=True)
        given.append(Results("".join(group), name, (), (), files))
    if by_domain:
        found = _read_domains(given, value, reference, allow_different)
    else:
        found = read_all(given, value, reference, allow_different=allow_different)
    bars = [b._replace(group=plain(b.group), label=plain(b.label)) for b in found]
    protocols = dict.fromkeys(plain(bar.protocol) for bar in bars)
    shown = Value(plain(value), tuple(protocols))
    least = shown.scale * min(bar.extent[0] for bar in bars)
    if start and start >= least:
        raise UsageError(
            f"--from {start:g}: would hide values down to {least:.4g}; start the axis "
            "between 0 and this value"
        )
    text = f"{shown.name} of {'; '.join(_describe(bar, shown) for bar in bars)}"
    if reference is not None:
        text += f"; against {plain(reference)}, with 95% intervals"
    rows = [bar.to_json() for bar in bars]
    return (
        lambda: figure("bars:draw_bars")(bars, shown, start, frame),
        text,
        {"value": value, "reference": reference, "bars": rows},
    )


def _read_domains(
    given: list[Results], value: str, reference: str | None, allowed: tuple[str, ...]
) -> list[Results]:
    """Read the value of every domain, a group each, and then the mean."""
    for each in given:
        if each.group:
            raise UsageError(
                f"--series {each.name}: has a group, but with --by-domain the domains "
                "are the groups"
            )
    names = domains_in(given[0].paths[0])
    places = [*((name, f"domains.{name}.{value}") for name in names), ("mean", value)]
    return [
        bar._replace(group=name)
        for name, place in places
        for bar in read_all(given, place, reference, allow_different=allowed)
    ]


def _describe(bar: Results, value: Value) -> str:
    mean, std, _ = bar.summary
    spread = "" if std is None else f"{value.show(mean)} +- "
    number = value.show(mean if std is None else std, unit=" %")
    text = f"{bar.group} {bar.label} {spread}{number}".lstrip()
    if bar.difference is None:
        return text
    found = bar.difference
    ends = found.ends(lambda number: value.show(number, "+.2f"))
    parts = (value.show(found.effect.estimate, "+.2f"), ends, f"by {found.paired_by}")
    return f"{text} ({', '.join(filter(None, parts))})"

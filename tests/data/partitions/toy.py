"""A small dataset with labels and domains, and options as the command line gives them."""

import numpy as np

from furlkit import catalogue
from furlkit.data.partitions.schemes import SchemeOptions, label_histogram
from furlkit.data.sets.labels import LabelSet
from furlkit.inputs.settings import fill


def dataset(labels, domains=None):
    labels = None if labels is None else np.asarray(labels, np.int64)
    domains = None if domains is None else np.asarray(domains, np.int64)
    examples = len(domains) if labels is None else len(labels)
    return LabelSet("toy", examples, labels, domains, tuple("0123456789"), {})


def rng(seed=0):
    return np.random.default_rng(seed)


def table(parts, data):
    return label_histogram(parts, data.labels, data.classes)


def chosen(scheme, clients=5, **more):
    """The options of a scheme, with the catalogue's defaults for all that is not given."""
    entries = catalogue.COMMANDS["partition"].options
    usual = {key: option.default for key, option in entries.items()}
    values = {**usual, "scheme": scheme, "clients": clients, **more}
    values = catalogue.resolved("partition", values, more, ())
    own, rest = catalogue.divided(values, catalogue.SCHEMES[scheme].options)
    shared = {key: rest[key] for key in SchemeOptions.__annotations__ if key in rest}
    return fill(SchemeOptions, {**shared, "own": own})


def every_nth(data, clients, rng, *, first):
    """A scheme: client k gets the examples first + k, first + k + clients, ..."""
    return [np.arange(first + k, data.examples, clients) for k in range(clients)]


TOY = dataset(rng(7).integers(0, 10, 1003), rng(8).integers(0, 3, 1003))

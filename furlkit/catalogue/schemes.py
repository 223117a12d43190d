"""How images are partitioned among clients."""

from furlkit.catalogue.entries import (
    Choice,
    File,
    Flag,
    Number,
    Option,
    Scheme,
    Whole,
    named,
)
from furlkit.catalogue.papers import FEDAVG, FEDSTYLE, SATTLER

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

_CONCENTRATION = Option("concentration", Number(above=0),
                        help="Of the Dirichlet distribution, alpha or beta; small is "
                             "skewed.", replaces="balance")
_M = Option("classes-per-client", Whole(1), help="m, classes of each client.")
_REPLACEMENT = Option("with-replacement", Flag(), False,
                      "Let several clients hold the same image.")
_PUBLIC = (
    Option("public-fraction", Number(0, below=1),
           help="Hold out this share as public."),
    Option("public-count", Whole(0), help="Hold out this many images as public."),
)

SCHEMES = named(
    Scheme("iid", "equal random parts", "furlkit.data.partitions.classes:iid",
        (_REPLACEMENT, *_PUBLIC)),
    Scheme("classes", "m classes for each client, exclusive or on several clients",
        "furlkit.data.partitions.classes:classes",
        (
            _M,
            Option("class-copies", Whole(1), 1, "How many clients hold each class."),
            Option("ordered-classes", Flag(), False,
                   "Client 0 gets the first m classes, and so on."),
            *_PUBLIC,
        ),
        sizes_vary=True,
        paper=FEDAVG,
    ),
    Scheme("dirichlet",
        "each CLASS is spread over the clients by Dir(alpha): clients differ in size "
        "and in mix",
        "furlkit.data.partitions.dirichlet:dirichlet",
        (
            _CONCENTRATION,
            Option("cap-at-mean", Flag(), False,
                   "A client at the mean size gets no further class."),
            *_PUBLIC,
        ),
        sizes_vary=True,
        evened_by="concentration",
    ),
    Scheme("dirichlet-client",
        "each CLIENT draws its mix of classes from Dir(beta): clients are equal in "
        "size and differ in mix",
        "furlkit.data.partitions.dirichlet:dirichlet_client",
        (_CONCENTRATION, _REPLACEMENT, *_PUBLIC),
    ),
    Scheme("volume",
        "unbalanced: client i gets delta/n + (1-delta) gamma^i / sum_j gamma^j",
        "furlkit.data.partitions.volume:volume",
        (
            Option("even-share", Number(0, 1), 0.1, "delta, the share that is even."),
            Option("decay", Number(above=0), 0.9,
                   "gamma, the ratio from client to client."),
            _M,
            *_PUBLIC,
        ),
        evened_by="even-share",
        paper=SATTLER,
    ),
    Scheme("shards", "sorted by label, s shards for each client",
        "furlkit.data.partitions.classes:shards",
        (Option("shards-per-client", Whole(1), 2, "s, shards of each client."), *_PUBLIC),
        paper=FEDAVG,
    ),
    Scheme("domains",
        "each domain (style) is sampled to their mean size and divided among clients of "
        "its own, IID or, with a concentration, like dirichlet-client",
        "furlkit.data.partitions.domains:domains",
        (
            _CONCENTRATION,
            Option("clients-per-domain", Whole(1),
                   help="Clients of each domain, in place of --clients for all.",
                   replaces="clients"),
            Option("repeat", Flag(negative=True), True,
                   "Repeat images of a domain that is smaller than the mean, so that "
                   "all clients have the same size."),
            Option("balance", Choice(("none", "clients", "classes")), "none",
                   "IID clients of a domain: random parts; parts with the same number of "
                   "images of a class, up to one; or (FedStyle) parts with as many images "
                   "of each class as of every other, for which classes are sampled to "
                   "one size, with repeats if --repeat.", newer=True),
            *_PUBLIC,
        ),
        paper=FEDSTYLE,
    ),
    Scheme("file", "indices from a file",
        "furlkit.data.partitions.from_file:from_file",
        (
            Option("split-file", File("json|partition"),
                   help="JSON or safetensors with the indices of each client.",
                   recorded=False),
            _REPLACEMENT,
        ),
    ),
)

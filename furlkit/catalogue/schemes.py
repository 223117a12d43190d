"""Schemes to partition images among clients."""

from furlkit.catalogue import papers
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

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

_CONCENTRATION = Option("concentration", Number(above=0),
                        help="Concentration of the Dirichlet distribution, alpha or beta; "
                             "small values give skewed parts.", replaces="balance")
_M = Option("classes-per-client", Whole(1), help="m, number of classes per client.")
_REPLACEMENT = Option("with-replacement", Flag(), False,
                      "Draw with replacement: several clients may share an image.")
_PUBLIC = (
    Option("public-fraction", Number(0, below=1),
           help="Share of the images to hold out as public."),
    Option("public-count", Whole(0), help="Number of images to hold out as public."),
)

SCHEMES = named(
    Scheme("iid", "equal random parts", "furlkit.data.partitions.classes:iid",
        (_REPLACEMENT, *_PUBLIC)),
    Scheme("classes", "m classes per client, exclusive or on several clients",
        "furlkit.data.partitions.classes:classes",
        (
            _M,
            Option("class-copies", Whole(1), 1, "Number of clients per class."),
            Option("ordered-classes", Flag(), False,
                   "Assign classes in order: client 0 gets the first m classes."),
            *_PUBLIC,
        ),
        sizes_vary=True,
        paper=papers.FEDAVG,
    ),
    Scheme("dirichlet",
        "each CLASS is spread over the clients by Dir(alpha): clients differ in size "
        "and in mix",
        "furlkit.data.partitions.dirichlet:dirichlet",
        (
            _CONCENTRATION,
            Option("cap-at-mean", Flag(), False,
                   "Add no further class to a client at the mean size."),
            *_PUBLIC,
        ),
        sizes_vary=True,
        evened_by="concentration",
    ),
    Scheme("dirichlet-client",
        "each CLIENT draws a mix of classes from Dir(beta): clients are equal in size "
        "and differ in mix",
        "furlkit.data.partitions.dirichlet:dirichlet_client",
        (_CONCENTRATION, _REPLACEMENT, *_PUBLIC),
    ),
    Scheme("volume",
        "unbalanced: client i gets delta/n + (1-delta) gamma^i / sum_j gamma^j",
        "furlkit.data.partitions.volume:volume",
        (
            Option("even-share", Number(0, 1), 0.1, "delta, the evenly divided share."),
            Option("decay", Number(above=0), 0.9,
                   "gamma, the ratio of successive clients."),
            _M,
            *_PUBLIC,
        ),
        evened_by="even-share",
        paper=papers.SATTLER,
    ),
    Scheme("shards", "sorted by label, s shards per client",
        "furlkit.data.partitions.classes:shards",
        (Option("shards-per-client", Whole(1), 2, "s, shards per client."), *_PUBLIC),
        paper=papers.FEDAVG,
    ),
    Scheme("domains",
        "each domain (style) is sampled to the mean size and divided among separate "
        "clients, IID or, with a concentration, like dirichlet-client",
        "furlkit.data.partitions.domains:domains",
        (
            _CONCENTRATION,
            Option("clients-per-domain", Whole(1),
                   help="Number of clients per domain, instead of --clients.",
                   replaces="clients"),
            Option("repeat", Flag(negative=True), True,
                   "Repeat images of domains below the mean size, for clients of equal "
                   "size."),
            Option("balance", Choice(("none", "clients", "classes")), "none",
                   "IID clients of a domain: none, random parts; clients, numbers of a "
                   "class differ by at most 1 between clients; classes (FedStyle), equal "
                   "numbers of every class: classes are sampled to one size, with repeats "
                   "if --repeat.", newer=True),
            *_PUBLIC,
        ),
        paper=papers.FEDSTYLE,
    ),
    Scheme("file", "indices from a file",
        "furlkit.data.partitions.from_file:from_file",
        (
            Option("split-file", File("json|partition"),
                   help="JSON or safetensors file with the clients' indices.",
                   recorded=False),
            _REPLACEMENT,
        ),
    ),
)

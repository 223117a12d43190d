"""`make bench`: the overhead of furlkit, as ratios measured in one run.

    python -m tests.bench                 everything
    python -m tests.bench step aggregate  only these

Machines differ and are noisy; the ratio of two alternating measurements is stable.
"""

import sys

from tests.bench import (
    aggregate,
    clients,
    cluster,
    device,
    distill,
    fcl,
    fedca,
    fedstyle,
    images,
    kmeans,
    lightly_loop,
    mapped,
    partition,
    plan,
    probe,
    sign,
    startup,
    step,
    terms,
)

BENCHMARKS = {
    "startup": startup.run,
    "images": images.run,
    "partition": partition.run,
    "plan": plan.run,
    "clients": clients.run,
    "step": step.run,
    "terms": terms.run,
    "mapped": mapped.run,
    "fedca": fedca.run,
    "fcl": fcl.run,
    "fedstyle": fedstyle.run,
    "kmeans": kmeans.run,
    "cluster": cluster.run,
    "distill": distill.run,
    "lightly": lightly_loop.run,
    "aggregate": aggregate.run,
    "sign": sign.run,
    "probe": probe.run,
    "device": device.run,
}


def main() -> None:
    """Run the benchmarks named on the command line, or all."""
    chosen = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in chosen if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"bench: {unknown[0]}: expected one of {', '.join(BENCHMARKS)}")
    for name in chosen:
        for line in BENCHMARKS[name]():
            print(f"{name:10} {line}", flush=True)


if __name__ == "__main__":
    main()

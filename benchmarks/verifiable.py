"""Produce rate of a verifiable topic beside an ordinary one, in one run: ``python -m benchmarks.verifiable``.

Rounds of both alternate over one log process, so that the machine's mood falls on both. The ratio is the median of the
rounds' ratios. A round has to take some seconds: the tree follows once a second.
"""

from __future__ import annotations

import argparse
import operator
import statistics
import sys
import tempfile
from pathlib import Path

from mainstem.client.bench import BenchOptions, bench
from mainstem.testing.broker_process import BrokerProcess

_KINDS: dict[str, dict[str, str]] = {"ordinary": {}, "verifiable": {"mainstem.verifiable": "true"}}


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_500_000)
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    rates: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    with tempfile.TemporaryDirectory() as directory, BrokerProcess(Path(directory) / "data") as broker:
        for number in range(options.rounds):
            for kind in sorted(_KINDS, reverse=number % 2 == 1):
                asked = BenchOptions(
                    records=options.records,
                    record_bytes=options.record_bytes,
                    latency_records=1,
                    topic_configs=_KINDS[kind],
                )
                rates[kind].append(bench(broker.bootstrap, asked).produce.records_per_second)
                print(f"{kind:>10}: {rates[kind][-1]:,.0f} records/s")
    ratio = statistics.median(map(operator.truediv, rates["verifiable"], rates["ordinary"]))
    print(f"verifiable / ordinary: {ratio:.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])

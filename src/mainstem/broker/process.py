"""The log process: ``python -m mainstem.broker.process --data DIR --listen HOST:PORT``.

Prints one line, ``ready: kafka HOST:PORT``, when it accepts connections, and nothing else to standard output; warnings
go to standard error. SIGTERM and SIGINT stop it cleanly, and so does the end of its standard input if it was started
with ``--stop-with-parent``. With ``--arguments-from-stdin`` alone, the arguments come as a line of JSON on standard
input, once the modules are loaded (``mainstem.node.early_log``).

Exit code 0 after a clean stop, 2 for wrong arguments; when it cannot run, one line ``error: …`` and 1 for a setting or
an address that cannot be, 4 for what this machine refuses: an address or a directory in use, a disk
(``mainstem.exit_codes``).
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # while modules load: what they make stays, and looking for garbage takes 7 % of the time

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import uvloop

from mainstem import __version__, logs
from mainstem.addresses import Address
from mainstem.broker.configs.broker_config import BrokerConfig
from mainstem.broker.metrics.serving import METRICS_SOCKET, MetricsServer
from mainstem.broker.security.listeners import ADVERTISED, parse_listeners
from mainstem.broker.server import Broker
from mainstem.durable_files import private_directory
from mainstem.errors import ConfigError, MainstemError
from mainstem.exit_codes import DONE, report_error
from mainstem.log.files.names import META_PROPERTIES
from mainstem.logs import fields
from mainstem.open_files import raise_open_files_limit

_LOG: Final = logging.getLogger("mainstem.broker")
_LISTEN_HELP: Final = "HOST:PORT, or PROTOCOL://HOST:PORT, several with commas between; port 0 takes a free one"
_FROM_STDIN: Final = "--arguments-from-stdin"
_COLLECT_AFTER: Final = 20_000
"""How many more objects are made than freed before the collector runs. With Python's 700 it looks through all
partitions of the node during each answer about 10,000 of them. That takes half of the time of the answer."""
_ADVERTISE_HELP: Final = "the addresses that clients connect to, if they differ; in the form of --listen"


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words == [_FROM_STDIN]:
        line = _first_line(sys.stdin.fileno())
        if not line.endswith(b"\n"):
            return DONE
        words = json.loads(line)
    arguments = _parser().parse_args(words)
    logs.configure(arguments.log_format, arguments.log_level)
    try:
        run(
            _config(arguments),
            stop_with_parent=arguments.stop_with_parent,
            metrics_socket=arguments.metrics_socket,
        )
    except MainstemError as error:
        return report_error(error)
    return DONE


def _first_line(descriptor: int) -> bytes:
    """Read a line, or up to the end of input. Nothing is read ahead: a pipe that ends later says to stop."""
    line = b""
    while not line.endswith(b"\n") and (part := os.read(descriptor, 4096)):
        line += part
    return line


def run(config: BrokerConfig, *, stop_with_parent: bool = False, metrics_socket: Path | None = None) -> None:
    """Run one broker until a signal, or the end of standard input, stops it. Raises what ``Broker.start`` raises."""
    raise_open_files_limit()
    private_directory(config.data_dir, marker=META_PROPERTIES)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, stop_with_parent, metrics_socket))


async def _serve(config: BrokerConfig, stop_with_parent: bool, metrics_socket: Path | None) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    broker = Broker(config)
    address = Address(*await broker.start())
    metrics = MetricsServer(broker, metrics_socket or config.data_dir / METRICS_SOCKET)
    await metrics.start()
    if stop_with_parent:
        loop.add_reader(sys.stdin.fileno(), _read_stdin, loop, stopping)
    _LOG.info("serving %s", config.data_dir, extra=fields(address=str(address), version=__version__))
    sys.stdout.write(f"ready: kafka {address}\n")
    sys.stdout.flush()
    await stopping.wait()
    _LOG.info("stopping")
    await metrics.stop()
    await broker.stop()
    _LOG.info("stopped")


def _read_stdin(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stopping.set()


def _config(arguments: argparse.Namespace) -> BrokerConfig:
    settings = {}
    for text in arguments.set:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set {text!r} is not NAME=VALUE, e.g. num.partitions=4")
        settings[name.strip()] = value.strip()
    return BrokerConfig(
        data_dir=Path(arguments.data),
        settings=settings,
        insecure=arguments.insecure,
        listeners=parse_listeners(arguments.listen, arguments.advertise or settings.get(ADVERTISED, "")),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mainstem.broker.process", description="The log process.")
    parser.add_argument(
        "--data", required=True, metavar="DIR", help="the data directory; it is made if it is not there"
    )
    parser.add_argument("--listen", default="127.0.0.1:9092", metavar="ADDRESSES", help=_LISTEN_HELP)
    parser.add_argument("--advertise", metavar="ADDRESSES", help=_ADVERTISE_HELP)
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a broker setting by Kafka's name; repeatable"
    )
    parser.add_argument("--insecure", action="store_true", help="listen on other addresses than loopback all the same")
    parser.add_argument(
        "--metrics-socket",
        type=Path,
        metavar="PATH",
        help=f"where metrics are served; DATA/{METRICS_SOCKET} by default",
    )
    parser.add_argument("--stop-with-parent", action="store_true", help="stop when standard input ends")
    parser.add_argument("--log-format", default="text", choices=logs.FORMATS, help="events as text or as JSON")
    parser.add_argument("--log-level", default="WARNING", choices=logs.LEVELS)
    return parser


if __name__ == "__main__":
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)
    gc.enable()
    sys.exit(main())

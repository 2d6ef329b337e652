"""The Containerfile and the compose file fit each other and the product. test_image.py starts the images."""

from __future__ import annotations

import fnmatch
import json
import re
from importlib.metadata import version

import pytest
import typer
import yaml

from mainstem.addresses import is_loopback, parse_address
from tests.packaging.command_lines import DEPLOY, ROOT, parsed

CONTAINERFILE = re.sub(r"\\\n\s*", " ", (DEPLOY / "container" / "Containerfile").read_text(encoding="utf-8"))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]["mainstem"]


def _instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", CONTAINERFILE, re.MULTILINE)


def _environment() -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", " ".join(_instructions("ENV"))))


def test_the_image_starts_on_loopback_as_a_user_without_rights() -> None:
    (command,) = _instructions("CMD")
    options = parsed(json.loads(command))
    addresses = [parse_address(options[name]) for name in ("listen", "http")]
    assert all(is_loopback(address.host) for address in addresses), "nothing listens beyond loopback unasked"
    assert not options["insecure"]
    assert sorted(int(port) for port in _instructions("EXPOSE")[0].split()) == sorted(each.port for each in addresses)
    assert _instructions("USER")[-1] == "10001:10001", "Kubernetes' runAsNonRoot needs a number"
    assert _instructions("STOPSIGNAL") == ["SIGTERM"]


def test_the_health_check_is_a_command_of_the_product() -> None:
    (check,) = re.findall(r"^HEALTHCHECK .* CMD (.*)$", CONTAINERFILE, re.MULTILINE)
    program, *words = json.loads(check)
    assert program == "mainstem"
    parsed(words)


def test_what_the_image_writes_is_on_its_volume() -> None:
    environment = _environment()
    (volume,) = _instructions("VOLUME")
    assert environment["MAINSTEM_DATA"].startswith(f"{volume}/")
    assert environment["XDG_CACHE_HOME"].startswith(f"{volume}/")


def test_what_is_copied_is_there_and_not_ignored() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [word for line in _instructions("COPY") if "--from" not in line for word in line.split()[:-1]]
    assert copied
    for source in copied:
        assert (ROOT / source).exists()
        assert any(fnmatch.fnmatch(source, pattern) for pattern in allowed), f".dockerignore leaves out {source}"


def test_compose_publishes_on_loopback_only_and_runs_read_only() -> None:
    options = parsed(COMPOSE["command"])
    (advertised,) = [each for each in options["settings"] if each.startswith("advertised.listeners=")]
    published = [port.rsplit(":", 1) for port in COMPOSE["ports"]]
    assert all(is_loopback(parse_address(outside).host) for outside, _ in published)
    inside = {parse_address(options[name]).port for name in ("listen", "http")}
    assert {int(port) for _, port in published} == inside
    assert parse_address(advertised.rpartition("://")[2]).port == parse_address(options["listen"]).port
    assert (COMPOSE["read_only"], COMPOSE["tmpfs"]) == (True, ["/tmp"])
    assert COMPOSE["volumes"] == [f"data:{_instructions('VOLUME')[0]}"]
    assert COMPOSE["image"] == f"mainstem:{version('mainstem')}"


def test_a_command_line_with_an_unknown_option_is_seen() -> None:
    with pytest.raises(typer.TyperException):
        parsed(["serve", "--lissten=0.0.0.0:9092"])

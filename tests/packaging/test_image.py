"""Both container images, built and started: read-only, not root, healthy; they serve clients, end and start again.

``make image-check`` builds them with buildah and starts them with runc. Else these tests are skipped.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.house.pages import ROOT, blocks_of
from tests.support.containers import Container
from tests.support.eventually import eventually
from tests.support.images import ImageStore, images_or_skip

pytestmark = pytest.mark.timeout(2_400)
LOG = f"mainstem:{version('mainstem')}"
ALL = f"{LOG}-all"
CLIENT = "tests.packaging.image_client"
STOP_S = 60
"""What the page asks for: ``--stop-timeout``."""
READY_S = 300
NO_ANSWER = 3
"""The exit code of ``mainstem health``; Docker takes every one but 0 for unhealthy."""


class Image(NamedTuple):
    """An image: what it says of itself, and its file system."""

    name: str
    settings: dict[str, Any]
    root: Path


@pytest.fixture(scope="module")
def store() -> Iterator[ImageStore]:
    images_or_skip()
    directory = Path(tempfile.mkdtemp(prefix="mainstem-images-"))
    with closing(ImageStore(directory)) as store:
        store.build()
        yield store


@pytest.fixture(scope="module", params=[LOG, ALL])
def image(store: ImageStore, request: pytest.FixtureRequest) -> Image:
    return Image(request.param, store.settings_of(request.param), store.mounted(request.param))


@pytest.fixture
def data(image: Image, tmp_path: Path) -> Path:
    """A new volume: it begins as the image's directory, with its owner and mode, as Docker's volumes do."""
    subprocess.run(["cp", "--archive", f"{image.root}/data", tmp_path / "data"], check=True, timeout=60)
    return tmp_path / "data"


def started(image: Image, data: Path, name: str, *words: str) -> Container:
    """A container that is ready."""
    container = Container(image.root, image.settings, data, data.parent / name, list(words))
    try:
        eventually(lambda: "ready: " in container.output or not container.is_running(), "ready", READY_S)
        assert container.is_running(), container.output
    except BaseException:
        container.close()
        raise
    return container


def test_an_image_says_what_it_is(image: Image, store: ImageStore) -> None:
    labels = {name.rpartition(".")[2]: text for name, text in image.settings["Labels"].items()}
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert (labels["title"], labels["licenses"]) == ("Mainstem", "Apache-2.0")
    assert (labels["version"], labels["revision"]) == (version("mainstem"), head.stdout.strip())
    sys.stdout.write(f"\n{image.name}: {store.size_of(image.name)}\n")


def test_an_image_serves_read_only_without_rights_and_keeps_its_records(image: Image, data: Path) -> None:
    with closing(started(image, data, "first")) as first:
        assert first.is_healthy()
        processes = first.processes()
        assert [each["Name"] for each in processes][:2] == ["tini", "mainstem"]
        assert {each["Uid"] for each in processes} == {"\t".join(["10001"] * 4)}
        assert {int(each[kind], 16) for each in processes for kind in ("CapEff", "CapPrm", "CapBnd")} == {0}
        for path in ("/etc/new", "/opt/mainstem/new", "/var/new"):
            assert "Read-only file system" in first.execute("touch", path, user="0:0").stderr
        assert first.execute("mainstem", "version").stdout.split()[-1] == version("mainstem")
        assert first.client(CLIENT, "append", "orders", "kept") == ""
        assert first.client(CLIENT, "get", "/healthz") == str({"status": "ok", "version": version("mainstem")})
        assert first.stop(STOP_S) == 0, first.output
    with closing(started(image, data, "second")) as second:
        assert second.client(CLIENT, "read", "orders") == "kept"
        assert second.stop(STOP_S) == 0, second.output


def test_the_health_check_fails_where_no_log_runs(image: Image, data: Path) -> None:
    [program, *words] = image.settings["Healthcheck"]["Test"][1:]
    assert program == image.settings["Entrypoint"][-1]
    with closing(Container(image.root, image.settings, data, data.parent / "alone", words)) as container:
        assert container.wait(READY_S) == NO_ANSWER, container.output


def test_the_larger_image_runs_an_app_with_a_pipeline(image: Image, data: Path) -> None:
    if image.name != ALL:
        pytest.skip("the smaller image has no Spark")
    [app] = (block for block in blocks_of(ROOT / "docs/learn/4-a-pipeline.md") if block.mark == "app")
    (data / "cafe.py").write_text(app.text)
    with closing(started(image, data, "app", "run", "/data/cafe.py")) as container:
        assert container.is_healthy()
        assert container.client(CLIENT, "append", "cups", '{"drink":"latte","price":3.5}') == ""
        assert container.client(CLIENT, "read", "totals") == '{"drink":"latte","cups":1,"earned":3.5}'
        assert container.stop(STOP_S) == 0, container.output


def test_the_page_has_the_sizes(store: ImageStore) -> None:
    page = (ROOT / "docs/operate/container.md").read_text()
    found = re.search(r"They have ([\d.]+) and ([\d.]+) GB", page)
    assert found is not None
    for name, told in zip((LOG, ALL), found.groups(), strict=True):
        number, unit = store.size_of(name).split()
        gigabytes = float(number) * {"MB": 1e-3, "GB": 1}[unit]
        assert abs(gigabytes - float(told)) < 0.15, f"{name} has {gigabytes:.2f} GB; the page says {told}"

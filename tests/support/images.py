"""The container images, built by buildah without an engine. tests/support/containers.py starts them.

``ImageStore`` keeps all that buildah writes below one directory. At its end it undoes the mounts and removes them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BASE = "docker.io/library/debian:bookworm-slim"
_TOOLS = ("buildah", "runc", "nsenter")
_ASKED_BY = "MAINSTEM_IMAGE_CHECK"
_BUILD_S = 1_500
_COMMAND_S = 120
_CERTIFICATES = "/run/certificates.pem"
_INDEXES = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX")


def images_or_skip() -> None:
    """Skip the test where the images are not asked for, or cannot be built."""
    if not os.environ.get(_ASKED_BY):
        pytest.skip("make image-check builds the container images and starts them (minutes, 8 GB)")
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(
            f"root and {', '.join(_TOOLS)} are needed (Debian: apt-get install buildah runc); missing: {missing}"
        )


class ImageStore:
    """Images and their file systems below ``directory``, until ``close``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._base = directory / "base"
        settings = directory / "storage.conf"
        self._environment = {
            **os.environ,
            "CONTAINERS_STORAGE_CONF": str(settings),
            "BUILDAH_ISOLATION": "chroot",
            "BUILDER": "buildah",
        }
        for driver in ("overlay", "vfs"):  # vfs copies each layer; it works where overlays cannot be mounted
            settings.write_text(
                f'[storage]\ndriver = "{driver}"\ngraphroot = "{directory}/{driver}"\nrunroot = "{directory}/run"\n'
            )
            if self._buildah("from", "scratch", check=False).returncode == 0:
                break

    def build(self) -> None:
        """Build both images by the script of ``make image``."""
        self._provide_base()
        options = []
        if certificates := os.environ.get("SSL_CERT_FILE"):  # those of a proxy that the base image does not know
            options += [f"--volume={certificates}:{_CERTIFICATES}:ro"]
            options += [f"--build-arg={name}={_CERTIFICATES}" for name in ("PIP_CERT", "SSL_CERT_FILE")]
        options += [f"--build-arg={name}={os.environ[name]}" for name in _INDEXES if name in os.environ]
        self._run([str(ROOT / "scripts" / "image"), *options], timeout_s=_BUILD_S)

    def settings_of(self, image: str) -> dict[str, Any]:
        """What the image says of itself: its user, command, health check, labels."""
        found = self._buildah("inspect", "--type", "image", image)
        return dict(json.loads(found.stdout)["Docker"]["config"])

    def size_of(self, image: str) -> str:
        """The image's size, as buildah prints it."""
        return self._buildah("images", "--format", "{{.Size}}", image).stdout.strip()

    def mounted(self, image: str) -> Path:
        """The file system of a new container of the image."""
        container = self._buildah("from", "--pull-never", image).stdout.strip()
        return Path(self._buildah("mount", container).stdout.strip())

    def close(self) -> None:
        """Undo the mounts, the last one first, and remove all files."""
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        mounts = [line.split()[4] for line in lines]
        for each in reversed([mount for mount in mounts if mount.startswith(f"{self._directory}/")]):
            subprocess.run(["umount", each], check=True, timeout=_COMMAND_S)
        shutil.rmtree(self._directory)

    def _provide_base(self) -> None:
        """Pull the base image; where no registry can be reached, make it from Debian's packages."""
        if self._buildah("pull", "--quiet", BASE, check=False).returncode == 0:
            return
        if shutil.which("debootstrap") is None:
            pytest.skip(f"{BASE} cannot be pulled, and debootstrap, which makes one like it, is not installed")
        self._run(["debootstrap", "--variant=minbase", "bookworm", str(self._base)], timeout_s=_BUILD_S)
        for path in (self._base / "var/cache/apt/archives").glob("*.deb"):
            path.unlink()
        container = self._buildah("from", "scratch").stdout.strip()
        self._buildah("add", "--quiet", container, str(self._base), "/")
        self._buildah("commit", "--quiet", "--rm", container, BASE)

    def _buildah(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self._run(["buildah", *words], check=check)

    def _run(
        self, argv: list[str], check: bool = True, timeout_s: float = _COMMAND_S
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            argv, env=self._environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        assert done.returncode == 0 or not check, f"{argv}\n{done.stdout[-4_000:]}{done.stderr[-4_000:]}"
        return done

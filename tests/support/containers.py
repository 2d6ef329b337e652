"""Containers of an image's file system, started by runc as Docker starts them with the options of the page.

A ``Container`` has the image's user without capabilities, a read-only root, a tmpfs at /tmp, the volume, and a network
of its own with loopback alone (docs/operate/container.md). A client gets into that network by ``nsenter``.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_COMMAND_S = 120
_OPEN_FILES_MAX = 1_048_576
_NO_CAPABILITIES: dict[str, list[str]] = {
    kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")
}


class Container:
    """A container with the image's command, or with ``words`` in its place, from the start to ``close``.

    ``settings``: what the image says of itself. ``data``: the directory that is its volume. ``bundle``: a new one.
    """

    def __init__(
        self, root: Path, settings: dict[str, Any], data: Path, bundle: Path, words: list[str] | None = None
    ) -> None:
        self._settings = settings
        self._name = f"mainstem-{bundle.name}"
        self._runc = ["runc", f"--root={bundle}/state"]
        bundle.mkdir()
        subprocess.run(["runc", "spec"], cwd=bundle, check=True, timeout=_COMMAND_S)
        _change(bundle / "config.json", root, settings, data, words)
        self._output = bundle / "output"
        with self._output.open("wb") as output:
            argv = [*self._runc, "run", f"--bundle={bundle}", self._name]
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    @property
    def output(self) -> str:
        """What it has printed."""
        return self._output.read_text()

    def processes(self) -> list[dict[str, str]]:
        """The status of each process in it, as Linux shows it in /proc: name → value."""
        listed = json.loads(self._ask("ps", "--format=json", self._name))
        texts = [Path(f"/proc/{pid}/status").read_text() for pid in listed]
        return [dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line) for text in texts]

    def execute(self, *words: str, user: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command in it, by default as the image's user."""
        argv = [*self._runc, "exec", *([f"--user={user}"] if user else []), self._name, *words]
        return subprocess.run(argv, capture_output=True, text=True, timeout=_COMMAND_S, check=False)

    def is_healthy(self) -> bool:
        """Run the image's health check once, as Docker does."""
        kind, *words = self._settings["Healthcheck"]["Test"]
        assert kind == "CMD"
        return self.execute(*words).returncode == 0

    def client(self, module: str, *words: str) -> str:
        """What a module of the tests prints that runs outside of the container, but in its network."""
        argv = ["nsenter", f"--net=/proc/{self._pid()}/ns/net", sys.executable, "-m", module, *words]
        done = subprocess.run(argv, cwd=_ROOT, capture_output=True, text=True, timeout=_COMMAND_S, check=False)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}{self.output}"
        return done.stdout.strip()

    def stop(self, within_s: float) -> int:
        """Send the image's stop signal to the first process, as ``docker stop`` does; the exit code."""
        self._ask("kill", self._name, self._settings["StopSignal"])
        return self.wait(within_s)

    def wait(self, within_s: float) -> int:
        """The exit code of a container that ends."""
        return self._process.wait(within_s)

    def is_running(self) -> bool:
        """Whether its first process runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """Kill it if it still runs."""
        if self.is_running():
            subprocess.run([*self._runc, "delete", "--force", self._name], timeout=_COMMAND_S, check=False)
            self._process.wait(_COMMAND_S)

    def _pid(self) -> int:
        return int(json.loads(self._ask("state", self._name))["pid"])

    def _ask(self, *words: str) -> str:
        return subprocess.run(
            [*self._runc, *words], capture_output=True, text=True, timeout=_COMMAND_S, check=True
        ).stdout


def _change(path: Path, root: Path, settings: dict[str, Any], data: Path, words: list[str] | None) -> None:
    """Change runc's own example of a container to the image and to the options of the page."""
    example = json.loads(path.read_text())
    uid, gid = map(int, settings["User"].split(":"))
    [volume] = settings["Volumes"]
    files = min(_OPEN_FILES_MAX, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    hosts = path.with_name("hosts")
    hosts.write_text(f"127.0.0.1 localhost {example['hostname']}\n")
    path.with_name("resolv.conf").touch()
    example["root"] = {"path": str(root), "readonly": True}
    example["process"] |= {
        "terminal": False,
        "user": {"uid": uid, "gid": gid},
        "args": [*settings["Entrypoint"], *(words or settings["Cmd"])],
        "env": settings["Env"],
        "cwd": settings["WorkingDir"],
        "capabilities": _NO_CAPABILITIES,
        "noNewPrivileges": True,
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": files, "soft": files}],
    }
    example["mounts"] = [each for each in example["mounts"] if each["type"] != "cgroup"] + [
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]},
        {"destination": volume, "type": "bind", "source": str(data), "options": ["rbind", "rw", "nosuid", "nodev"]},
        *(
            {
                "destination": f"/etc/{name}",
                "type": "bind",
                "source": str(path.with_name(name)),
                "options": ["bind", "ro"],
            }
            for name in ("hosts", "resolv.conf")
        ),
    ]
    path.write_text(json.dumps(example))

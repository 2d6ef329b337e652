"""Requests to the gateway as values, and the forms that repeat one: curl, Python, JavaScript, command.

Pure functions.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlencode


@dataclass(frozen=True)
class ConsoleRequest:
    """One request: what it asks is all in here, so it can be sent and shown.

    ``query`` leaves out what is None, and repeats a name for each entry of a list. ``headers`` are those beside the
    token and the type of the body.
    """

    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    method: str = "GET"
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """Path and query as they stand in the request line."""
        given = {name: value for name, value in self.query.items() if value is not None}
        return self.path + (f"?{urlencode(given, doseq=True, safe='/:,', quote_via=quote)}" if given else "")


def path(*segments: str) -> str:
    """A path of segments, each escaped whole."""
    return "".join("/" + quote(segment, safe="") for segment in segments)


def row_of(view: str, key: str) -> ConsoleRequest:
    """The request for a key-value view's row.

    The keys ``.`` and ``..`` cannot be segments of a path: clients and proxies resolve them as directories.
    """
    if key in (".", ".."):
        return ConsoleRequest(path("views", view, "keys"), {"start": key, "end": key + "\0", "limit": 1})
    return ConsoleRequest(path("views", view, "keys", key))


def curl_line(asked: ConsoleRequest, base_url: str, *, with_token: bool = False) -> str:
    """The line for a shell. A token is not written out: it is taken from the variable ``TOKEN``."""
    words = ["curl", "-s"]
    if asked.method != "GET":
        words += ["-X", asked.method]
    line = shlex.join(words) + " " + shlex.quote(base_url.rstrip("/") + asked.target)
    if with_token:
        line += ' -H "Authorization: Bearer $TOKEN"'
    for name, value in asked.headers.items():
        line += " -H " + shlex.quote(f"{name}: {value}")
    if asked.body is not None:
        text = json.dumps(asked.body, ensure_ascii=False)
        line += " -H 'Content-Type: application/json' -d " + shlex.quote(text)
    return line


def forms(asked: ConsoleRequest, base_url: str, *, with_token: bool = False) -> dict[str, str]:
    """The request in each form that repeats it, by the form's name; a command only where one asks the same."""
    url = base_url.rstrip("/") + asked.target
    command = command_line(asked)
    return {
        "curl": curl_line(asked, base_url, with_token=with_token),
        "Python": _python(asked, url, with_token),
        "JavaScript": _javascript(asked, url, with_token),
        **({} if command is None else {"Command": command}),
    }


def command_line(asked: ConsoleRequest) -> str | None:
    """The command of Mainstem that asks the same, if there is one."""
    words = _command(asked.method, [unquote(each) for each in asked.path.split("/")[1:]], asked)
    return None if words is None else shlex.join(["mainstem", *words])


def _command(method: str, segments: list[str], asked: ConsoleRequest) -> list[str] | None:
    match method, segments:
        case "GET", ["topics" | "views" | "pipelines" | "groups" as what]:
            return [what, "list"]
        case "GET", ["topics", topic]:
            return ["topics", "describe", topic]
        case "GET", ["topics", topic, "partitions" | "consumers" as what]:
            return ["topics", what, topic]
        case "DELETE", ["topics", topic]:
            return ["topics", "delete", topic]
        case "DELETE", ["topics", topic, "records"]:
            dry_run = ["--dry-run"] if asked.query.get("dry_run") else []
            return ["topics", "delete-records", topic, *_options(asked, "to"), *dry_run]
        case "POST" | "PATCH", ["topics", *rest] if isinstance(asked.body, Mapping):
            return _topic_command(rest, asked.body)
        case "GET", ["topics", topic, "records", partition, offset, "journey"]:
            return ["why", f"{topic}/{partition}:{offset}"]
        case "GET", ["topics", topic, "records"] if "partition" not in asked.query:
            return ["read", topic, *_options(asked, "from", "to", "key", "limit"), "--json"]
        case "POST", ["views", view, "sql"] if isinstance(asked.body, Mapping) and not asked.body.get("explain"):
            return ["views", "query", view, str(asked.body["query"]), *_options(asked, "at_least", "as_of")]
        case "GET", ["views", view, "search"]:
            return ["views", "query", view, str(asked.query["q"]), *_options(asked, "limit", "at_least")]
        case "GET", ["views", view, "keys", key]:
            return ["views", "query", view, key, *_options(asked, "at_least", "as_of")]
        case "GET", ["groups", group]:
            return ["groups", "describe", group]
        case "POST", ["groups", group, "reset"] if isinstance(asked.body, Mapping):
            topics = [f"--topic={topic}" for topic in asked.body.get("topics", ())]
            execute = [] if asked.body.get("dry_run") else ["--execute"]
            return ["groups", "reset", group, f"--to={asked.body['to']}", *topics, *execute]
        case "DELETE", ["groups", group]:
            return ["groups", "delete", group, "--yes"]
        case "GET", ["pipelines", pipeline, "plan" | "log" as what]:
            return ["pipelines", what, pipeline]
        case "POST", ["pipelines", pipeline, "pause" | "resume" | "restart" as action]:
            return ["pipelines", action, pipeline]
        case "GET", ["users" | "acls" as what]:
            return [what, "list"]
        case "POST", ["users"] if isinstance(asked.body, Mapping):
            return ["users", "add", str(asked.body["user"])]
        case "DELETE", ["users", user]:
            return ["users", "remove", user, "--yes"]
        case "POST", ["views", view, "rebuild"]:
            return ["views", "rebuild", view, *_options(asked, "from")]
    return None


def _topic_command(rest: list[str], body: Mapping[str, Any]) -> list[str] | None:
    """The command that creates or alters a topic as a request's body says."""
    configs = [f"--config={name}={value}" for name, value in {**body.get("configs", {}), **body.get("set", {})}.items()]
    partitions = [f"--partitions={body['partitions']}"] if body.get("partitions") else []
    dry_run = ["--dry-run"] if body.get("dry_run") else []
    match rest:
        case []:
            return ["topics", "create", str(body["name"]), *partitions, *configs]
        case [topic, "configs" | "partitions"]:
            resets = [f"--reset={name}" for name in body.get("reset", ())]
            return ["topics", "alter", topic, *partitions, *configs, *resets, *dry_run]
    return None


def _options(asked: ConsoleRequest, *names: str) -> list[str]:
    given = [(name, asked.query.get(name)) for name in names]
    return [f"--{name.replace('_', '-')}={value}" for name, value in given if value is not None]


def _python(asked: ConsoleRequest, url: str, with_token: bool) -> str:
    lines = ["import json, os, urllib.request" if with_token else "import json, urllib.request", ""]
    arguments = [repr(url)]
    headers = ['"Authorization": "Bearer " + os.environ["TOKEN"]'] if with_token else []
    headers += [f"{name!r}: {value!r}" for name, value in asked.headers.items()]
    if asked.body is not None:
        lines.append(f"body = {asked.body!r}")
        arguments.append("data=json.dumps(body).encode()")
        headers.append('"Content-Type": "application/json"')
    if headers:
        arguments.append(f"headers={{{', '.join(headers)}}}")
    if asked.method != "GET":
        arguments.append(f"method={asked.method!r}")
    lines.append(f"request = urllib.request.Request({', '.join(arguments)})")
    return "\n".join([*lines, "with urllib.request.urlopen(request) as answer:", "    print(json.load(answer))"])


def _javascript(asked: ConsoleRequest, url: str, with_token: bool) -> str:
    headers = ['Authorization: "Bearer " + process.env.TOKEN'] if with_token else []
    headers += [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in asked.headers.items()]
    options = [] if asked.method == "GET" else [f"method: {json.dumps(asked.method)}"]
    if asked.body is not None:
        headers.append('"Content-Type": "application/json"')
        options.append(f"body: JSON.stringify({json.dumps(asked.body, ensure_ascii=False)})")
    if headers:
        options.append(f"headers: {{{', '.join(headers)}}}")
    more = f", {{{', '.join(options)}}}" if options else ""
    return f"const answer = await fetch({json.dumps(url)}{more});\nconsole.log(await answer.json());"

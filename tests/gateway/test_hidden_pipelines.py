"""The error of a pipeline quotes records: over HTTP only those see it who may see pipelines."""

from __future__ import annotations

from pathlib import Path

from mainstem.client.log import Log
from mainstem.clock import SystemClock
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.access.tokens import Grants, TokenFile, new_token, write_tokens
from mainstem.gateway.server.app import create_app
from mainstem.gateway.server.host_app import create_host_app
from mainstem.gateway.server.serving import listen_unix
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.pipelines.kinds import KeyValue
from mainstem.pipelines.state import STATES_TOPIC, Failure, PipelineState, Status
from tests.gateway.served import listening_on, served
from tests.support.eventually import eventually
from tests.views.hosting import Setting

SECRET = "ValueError: the salary of Ada is 100000"


def test_who_may_read_one_view_sees_which_pipeline_fails_and_not_its_error(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    out = f"{setting.topic}-out"
    mainstem_log.create_topic(out, partitions=1)
    setting.app.pipeline(setting.app.topics[setting.topic], into=out, key="origin", name=f"derive-{out}")(lambda it: it)
    setting.app.view("derived", out, KeyValue())
    now_ms = SystemClock().time_ms()
    state = PipelineState(
        f"derive-{out}", "app", Status.FAILED, "always", now_ms, now_ms, failure=Failure(SECRET, now_ms, now_ms)
    )
    wanted = setting.append("1")
    mainstem_log.append_many(STATES_TOPIC, [state.to_record()])
    (reader, reader_text), (operator, operator_text) = (
        new_token("reader", Grants(read=("view:derived",))),
        new_token("operator", Grants(read=("*",))),
    )
    write_tokens(tmp_path / "tokens", [reader, operator])
    app = create_app(
        mainstem_log, ForwardingBackend([tmp_path / "s"]), GatewayLimits(), tokens=TokenFile(tmp_path / "tokens")
    )
    with (
        setting.host() as host,
        listening_on(create_host_app(host), listen_unix(tmp_path / "s")),
        served(app) as api,
    ):
        host.wait("derived", lambda status: status.state == "live")

        def time_out(token: str, **headers: str) -> str:
            """The whole answer, once it names the pipeline."""
            headers["Authorization"] = f"Bearer {token}"

            def asked() -> str | None:
                path = f"/views/derived/keys/1?at_least={wanted}&timeout=0"
                answer = api.get(path, headers=headers)
                assert answer.status_code == 504, answer.text
                return answer.text if "pipelines" in answer.json() else None

            return eventually(asked, "the time-out names the pipeline")

        assert SECRET in time_out(operator_text)
        hidden = time_out(reader_text)
        forged = time_out(reader_text, **{"Mainstem-Sees-Pipelines": "yes"})
    for shown in (hidden, forged):
        assert "salary" not in shown
        assert f"derive-{out} is failed (mainstem pipelines list shows its error)" in shown

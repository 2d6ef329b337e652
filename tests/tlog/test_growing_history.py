"""A history that grows, whose node restarts and is killed: every checkpoint continues all earlier ones."""

from __future__ import annotations

import threading
from pathlib import Path

from mainstem.client.log import Log
from mainstem.testing.broker_process import BrokerProcess
from mainstem.tlog.checkpoints import Checkpoint, open_checkpoint
from tests.tlog import support


def test_checkpoints_continue_one_another_while_records_are_written(tmp_path: Path) -> None:
    key = support.make_key(tmp_path).verifier()
    with support.broker_on(tmp_path) as broker, Log(broker.bootstrap, timeout_s=20) as log:
        log.create_topic(support.TOPIC, partitions=1, configs={"mainstem.verifiable": "true"})
        writing = threading.Thread(target=support.write_by_librdkafka, args=(broker.bootstrap, 7_000, 7))
        writing.start()
        reader, seen = log.tree(support.TOPIC, 0), list[Checkpoint]()
        while writing.is_alive():
            seen.append(open_checkpoint(reader.checkpoint(), [key]))
            reader.check_continues(seen[0], seen[-1])
            reader.check_continues(seen[-min(2, len(seen))], seen[-1])
        writing.join()
        last = open_checkpoint(reader.checkpoint(), [key])
        proof = reader.prove(6_999)
        assert proof.verify([key]).checkpoint.size == last.size > 1
        assert any(0 < each.size < last.size for each in seen), "checkpoints were taken in between"


def test_a_killed_node_signs_the_same_history(tmp_path: Path) -> None:
    key = support.make_key(tmp_path).verifier()
    settings = {"mainstem.signing.keys": str(tmp_path / "keys")}
    seen: list[Checkpoint] = []
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        with Log(broker.bootstrap, timeout_s=30) as log:
            log.create_topic(support.TOPIC, partitions=1, configs={"mainstem.verifiable": "true"})
            for _ in range(3):
                support.write_by_librdkafka(broker.bootstrap, 500, 5)
                reader = log.tree(support.TOPIC, 0)
                seen.append(open_checkpoint(reader.checkpoint(), [key]))
                support.write_by_librdkafka(broker.bootstrap, 100, 5)
                broker.kill()
                broker.restart()
                recent = open_checkpoint(reader.checkpoint(), [key])
                assert recent.size > seen[-1].size
                for former in seen:
                    reader.check_continues(former, recent)

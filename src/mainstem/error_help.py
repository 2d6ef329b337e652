"""Why each error of the tree is raised, and what its reader does about it.

The class's docstring in ``mainstem.errors`` says what an error means. This table has its usual causes and the cure, in
Markdown with code in backticks. Two places show it: ``docs/reference/errors.md``, and the gateway's page of a problem
type. A test fails if a class of ``mainstem.errors`` has no entry of its own. It is a module of its own because the
programs that raise errors do not need these texts.

Stateless; safe from any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from mainstem import errors
from mainstem.errors import MainstemError


class ErrorHelp(NamedTuple):
    """The causes of an error, and what to do about it."""

    cause: str
    cure: str


def help_of(error_class: type[MainstemError]) -> ErrorHelp:
    """The entry of a class: its own, or that of its nearest ancestor in ``mainstem.errors``."""
    return next(HELP[ancestor] for ancestor in error_class.__mro__ if ancestor in HELP)


_INPUT: Final[Mapping[type[MainstemError], ErrorHelp]] = {
    errors.InputError: ErrorHelp(
        "An argument, option or field is missing, unknown or has a value that cannot be used.",
        "Correct what the text names. `/docs` lists the fields of each route, `--help` the options of each command.",
    ),
    errors.PositionFormatError: ErrorHelp(
        "A position was typed or cut by hand: a part is not `TOPIC/PARTITION:NEXT_OFFSET`, a partition occurs twice, "
        "or an offset is negative or too large.",
        "Pass on a position as the append or the view gave it, for example `flights/0:17,flights/1:4`.",
    ),
    errors.PositionError: ErrorHelp(
        "The position is beyond the end of the log, or names a topic, partition or database from which this view does "
        "not derive. A position in a topic that a pipeline reads as a table cannot be waited for either.",
        "Use the position of an append to a topic upstream of the view. If the log was restored or the topic "
        "recreated, drop the stored position and read without `at_least`. An `as_of` position names every partition.",
    ),
    errors.UnknownTopicError: ErrorHelp(
        "The name is misspelt, the topic was deleted, or the partition number is not below the topic's count. A "
        "deleted and recreated topic has a new id, so a reader of the former one gets this error too.",
        "Look at `mainstem topics list`. Create the topic, or start an App that declares it; then open readers again.",
    ),
    errors.TopicExistsError: ErrorHelp(
        "A topic of this name was created before, perhaps by another program at the same time.",
        "Use the topic that exists: `mainstem topics describe NAME` shows it. `log.create_topic(…, exist_ok=True)` "
        "accepts it. Otherwise, choose another name.",
    ),
    errors.UnknownViewError: ErrorHelp(
        "The name is misspelt, or no view host that the gateway knows serves an App with this view.",
        "Look at `mainstem views list`, and start the App that declares the view.",
    ),
    errors.UnknownPipelineError: ErrorHelp(
        "The name is misspelt, or the pipeline has never run on this log.",
        "Look at `mainstem pipelines list`, and start the App that declares the pipeline.",
    ),
    errors.PipelineNotRunningError: ErrorHelp(
        "A pause, resume, restart or drop was asked for, and the process that runs the pipeline is not there or "
        "did not answer in time. A command that was written before still holds.",
        "Start the App with `mainstem run APP.py`, then look at `mainstem pipelines list` and ask again if needed.",
    ),
    errors.UnknownGroupError: ErrorHelp(
        "The name is misspelt, or the group was deleted, or its offsets expired after `offsets.retention.minutes`.",
        "Look at `mainstem groups list`. A consumer that starts with this name makes the group.",
    ),
    errors.GroupNotEmptyError: ErrorHelp(
        "Consumers of the group still run, so an offset that is reset would be overwritten by their next commit.",
        "Stop the consumers, or wait until their session times out, and repeat the command. "
        "`mainstem groups describe NAME` lists the members.",
    ),
    errors.UnknownUserError: ErrorHelp(
        "The name is misspelt, or the user was removed.",
        "Look at `mainstem users list`; `mainstem users add NAME` adds one.",
    ),
    errors.UnknownTokenError: ErrorHelp(
        "The name is misspelt, the token was revoked, or the command uses another token file than the gateway.",
        "Look at `mainstem tokens list`, with the file that `--http-tokens` of the gateway names.",
    ),
    errors.TokenExistsError: ErrorHelp(
        "A token was created with a name that is in the file. Its secret cannot be shown again.",
        "Choose another name, or revoke the token first with `mainstem tokens revoke NAME`.",
    ),
    errors.UnknownRequestError: ErrorHelp(
        "The id is not one that this log gave, or the topic of the request was deleted or recreated.",
        "Ask the address in `Location` of the 202 answer, with the token that sent the request.",
    ),
    errors.RequestExpiredError: ErrorHelp(
        "No worker replied within the retention of the replies' topic, or retention removed the request or its reply "
        "before it was fetched.",
        "See that a worker of the topic runs, and send the request again. Fetch replies sooner, or raise "
        "`retention.ms` of both topics.",
    ),
    errors.UnknownTileError: ErrorHelp(
        "A reader of a verifiable topic asks for a tile that the tree lacks, or for more of its hashes than there are.",
        "Fetch the newest checkpoint first, and ask only for tiles that its size covers.",
    ),
    errors.UnknownStreamError: ErrorHelp(
        "The stream was never created, was deleted, or its time to live is over. A fork may name a source like this.",
        "Create the stream with `PUT`, or correct its name.",
    ),
    errors.StreamConflictError: ErrorHelp(
        "A `PUT` names a stream that exists with another configuration. Or an append goes to a closed stream, has "
        "another content type, or repeats or skips a sequence number.",
        "Read the stream's headers with `HEAD`, then send what fits. If a sequence has a gap, "
        "`Producer-Expected-Seq` of the answer says where to go on.",
    ),
    errors.StreamRemovedError: ErrorHelp(
        "The stream was deleted while forks of it exist, so its name stays taken. Or retention removed the records at "
        "the offset that was asked for.",
        "Go on with `offset=now`, or create a stream of another name. A topic of streams needs a retention that is "
        "longer than its readers' pauses.",
    ),
    errors.StaleProducerError: ErrorHelp(
        "Another instance of this producer wrote with a later `Producer-Epoch`: usually a restarted program.",
        "Stop the older instance. One that must write takes an epoch above `Producer-Epoch` of the answer, and begins "
        "with `Producer-Seq` 0.",
    ),
    errors.RecordTooLargeError: ErrorHelp(
        "A record or batch is over the topic's `max.message.bytes`, or comes to more than "
        "`mainstem.max.decompressed.bytes`. Topics with a key index, conditions, idempotency or validation also bound "
        "the records in one append.",
        "Send smaller records or batches, or raise the topic's setting: "
        "`mainstem topics alter NAME --config max.message.bytes=…`.",
    ),
    errors.RecordListTooLargeError: ErrorHelp(
        "One append holds more bytes than a whole segment of the topic may have.",
        "Send smaller batches, or raise the topic's `segment.bytes`.",
    ),
    errors.InvalidRecordError: ErrorHelp(
        "The topic checks records and refuses one of these: it has no key in a compacted topic, a header that the "
        "topic does not allow, or a value that its schema does not take. Or a client built a wrong batch.",
        "Correct the records that the text names; `records` of the error has each one's index and reason. Nothing of "
        "the batch was appended.",
    ),
    errors.ConditionFailedError: ErrorHelp(
        "Another writer appended first, so the offset that the condition expects is not the actual one.",
        "Read what was written up to `actual`, decide again, and append with the new expectation.",
    ),
    errors.UnsupportedFeatureError: ErrorHelp(
        "The topic lacks the setting that this needs, such as `mainstem.key.index`. Or the log is an Apache Kafka or "
        "an older Mainstem, which lacks the feature. Or the gateway was started without it.",
        "Set what the text names, or use a log that has the feature. A client cannot work around it safely.",
    ),
    errors.InvalidTimestampError: ErrorHelp(
        "A record's timestamp is further from the log's clock than `message.timestamp.before.max.ms` or "
        "`message.timestamp.after.max.ms` allows. Or a client sent LogAppendTime, which only the log sets.",
        "Correct the writer's clock, leave the timestamp out, or raise the topic's bound for old data.",
    ),
    errors.OffsetOutOfRangeError: ErrorHelp(
        "Retention or a deletion removed the offset, the offset was never written, or the topic was recreated.",
        "Begin at `earliest` or `latest`, or at an offset that `mainstem topics describe NAME` shows. A Spark query "
        "goes on with `failOnDataLoss=false`.",
    ),
    errors.SchemaError: ErrorHelp(
        "A value is not what the topic's schema says: a column is missing, null or of another type. Or a file or an "
        "encoded value cannot be read as the schema that it names.",
        "Correct the value that the text names, or register a schema that takes it. Existing records that do not fit "
        "become dead letters of views and pipelines.",
    ),
    errors.MirrorRefusedError: ErrorHelp(
        "The target is the source itself, an Apache Kafka, or has records that the source does not have. Or a topic "
        "was recreated at the source, or the copy is not level yet at a promotion.",
        "Remove what the text names. A topic that differs is deleted at the target, and copied again from its "
        "beginning.",
    ),
    errors.HistoryRemovedError: ErrorHelp(
        "A past state, a verification or a rebuild needs records that retention or compaction removed.",
        "Ask for a later position or time. To build a view from what is left, run "
        "`mainstem views rebuild NAME --from left`; for longer pasts, raise `retention.ms` or keep a lake.",
    ),
    errors.ProofError: ErrorHelp(
        "A proof, checkpoint or signature was damaged or forged, was made with another key, or belongs to a log whose "
        "history was rewritten. A quorum may lack cosignatures.",
        "Do not trust the record. Fetch the proof again and compare the key with `mainstem keys show`. If it still "
        "fails, keep both files as evidence and examine the log.",
    ),
    errors.QueryError: ErrorHelp(
        "The query has a syntax error, names a column that is not there, would write, uses a function that is not "
        "allowed, or does not fit the view's kind. Or it exceeded its time, memory or row limit.",
        "Correct the query at the place that the text names, or narrow it with `WHERE` and `LIMIT`.",
    ),
    errors.DefinitionError: ErrorHelp(
        "The App declares a name twice, a topic with two writers, a cycle, a schema without columns, or a function "
        "that returns something else than its topics need.",
        "Change the App at the file and line that the text begins with.",
    ),
    errors.AuthenticationError: ErrorHelp(
        "The password, token or certificate is wrong, missing or expired, or the mechanism is not enabled. The text "
        "is the same for unknown users and wrong passwords.",
        "Check user, password and mechanism: `mainstem users list` shows the mechanisms. The log process's output "
        "names each connection that failed.",
    ),
    errors.AuthorizationError: ErrorHelp(
        "The user lacks an ACL or has one that denies this, or the token lacks the scope that the text names.",
        "Let an administrator add the right: `mainstem acls add` for users, `mainstem tokens create` for HTTP.",
    ),
    errors.ConfigError: ErrorHelp(
        "A setting is misspelt, has a value out of its range or of another type, contradicts another setting, or a "
        "file that it names cannot be used.",
        "Correct the setting that the text names; the reference of settings has every name, type and bound.",
    ),
}

_PROTOCOL: Final[Mapping[type[MainstemError], ErrorHelp]] = {
    errors.ProtocolError: ErrorHelp(
        "The other side of a connection does not speak the Kafka protocol as it should: often it is another service "
        "on that port.",
        "Check the address and whether TLS is expected there. If both sides are right, report it with the text.",
    ),
    errors.FrameError: ErrorHelp(
        "A frame is cut off or has an impossible length, or an answer would exceed `mainstem.response.max.bytes`. "
        "Typical is an HTTP or TLS client on the Kafka port.",
        "Check address, port and TLS of the client. If the text names a bound, ask for fewer items at once.",
    ),
    errors.CorruptBatchError: ErrorHelp(
        "A record batch was changed between its writer and here, by a disk, by memory or by a client with a defect.",
        "If a writer gets it, send again; if it repeats, update the client. If a reader gets it, run `mainstem log "
        "verify` on the data directory.",
    ),
    errors.DamagedRecordsError: ErrorHelp(
        "The bytes of these records on the log's disk are not what was written: bit rot, a torn write, or a program "
        "that changed the file.",
        "Restore the partition from a backup or a mirror. Where losing them is acceptable, read on with "
        '`on_damaged="skip"`, or the Spark option `onDamaged`.',
    ),
    errors.ProducerError: ErrorHelp(
        "The log does not know the producer's state: its id expired, or the topic was recreated or truncated.",
        "Close the producer and open a new one. Read the end of the topic before you send the last records again.",
    ),
    errors.OutOfOrderSequenceError: ErrorHelp(
        "A batch before this one was lost or refused. Or the log has forgotten the producer, after a day "
        "without writes or because the topic was recreated.",
        "Close the producer and open a new one. Read what arrived, or append with idempotency keys, so that a repeat "
        "is safe.",
    ),
    errors.InvalidProducerEpochError: ErrorHelp(
        "A newer instance with the same transactional id began, or the coordinator aborted this one's transaction.",
        "End this instance if another runs. Otherwise open a new producer, which gets a new epoch.",
    ),
    errors.ProducerFencedError: ErrorHelp(
        "Two programs, or two runs of one Spark query, use the same transactional id at the same time.",
        "Run one of them, or give each its own id and each Spark query its own checkpoint.",
    ),
    errors.InvalidTransactionStateError: ErrorHelp(
        "The producer wrote without its transaction's batch flag while its transaction is open in this partition. "
        "Only clients that build batches themselves can do so.",
        "Commit or abort the transaction before the other write, or use a second producer for it.",
    ),
    errors.TransactionCoordinatorFencedError: ErrorHelp(
        "A transaction marker came from a coordinator that was replaced since, usually late after a restart.",
        "Nothing: the newer coordinator ends the transaction. A tool that writes markers must read the coordinator "
        "epoch again.",
    ),
    errors.RemoteError: ErrorHelp(
        "The log refused a request with an error code that has no class of its own. `name` is Kafka's name of it.",
        "Look up `name` in Kafka's list of error codes. `retriable` says whether the same request may succeed later.",
    ),
}

_UNAVAILABLE: Final[Mapping[type[MainstemError], ErrorHelp]] = {
    errors.UnavailableError: ErrorHelp(
        "A process is starting, stopping or at one of its limits: streams, searches, bodies or waiting requests.",
        "Repeat the request after a pause; over HTTP, after `Retry-After` seconds. If it persists, run "
        "`mainstem doctor`.",
    ),
    errors.LogUnavailableError: ErrorHelp(
        "The log process does not run, the address is wrong, the network is cut, or the log is overloaded.",
        "Check the address and `mainstem health`. A client repeats by itself until its time-out; raise it for a log "
        "that starts slowly.",
    ),
    errors.OutcomeUnknownError: ErrorHelp(
        "The connection broke, or the time was over, after the append was sent and before its answer arrived.",
        "Do not just repeat: the records may be twice. Read the end of the topic, or repeat the append with the same "
        "idempotency key.",
    ),
    errors.IndexNotReadyError: ErrorHelp(
        "The key index was switched on for an existing topic, or its files were lost, and the log builds it now.",
        "Wait and repeat: the log reads the partition once for it. Kafka clients repeat by themselves.",
    ),
    errors.PositionTimeoutError: ErrorHelp(
        "The view or a pipeline before it lags, does not run, or waits for an open transaction.",
        "Look at `reached`, `pipelines` and `transactions` of the error; `mainstem why` says where a record is. Then "
        "repeat, or raise `timeout_s`.",
    ),
    errors.TransactionTimeoutError: ErrorHelp(
        "The program paused or wrote for longer than `transaction.timeout.ms`, or a micro-batch is too large. A "
        "reader that needs committed records may also meet a transaction that stays open.",
        "Begin another transaction with less in it, or a longer time-out up to the log's `transaction.max.timeout.ms`. "
        "For Spark, lower `maxOffsetsPerTrigger`.",
    ),
    errors.ViewStoppedError: ErrorHelp(
        "The view cannot go on without a gap or a wrong row. Its topic lost records before it read them, was recreated "
        "or cut; or its store's disk or database refused a write.",
        "Remove the cause that `detail` of `mainstem views list` names, then run `mainstem views rebuild NAME`.",
    ),
    errors.PipelineFailedError: ErrorHelp(
        "The pipeline's function raised an error, Spark's JVM ended, or transactions of a micro-batch were lost.",
        "`mainstem pipelines show NAME` has file, line and offsets. Correct it and start the App again: it goes on "
        "from its checkpoint.",
    ),
    errors.RequestFailedError: ErrorHelp(
        "The worker's function raised an error for this request. The text is the one that the worker gave.",
        "Correct the request or the worker, then send a new request: this one keeps its failed reply.",
    ),
    errors.PartitionOfflineError: ErrorHelp(
        "A write or sync of this partition failed once, or its files could not be opened. What the disk then holds is "
        "unknown, so the log refuses writes there.",
        "Look at the disk's space and health, then restart the log: it recovers the partition. Reads go on meanwhile.",
    ),
}

_MACHINE: Final[Mapping[type[MainstemError], ErrorHelp]] = {
    errors.MachineError: ErrorHelp(
        "A program or service that this needs failed here: a child process, Spark, or a database's connection.",
        "Follow the text; the output of each process is in `DATA/run/PROCESS.log`. `mainstem doctor` checks the "
        "machine.",
    ),
    errors.DirectoryLockedError: ErrorHelp(
        "Another node, a restore or an Apache Kafka has the directory open.",
        "Stop the other process, or use another directory with `--data`. A lock ends with its process, so no file "
        "has to be removed.",
    ),
    errors.StorageError: ErrorHelp(
        "The disk is full, read-only or broken, a permission is missing, or a file is not what Mainstem wrote.",
        "Make space or correct owner and mode of the path that the text names. For a damaged file, restore it from a "
        "backup.",
    ),
    errors.DamagedTreeError: ErrorHelp(
        "Files of a verifiable topic's tree were changed or deleted, or an older copy of the data was put back.",
        "Restore the partition's tree and log files together from a backup. Until then, records can be read but "
        "nothing is signed.",
    ),
    errors.AddressInUseError: ErrorHelp(
        "Another process listens on this port or socket: often a node that is still running.",
        "Stop it, or choose another address with `--listen` or `--http`. Port 0 takes a free one.",
    ),
    errors.MissingDependencyError: ErrorHelp(
        "The installation has no Java, not the extra that this needs, or a package of the wrong version.",
        "Run the command that the text gives, for example `pip install 'mainstem[spark]'`. `mainstem doctor` lists "
        "what is missing.",
    ),
}

HELP: Final[Mapping[type[MainstemError], ErrorHelp]] = {
    errors.MainstemError: ErrorHelp(
        "A newer log or gateway sent an error that this version does not know, or a program raised the root class.",
        "Read the text, which says what to do, and update the older side.",
    ),
    **_INPUT,
    **_PROTOCOL,
    **_UNAVAILABLE,
    **_MACHINE,
}

from __future__ import annotations

from kio.schema.errors import ErrorCode as KioErrorCode

from mainstem.protocol.errors import ErrorCode, describe


def test_numbers_names_and_retriability_are_those_that_kio_knows() -> None:
    ours = {(code.name.lower(), int(code), describe(code).retriable) for code in ErrorCode}
    assert ours == {(code.name, int(code.value), code.retriable) for code in KioErrorCode}


def test_an_unknown_code_is_described_all_the_same() -> None:
    assert describe(9999).name == "ERROR_9999"

"""Plans about the voters of the metadata quorum."""

from __future__ import annotations

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import add_raft_voter, remove_raft_voter
from minikafka_client.errors import BrokerError
from minikafka_client.plans import quorum
from tests.client.plans.scripted import Script

DIRECTORY = bytes(range(16))


def removed(code: ErrorCode) -> remove_raft_voter.Response:
    return remove_raft_voter.Response(error_code=code, error_message=None)


def test_another_controller_is_asked_when_nothing_happened() -> None:
    script = Script()
    script.on(remove_raft_voter.Request, removed(ErrorCode.NOT_CONTROLLER), removed(ErrorCode.NONE))
    script.run(quorum.remove_raft_voter, 2, DIRECTORY)
    assert len(script.asked(remove_raft_voter.Request)) == 2


@pytest.mark.parametrize("code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.DUPLICATE_VOTER])
def test_what_may_have_happened_is_not_asked_for_twice(code: ErrorCode) -> None:
    script = Script()
    answer = add_raft_voter.Response(error_code=code, error_message=None)
    script.on(add_raft_voter.Request, answer)
    with pytest.raises(BrokerError) as raised:
        script.run(quorum.add_raft_voter, 2, DIRECTORY, {})
    assert raised.value.code is code
    assert len(script.asked(add_raft_voter.Request)) == 1

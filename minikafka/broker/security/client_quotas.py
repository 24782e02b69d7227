"""What clients use, compared with their quotas (KIP-13, KIP-124, KIP-599, KIP-612).

While there are quotas, a connection asks `ClientQuotas.charge` for a `RequestCharge` with every
request. It counts what the request costs: bytes, the time its handler works, partitions created or
deleted. Above a quota the answer says for how long the client must wait (``throttle_time_ms``), and
the connection does not read on until then, for clients that do not listen (KIP-219).

The rates of a client are forgotten when they have nothing left to say, and at the latest when
`CLIENTS_MAX` others came after it. So memory is bounded however many client ids there are.
"""

from __future__ import annotations

import logging
import types
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, TypeVar

from ...metadata.client_quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Limit,
    QuotaLimits,
    Quotas,
)
from ...metadata.decision import Refusal
from ...metadata.setting_table import BrokerConfig
from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ...security.rates import SampledRate, TokenBucket, Windows

logger = logging.getLogger(__name__)

CLIENTS_MAX: Final = 10_000
"""Rates that are remembered, of all quotas together."""
_FORGOTTEN_AT_ONCE: Final = 4
_EXEMPT: Final = (ApiKey.WRITE_TXN_MARKERS,)
"""Requests between brokers, whose handlers' time Kafka does not count."""
_MILLISECOND: Final = 0.001
_PERCENT: Final = 100.0

_T = TypeVar("_T")
_Usage = SampledRate | TokenBucket
_Key = tuple[str, str, str]
_Found = TypeVar("_Found", SampledRate, TokenBucket)


class ClientQuotas:
    """The quotas that are in force, and what clients have used lately.

    Args:
        quotas: what the metadata image has.
        config: how far rates look back.
        monotonic: the time in seconds.
    """

    def __init__(
        self, quotas: Quotas, config: BrokerConfig, monotonic: Callable[[], float]
    ) -> None:
        self._limits = QuotaLimits(quotas)
        self._monotonic = monotonic
        self._windows = Windows(config.quota_window_num, config.quota_window_size_seconds)
        self._mutation_windows = Windows(
            config.controller_quota_window_num, config.controller_quota_window_size_seconds
        )
        self._usage: OrderedDict[_Key, _Usage] = OrderedDict()

    def __len__(self) -> int:
        """How many rates are remembered."""
        return len(self._usage)

    def replace(self, quotas: Quotas) -> None:
        """Other quotas are in force from now on; what clients have used stays."""
        self._limits = QuotaLimits(quotas)

    def charge(self, user: str, client_id: str | None, size_bytes: int) -> RequestCharge:
        """Begin to count what a request costs."""
        return RequestCharge(self, self._monotonic, user, client_id or "", size_bytes)

    def limit(self, key: str, user: str, client_id: str) -> Limit | None:
        return self._limits.of_client(key, user, client_id)

    def rate(self, key: str, limit: Limit) -> SampledRate:
        """What the clients that share a limit have used lately."""
        return self._find((key, limit.user, limit.client_id), lambda: SampledRate(self._windows))

    def bucket(self, limit: Limit) -> TokenBucket:
        """What the clients that share a limit may still create or delete."""
        key = (CONTROLLER_MUTATION_RATE, limit.user, limit.client_id)
        return self._find(key, lambda: TokenBucket(self._mutation_windows))

    def _find(self, key: _Key, new: Callable[[], _Found]) -> _Found:
        usage: Any = self._usage.get(key)
        if usage is None:
            self._make_room()
            usage = self._usage[key] = new()
        else:
            self._usage.move_to_end(key)
        found: _Found = usage
        return found

    def _make_room(self) -> None:
        """Forget rates that have been left alone for longest; a few each time, so it is cheap."""
        now = self._monotonic()
        for _ in range(_FORGOTTEN_AT_ONCE):
            oldest = next(iter(self._usage.items()), None)
            if oldest is None:
                return
            key, usage = oldest
            if not usage.is_idle(now) and len(self._usage) < CLIENTS_MAX:
                return
            del self._usage[key]

    def window_bytes(self, limit: Limit) -> int:
        """What a client that has used nothing lately may have at once."""
        count, seconds = self._windows
        return int(min(limit.value * max(1, count - 1) * seconds, 2**62))

    def connection_delay(self, address: str) -> float:
        """Count a connection; returns for how many seconds a refused one is held, 0 if it is not.

        Like Kafka's, a refused connection does not count.
        """
        value = self._limits.of_address(address)
        if value is None:
            return 0.0
        now = self._monotonic()
        rate = self.rate(CONNECTION_CREATION_RATE, Limit(value, address, ""))
        rate.record(1, now)
        excess = rate.excess_seconds(value, now)
        if excess:
            rate.record(-1, now)
        return min(excess, self._windows.seconds)

    def over_bytes(self, key: str, user: str, client_id: str, size_bytes: int) -> float:
        """Count bytes; returns for how many seconds the client must wait."""
        limit = self.limit(key, user, client_id)
        if limit is None:
            return 0.0
        now = self._monotonic()
        rate = self.rate(key, limit)
        rate.record(size_bytes, now)
        return rate.excess_seconds(limit.value, now)

    def over_fetched(self, user: str, client_id: str, size_bytes: int) -> float:
        """The same for an answer that is emptied if the client must wait: then it costs nothing.

        An answer that is too large for the quota even if nothing else was read is sent all the
        same: with Kafka its consumer would never get beyond it.
        """
        limit = self.limit(CONSUMER_BYTE_RATE, user, client_id)
        if limit is None:
            return 0.0
        now = self._monotonic()
        rate = self.rate(CONSUMER_BYTE_RATE, limit)
        if rate.rate(now) <= 0:
            rate.record(size_bytes, now)
            return 0.0
        rate.record(size_bytes, now)
        excess = rate.excess_seconds(limit.value, now)
        if excess:
            rate.record(-size_bytes, now)
        return excess

    def over_time(self, user: str, client_id: str, seconds: float) -> float:
        """Count the time that a handler has worked; returns how long the client must wait.

        At most a window, like Kafka: no request is so expensive that its client hears nothing for
        minutes.
        """
        limit = self.limit(REQUEST_PERCENTAGE, user, client_id)
        if limit is None:
            return 0.0
        now = self._monotonic()
        rate = self.rate(REQUEST_PERCENTAGE, limit)
        rate.record(seconds * _PERCENT, now)
        return min(rate.excess_seconds(limit.value, now), self._windows.seconds)


class RequestCharge:
    """What one request costs.

    Attributes:
        wait_seconds: how long the client must wait because of it.
    """

    __slots__ = (
        "_client_id",
        "_is_time_counted",
        "_monotonic",
        "_quotas",
        "_size_bytes",
        "_turn_began",
        "_user",
        "_worked",
        "wait_seconds",
    )

    def __init__(
        self,
        quotas: ClientQuotas,
        monotonic: Callable[[], float],
        user: str,
        client_id: str,
        size_bytes: int,
    ) -> None:
        self._quotas = quotas
        self._monotonic = monotonic
        self._user = user
        self._client_id = client_id
        self._size_bytes = size_bytes
        self._worked = 0.0
        self._turn_began = 0.0
        self._is_time_counted = False
        self.wait_seconds = 0.0

    @types.coroutine
    def timed(self, work: Awaitable[_T]) -> Generator[Any, Any, _T]:
        """Await a handler and measure how long it works; waiting costs nothing."""
        steps = work.__await__()
        resumed: Any = None
        raised: BaseException | None = None
        while True:
            self._turn_began = self._monotonic()
            try:
                trap = steps.send(resumed) if raised is None else steps.throw(raised)
            except StopIteration as end:
                result: _T = end.value
                return result
            finally:
                self._worked += self._monotonic() - self._turn_began
            raised = None
            try:
                resumed = yield trap
            except BaseException as error:  # noqa: BLE001 - the handler gets it, in its next turn
                raised = error

    @property
    def throttle_ms(self) -> int:
        return round(self.wait_seconds * 1000)

    def fetch_bytes_max(self) -> int | None:
        """The most bytes that a consumer's answer may have without being emptied each time."""
        limit = self._quotas.limit(CONSUMER_BYTE_RATE, self._user, self._client_id)
        return None if limit is None else self._quotas.window_bytes(limit)

    def fetched(self, size_bytes: int) -> bool:
        """Count an answer to a consumer, during its handler; True if it must be emptied."""
        worked = self._worked + self._monotonic() - self._turn_began
        self._count_time(worked)
        excess = self._quotas.over_fetched(self._user, self._client_id, size_bytes)
        self._wait(excess)
        return self.throttle_ms > 0

    def sent(self, size_bytes: int) -> None:
        """Count bytes that a consumer gets, whatever its quota says."""
        self._wait(
            self._quotas.over_bytes(CONSUMER_BYTE_RATE, self._user, self._client_id, size_bytes)
        )

    def mutations(self, *, is_strict: bool) -> MutationCharge:
        """Count partitions that are created or deleted.

        Args:
            is_strict: refuse what is above the quota; clients of older versions only have to wait.
        """
        return MutationCharge(self, is_strict=is_strict)

    def take(self, partitions: int, *, is_strict: bool) -> bool:
        """Count partitions; False if none may be created or deleted now."""
        quotas = self._quotas
        limit = quotas.limit(CONTROLLER_MUTATION_RATE, self._user, self._client_id)
        if limit is None:
            return True
        now, bucket = self._monotonic(), quotas.bucket(limit)
        debt = bucket.debt_seconds(limit.value, now)
        # Less than what an answer can say is nothing: the client has waited as it was told.
        if debt >= _MILLISECOND / 2 and is_strict:
            self._wait(debt)
            return False
        bucket.take(partitions, limit.value, now)
        if not is_strict:
            self._wait(bucket.debt_seconds(limit.value, now))
        return True

    def finish(self, api_key: int, *, is_answered: bool) -> int:
        """Count what is not counted yet, when the request is done.

        Args:
            api_key: what was asked for.
            is_answered: it has an answer; the time of others is not counted, as in Kafka.

        Returns:
            For how many milliseconds the client must wait.
        """
        if api_key == ApiKey.PRODUCE:
            self._wait(
                self._quotas.over_bytes(
                    PRODUCER_BYTE_RATE, self._user, self._client_id, self._size_bytes
                )
            )
        if is_answered and api_key not in _EXEMPT and not self._is_time_counted:
            self._count_time(self._worked)
        return self.throttle_ms

    def wait_at_least(self, throttle_ms: int) -> None:
        """Another node has told this client to wait."""
        self._wait(throttle_ms / 1000)

    def _count_time(self, worked: float) -> None:
        self._is_time_counted = True
        self._wait(self._quotas.over_time(self._user, self._client_id, worked))

    def _wait(self, seconds: float) -> None:
        self.wait_seconds = max(self.wait_seconds, seconds)


class MutationCharge:
    """Counts the partitions of one request that are created or deleted."""

    __slots__ = ("_charge", "_is_strict")

    def __init__(self, charge: RequestCharge, *, is_strict: bool) -> None:
        self._charge = charge
        self._is_strict = is_strict

    def __call__(self, partitions: int) -> Refusal | None:
        """Count partitions; a refusal if they may not be created or deleted now."""
        if self._charge.take(partitions, is_strict=self._is_strict):
            return None
        return Refusal(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            f"{CONTROLLER_MUTATION_RATE} is exceeded; try again in {self._charge.throttle_ms} ms.",
        )

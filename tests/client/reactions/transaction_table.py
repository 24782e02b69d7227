"""What a producer with transactions does about each error code; see `transaction_probes.py`.

A column is an answer: that of Produce; InitProducerId, to a new producer and to one that
recovers a prepared transaction; AddPartitionsToTxn, AddOffsetsToTxn (the group), TxnOffsetCommit;
EndTxn, to its producer that commits or aborts, and to a process that commits or aborts what
another has prepared.

Every code that Kafka has is in exactly one row, so that a new one needs a decision.
"""

from __future__ import annotations

from typing import Final

TABLE: Final = """
Produce Init  Recover Add   Group  Offsets Commit  Abort Decide  Against

ok      ok    ok      ok    ok     ok      ok      ok    ok      ok
    NONE

# it may have been carried out before the broker stumbled
abort   fail  fail    abort abort  abort   unknown abort fail    fail
    UNKNOWN_SERVER_ERROR

# the broker is older than two-phase commit, or does not allow it
abort   fail  refused abort abort  abort   abort   abort fail    fail
    UNSUPPORTED_VERSION
fatal   fail  refused fatal fatal  fatal   fatal   fatal fail    fail
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED

# it is stored already
ok      fail  fail    abort abort  abort   abort   abort fail    fail
    DUPLICATE_SEQUENCE_NUMBER

# a partition's or a group's word; the coordinator has the last one (KIP-588)
abort   fail  fail    fatal abort  abort   fatal   fatal taken   taken
    INVALID_PRODUCER_EPOCH

# another producer has the transactional id, or it has expired
fatal   fail  fail    fatal fatal  fatal   fatal   fatal taken   taken
    PRODUCER_FENCED INVALID_PRODUCER_ID_MAPPING

# it is not open, or was decided otherwise
abort   fail  fail    abort abort  abort   abort   new   aborted other
    INVALID_TXN_STATE

# it can only be aborted (KIP-890)
abort   fail  fail    abort abort  abort   abort   abort aborted other
    TRANSACTION_ABORTABLE

# the markers of the one before are still being written
retry   soon  soon    soon  soon   soon    soon    soon  soon    soon
    CONCURRENT_TRANSACTIONS

# the coordinator is another broker, or there is none now
retry   find  find    find  find   find    find    find  find    find
    COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR

# for the topic, or for a segment
split   fail  fail    abort abort  abort   abort   abort fail    fail
    MESSAGE_TOO_LARGE RECORD_LIST_TOO_LARGE

# the group has moved on without this member (KIP-447)
abort   fail  fail    abort group  group   abort   abort fail    fail
    ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS
abort   fail  fail    abort member member  abort   abort fail    fail
    FENCED_INSTANCE_ID

# another broker leads, or the topic was recreated
refresh retry retry   retry retry  retry   retry   retry retry   retry
    UNKNOWN_TOPIC_OR_PARTITION LEADER_NOT_AVAILABLE NOT_LEADER_OR_FOLLOWER REPLICA_NOT_AVAILABLE
    KAFKA_STORAGE_ERROR FENCED_LEADER_EPOCH UNKNOWN_TOPIC_ID INCONSISTENT_TOPIC_ID

# what passes
retry   retry retry   retry retry  retry   retry   retry retry   retry
    CORRUPT_MESSAGE REQUEST_TIMED_OUT NETWORK_EXCEPTION COORDINATOR_LOAD_IN_PROGRESS
    NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_CONTROLLER FETCH_SESSION_ID_NOT_FOUND
    INVALID_FETCH_SESSION_EPOCH LISTENER_NOT_FOUND UNKNOWN_LEADER_EPOCH OFFSET_NOT_AVAILABLE
    PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE ELECTION_NOT_NEEDED
    UNSTABLE_OFFSET_COMMIT THROTTLING_QUOTA_EXCEEDED FETCH_SESSION_TOPIC_ID_ERROR
    SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH SHARE_SESSION_LIMIT_REACHED

# permanent errors; lost sequences are among them, because the epoch is not raised here
abort   fail  fail    abort abort  abort   abort   abort fail    fail
    OUT_OF_ORDER_SEQUENCE_NUMBER UNKNOWN_PRODUCER_ID
    OFFSET_OUT_OF_RANGE INVALID_FETCH_SIZE BROKER_NOT_AVAILABLE STALE_CONTROLLER_EPOCH
    OFFSET_METADATA_TOO_LARGE INVALID_TOPIC_EXCEPTION INVALID_REQUIRED_ACKS
    INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID INVALID_SESSION_TIMEOUT INVALID_COMMIT_OFFSET_SIZE
    TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED
    INVALID_TIMESTAMP UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE TOPIC_ALREADY_EXISTS
    INVALID_PARTITIONS INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG
    INVALID_REQUEST UNSUPPORTED_FOR_MESSAGE_FORMAT POLICY_VIOLATION INVALID_TRANSACTION_TIMEOUT
    TRANSACTION_COORDINATOR_FENCED SECURITY_DISABLED OPERATION_NOT_ATTEMPTED LOG_DIR_NOT_FOUND
    SASL_AUTHENTICATION_FAILED REASSIGNMENT_IN_PROGRESS DELEGATION_TOKEN_AUTH_DISABLED
    DELEGATION_TOKEN_NOT_FOUND DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    DELEGATION_TOKEN_AUTHORIZATION_FAILED DELEGATION_TOKEN_EXPIRED INVALID_PRINCIPAL_TYPE
    NON_EMPTY_GROUP GROUP_ID_NOT_FOUND TOPIC_DELETION_DISABLED UNSUPPORTED_COMPRESSION_TYPE
    STALE_BROKER_EPOCH MEMBER_ID_REQUIRED GROUP_MAX_SIZE_REACHED NO_REASSIGNMENT_IN_PROGRESS
    GROUP_SUBSCRIBED_TO_TOPIC INVALID_RECORD RESOURCE_NOT_FOUND DUPLICATE_RESOURCE
    UNACCEPTABLE_CREDENTIAL INCONSISTENT_VOTER_SET INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED
    PRINCIPAL_DESERIALIZATION_FAILURE SNAPSHOT_NOT_FOUND POSITION_OUT_OF_RANGE
    DUPLICATE_BROKER_REGISTRATION BROKER_ID_NOT_REGISTERED INCONSISTENT_CLUSTER_ID
    TRANSACTIONAL_ID_NOT_FOUND INELIGIBLE_REPLICA NEW_LEADER_ELECTED OFFSET_MOVED_TO_TIERED_STORAGE
    FENCED_MEMBER_EPOCH UNRELEASED_INSTANCE_ID UNSUPPORTED_ASSIGNOR STALE_MEMBER_EPOCH
    MISMATCHED_ENDPOINT_TYPE UNSUPPORTED_ENDPOINT_TYPE UNKNOWN_CONTROLLER_ID UNKNOWN_SUBSCRIPTION_ID
    TELEMETRY_TOO_LARGE INVALID_REGISTRATION INVALID_RECORD_STATE FENCED_STATE_EPOCH
    INVALID_VOTER_KEY DUPLICATE_VOTER VOTER_NOT_FOUND INVALID_REGULAR_EXPRESSION
    REBOOTSTRAP_REQUIRED STREAMS_INVALID_TOPOLOGY STREAMS_INVALID_TOPOLOGY_EPOCH
    STREAMS_TOPOLOGY_FENCED GROUP_DELETION_FAILED
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED CONTROLLER_ID_NOT_REGISTERED
"""

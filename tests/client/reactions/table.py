"""What the client does about each error code of each answer; see `probes.py` for the words.

A column is an answer: that of Produce, InitProducerId, Fetch (from the leader, from the replica
that it named, and of the whole session), ListOffsets, Metadata, FindCoordinator, JoinGroup,
SyncGroup, Heartbeat, OffsetCommit, OffsetFetch (of a partition and of the group).

Every code that Kafka has is in exactly one row, so that a new one needs a decision.
"""

from __future__ import annotations

from typing import Final

TABLE: Final = """
Produce Init  Fetch   replica session Offsets Meta  Find  Join   Sync   Beat   Commit Stored group

# whatever the broker stumbled over, and codes that are newer than this client
fail    fail  refresh refresh refresh fail    fail  stop  stop   stop   stop   fail   fail   fail
    UNKNOWN_SERVER_ERROR

ok      ok    ok      ok      ok      ok      ok    ok    ok     ok     ok     ok     ok     ok
    NONE

# the offset was deleted (retention), or does not exist yet (a replica that lags)
fail    fail  reset   leader  fail    fail    fail  stop  stop   stop   stop   fail   fail   fail
    OFFSET_OUT_OF_RANGE

# a batch was damaged on its way; or, in a Fetch answer, it is damaged on the disk
retry   retry fail    fail    fail    refresh retry retry retry  retry  next   retry  find   find
    CORRUPT_MESSAGE

# metadata lags behind; but in a look-up of offsets the name may be mistyped
refresh retry refresh refresh refresh fail    fail  retry retry  retry  next   fail   fail   fail
    UNKNOWN_TOPIC_OR_PARTITION

# it may or may not have happened
retry   retry refresh refresh refresh refresh retry retry retry  retry  next   find   find   find
    REQUEST_TIMED_OUT

# the group has moved on without this member
fail    fail  fail    fail    fail    fail    fail  stop  rejoin rejoin new    rejoin fail   fail
    ILLEGAL_GENERATION

# the group has forgotten this member
fail    fail  fail    fail    fail    fail    fail  stop  rejoin new    new    rejoin fail   fail
    UNKNOWN_MEMBER_ID

# the group waits for this member
fail    fail  fail    fail    fail    fail    fail  stop  rejoin rejoin rejoin rejoin fail   fail
    REBALANCE_IN_PROGRESS

# it is stored already
ok      fail  fail    fail    fail    fail    fail  stop  stop   stop   stop   fail   fail   fail
    DUPLICATE_SEQUENCE_NUMBER

# who joins first gets an id (KIP-394)
fail    fail  fail    fail    fail    fail    fail  stop  adopt  stop   stop   fail   fail   fail
    MEMBER_ID_REQUIRED

# for the topic, or for a segment
split   fail  fail    fail    fail    fail    fail  stop  stop   stop   stop   fail   fail   fail
    MESSAGE_TOO_LARGE RECORD_LIST_TOO_LARGE

# the coordinator is another broker, or there is none now
retry   retry refresh refresh refresh refresh retry retry find   find   find   find   find   find
    COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR

# client and broker disagree about sequences (KIP-360)
epoch   fail  fail    fail    fail    fail    fail  stop  stop   stop   stop   fail   fail   fail
    OUT_OF_ORDER_SEQUENCE_NUMBER INVALID_PRODUCER_EPOCH UNKNOWN_PRODUCER_ID

# the next fetch is a full one (KIP-227)
retry   retry refresh refresh again   refresh retry retry retry  retry  next   retry  find   find
    FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH FETCH_SESSION_TOPIC_ID_ERROR

# another broker leads, or the topic was recreated
refresh retry refresh refresh refresh refresh retry retry retry  retry  next   retry  find   find
    LEADER_NOT_AVAILABLE NOT_LEADER_OR_FOLLOWER REPLICA_NOT_AVAILABLE KAFKA_STORAGE_ERROR
    FENCED_LEADER_EPOCH UNKNOWN_TOPIC_ID INCONSISTENT_TOPIC_ID

# what passes
retry   retry refresh refresh refresh refresh retry retry retry  retry  next   retry  find   find
    NETWORK_EXCEPTION COORDINATOR_LOAD_IN_PROGRESS NOT_ENOUGH_REPLICAS
    NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_CONTROLLER CONCURRENT_TRANSACTIONS LISTENER_NOT_FOUND
    UNKNOWN_LEADER_EPOCH OFFSET_NOT_AVAILABLE PREFERRED_LEADER_NOT_AVAILABLE
    ELIGIBLE_LEADERS_NOT_AVAILABLE ELECTION_NOT_NEEDED UNSTABLE_OFFSET_COMMIT
    THROTTLING_QUOTA_EXCEEDED SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH
    SHARE_SESSION_LIMIT_REACHED

# permanent errors
fail    fail  fail    fail    fail    fail    fail  stop  stop   stop   stop   fail   fail   fail
    INVALID_FETCH_SIZE BROKER_NOT_AVAILABLE STALE_CONTROLLER_EPOCH OFFSET_METADATA_TOO_LARGE
    INVALID_TOPIC_EXCEPTION INVALID_REQUIRED_ACKS INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID
    INVALID_SESSION_TIMEOUT INVALID_COMMIT_OFFSET_SIZE TOPIC_AUTHORIZATION_FAILED
    GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED INVALID_TIMESTAMP
    UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE UNSUPPORTED_VERSION TOPIC_ALREADY_EXISTS
    INVALID_PARTITIONS INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG
    INVALID_REQUEST UNSUPPORTED_FOR_MESSAGE_FORMAT POLICY_VIOLATION INVALID_TXN_STATE
    INVALID_PRODUCER_ID_MAPPING INVALID_TRANSACTION_TIMEOUT TRANSACTION_COORDINATOR_FENCED
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED SECURITY_DISABLED OPERATION_NOT_ATTEMPTED
    LOG_DIR_NOT_FOUND SASL_AUTHENTICATION_FAILED REASSIGNMENT_IN_PROGRESS
    DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_NOT_FOUND DELEGATION_TOKEN_OWNER_MISMATCH
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED DELEGATION_TOKEN_AUTHORIZATION_FAILED
    DELEGATION_TOKEN_EXPIRED INVALID_PRINCIPAL_TYPE NON_EMPTY_GROUP GROUP_ID_NOT_FOUND
    TOPIC_DELETION_DISABLED UNSUPPORTED_COMPRESSION_TYPE STALE_BROKER_EPOCH GROUP_MAX_SIZE_REACHED
    FENCED_INSTANCE_ID NO_REASSIGNMENT_IN_PROGRESS GROUP_SUBSCRIBED_TO_TOPIC INVALID_RECORD
    PRODUCER_FENCED RESOURCE_NOT_FOUND DUPLICATE_RESOURCE UNACCEPTABLE_CREDENTIAL
    INCONSISTENT_VOTER_SET INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED
    PRINCIPAL_DESERIALIZATION_FAILURE SNAPSHOT_NOT_FOUND POSITION_OUT_OF_RANGE
    DUPLICATE_BROKER_REGISTRATION BROKER_ID_NOT_REGISTERED INCONSISTENT_CLUSTER_ID
    TRANSACTIONAL_ID_NOT_FOUND INELIGIBLE_REPLICA NEW_LEADER_ELECTED OFFSET_MOVED_TO_TIERED_STORAGE
    FENCED_MEMBER_EPOCH UNRELEASED_INSTANCE_ID UNSUPPORTED_ASSIGNOR STALE_MEMBER_EPOCH
    MISMATCHED_ENDPOINT_TYPE UNSUPPORTED_ENDPOINT_TYPE UNKNOWN_CONTROLLER_ID
    UNKNOWN_SUBSCRIPTION_ID TELEMETRY_TOO_LARGE INVALID_REGISTRATION TRANSACTION_ABORTABLE
    INVALID_RECORD_STATE FENCED_STATE_EPOCH INVALID_VOTER_KEY DUPLICATE_VOTER VOTER_NOT_FOUND
    INVALID_REGULAR_EXPRESSION REBOOTSTRAP_REQUIRED STREAMS_INVALID_TOPOLOGY
    STREAMS_INVALID_TOPOLOGY_EPOCH STREAMS_TOPOLOGY_FENCED GROUP_DELETION_FAILED
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED CONTROLLER_ID_NOT_REGISTERED
"""

"""Guards that are broken on purpose: the simulated cluster has to notice each of them."""

from __future__ import annotations

from minikafka.consensus.election import Election
from minikafka.consensus.messages import VoteRequest
from minikafka.lab.simulation.cluster.cluster import Plan
from minikafka.lab.simulation.cluster.node import SimulatedNode
from minikafka.replication import LeaderReplica
from minikafka.storage.cut_marker import CutMarker
from tests.simulation import replication_mutants
from tests.simulation.kit.mutants import Mutant, always
from tests.simulation.replication_mutants import count_what_is_not_synced


def let_an_empty_voter_vote(self: Election, request: VoteRequest) -> bool:
    """A new directory has promised nothing."""
    return self._context.log.is_behind(request.last_epoch, request.last_index)


_register = SimulatedNode._register


def claim_a_clean_shutdown(self: SimulatedNode, previous_broker_epoch: int) -> None:
    """Whatever happened to the disk, the broker says that it stopped in good order."""
    broker = self.truth.image.brokers.get(self.node_id)
    _register(self, -1 if broker is None else broker.broker_epoch)


MUTANTS = (
    *replication_mutants.MUTANTS,
    Mutant(
        "a leader counts what it has not synced",
        40,
        ((LeaderReplica, "appended", count_what_is_not_synced),),
        plan=Plan(is_synced=True, replica_count=1, min_insync=1),
    ),
    Mutant(
        "an empty voter votes",
        200,
        ((Election, "_may_vote_for", let_an_empty_voter_vote),),
        plan=Plan(has_quorum=True),
    ),
    Mutant(
        "every shutdown is called clean",
        100,
        ((SimulatedNode, "_register", claim_a_clean_shutdown),),
    ),
    Mutant(
        "a broker acts on what was decided about an earlier life",
        100,
        ((SimulatedNode, "_is_registered", True),),
    ),
    Mutant(
        "recovery trusts what was written behind a cut",
        10,
        ((CutMarker, "leave", always(None)),),
        first=70,
        plan=Plan(safety_s=150.0),
    ),
)

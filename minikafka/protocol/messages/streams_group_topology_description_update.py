"""StreamsGroupTopologyDescriptionUpdate (API 93): describe the topology of a group (KIP-1331).

A member sends it when an answer to a heartbeat has asked for it.
"""

from minikafka.protocol import schema
from minikafka.protocol.fields import Struct, array, int8, int16, int32, nested, string


class TopologyDescriptionNode(Struct):
    name: str = string()
    node_type: int = int8()
    source_topics: list[str] = array(string())
    sink_topic: str | None = string(nullable="0+", default=None)
    stores: list[str] = array(string())
    successors: list[str] = array(string())


class TopologyDescriptionSubtopology(Struct):
    subtopology_id: str = string()
    nodes: list[TopologyDescriptionNode] = array(TopologyDescriptionNode)


class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode = nested(TopologyDescriptionNode)
    processor: TopologyDescriptionNode = nested(TopologyDescriptionNode)


class TopologyDescription(Struct):
    subtopologies: list[TopologyDescriptionSubtopology] = array(TopologyDescriptionSubtopology)
    global_stores: list[TopologyDescriptionGlobalStore] = array(TopologyDescriptionGlobalStore)


class Request(schema.Request, api_key=93, versions="0", flexible="0+"):
    group_id: str = string()
    member_id: str = string()
    topology_epoch: int = int32()
    topology_description: TopologyDescription = nested(TopologyDescription)


class Response(schema.Response, api_key=93, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)

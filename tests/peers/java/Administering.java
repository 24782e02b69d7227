import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;

/** The Java admin client, a new one for each operation. */
final class Administering {
    private Administering() {}

    static Object perform(String operation, JsonNode request) throws Exception {
        Properties properties = Json.properties(request);
        try (Admin admin = Admin.create(properties)) {
            Object ofGroups = Groups.perform(admin, operation, request);
            return ofGroups == Groups.NOT_MINE ? ofTopics(admin, operation, request) : ofGroups;
        }
    }

    private static Object ofTopics(Admin admin, String operation, JsonNode request) throws Exception {
        switch (operation) {
            case "create_topic":
                return createTopic(admin, request);
            case "list_topics":
                return admin.listTopics().names().get();
            case "describe_topic":
                return describeTopic(admin, request.get("topic").asText());
            case "delete_topic":
                return admin.deleteTopics(List.of(request.get("topic").asText())).all().get();
            case "create_partitions":
                int total = request.get("total").asInt();
                return admin.createPartitions(Map.of(request.get("topic").asText(), NewPartitions.increaseTo(total)))
                        .all()
                        .get();
            case "describe_config":
                return describeConfig(admin, resource(request));
            case "alter_config":
                return alterConfig(admin, request);
            case "describe_cluster":
                return describeCluster(admin);
            case "delete_records":
                Map<TopicPartition, RecordsToDelete> before = new HashMap<>();
                Json.longs(request.get("before"))
                        .forEach((partition, offset) -> before.put(partition, RecordsToDelete.beforeOffset(offset)));
                Map<String, Long> low = new TreeMap<>();
                for (var each : admin.deleteRecords(before).lowWatermarks().entrySet()) {
                    low.put(Json.partition(each.getKey()), each.getValue().get().lowWatermark());
                }
                return low;
            case "list_offsets":
                return listOffsets(admin, request);
            case "describe_log_dirs":
                return describeLogDirs(admin);
            case "describe_producers":
                TopicPartition partition = Json.partition(request.get("partition").asText());
                return admin.describeProducers(List.of(partition))
                        .partitionResult(partition)
                        .get()
                        .activeProducers()
                        .stream()
                        .map(each -> Map.of("producer_id", each.producerId(), "last_sequence", each.lastSequence()))
                        .toList();
            default:
                throw new IllegalArgumentException("no operation admin." + operation);
        }
    }

    private static Object createTopic(Admin admin, JsonNode request) throws Exception {
        String name = request.get("topic").asText();
        Map<String, String> configs = new HashMap<>();
        request.get("configs").properties().forEach(each -> configs.put(each.getKey(), each.getValue().asText()));
        NewTopic topic = new NewTopic(name, request.get("partitions").asInt(), (short) 1).configs(configs);
        CreateTopicsResult result = admin.createTopics(List.of(topic));
        result.all().get();
        return Map.of(
                "topic_id", result.topicId(name).get().toString(),
                "partitions", result.numPartitions(name).get(),
                "replication_factor", result.replicationFactor(name).get(),
                "configs", values(result.config(name).get()));
    }

    private static Object describeTopic(Admin admin, String name) throws Exception {
        TopicDescription found = admin.describeTopics(List.of(name)).allTopicNames().get().get(name);
        List<List<Integer>> partitions = new ArrayList<>();
        for (TopicPartitionInfo each : found.partitions()) {
            partitions.add(List.of(each.partition(), each.leader().id(), each.replicas().size(), each.isr().size()));
        }
        return Map.of(
                "topic_id", found.topicId().toString(), "internal", found.isInternal(), "partitions", partitions);
    }

    private static ConfigResource resource(JsonNode request) {
        ConfigResource.Type type = ConfigResource.Type.valueOf(request.get("type").asText());
        return new ConfigResource(type, request.get("of").asText());
    }

    private static Map<String, Object> values(Config config) {
        Map<String, Object> values = new TreeMap<>();
        config.entries().forEach(each -> values.put(each.name(), each.value()));
        return values;
    }

    private static Object describeConfig(Admin admin, ConfigResource resource) throws Exception {
        Map<String, List<Object>> shown = new TreeMap<>();
        for (ConfigEntry each : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
            List<Object> entry = new ArrayList<>();
            entry.add(each.value());
            entry.add(each.source().name());
            shown.put(each.name(), entry);
        }
        return shown;
    }

    private static Object alterConfig(Admin admin, JsonNode request) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        for (JsonNode each : request.get("changes")) {
            ConfigEntry entry = new ConfigEntry(each.get(0).asText(), each.get(1).asText());
            changes.add(new AlterConfigOp(entry, AlterConfigOp.OpType.valueOf(each.get(2).asText())));
        }
        return admin.incrementalAlterConfigs(Map.of(resource(request), changes)).all().get();
    }

    private static Object describeCluster(Admin admin) throws Exception {
        var cluster = admin.describeCluster();
        List<String> brokers = new ArrayList<>();
        for (Node node : cluster.nodes().get()) {
            brokers.add(node.id() + "=" + node.host() + ":" + node.port());
        }
        return Map.of(
                "cluster_id", cluster.clusterId().get(),
                "controller", cluster.controller().get().id(),
                "brokers", brokers);
    }

    private static Object listOffsets(Admin admin, JsonNode request) throws Exception {
        Map<TopicPartition, OffsetSpec> specs = new HashMap<>();
        for (var each : request.get("specs").properties()) {
            specs.put(Json.partition(each.getKey()), spec(each.getValue().asText()));
        }
        Map<String, Object> found = new LinkedHashMap<>();
        for (TopicPartition partition : specs.keySet()) {
            ListOffsetsResultInfo info = admin.listOffsets(specs).partitionResult(partition).get();
            found.put(Json.partition(partition), List.of(info.offset(), info.timestamp()));
        }
        return found;
    }

    private static OffsetSpec spec(String text) {
        switch (text) {
            case "earliest":
                return OffsetSpec.earliest();
            case "latest":
                return OffsetSpec.latest();
            case "max_timestamp":
                return OffsetSpec.maxTimestamp();
            default:
                return OffsetSpec.forTimestamp(Long.parseLong(text));
        }
    }

    private static Object describeLogDirs(Admin admin) throws Exception {
        int node = admin.describeCluster().nodes().get().iterator().next().id();
        Map<String, Object> sizes = new TreeMap<>();
        for (LogDirDescription each : admin.describeLogDirs(Set.of(node)).allDescriptions().get().get(node).values()) {
            each.replicaInfos().forEach((partition, info) -> sizes.put(Json.partition(partition), info.size()));
        }
        return sizes;
    }

    /** What concerns groups. */
    private static final class Groups {
        static final Object NOT_MINE = new Object();

        static Object perform(Admin admin, String operation, JsonNode request) throws Exception {
            switch (operation) {
                case "list_groups":
                    return admin.listGroups().all().get().stream().map(each -> each.groupId()).sorted().toList();
                case "describe_group":
                    return describe(admin, request.get("group").asText());
                case "group_offsets":
                    return Json.keyed(
                            admin.listConsumerGroupOffsets(request.get("group").asText())
                                    .partitionsToOffsetAndMetadata()
                                    .get(),
                            found -> found.offset());
                case "alter_group_offsets":
                    return admin.alterConsumerGroupOffsets(
                                    request.get("group").asText(), Json.offsets(request.get("offsets")))
                            .all()
                            .get();
                case "delete_group_offsets":
                    return admin.deleteConsumerGroupOffsets(
                                    request.get("group").asText(),
                                    Set.copyOf(Json.partitions(request.get("partitions"))))
                            .all()
                            .get();
                case "delete_group":
                    return admin.deleteConsumerGroups(List.of(request.get("group").asText())).all().get();
                case "remove_all_members":
                    return admin.removeMembersFromConsumerGroup(
                                    request.get("group").asText(), new RemoveMembersFromConsumerGroupOptions())
                            .all()
                            .get();
                default:
                    return NOT_MINE;
            }
        }

        private static Object describe(Admin admin, String group) throws Exception {
            ConsumerGroupDescription found =
                    admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            List<Object> members = new ArrayList<>();
            found.members().forEach(each -> members.add(
                    Map.of(
                            "client_id", each.clientId(),
                            "instance", each.groupInstanceId().orElse(""),
                            "partitions", each.assignment().topicPartitions().stream()
                                    .map(Json::partition).sorted().toList())));
            return Map.of(
                    "state", found.groupState().toString(),
                    "assignor", found.partitionAssignor(),
                    "members", members);
        }
    }
}

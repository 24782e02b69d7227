import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Java consumers, each with a name. */
final class Consuming implements AutoCloseable {
    private final Map<String, KafkaConsumer<byte[], byte[]>> consumers = new HashMap<>();

    Object perform(String operation, JsonNode request) {
        String name = request.get("name").asText();
        if (operation.equals("open")) {
            consumers.put(name, open(request));
            return null;
        }
        if (operation.equals("close")) {
            consumers.remove(name).close();
            return null;
        }
        KafkaConsumer<byte[], byte[]> consumer = consumers.get(name);
        switch (operation) {
            case "poll":
                return poll(consumer, request.get("timeout_ms").asLong());
            case "assignment":
                return consumer.assignment().stream().map(Json::partition).sorted().toList();
            case "assign":
                consumer.assign(Json.partitions(request.get("partitions")));
                return null;
            case "commit":
                if (request.has("offsets")) {
                    consumer.commitSync(Json.offsets(request.get("offsets")));
                } else {
                    consumer.commitSync();
                }
                return null;
            case "seek":
                Json.longs(request.get("offsets")).forEach(consumer::seek);
                return null;
            case "position":
                return consumer.position(Json.partition(request.get("partition").asText()));
            case "committed":
                return Json.keyed(
                        consumer.committed(Set.copyOf(Json.partitions(request.get("partitions")))),
                        found -> found.offset());
            case "offsets_for_times":
                return Json.keyed(
                        consumer.offsetsForTimes(Json.longs(request.get("times"))), found -> found.offset());
            case "beginning_offsets":
                return Json.keyed(
                        consumer.beginningOffsets(Json.partitions(request.get("partitions"))), found -> found);
            case "end_offsets":
                return Json.keyed(consumer.endOffsets(Json.partitions(request.get("partitions"))), found -> found);
            case "lag":
                TopicPartition partition = Json.partition(request.get("partition").asText());
                return consumer.currentLag(partition).orElse(-1);
            default:
                throw new IllegalArgumentException("no operation consumer." + operation);
        }
    }

    ConsumerGroupMetadata groupMetadata(String name) {
        return consumers.get(name).groupMetadata();
    }

    private static KafkaConsumer<byte[], byte[]> open(JsonNode request) {
        KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(
                        Json.properties(request), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        if (request.hasNonNull("topics")) {
            consumer.subscribe(Json.strings(request.get("topics")));
        } else if (request.hasNonNull("subscription_pattern")) {
            consumer.subscribe(new SubscriptionPattern(request.get("subscription_pattern").asText()));
        } else if (request.hasNonNull("pattern")) {
            consumer.subscribe(Pattern.compile(request.get("pattern").asText()));
        }
        return consumer;
    }

    private static List<Object> poll(KafkaConsumer<byte[], byte[]> consumer, long timeoutMs) {
        List<Object> records = new ArrayList<>();
        consumer.poll(Duration.ofMillis(timeoutMs)).forEach(record -> records.add(Json.record(record)));
        return records;
    }

    @Override
    public void close() {
        consumers.values().forEach(KafkaConsumer::close);
    }
}

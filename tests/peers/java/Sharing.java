import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Java share consumers (KIP-932), each with a name. */
final class Sharing implements AutoCloseable {
    private final Map<String, KafkaShareConsumer<byte[], byte[]>> consumers = new HashMap<>();

    Object perform(String operation, JsonNode request) {
        String name = request.get("name").asText();
        if (operation.equals("open")) {
            KafkaShareConsumer<byte[], byte[]> opened =
                    new KafkaShareConsumer<>(
                            Json.properties(request), new ByteArrayDeserializer(), new ByteArrayDeserializer());
            opened.subscribe(Json.strings(request.get("topics")));
            consumers.put(name, opened);
            return null;
        }
        if (operation.equals("close")) {
            consumers.remove(name).close();
            return null;
        }
        KafkaShareConsumer<byte[], byte[]> consumer = consumers.get(name);
        switch (operation) {
            case "poll":
                return poll(consumer, request);
            case "commit":
                Map<String, Object> outcomes = new HashMap<>();
                consumer.commitSync()
                        .forEach(
                                (partition, error) ->
                                        outcomes.put(
                                                partition.topic() + ":" + partition.partition(),
                                                error.map(one -> one.getClass().getSimpleName()).orElse(null)));
                return outcomes;
            default:
                throw new IllegalArgumentException("no operation share." + operation);
        }
    }

    /** Polls, and acknowledges each record as "types" says for its value; "ACCEPT" without an entry for it. */
    private static List<Object> poll(KafkaShareConsumer<byte[], byte[]> consumer, JsonNode request) {
        List<Object> records = new ArrayList<>();
        JsonNode types = request.get("types");
        consumer.poll(Duration.ofMillis(request.get("timeout_ms").asLong()))
                .forEach(
                        record -> {
                            Map<String, Object> shown = new HashMap<>();
                            String value = new String(record.value(), java.nio.charset.StandardCharsets.ISO_8859_1);
                            shown.put("value", value);
                            shown.put("offset", record.offset());
                            shown.put("partition", record.partition());
                            shown.put("delivery_count", record.deliveryCount().orElse((short) 0));
                            records.add(shown);
                            if (types != null) {
                                String type = types.path(value).asText("ACCEPT");
                                if (!type.equals("NOTHING")) {
                                    consumer.acknowledge(record, AcknowledgeType.valueOf(type));
                                }
                            }
                        });
        return records;
    }

    @Override
    public void close() {
        consumers.values().forEach(KafkaShareConsumer::close);
    }
}

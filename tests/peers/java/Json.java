import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

/** How things look in JSON. Bytes are strings with a character for each byte; partitions are "topic:0". */
final class Json {
    private Json() {}

    static byte[] bytes(JsonNode node) {
        return node == null || node.isNull() ? null : node.asText().getBytes(StandardCharsets.ISO_8859_1);
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.ISO_8859_1);
    }

    static List<String> strings(JsonNode node) {
        List<String> found = new ArrayList<>();
        node.forEach(each -> found.add(each.asText()));
        return found;
    }

    static Properties properties(JsonNode request) {
        Properties properties = new Properties();
        request.get("settings").properties().forEach(each -> properties.put(each.getKey(), each.getValue().asText()));
        return properties;
    }

    static TopicPartition partition(String text) {
        int colon = text.lastIndexOf(':');
        return new TopicPartition(text.substring(0, colon), Integer.parseInt(text.substring(colon + 1)));
    }

    static String partition(TopicPartition partition) {
        return partition.topic() + ":" + partition.partition();
    }

    static List<TopicPartition> partitions(JsonNode node) {
        List<TopicPartition> found = new ArrayList<>();
        node.forEach(each -> found.add(partition(each.asText())));
        return found;
    }

    static Map<TopicPartition, Long> longs(JsonNode node) {
        Map<TopicPartition, Long> found = new HashMap<>();
        node.properties().forEach(each -> found.put(partition(each.getKey()), each.getValue().asLong()));
        return found;
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode node) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        longs(node).forEach((partition, offset) -> found.put(partition, new OffsetAndMetadata(offset, "from Java")));
        return found;
    }

    static <T> Map<String, Object> keyed(Map<TopicPartition, T> values, java.util.function.Function<T, Object> show) {
        Map<String, Object> shown = new LinkedHashMap<>();
        values.forEach((partition, value) -> shown.put(partition(partition), value == null ? null : show.apply(value)));
        return shown;
    }

    static ProducerRecord<byte[], byte[]> record(String topic, JsonNode node) {
        Integer partition = node.hasNonNull("partition") ? node.get("partition").asInt() : null;
        Long timestamp = node.hasNonNull("timestamp") ? node.get("timestamp").asLong() : null;
        ProducerRecord<byte[], byte[]> record =
                new ProducerRecord<>(topic, partition, timestamp, bytes(node.get("key")), bytes(node.get("value")));
        if (node.has("headers")) {
            node.get("headers").forEach(each -> record.headers().add(each.get(0).asText(), bytes(each.get(1))));
        }
        return record;
    }

    static Map<String, Object> record(ConsumerRecord<byte[], byte[]> record) {
        List<List<String>> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            List<String> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(text(header.value()));
            headers.add(pair);
        }
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("partition", partition(new TopicPartition(record.topic(), record.partition())));
        shown.put("offset", record.offset());
        shown.put("timestamp", record.timestamp());
        shown.put("key", text(record.key()));
        shown.put("value", text(record.value()));
        shown.put("headers", headers);
        shown.put("leader_epoch", record.leaderEpoch().orElse(-1));
        return shown;
    }
}

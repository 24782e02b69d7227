import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The Java producer. */
final class Producing {
    private Producing() {}

    /** Sends "records" to "topic" with a producer of its own; says where each of them went. */
    static Object produce(JsonNode request) throws Exception {
        List<Future<RecordMetadata>> pending = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(Json.properties(request), new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode record : request.get("records")) {
                pending.add(producer.send(Json.record(request.get("topic").asText(), record)));
            }
            producer.flush();
        }
        List<Map<String, Long>> placed = new ArrayList<>();
        for (Future<RecordMetadata> each : pending) {
            RecordMetadata metadata = each.get();
            placed.add(
                    Map.of(
                            "partition", (long) metadata.partition(),
                            "offset", metadata.hasOffset() ? metadata.offset() : -1L,
                            "timestamp", metadata.timestamp()));
        }
        return placed;
    }
}

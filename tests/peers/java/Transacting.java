import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Java producers with transactions, each with a name. */
final class Transacting implements AutoCloseable {
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    private final Consuming consuming;
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    Transacting(Consuming consuming) {
        this.consuming = consuming;
    }

    Object perform(String operation, JsonNode request) throws Exception {
        String name = request.get("name").asText();
        if (operation.equals("open")) {
            producers.put(
                    name,
                    new KafkaProducer<>(
                            Json.properties(request), new ByteArraySerializer(), new ByteArraySerializer()));
            return null;
        }
        if (operation.equals("close")) {
            producers.remove(name).close(PATIENCE);
            return null;
        }
        KafkaProducer<byte[], byte[]> producer = producers.get(name);
        switch (operation) {
            case "init":
                producer.initTransactions();
                return null;
            case "begin":
                producer.beginTransaction();
                return null;
            case "send":
                return send(producer, request);
            case "send_offsets":
                producer.sendOffsetsToTransaction(
                        Json.offsets(request.get("offsets")),
                        consuming.groupMetadata(request.get("consumer").asText()));
                return null;
            case "commit":
                producer.commitTransaction();
                return null;
            case "abort":
                producer.abortTransaction();
                return null;
            default:
                throw new IllegalArgumentException("no operation producer." + operation);
        }
    }

    /** Sends "records" to "topic", and waits for them; returns their offsets. */
    private static List<Long> send(KafkaProducer<byte[], byte[]> producer, JsonNode request) throws Exception {
        List<Future<RecordMetadata>> pending = new ArrayList<>();
        for (JsonNode record : request.get("records")) {
            pending.add(producer.send(Json.record(request.get("topic").asText(), record)));
        }
        producer.flush();
        List<Long> offsets = new ArrayList<>();
        for (Future<RecordMetadata> each : pending) {
            offsets.add(each.get().offset());
        }
        return offsets;
    }

    @Override
    public void close() {
        producers.values().forEach(producer -> producer.close(Duration.ZERO));
    }
}

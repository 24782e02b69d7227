import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutionException;

/**
 * Apache Kafka's Java clients, driven from outside: a line of JSON on stdin asks for something, a line of JSON on
 * stdout answers. A request has "do" (the operation) and its arguments; an answer has "result", or "error" (the simple
 * name of the exception's class) and "message".
 */
public final class Peer {
    static final ObjectMapper JSON = new ObjectMapper();

    private Peer() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (Consuming consuming = new Consuming();
                Sharing sharing = new Sharing();
                Transacting transacting = new Transacting(consuming)) {
            for (String line = requests.readLine(); line != null; line = requests.readLine()) {
                ObjectNode answer = JSON.createObjectNode();
                try {
                    JsonNode request = JSON.readTree(line);
                    answer.set("result", JSON.valueToTree(perform(request, consuming, sharing, transacting)));
                } catch (Exception failure) {
                    Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
                    answer.put("error", cause.getClass().getSimpleName());
                    answer.put("message", String.valueOf(cause.getMessage()));
                }
                answers.println(JSON.writeValueAsString(answer));
            }
        }
    }

    private static Object perform(
            JsonNode request, Consuming consuming, Sharing sharing, Transacting transacting) throws Exception {
        String operation = request.get("do").asText();
        String[] parts = operation.split("\\.");
        switch (parts[0]) {
            case "produce":
                return Producing.produce(request);
            case "consumer":
                return consuming.perform(parts[1], request);
            case "share":
                return sharing.perform(parts[1], request);
            case "producer":
                return transacting.perform(parts[1], request);
            case "admin":
                return Administering.perform(parts[1], request);
            default:
                throw new IllegalArgumentException("no operation " + operation);
        }
    }
}

import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.JsonValue;
import com.openai.helpers.ChatCompletionAccumulator;
import com.openai.models.FunctionDefinition;
import com.openai.models.FunctionParameters;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.chat.completions.ChatCompletionFunctionTool;
import com.openai.models.chat.completions.ChatCompletionStreamOptions;
import com.openai.models.chat.completions.ChatCompletionToolMessageParam;
import com.openai.models.embeddings.EmbeddingCreateParams;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** What a ward assistant does with models by openai-java; the Java agent of OpenTelemetry sees it. */
public final class Ward {
  private static final String SYSTEM = "You help on a ward.";
  private static final String DOSE = "Is the dose of ramipril right for bed 4?";
  private static final Map<String, String> RESULTS =
      Map.of(
          "look_up_renal_function", "eGFR 28 ml/min",
          "look_up_interactions", "Hyperkalaemia: monitor potassium.");

  private final OpenAIClient client = client(Duration.ofSeconds(20));

  private static OpenAIClient client(Duration timeout) {
    return OpenAIOkHttpClient.builder().fromEnv().maxRetries(0).timeout(timeout).build();
  }

  private static ChatCompletionCreateParams.Builder ask(String model) {
    return ChatCompletionCreateParams.builder().model(model).addSystemMessage(SYSTEM).addUserMessage(DOSE);
  }

  private static ChatCompletionFunctionTool tool(String name, String description, String parameter, Object type) {
    FunctionParameters parameters =
        FunctionParameters.builder()
            .putAdditionalProperty("type", JsonValue.from("object"))
            .putAdditionalProperty("properties", JsonValue.from(Map.of(parameter, type)))
            .putAdditionalProperty("required", JsonValue.from(List.of(parameter)))
            .build();
    FunctionDefinition function =
        FunctionDefinition.builder().name(name).description(description).parameters(parameters).build();
    return ChatCompletionFunctionTool.builder().function(function).build();
  }

  private static ChatCompletionCreateParams.Builder askWithTools(String model) {
    Map<String, String> text = Map.of("type", "string");
    return ask(model)
        .addTool(tool("look_up_renal_function", "The last eGFR of a bed.", "bed", text))
        .addTool(
            tool("look_up_interactions", "Interactions of drugs.", "drugs", Map.of("type", "array", "items", text)));
  }

  /** One question, with a user. */
  void plain() {
    client.chat().completions().create(ask("gpt-4o").user("clinician-7").temperature(0.2).build());
  }

  /** Two tools are asked for at once; then their results are sent. */
  void tools() {
    var first = client.chat().completions().create(askWithTools("gpt-4o").build()).choices().get(0).message();
    var next = askWithTools("gpt-4o").addMessage(first);
    for (var call : first.toolCalls().orElseThrow()) {
      var asked = call.asFunction();
      next.addMessage(
          ChatCompletionToolMessageParam.builder()
              .toolCallId(asked.id())
              .content(RESULTS.get(asked.function().name()))
              .build());
    }
    client.chat().completions().create(next.build());
  }

  /** The same, streamed. */
  void stream() {
    var options = ChatCompletionStreamOptions.builder().includeUsage(true).build();
    var read = ChatCompletionAccumulator.create();
    try (var chunks =
        client.chat().completions().createStreaming(askWithTools("gpt-4o").streamOptions(options).build())) {
      chunks.stream().forEach(read::accumulate);
    }
    var asked = read.chatCompletion().choices().get(0).message();
    var next = askWithTools("gpt-4o").streamOptions(options).addMessage(asked);
    for (var call : asked.toolCalls().orElseThrow()) {
      var function = call.asFunction();
      next.addMessage(
          ChatCompletionToolMessageParam.builder()
              .toolCallId(function.id())
              .content(RESULTS.get(function.function().name()))
              .build());
    }
    try (var chunks = client.chat().completions().createStreaming(next.build())) {
      chunks.stream().forEach(chunk -> {});
    }
  }

  /** HTTP 500; a time-out of 200 ms; a stream that breaks off; an answer at its limit; one that is filtered. */
  void failures() {
    failing(() -> client.chat().completions().create(ask("gpt-error").build()));
    failing(() -> client(Duration.ofMillis(200)).chat().completions().create(ask("gpt-slow").build()));
    failing(
        () -> {
          try (var chunks = client.chat().completions().createStreaming(ask("gpt-cut").build())) {
            chunks.stream().forEach(chunk -> {});
          }
        });
    client.chat().completions().create(ask("gpt-length").maxCompletionTokens(8).build());
    client.chat().completions().create(ask("gpt-filter").build());
  }

  private static void failing(Runnable call) {
    try {
      call.run();
    } catch (RuntimeException fault) {
      System.err.println(fault.getClass().getName());
    }
  }

  /** An embedding: no run. */
  void embeddings() {
    client.embeddings().create(EmbeddingCreateParams.builder().model("text-embedding-3-small").input(DOSE).build());
  }

  public static void main(String[] scenarios) {
    Ward ward = new Ward();
    for (String scenario : scenarios) {
      switch (scenario) {
        case "plain" -> ward.plain();
        case "tools" -> ward.tools();
        case "stream" -> ward.stream();
        case "failures" -> ward.failures();
        case "embeddings" -> ward.embeddings();
        default -> throw new IllegalArgumentException(scenario);
      }
    }
    System.exit(0);
  }
}

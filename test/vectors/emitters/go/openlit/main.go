// What a ward assistant does with models by the client of OpenLIT's SDK for Go.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	openlit "github.com/openlit/openlit/sdk/go"
	"github.com/openlit/openlit/sdk/go/instrumentation/openai"
)

const (
	system   = "You help on a ward."
	question = "Is the dose of ramipril right for bed 4?"
)

var results = map[string]string{
	"look_up_renal_function": "eGFR 28 ml/min",
	"look_up_interactions":   "Hyperkalaemia: monitor potassium.",
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func ask(model string, more ...openai.ChatMessage) openai.ChatCompletionRequest {
	messages := []openai.ChatMessage{{Role: "system", Content: system}, {Role: "user", Content: question}}
	return openai.ChatCompletionRequest{Model: model, Messages: append(messages, more...)}
}

func tool(name, description, parameter string, schema map[string]any) openai.Tool {
	parameters := map[string]any{
		"type": "object", "properties": map[string]any{parameter: schema}, "required": []string{parameter},
	}
	function := openai.Function{Name: name, Description: description, Parameters: parameters}
	return openai.Tool{Type: "function", Function: function}
}

func withTools(request openai.ChatCompletionRequest) openai.ChatCompletionRequest {
	text := map[string]any{"type": "string"}
	request.Tools = []openai.Tool{
		tool("look_up_renal_function", "The last eGFR of a bed.", "bed", text),
		tool("look_up_interactions", "Interactions of drugs.", "drugs", map[string]any{"type": "array", "items": text}),
	}
	return request
}

func read(stream *openai.ChatCompletionStream, err error) {
	for err == nil {
		_, err = stream.Recv()
	}
	fmt.Fprintf(os.Stderr, "%T\n", err)
	if stream != nil {
		stream.Close()
	}
}

func chat(ctx context.Context, client *openai.InstrumentedClient) {
	plain := ask("gpt-4o")
	plain.User = "clinician-7"
	must(client.CreateChatCompletion(ctx, plain))
	first := must(client.CreateChatCompletion(ctx, withTools(ask("gpt-4o")))).Choices[0].Message
	next := withTools(ask("gpt-4o", first))
	for _, call := range first.ToolCalls {
		result := openai.ChatMessage{Role: "tool", ToolCallID: call.ID, Content: results[call.Function.Name]}
		next.Messages = append(next.Messages, result)
	}
	next.Stream, next.StreamOptions = true, &openai.StreamOptions{IncludeUsage: true}
	read(client.CreateChatCompletionStream(ctx, next))
	streamed := withTools(ask("gpt-4o"))
	streamed.Stream, streamed.StreamOptions = true, &openai.StreamOptions{IncludeUsage: true}
	read(client.CreateChatCompletionStream(ctx, streamed))
}

func failures(ctx context.Context, client, impatient *openai.InstrumentedClient) {
	_, err := client.CreateChatCompletion(ctx, ask("gpt-error"))
	fmt.Fprintf(os.Stderr, "%T\n", err)
	_, err = impatient.CreateChatCompletion(ctx, ask("gpt-slow"))
	fmt.Fprintf(os.Stderr, "%T\n", err)
	cut := ask("gpt-cut")
	cut.Stream = true
	read(client.CreateChatCompletionStream(ctx, cut))
	must(client.CreateChatCompletion(ctx, ask("gpt-length")))
	must(client.CreateChatCompletion(ctx, ask("gpt-filter")))
}

func main() {
	ctx := context.Background()
	must(0, openlit.Init(openlit.Config{
		OtlpEndpoint:        os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"),
		ApplicationName:     "ward-assistant",
		DisableMetrics:      true,
		DisablePricingFetch: true,
	}))
	to := openai.WithBaseURL(os.Getenv("OPENAI_BASE_URL"))
	client := openai.NewClient("none", to)
	impatient := openai.NewClient("none", to, openai.WithHTTPClient(&http.Client{Timeout: 200 * time.Millisecond}))
	for _, scenario := range os.Args[1:] {
		switch scenario {
		case "chat":
			chat(ctx, client)
		case "failures":
			failures(ctx, client, impatient)
		case "embeddings":
			must(client.CreateEmbedding(ctx, openai.EmbeddingRequest{Model: "text-embedding-3-small", Input: question}))
		default:
			panic(scenario)
		}
	}
	must(0, openlit.Shutdown(ctx))
}

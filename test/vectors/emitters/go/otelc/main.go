// What a ward assistant does with models by openai-go, seen by the compile-time instrumentation of OpenTelemetry.
// Its compiler puts a call of BeforeNewClient into openai.NewClient; that call stands here in full.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"
	otelc "go.opentelemetry.io/otelc/instrumentation/github.com/openai/openai-go/v3"
	"go.opentelemetry.io/otelc/pkg/hook"
)

const (
	system   = "You help on a ward."
	question = "Is the dose of ramipril right for bed 4?"
)

var results = map[string]string{
	"look_up_renal_function": "eGFR 28 ml/min",
	"look_up_interactions":   "Hyperkalaemia: monitor potassium.",
}

// call is the call of NewClient into which the compiler would put the hook.
type call struct {
	hook.HookContext
	options []option.RequestOption
}

func (c *call) SetParam(_ int, value any) { c.options = value.([]option.RequestOption) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func ask(model string, more ...openai.ChatCompletionMessageParamUnion) openai.ChatCompletionNewParams {
	messages := []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(system), openai.UserMessage(question)}
	return openai.ChatCompletionNewParams{Model: model, Messages: append(messages, more...)}
}

func tool(name, description, parameter string, schema map[string]any) openai.ChatCompletionToolUnionParam {
	parameters := shared.FunctionParameters{
		"type": "object", "properties": map[string]any{parameter: schema}, "required": []string{parameter},
	}
	return openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: name, Description: openai.String(description), Parameters: parameters,
	})
}

func withTools(params openai.ChatCompletionNewParams) openai.ChatCompletionNewParams {
	text := map[string]any{"type": "string"}
	params.Tools = []openai.ChatCompletionToolUnionParam{
		tool("look_up_renal_function", "The last eGFR of a bed.", "bed", text),
		tool("look_up_interactions", "Interactions of drugs.", "drugs", map[string]any{"type": "array", "items": text}),
	}
	return params
}

func chat(ctx context.Context, client openai.Client) {
	must(client.Chat.Completions.New(ctx, ask("gpt-4o")))
	first := must(client.Chat.Completions.New(ctx, withTools(ask("gpt-4o")))).Choices[0].Message
	next := withTools(ask("gpt-4o", first.ToParam()))
	next.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	for _, call := range first.ToolCalls {
		next.Messages = append(next.Messages, openai.ToolMessage(results[call.Function.Name], call.ID))
	}
	read(client.Chat.Completions.NewStreaming(ctx, next))
	streamed := withTools(ask("gpt-4o"))
	read(client.Chat.Completions.NewStreaming(ctx, streamed))
}

func read(stream interface {
	Next() bool
	Err() error
	Close() error
}) {
	for stream.Next() {
	}
	fmt.Fprintf(os.Stderr, "%T\n", stream.Err())
	stream.Close()
}

func failures(ctx context.Context, client openai.Client) {
	_, err := client.Chat.Completions.New(ctx, ask("gpt-error"))
	fmt.Fprintf(os.Stderr, "%T\n", err)
	_, err = client.Chat.Completions.New(ctx, ask("gpt-slow"), option.WithRequestTimeout(200*time.Millisecond))
	fmt.Fprintf(os.Stderr, "%T\n", err)
	read(client.Chat.Completions.NewStreaming(ctx, ask("gpt-cut")))
	must(client.Chat.Completions.New(ctx, ask("gpt-length")))
	must(client.Chat.Completions.New(ctx, ask("gpt-filter")))
}

func main() {
	ctx := context.Background()
	provider := trace.NewTracerProvider(trace.WithBatcher(must(otlptracehttp.New(ctx))))
	otel.SetTracerProvider(provider)
	new := &call{}
	otelc.BeforeNewClient(new, option.WithMaxRetries(0))
	client := openai.NewClient(new.options...)
	for _, scenario := range os.Args[1:] {
		switch scenario {
		case "chat":
			chat(ctx, client)
		case "failures":
			failures(ctx, client)
		case "embeddings":
			input := openai.EmbeddingNewParamsInputUnion{OfString: openai.String(question)}
			must(client.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: "text-embedding-3-small", Input: input}))
		default:
			panic(scenario)
		}
	}
	must(0, provider.Shutdown(ctx))
}

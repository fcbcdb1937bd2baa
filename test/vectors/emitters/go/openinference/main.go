// What a ward assistant does with models by openai-go and anthropic-sdk-go, seen by OpenInference.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	instrumentation "github.com/Arize-ai/openinference/go/openinference-instrumentation"
	anthropicotel "github.com/Arize-ai/openinference/go/openinference-instrumentation-anthropic-sdk-go"
	openaiotel "github.com/Arize-ai/openinference/go/openinference-instrumentation-openai-go"
	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go"
	"github.com/openai/openai-go/option"
	"github.com/openai/openai-go/shared"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"
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

func ask(model string, more ...openai.ChatCompletionMessageParamUnion) openai.ChatCompletionNewParams {
	messages := []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(system), openai.UserMessage(question)}
	return openai.ChatCompletionNewParams{Model: model, Messages: append(messages, more...)}
}

func tool(name, description, parameter string, schema map[string]any) openai.ChatCompletionToolParam {
	parameters := shared.FunctionParameters{
		"type": "object", "properties": map[string]any{parameter: schema}, "required": []string{parameter},
	}
	function := shared.FunctionDefinitionParam{
		Name: name, Description: openai.String(description), Parameters: parameters,
	}
	return openai.ChatCompletionToolParam{Function: function}
}

func withTools(params openai.ChatCompletionNewParams) openai.ChatCompletionNewParams {
	text := map[string]any{"type": "string"}
	params.Tools = []openai.ChatCompletionToolParam{
		tool("look_up_renal_function", "The last eGFR of a bed.", "bed", text),
		tool("look_up_interactions", "Interactions of drugs.", "drugs", map[string]any{"type": "array", "items": text}),
	}
	return params
}

func chat(ctx context.Context, client openai.Client) {
	plain := ask("gpt-4o")
	plain.User = openai.String("clinician-7")
	must(client.Chat.Completions.New(ctx, plain))
	first := must(client.Chat.Completions.New(ctx, withTools(ask("gpt-4o")))).Choices[0].Message
	next := withTools(ask("gpt-4o", first.ToParam()))
	for _, call := range first.ToolCalls {
		next.Messages = append(next.Messages, openai.ToolMessage(results[call.Function.Name], call.ID))
	}
	stream := client.Chat.Completions.NewStreaming(ctx, next)
	for stream.Next() {
	}
	must(0, stream.Err())
}

func failures(ctx context.Context, client openai.Client) {
	_, err := client.Chat.Completions.New(ctx, ask("gpt-error"))
	fmt.Fprintf(os.Stderr, "%T\n", err)
	_, err = client.Chat.Completions.New(ctx, ask("gpt-slow"), option.WithRequestTimeout(200*time.Millisecond))
	fmt.Fprintf(os.Stderr, "%T\n", err)
	stream := client.Chat.Completions.NewStreaming(ctx, ask("gpt-cut"))
	for stream.Next() {
	}
	fmt.Fprintf(os.Stderr, "%T\n", stream.Err())
	stream.Close()
	must(client.Chat.Completions.New(ctx, ask("gpt-length")))
	must(client.Chat.Completions.New(ctx, ask("gpt-filter")))
}

func thinking(ctx context.Context, client anthropic.Client) {
	bed := anthropic.ToolInputSchemaParam{
		Properties: map[string]any{"bed": map[string]any{"type": "string"}}, Required: []string{"bed"},
	}
	params := anthropic.MessageNewParams{
		Model:     "claude-sonnet-4-5",
		MaxTokens: 2000,
		System:    []anthropic.TextBlockParam{{Text: system}},
		Thinking:  anthropic.ThinkingConfigParamOfEnabled(1024),
		Tools:     []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(bed, "look_up_renal_function")},
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(question))},
	}
	first := must(client.Messages.New(ctx, params))
	params.Messages = append(params.Messages, first.ToParam())
	for _, block := range first.Content {
		if block.Type == "tool_use" {
			result := anthropic.NewToolResultBlock(block.ID, results[block.Name], false)
			params.Messages = append(params.Messages, anthropic.NewUserMessage(result))
		}
	}
	must(client.Messages.New(ctx, params))
}

func main() {
	ctx := context.Background()
	exporter := must(otlptracehttp.New(ctx, otlptracehttp.WithCompression(otlptracehttp.GzipCompression)))
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter))
	tracer := provider.Tracer("ward-assistant")
	client := openai.NewClient(option.WithMaxRetries(0), option.WithMiddleware(openaiotel.Middleware(tracer)))
	claude := anthropic.NewClient(
		anthropicoption.WithMaxRetries(0), anthropicoption.WithMiddleware(anthropicotel.Middleware(tracer)),
	)
	known := instrumentation.WithSession(instrumentation.WithUser(ctx, "clinician-7"), "visit-12")
	for _, scenario := range os.Args[1:] {
		switch scenario {
		case "chat":
			chat(known, client)
		case "failures":
			failures(ctx, client)
		case "thinking":
			thinking(known, claude)
		default:
			panic(scenario)
		}
	}
	must(0, provider.Shutdown(ctx))
}

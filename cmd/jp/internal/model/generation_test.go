package model

import "testing"

func TestTemperature(t *testing.T) {
	for _, tt := range []struct {
		id, reasoning string
		want          float64
		why           string
	}{
		{"anthropic/claude-opus-5", "", 0.2, "models after Claude Opus 4.6 take none"},
		{"anthropic/claude-opus-5", "", 1, ""},
		{"anthropic/claude-fable-5-1", "", 0, "models after Claude Opus 4.6 take none"},
		{"anthropic/claude-of-tomorrow", "", 0.2, "models after Claude Opus 4.6 take none"},
		{"anthropic/claude-opus-4-6", "", 0.2, ""},
		{"anthropic/claude-opus-4-6", "high", 0.2, `with reasoning = "high" the model takes none`},
		{"anthropic/claude-haiku-4-5-20251001", "none", 0, ""},
		{"anthropic/claude-haiku-4-5", "low", 0.2, `with reasoning = "low" the model takes none`},
		{"anthropic/claude-haiku-4-5", "", 1.5, "Anthropic's models take 0 to 1"},
		{"proxy/glm-5", "", 0.2, ""},
		{"openai/gpt-4o", "", 1.5, ""},
		{"openai/gpt-5-mini", "none", 0.2, "the model takes none"},
		{"openai/gpt-5.1", "", 0.2, `the model takes one with reasoning = "none" only`},
		{"openai/gpt-5.1", "none", 0.2, ""},
		{"openai/gpt-5-chat-latest", "", 0.2, ""},
		{"openai/o3", "", 0.2, "the model takes none"},
		{"openrouter/openai/o4-mini", "", 0.2, "the model takes none"},
		{"openrouter/openai/gpt-oss-120b", "", 0.2, ""},
		{"ollama/llama", "", 2, ""},
		{"script/x.toml", "", 2, ""},
	} {
		info, err := Lookup(tt.id, Providers{LLM: map[string]Endpoint{"proxy": {Type: "anthropic", BaseURL: "https://proxy.example/"}}})
		if err != nil {
			t.Fatal(err)
		}
		send, why := info.Temperature(&tt.want, tt.reasoning)
		if why != tt.why || (send == nil) != (why != "") || send != nil && *send != tt.want {
			t.Errorf("%s, reasoning %q: Temperature(%g) = %v, %q, want %q", tt.id, tt.reasoning, tt.want, send, why, tt.why)
		}
	}
}

func TestReasons(t *testing.T) {
	for name, want := range map[string]bool{
		"o1": true, "o3-2025-04-16": true, "o4-mini": true, "gpt-5": true, "gpt-5.1-codex": true, "gpt-6-astra": true,
		"gpt-4.1": false, "gpt-4o": false, "gpt-5-chat-latest": false, "gpt-oss-120b": false, "olmo": false, "openai/gpt-5": false, "": false, "gpt-": false,
	} {
		if got := Reasons(name); got != want {
			t.Errorf("Reasons(%q) = %v, want %v", name, got, want)
		}
	}
}

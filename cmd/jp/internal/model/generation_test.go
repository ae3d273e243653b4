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

// TestBrief: a request whose few tokens are for an answer is sent with less reasoning, where that is
// known to be taken.
func TestBrief(t *testing.T) {
	for _, tt := range []struct{ name, asked, alone, within string }{
		{"claude-haiku-4-5", "", "", ""},
		{"claude-haiku-4-5", "high", "high", "high"}, // its budget is half the output, or nothing
		{"claude-opus-4-8", "", "none", ""},
		{"claude-opus-4-8", "high", "none", "low"},
		{"claude-sonnet-5-5", "", "none", "low"},
		{"claude-opus-5-5", "medium", "none", "low"},
		{"claude-opus-6", "", "low", "low"},
		{"claude-next", "high", "high", "high"},
		{"o3", "", "low", "low"},
		{"o3-pro", "high", "high", "high"},
		{"gpt-5-mini", "high", "low", "low"},
		{"gpt-5.2", "", "none", "none"},
		{"gpt-5.2", "high", "none", "low"},
		{"gpt-5.2", "none", "none", "none"},
		{"gpt-5.1-codex", "", "", ""},
		{"gpt-4.1", "", "", ""},
	} {
		r := Request{Model: tt.name, Reasoning: tt.asked, Brief: true, Messages: make([]Message, 1)}
		c := Config{BaseURL: "https://api.openai.com/v1/"}
		alone := c.Reasoning(r)
		r.Messages = make([]Message, 3)
		if within := c.Reasoning(r); alone != tt.alone || within != tt.within {
			t.Errorf("%s, %q: %q alone, %q in a conversation, want %q, %q", tt.name, tt.asked, alone, within, tt.alone, tt.within)
		}
		c.BaseURL = "http://127.0.0.1:1/v1/"
		if elsewhere := c.Reasoning(r); elsewhere != tt.asked {
			t.Errorf("%s, %q: elsewhere %q", tt.name, tt.asked, elsewhere)
		}
	}
}

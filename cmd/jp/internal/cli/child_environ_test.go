package cli

import (
	"encoding/json"
	"slices"
	"testing"

	"jp/cmd/jp/internal/delegate"
	"jp/profiles"
)

// TestChildProviders: a child gets the keys of the models that it can call, and no others.
func TestChildProviders(t *testing.T) {
	cfg := profiles.Config{}
	cfg.Providers.LLM = map[string]profiles.Provider{"house": {Type: "openai", APIKeyEnv: "HOUSE_KEY"}}
	cfg.Providers.Aliases = map[string]string{"short": "openrouter/m"}
	summaries := json.RawMessage(`{"conversation":{"compact":{"model":"gemini/m"}}}`)
	for _, tt := range []struct {
		child delegate.Run
		want  []string
	}{
		{delegate.Run{Model: "openai/m", Config: json.RawMessage(`{}`)}, []string{"openai"}},
		{delegate.Run{Model: "house/m", Config: json.RawMessage(`{}`)}, []string{"house"}},
		{delegate.Run{Model: "short", Config: json.RawMessage(`{}`)}, []string{"openrouter"}},
		{delegate.Run{Model: "openai/m", Config: summaries}, []string{"gemini", "openai"}},
		{delegate.Run{Model: "openai/m", Config: json.RawMessage(`{}`), Delegates: true},
			[]string{"anthropic", "gemini", "house", "llamacpp", "ollama", "openai", "openrouter", "script"}},
	} {
		if got := (&query{}).childProviders(t.Context(), cfg, tt.child); !slices.Equal(got, tt.want) {
			t.Errorf("childProviders(%+v) = %q, want %q", tt.child, got, tt.want)
		}
	}
}

package run

import (
	"testing"

	"jp/cmd/jp/internal/delegate"
	"jp/profiles"
)

// TestChildProvider: a child gets the key of the model that it can call, and no other.
func TestChildProvider(t *testing.T) {
	cfg := profiles.Config{}
	cfg.Providers.LLM = map[string]profiles.Provider{"house": {Type: "openai", APIKeyEnv: "HOUSE_KEY"}}
	cfg.Providers.Aliases = map[string]string{"short": "openrouter/m"}
	for _, tt := range []struct {
		child delegate.Run
		want  string
	}{
		{delegate.Run{Model: "openai/m"}, "openai"},
		{delegate.Run{Model: "house/m"}, "house"},
		{delegate.Run{Model: "short"}, "openrouter"},
		{delegate.Run{Model: "unknown"}, ""},
	} {
		if got := childProvider(cfg, tt.child); got != tt.want {
			t.Errorf("childProvider(%+v) = %q, want %q", tt.child, got, tt.want)
		}
	}
}

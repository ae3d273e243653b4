package run

import (
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
	for _, tt := range []struct {
		child delegate.Run
		want  []string
	}{
		{delegate.Run{Model: "openai/m"}, []string{"openai"}},
		{delegate.Run{Model: "house/m"}, []string{"house"}},
		{delegate.Run{Model: "short"}, []string{"openrouter"}},
	} {
		if got := childProviders(cfg, tt.child); !slices.Equal(got, tt.want) {
			t.Errorf("childProviders(%+v) = %q, want %q", tt.child, got, tt.want)
		}
	}
}

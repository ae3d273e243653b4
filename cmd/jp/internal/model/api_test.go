package model

import "testing"

func TestAPI(t *testing.T) {
	const key, elsewhere = "OPENAI_API_KEY", "https://proxy.example/v1/"
	tests := []struct {
		id   string
		env  []string
		llm  map[string]Endpoint
		api  string
		url  string
		keys string // the variable
	}{
		{"openai/gpt-5.2", nil, nil, Chat, openaiURL, key},
		{"openai/gpt-5.4-mini", nil, nil, Responses, openaiURL, key},
		{"openai/gpt-6.1-sol", nil, nil, Responses, openaiURL, key},
		{"openai/gpt-5.4", []string{"OPENAI_BASE_URL", "https://eu.api.openai.com/v1"}, nil, Responses, "https://eu.api.openai.com/v1/", key},
		{"openai/gpt-5.4", []string{"OPENAI_BASE_URL", "https://API.OpenAI.com:443/v1"}, nil, Responses, "https://API.OpenAI.com:443/v1/", key},
		{"openai/gpt-5.4", []string{"OPENAI_BASE_URL", "https://api.openai.com./v1"}, nil, Responses, "https://api.openai.com./v1/", key},
		{"openai/gpt-5.4", []string{"OPENAI_BASE_URL", "https://xapi.openai.com/v1"}, nil, Chat, "https://xapi.openai.com/v1/", key},
		{"openai/o3-pro", nil, nil, Responses, openaiURL, key},
		{"openai/gpt-6.1-sol", []string{"OPENAI_BASE_URL", elsewhere}, nil, Chat, elsewhere, key},
		// api alone leaves the built-in what it is.
		{"openai/gpt-6.1-sol", []string{"OPENAI_BASE_URL", elsewhere}, map[string]Endpoint{"openai": {API: Responses}}, Responses, elsewhere, key},
		{"openai/gpt-6.1-sol", nil, map[string]Endpoint{"openai": {API: Chat}}, Chat, openaiURL, key},
		{"openai/gpt-6.1-sol", []string{"OPENAI_BASE_URL", elsewhere}, map[string]Endpoint{"openai": {API: Chat, APIKeyEnv: "MINE"}}, Chat, openaiURL, "MINE"},
		{"gemini/gpt-6", nil, nil, Chat, geminiURL, "GEMINI_API_KEY"},
		{"gemini/x", []string{"GOOGLE_API_KEY", "k"}, nil, Chat, geminiURL, "GOOGLE_API_KEY"},
		{"anthropic/gpt-6", nil, nil, "", anthropicURL, "ANTHROPIC_API_KEY"},
	}
	for _, tt := range tests {
		got, err := Lookup(tt.id, Providers{Env: env(tt.env...), LLM: tt.llm})
		if err != nil || got.API != tt.api || got.Endpoint != tt.url || got.KeyEnv != tt.keys {
			t.Errorf("Lookup(%q, %v, %v) = api %q, endpoint %q, key %q, %v, want %q, %q, %q",
				tt.id, tt.env, tt.llm, got.API, got.Endpoint, got.KeyEnv, err, tt.api, tt.url, tt.keys)
		}
	}
	for _, e := range []Endpoint{{Type: "anthropic", BaseURL: "http://127.0.0.1/", API: Chat}, {Type: "openai", BaseURL: "http://127.0.0.1/", API: "completions"}} {
		if _, err := Lookup("x/y", Providers{LLM: map[string]Endpoint{"x": e}}); err == nil {
			t.Errorf("an endpoint %+v is accepted", e)
		}
	}
}

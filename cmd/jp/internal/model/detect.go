package model

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Candidate is a model that seems usable on this machine.
type Candidate struct {
	Model  string // id
	Reason string // "ANTHROPIC_API_KEY is set"
}

// Detect lists models for which the environment has a key, and those of an Ollama server that
// answers on this machine within 200 ms, best first. It asks nobody outside the machine.
func Detect(ctx context.Context, env func(string) string) []Candidate {
	var found []Candidate
	if env("ANTHROPIC_API_KEY") != "" {
		found = append(found, Candidate{"anthropic/claude-sonnet-5-5", "ANTHROPIC_API_KEY is set"})
	}
	if env("OPENAI_API_KEY") != "" {
		found = append(found, Candidate{"openai/gpt-6.1-sol", "OPENAI_API_KEY is set"})
	}
	if base := ollamaHost(env("OLLAMA_HOST")); loopback(base) {
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		for _, name := range ollamaModels(ctx, base) {
			found = append(found, Candidate{"ollama/" + name, "Ollama answers at " + strings.TrimSuffix(base, "/v1/")})
		}
	}
	return found
}

// ollamaModels asks an OpenAI-compatible server for its models. No answer means none.
func ollamaModels(ctx context.Context, base string) []string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"models", nil)
	if err != nil {
		return nil
	}
	client := NewClient()
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&list) != nil {
		return nil
	}
	var names []string
	for _, m := range list.Data {
		// An id that is not one of ours, or an embedding model, is of no use.
		if m.ID != "" && clean(m.ID, "") == m.ID && !strings.Contains(m.ID, " ") && !strings.Contains(m.ID, "embed") {
			names = append(names, m.ID)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), 20)]
}

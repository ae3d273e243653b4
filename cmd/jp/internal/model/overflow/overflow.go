// Package overflow knows in which words servers say that a request does not fit into the window of
// a model. Most of them have no code for it.
package overflow

import "strings"

// phrases are parts of their messages, in lowercase.
var phrases = [...]string{
	"prompt is too long",              // Anthropic
	"exceed context limit",            // the same, with max_tokens
	"maximum context length",          // OpenAI, vLLM, OpenRouter, Mistral
	"context length is only",          // vLLM
	"exceeds the context window",      // OpenAI
	"available context size",          // llama.cpp
	"input token count",               // Gemini: "... exceeds the maximum number of tokens allowed"
	"prompt token count of",           // GitHub Copilot: "... exceeds the limit of"
	"greater than the context length", // LM Studio
	"when context the overflows",      // the same, word for word
	"exceeded max context length",     // Ollama
	"maximum prompt length is",        // xAI
	"reduce the length of the messages",
	"exceeded model token limit",   // Kimi
	"context window exceeds limit", // MiniMax
	"longer than the model's context length",
	"input is too long for requested model", // Bedrock
}

// Says reports whether the message of an error is about the window.
func Says(message string) bool {
	message = strings.ToLower(message)
	for _, p := range phrases {
		if strings.Contains(message, p) {
			return true
		}
	}
	return false
}

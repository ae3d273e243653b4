package model

import (
	"cmp"
	"slices"
)

// Builtin is a provider that needs no config.
type Builtin struct {
	Name   string   // name in model ids
	Format string   // wire format: anthropic, openai, script
	URL    string   // address of the vendor, or of a server on this machine; "" for script models
	URLEnv string   // variable with another address; "" = none
	Keys   []string // variables with the key: the first that is set counts; nil = no key is sent
}

const (
	anthropicURL  = "https://api.anthropic.com/"
	openaiURL     = "https://api.openai.com/v1/"
	geminiURL     = "https://generativelanguage.googleapis.com/v1beta/openai/"
	openrouterURL = "https://openrouter.ai/api/v1/"
	ollamaURL     = "http://127.0.0.1:11434/v1/"
	llamacppURL   = "http://127.0.0.1:8080/v1/"
)

// Builtins lists the providers that need no config, by name.
func Builtins() []Builtin {
	return []Builtin{
		{Name: "anthropic", Format: "anthropic", URL: anthropicURL, URLEnv: "ANTHROPIC_BASE_URL", Keys: []string{"ANTHROPIC_API_KEY"}},
		{Name: "gemini", Format: "openai", URL: geminiURL, URLEnv: "GEMINI_BASE_URL", Keys: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}},
		{Name: "llamacpp", Format: "openai", URL: llamacppURL, URLEnv: "LLAMACPP_BASE_URL"},
		{Name: "ollama", Format: "openai", URL: ollamaURL, URLEnv: "OLLAMA_HOST"},
		{Name: "openai", Format: "openai", URL: openaiURL, URLEnv: "OPENAI_BASE_URL", Keys: []string{"OPENAI_API_KEY"}},
		{Name: "openrouter", Format: "openai", URL: openrouterURL, URLEnv: "OPENROUTER_BASE_URL", Keys: []string{"OPENROUTER_API_KEY"}},
		{Name: "script", Format: "script"},
	}
}

// FindBuiltin returns the built-in provider of a name.
func FindBuiltin(name string) (Builtin, bool) {
	all := Builtins()
	i := slices.IndexFunc(all, func(b Builtin) bool { return b.Name == name })
	if i < 0 {
		return Builtin{}, false
	}
	return all[i], true
}

// KeyEnv returns the variable that the key is taken from: the first that is set, or the first. "" =
// no key is sent.
func (b Builtin) KeyEnv(env func(string) string) string {
	for _, name := range b.Keys {
		if env(name) != "" {
			return name
		}
	}
	if len(b.Keys) > 0 {
		return b.Keys[0]
	}
	return ""
}

// builtin returns a built-in provider with what this environment says of it.
func (p Providers) builtin(name string) (target, bool) {
	b, ok := FindBuiltin(name)
	if !ok {
		return target{}, false
	}
	t := target{name: name, format: b.Format, url: b.URL, keyEnv: b.KeyEnv(p.env)}
	switch {
	case name == "ollama":
		t.url = ollamaHost(p.env(b.URLEnv))
	case b.URLEnv != "":
		t.url = cmp.Or(p.env(b.URLEnv), b.URL)
	}
	return t, true
}

// Package alias lists the short names of models that jp brings along. Config can give them another
// meaning.
package alias

// Builtin returns the id of the model that each name stands for: the latest of a family, or what
// the vendor itself calls its latest. The map is the caller's.
func Builtin() map[string]string {
	return map[string]string{
		"sonnet": "anthropic/claude-sonnet-5-5", "opus": "anthropic/claude-opus-5-5", "haiku": "anthropic/claude-haiku-5-5",
		"gpt": "openai/gpt-6.1-sol", "gemini": "gemini/gemini-flash-latest",
	}
}

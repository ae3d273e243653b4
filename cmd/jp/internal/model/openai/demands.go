package openai

import (
	"errors"
	"slices"
	"strings"

	"jp/cmd/jp/internal/model"
)

// demands are what a server wants that others do not need or do not take. Its refusals say so, and
// they cost nothing.
type demands struct {
	plain   bool // no schema for the answer: it is in the prompt too
	nine    bool // ids of calls of nine letters and digits
	thought bool // reasoning_content in each message of the assistant, also of those who gave none
}

// after returns the demands that are known after an answer to r. err is its error; nil = there was
// none.
func (d demands) after(r model.Request, err error) demands {
	e, ok := errors.AsType[*model.Error](err)
	if !ok || e.Status != 400 && e.Status != 422 && e.Status != 500 { // the last of llama.cpp's templates
		return d
	}
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(strings.ToLower(e.Message), w) })
	}
	// DeepSeek: "This response_format type is unavailable now", Groq: "This model does not support
	// response format ..."
	d.plain = d.plain || len(r.Schema) > 0 && native(r, false) &&
		says("response_format", "response format", "json_schema", "json schema", "structured output")
	// Mistral, and templates of its models: "Tool call id was ... but must be a-z, A-Z, 0-9, with a
	// length of 9."
	d.nine = d.nine || says("tool call id") && says("length of 9", "length 9")
	// DeepSeek: "... must be passed back ...", Kimi: "... is missing in assistant tool call message ..."
	d.thought = d.thought || says("reasoning_content") && says("passed back", "missing")
	return d
}

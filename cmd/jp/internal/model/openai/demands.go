package openai

import (
	"errors"
	"strings"

	"jp/cmd/jp/internal/model"
)

// demands are what a server wants that others do not need or do not take. Its refusals say so, and
// they cost nothing.
type demands struct {
	thought bool // reasoning_content in each message of the assistant, also of those who gave none
}

// after returns the demands that are known after an answer. err is its error; nil = there was none.
func (d demands) after(err error) demands {
	e, ok := errors.AsType[*model.Error](err)
	if !ok || e.Status != 400 && e.Status != 422 {
		return d
	}
	// DeepSeek: "... must be passed back ...", Kimi: "... is missing in assistant tool call message ..."
	says := strings.ToLower(e.Message)
	d.thought = d.thought || strings.Contains(says, "reasoning_content") && (strings.Contains(says, "passed back") || strings.Contains(says, "missing"))
	return d
}

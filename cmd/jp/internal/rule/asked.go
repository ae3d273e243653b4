package rule

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"jp/convstore"
	"jp/tools"
)

// Asked is what a sub-agent is asked. With the model and the tools that it is granted it makes the
// digest under which its answer is found again.
type Asked struct {
	Query       string
	Attachments []convstore.Attachment `json:",omitempty"`
	Schema      json.RawMessage        `json:",omitempty"`
	Context     string                 `json:",omitempty"` // query of its context tool
	Overrides   []string               `json:",omitempty"`
	Meaning     string                 // what its config says: see MeaningOf; "" = as the store has it
}

// Known is no failure: what was asked is in the store, answered. Nothing was reserved.
type Known struct{ convstore.Answer }

func (a *Known) Error() string {
	return fmt.Sprintf("conversation %s: has answered this in turn %d", a.ID, a.Turn)
}

// DigestOf returns the digest of anything that can be written as JSON.
func DigestOf(v any) (convstore.Digest, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return convstore.Digest{}, fmt.Errorf("digest: %w", err)
	}
	return sha256.Sum256(b), nil
}

// HeldTool is a tool as a model sees it, with what it is and what it may do without a question.
type HeldTool struct {
	Name, Description      string
	Schema                 json.RawMessage `json:",omitempty"`
	Authority, Permissions string
}

// Held returns the tools of definitions.
func Held(defs []tools.Definition) []HeldTool {
	list := make([]HeldTool, len(defs))
	for i, d := range defs {
		list[i] = HeldTool{d.Name, d.Description, d.Schema, d.Authority(), d.Permissions()}
	}
	return list
}

// MeaningOf returns a name for what a config and its tools say: the same for the same words.
func MeaningOf(config json.RawMessage, held []HeldTool) (string, error) {
	d, err := DigestOf(struct {
		Config json.RawMessage
		Tools  []HeldTool
	}{config, held})
	return fmt.Sprintf("%x", d), err
}

// digest returns the digest of an ask whose child the rule allows.
func (a Ask) digest(s convstore.Standing, child convstore.Child) (convstore.Digest, error) {
	if a.Asked.Query == "" {
		return convstore.Digest{}, nil
	}
	if a.ID != 0 && a.Asked.Meaning == "" {
		stored, err := s.Config(a.ID)
		if err != nil {
			return convstore.Digest{}, err
		}
		if a.Asked.Meaning, err = MeaningOf(stored.JSON, nil); err != nil {
			return convstore.Digest{}, err
		}
	}
	g := child.Grant
	return DigestOf(struct {
		Asked
		Model     string
		Authority map[string]string // of the tools, by name
		Leave     map[string]string // permissions, under the name that stored digests have
		MaxDepth  int               // levels of sub-agents of its own
	}{a.Asked, child.Model, g.Authority, g.Permissions, max(g.MaxDepth-s.Caller.Depth-1, 0)})
}

// known sets the digest of a child, and returns a *Known if the ask may be answered from the
// store and its answer is there.
func (a Ask) known(s convstore.Standing, child *convstore.Child) (err error) {
	if child.Asked, err = a.digest(s, *child); err != nil || a.Reuse == nil {
		return err
	}
	found, ok, err := s.Answer(*a.Reuse, child.Asked, a.ID)
	if ok && err == nil {
		return &Known{found}
	}
	return err
}

// AnswerIn returns the answer that an error is; false = it is another error.
func AnswerIn(err error) (convstore.Answer, bool) {
	if a, ok := errors.AsType[*Known](err); ok {
		return a.Answer, true
	}
	return convstore.Answer{}, false
}

package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/tools/brief"
	"jp/tools/schema"
)

// The schema of a turn is in its user message, so that it also counts for a turn that is resumed
// after a crash. The system prompt has it for the model, and the request for providers that know
// schemas. The final reply is checked here. The first one that does not match is sent back with
// what is wrong; the second one ends the turn as an error.

// NoteSchema is the kind of the note that says to the model why its answer was not accepted. It is
// sent as a message of the user.
const NoteSchema = "schema"

// SchemaError says that an answer does not match its schema.
type SchemaError struct {
	Problems []string // at least one
	Limit    string   // limit that made the answer shorter; "" = none
}

func (e *SchemaError) Error() string {
	text := "schema: " + strings.Join(e.Problems, "; ")
	if len(text) > 1000 {
		text = brief.Prefix(text, 1000) + " ..."
	}
	if e.Limit != "" {
		text += " (stopped at a limit: " + e.Limit + ")"
	}
	return text
}

// schemaOf returns the schema that the answer of a turn must match, nil for free text.
func schemaOf(turn []convstore.Event) json.RawMessage {
	for _, ev := range turn {
		if u, ok := ev.Body.(convstore.UserMessage); ok && len(u.Schema) > 0 {
			return u.Schema
		}
	}
	return nil
}

// parseForm parses the schema of a turn, nil for none. That of an imported conversation may not be
// valid.
func parseForm(raw json.RawMessage) (*schema.Answer, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	form, err := schema.ParseAnswer(raw)
	if err != nil {
		return nil, fmt.Errorf("the schema that the turn was asked to match: %w", err)
	}
	return form, nil
}

// form is the section of the system prompt about the schema.
func form(s *schema.Answer) model.Section {
	return model.Section{Text: "# The form of the answer\n\n" +
		"Your last message, the one that answers the request, must be one JSON value that matches this JSON schema, with no\n" +
		"other word before or after it:\n\n" + string(s.JSON())}
}

// match checks a final reply against the schema of the turn. It sets in the reply its value, and
// what is wrong with it.
func (t *turn) match(r *reply) {
	if t.schema == nil || !Visible(r.text) || r.stop == model.StopRefusal {
		return
	}
	data, problems := t.schema.Check(Document(r.text))
	if r.data = data; len(problems) > 0 {
		r.bad = &SchemaError{Problems: problems}
		switch {
		case r.limit != nil:
			r.bad.Limit = r.limit.reason
		case r.stop == model.StopMaxTokens:
			r.bad.Limit = "max_tokens"
		}
	}
}

// mendable reports whether the model may answer again: once in a turn, and not after a limit made
// the answer shorter.
func (t *turn) mendable(r reply) bool { return r.bad != nil && r.bad.Limit == "" && t.mends == 0 }

// complaint is the note to the model about an answer that does not match.
func complaint(e *SchemaError) convstore.Note {
	return convstore.Note{Kind: NoteSchema, Text: "The answer does not match the schema: " + strings.TrimPrefix(e.Error(), "schema: ") +
		"\nAnswer again: the JSON value alone."}
}

// Document returns the JSON of an answer: what is inside a code fence, if the answer is one code
// fence and nothing else, and all of the answer otherwise.
func Document(answer string) []byte {
	text := bytes.TrimSpace([]byte(answer))
	inner, ok := bytes.CutPrefix(text, []byte("```"))
	if !ok {
		return text
	}
	inner, ok = bytes.CutSuffix(inner, []byte("\n```"))
	info, inner, found := bytes.Cut(inner, []byte("\n"))
	switch lang := string(bytes.TrimSpace(info)); {
	case !ok || !found, lang != "" && !strings.EqualFold(lang, "json"):
		return text
	}
	return bytes.TrimSpace(inner)
}

package spans

import (
	"encoding/json"
	"strconv"
	"strings"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/otel"
	"jp/tools/brief"
)

// message is one message of a thread, in the form of the conventions.
type message struct {
	Role   string `json:"role"` // user, assistant or tool
	Parts  []part `json:"parts"`
	Finish string `json:"finish_reason,omitempty"` // reason why a reply of a model ended
}

// part is a piece of a message. Type says which of the others are set: text and reasoning have
// Content, tool_call has ID, Name and Arguments, tool_call_response ID and Response, image
// MediaType.
type part struct {
	Type      string `json:"type"`
	Content   string `json:"content,omitempty"`
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments any    `json:"arguments,omitempty"` // json.RawMessage, or a string if it is not JSON
	Response  string `json:"response,omitempty"`
	MediaType string `json:"mime_type,omitempty"`
}

// Bounds of content in bytes: of one piece, and of all pieces of one attribute.
const (
	maxPiece   = 8 << 10
	maxContent = 48 << 10
)

// shorten cuts one piece.
func shorten(s string) string {
	if len(s) <= maxPiece {
		return s
	}
	return brief.Prefix(strings.ToValidUTF8(s, "\uFFFD"), maxPiece) + "\n[cut: " + strconv.Itoa(len(s)) + " bytes]"
}

// said records the messages that a model was sent, and its reply. Texts are cut. If the messages
// are too long for one attribute, the oldest are omitted; jp.left_out_messages counts them.
func said(span *otel.Span, r model.Request, output message) {
	var system []part
	for _, s := range r.System {
		system = append(system, part{Type: "text", Content: shorten(s.Text)})
	}
	list(span, "gen_ai.system_instructions", "jp.left_out_sections", system)
	input := make([]message, len(r.Messages))
	for i, m := range r.Messages {
		input[i] = thread(m).short()
	}
	list(span, "gen_ai.input.messages", "jp.left_out_messages", input)
	list(span, "gen_ai.output.messages", "", []message{output.short()})
}

// list sets an attribute to a JSON array of the last pieces that fit, and another attribute to the
// number of omitted pieces.
func list[T any](span *otel.Span, key, leftOut string, all []T) {
	if len(all) == 0 {
		return
	}
	size, from := 2, len(all)
	pieces := make([]json.RawMessage, len(all))
	for from > 0 {
		piece, err := json.Marshal(all[from-1])
		if err != nil || size+len(piece)+1 > maxContent {
			break
		}
		size += len(piece) + 1
		from--
		pieces[from] = piece
	}
	b, _ := json.Marshal(pieces[from:]) // cannot fail: the pieces are JSON
	span.Set(otel.Str(key, string(b)))
	if from > 0 && leftOut != "" {
		span.Set(otel.Int(leftOut, int64(from)))
	}
}

// short returns a copy with shortened texts, without the parts that do not fit.
func (m message) short() message {
	parts, room := []part{}, maxContent-1024
	for i, p := range m.Parts {
		p.Content, p.Response = shorten(p.Content), shorten(p.Response)
		piece, err := json.Marshal(p)
		if err != nil || len(piece) > room {
			parts = append(parts, part{Type: "text", Content: "[left out: " + strconv.Itoa(len(m.Parts)-i) + " parts]"})
			break
		}
		room -= len(piece) + 1
		parts = append(parts, p)
	}
	m.Parts = parts
	return m
}

// thread returns a message in the form of the conventions. An image is only its type.
func thread(m model.Message) message {
	out := message{Role: string(m.Role)}
	for _, c := range m.Content {
		var p part
		switch {
		case c.Image != nil:
			p = part{Type: "image", MediaType: c.Image.MediaType}
		case c.Reasoning != nil:
			p = part{Type: "reasoning", Content: c.Reasoning.Text}
		case c.Call != nil:
			p = callPart(*c.Call)
		case c.Result != nil:
			p = part{Type: "tool_call_response", ID: c.Result.ID, Response: c.Result.Text}
		default:
			p = part{Type: "text", Content: c.Text}
		}
		out.Parts = append(out.Parts, p)
	}
	return out
}

func callPart(c model.Call) part {
	p := part{Type: "tool_call", ID: c.ID, Name: c.Name, Arguments: c.Arguments}
	if !json.Valid(c.Arguments) || len(c.Arguments) > maxPiece {
		p.Arguments = shorten(string(c.Arguments))
	}
	return p
}

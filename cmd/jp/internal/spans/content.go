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
	Finish string `json:"finish_reason,omitempty"` // of what a model said
}

// part is a piece of a message. Type says which of the others are set: text and reasoning have Content, tool_call has ID, Name and
// Arguments, tool_call_response ID and Response, image MediaType.
type part struct {
	Type      string `json:"type"`
	Content   string `json:"content,omitempty"`
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments any    `json:"arguments,omitempty"` // json.RawMessage, or a string where it is no JSON
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

// said records what a model was sent, and what it said to that. Texts are cut, and of what was sent the oldest messages are left out
// where all are too long for one attribute; jp.left_out_messages says how many.
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

// list sets an attribute to a JSON array of as many of the last of all as have room, and another to how many are left out.
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
	b, _ := json.Marshal(pieces[from:]) // of JSON
	span.Set(otel.Str(key, string(b)))
	if from > 0 && leftOut != "" {
		span.Set(otel.Int(leftOut, int64(from)))
	}
}

// short is a copy with its texts cut, and without the parts for which there is no room.
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

// thread is a message in the form of the conventions. Of images only the type is told.
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

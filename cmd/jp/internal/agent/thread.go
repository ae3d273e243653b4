package agent

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/tools/jsondoc"
	"jp/tools/unseen"
)

// interrupted is the result of a call that has none: the process ended while it ran, or before.
const interrupted = "error: interrupted: jp ended before this call did; it may have run, in part or whole. Look before you repeat it."

// thread returns the messages of s that are sent to the model. Results are in the order of their
// calls. A call without a result gets one that says so. Reasoning is sent only to the provider that
// made it.
func (s sent) thread(provider string) []model.Message {
	var (
		msgs  []model.Message
		reply []model.Content            // content of the assistant message that is being read
		made  = map[*model.Call]paired{} // stored calls, by calls in reply
		calls = pairs(s.all, s.begins)
		left  []string // notes of what is left that go into the last message
	)
	settle := func() {
		if len(left) > 0 {
			note(&msgs[len(msgs)-1], left...)
			left = nil
		}
	}
	said := func(text string) {
		c := model.Content{Text: text}
		if n := len(msgs); n > 0 && msgs[n-1].Role == model.User {
			if text != "" {
				settle() // those to come go in front of other words
			}
			msgs[n-1].Content = append(msgs[n-1].Content, c)
		} else {
			settle()
			msgs = append(msgs, model.Message{Role: model.User, Content: []model.Content{c}})
		}
	}
	flush := func() {
		if !slices.ContainsFunc(reply, func(c model.Content) bool { return c.Text != "" || c.Call != nil }) {
			reply = nil // providers reject a message of reasoning alone
			return
		}
		settle()
		msgs = append(msgs, model.Message{Role: model.Assistant, Content: reply})
		var answers []model.Content
		for _, c := range reply {
			if c.Call == nil {
				continue
			}
			p := made[c.Call]
			r := p.result
			if s.short[p.call.ID] && p.stubbable() {
				r.Text = stub(p.call, r, p.turn)
			}
			answers = append(answers, model.Content{Result: &model.CallResult{ID: p.id, Name: c.Call.Name, Text: r.Text, IsError: r.IsError}})
		}
		if len(answers) > 0 {
			msgs = append(msgs, model.Message{Role: model.ToolRole, Content: answers})
		}
		reply = nil
	}
	for _, text := range s.head() {
		said(text)
	}
	for i := s.from; i < len(s.all); i++ {
		if s.begins[i] {
			flush()
		}
		switch b := s.all[i].Body.(type) {
		case convstore.UserMessage:
			flush()
			if text := userText(b); text != Continue || !asked(msgs, text) { // the turns since that one said nothing
				said(text)
			}
			for _, a := range b.Attachments {
				// imported data of another type is only named
				if len(a.Data) > 0 && slices.Contains(model.ImageTypes(), a.MediaType) {
					last := &msgs[len(msgs)-1]
					last.Content = append(last.Content, model.Content{Image: &model.Image{MediaType: a.MediaType, Data: a.Data}})
				}
			}
		case convstore.Note:
			switch {
			case asksOn(b.Kind):
				flush()
				said(b.Text)
			case b.Kind == NoteLeft:
				flush()
				if len(msgs) > 0 && b.Text != "" {
					left = append(left, b.Text)
				}
			}
		case convstore.Reasoning:
			if b.Provider == provider {
				reply = append(reply, model.Content{Reasoning: &model.Reasoning{Text: b.Text, Signature: b.Signature, Opaque: b.Opaque, Provider: b.Provider}})
			}
		case convstore.Said:
			if text := b.Said(); text != "" {
				reply = append(reply, model.Content{Text: text})
			}
		case convstore.ToolCall:
			if isFetch(b.ID) {
				continue // it is in the system prompt
			}
			call := &model.Call{ID: calls[i].id, Name: b.Name, Arguments: RawArguments(b.Arguments)}
			made[call] = calls[i]
			reply = append(reply, model.Content{Call: call})
		}
	}
	flush()
	settle()
	return msgs
}

// asked reports whether msgs end with a text of the user.
func asked(msgs []model.Message, text string) bool {
	n := len(msgs)
	if n == 0 || msgs[n-1].Role != model.User {
		return false
	}
	c := msgs[n-1].Content
	return c[len(c)-1].Text == text
}

// asksOn reports whether the model is sent notes of this kind as messages of the user.
func asksOn(note string) bool {
	return note == NoteSchema || note == NoteEscalation || note == NoteCut
}

// userText returns a user's message with its attachments, each with its source.
func userText(m convstore.UserMessage) string {
	if len(m.Attachments) == 0 {
		return m.Text
	}
	var b strings.Builder
	b.WriteString(m.Text)
	for _, a := range m.Attachments {
		if len(a.Data) > 0 {
			b.WriteString("\n\n<attachment source=\"" + attachmentName(a.Source) + "\" type=\"" + attachmentName(a.MediaType) + "\"/>")
			continue
		}
		b.WriteString("\n\n<attachment source=\"" + attachmentName(a.Source) + "\">\n")
		b.WriteString(unseen.Defang(a.Text, "attachment"))
		b.WriteString("\n</attachment>")
	}
	return b.String()
}

// attachmentName returns what an attachment is called, as it can stand in its tag.
func attachmentName(s string) string {
	return inTag.Replace(unseen.OneLine(unseen.Defang(s, "attachment")))
}

var inTag = strings.NewReplacer(`"`, "'", "<", "&lt;", ">", "&gt;")

// storedArguments returns arguments as an event holds them: an object as it is, and anything else,
// JSON or not or nested too deep, as a JSON string of what the model wrote.
func storedArguments(raw json.RawMessage) json.RawMessage {
	if text := bytes.TrimSpace(raw); len(text) > 0 && text[0] == '{' && json.Valid(raw) && !jsondoc.Deep(raw, jsondoc.MaxDepth) {
		return raw
	}
	b, _ := json.Marshal(strings.ToValidUTF8(string(raw), "\uFFFD"))
	return b
}

// RawArguments returns the arguments of an event as the model wrote them.
func RawArguments(stored json.RawMessage) json.RawMessage {
	var s string
	if len(stored) > 0 && stored[0] == '"' && json.Unmarshal(stored, &s) == nil {
		return json.RawMessage(s)
	}
	return stored
}

// Answer returns the final text of a turn: what the assistant said after its last tool call, "" for
// nothing.
func Answer(turn []convstore.Event) string {
	text := ""
	for _, ev := range turn {
		switch b := ev.Body.(type) {
		case convstore.Said:
			text = b.Said()
		case convstore.ToolCall, convstore.TurnStart:
			text = ""
		}
	}
	return text
}

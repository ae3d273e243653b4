package search

import (
	"bytes"
	"encoding/json"
	"strings"

	"jp/convstore"
	"jp/convstore/internal/stored"
	"jp/tools/jsondoc"
)

// concreteScopes are the parts of a conversation, without the groups.
func concreteScopes() []Scope {
	return []Scope{
		ScopeTitle, ScopeUser, ScopeAssistant, ScopeReasoning,
		ScopeStructured, ScopeToolCall, ScopeToolResult, ScopeInquiry,
	}
}

// expand returns the parts of a scope, nil for an unknown scope.
func (s Scope) expand() []Scope {
	switch s {
	case ScopeAll:
		return concreteScopes()
	case ScopeChat:
		return []Scope{ScopeUser, ScopeAssistant, ScopeReasoning, ScopeStructured}
	case ScopeTool:
		return []Scope{ScopeToolCall, ScopeToolResult}
	}
	for _, c := range concreteScopes() {
		if s == c {
			return []Scope{s}
		}
	}
	return nil
}

// kindScopes has the part that each kind of event belongs to; "" = cannot be searched.
var kindScopes = [stored.KindCount]Scope{
	stored.KindUser:          ScopeUser,
	stored.KindAssistant:     ScopeAssistant,
	stored.KindReasoning:     ScopeReasoning,
	stored.KindStructured:    ScopeStructured,
	stored.KindToolCall:      ScopeToolCall,
	stored.KindToolResult:    ScopeToolResult,
	stored.KindInquiry:       ScopeInquiry,
	stored.KindInquiryAnswer: ScopeInquiry,
}

// linesOf returns the lines of a body that can be searched. Each JSON value is a line of its own,
// after the name of its member and a colon. A string with line breaks is several lines. A name that
// is long or has line breaks is lines of its own, before its values: in front of each of them it would
// take many times the memory of the body.
//
// The prefilter relies on this: apart from that ": ", a line is part of one string, name, number or
// word of the stored JSON.
func linesOf(b convstore.Body) []string {
	var lines []string
	switch b := b.(type) {
	case convstore.UserMessage:
		lines = splitLines(lines, b.Text)
		for _, a := range b.Attachments {
			lines = splitLines(lines, a.Source)
			lines = splitLines(lines, a.Text)
		}
	case convstore.AssistantMessage:
		lines = splitLines(lines, b.Text)
	case convstore.Reasoning:
		lines = splitLines(lines, b.Text)
	case convstore.Structured:
		lines = valueLines(lines, b.Data)
	case convstore.ToolCall:
		lines = splitLines(lines, b.Name)
		lines = valueLines(lines, b.Arguments)
	case convstore.ToolResult:
		lines = splitLines(lines, b.Text)
	case convstore.Inquiry:
		lines = splitLines(lines, b.Text)
		for _, o := range b.Options {
			lines = splitLines(lines, o)
		}
		lines = valueLines(lines, b.Default)
	case convstore.InquiryAnswer:
		lines = valueLines(lines, b.Answer)
	}
	return lines
}

// splitLines adds the lines of a text, without their ends.
func splitLines(lines []string, text string) []string {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		lines = append(lines, strings.TrimSuffix(line, "\r"))
	}
	return lines
}

// longName is the length in bytes of the longest name that stands in front of each of its values.
const longName = 256

// valueLines adds the lines of a JSON value. If raw is not JSON, it is text, and so it is if it has
// more values than any tool or reader takes.
func valueLines(lines []string, raw json.RawMessage) []string {
	if len(raw) == 0 {
		return lines
	}
	if !json.Valid(raw) || jsondoc.Crowded(raw, jsondoc.MaxValues) {
		return splitLines(lines, string(raw))
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var names []string // name of the member that holds each open object or array
	name, inObject, wantName := "", []bool{}, false
	for {
		token, err := dec.Token()
		if err != nil {
			return lines
		}
		if wantName {
			if key, ok := token.(string); ok {
				name, wantName = key, false
				if len(key) > longName || strings.Contains(key, "\n") {
					lines, name = splitLines(lines, key), ""
				}
				continue
			}
		}
		switch v := token.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				names, inObject = append(names, name), append(inObject, v == '{')
			} else {
				name = names[len(names)-1]
				names, inObject = names[:len(names)-1], inObject[:len(inObject)-1]
			}
		case string:
			lines = memberLines(lines, name, v)
		case json.Number:
			lines = memberLines(lines, name, v.String())
		case bool:
			lines = memberLines(lines, name, map[bool]string{true: "true", false: "false"}[v])
		case nil:
			lines = memberLines(lines, name, "null")
		}
		wantName = len(inObject) > 0 && inObject[len(inObject)-1]
	}
}

func memberLines(lines []string, name, text string) []string {
	at := len(lines)
	lines = splitLines(lines, text)
	if len(lines) == at {
		lines = append(lines, "")
	}
	if name != "" {
		lines[at] = name + ": " + lines[at]
	}
	return lines
}

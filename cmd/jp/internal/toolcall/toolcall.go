// Package toolcall describes a call of a tool to a person who decides about it away from the
// terminal: the user of an editor, or of a program that drives jp.
//
// Texts of a model are cleaned and cut to fit a line. Callers refuse arguments longer than MaxShown
// without a question, because nobody could see all of them.
package toolcall

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/tools"
	"jp/tools/brief"
	"jp/tools/unseen"
)

// MaxShown bounds a text of a call, in bytes: editors take messages of some megabytes.
const MaxShown = 1 << 20

// Args has those arguments of jp's tools that say what a call is about. The zero value is a call
// without such arguments.
type Args struct {
	Path    string `json:"path"`
	Line    int    `json:"start_line"`
	Content string `json:"content"`
	Edits   []struct {
		Old string `json:"old"`
		New string `json:"new"`
	} `json:"edits"`
	Config string `json:"config"`
	Query  string `json:"query"`
}

// Asked returns the call that a question is about, with the source that the agent stores with it.
func Asked(q tools.Question) convstore.ToolCall {
	return convstore.ToolCall{ID: q.Call.ID, Name: q.Call.Name, Source: q.Tool.Declared(), Arguments: q.Call.Arguments}
}

// ArgsOf reads the arguments of a call. It returns false for local tools, whose arguments can have
// any meaning, for arguments that are too long to be shown, and for those that do not match.
func ArgsOf(c convstore.ToolCall) (Args, bool) {
	var a Args
	if len(c.Arguments) > MaxShown || c.Source == tools.SourceLocal || json.Unmarshal(c.Arguments, &a) != nil {
		return Args{}, false
	}
	return a, true
}

// Title returns one line about a call: its tool, and a file, a query or the arguments.
func Title(c convstore.ToolCall) string {
	switch a, _ := ArgsOf(c); {
	case c.Source == tools.SourceBuiltin && a.Path != "":
		return Line(c.Name, a.Path)
	case c.Source == tools.SourceDelegation && a.Query != "":
		return Line(cmp.Or(a.Config, c.Name)+":", a.Query)
	}
	return Line(c.Name, string(c.Arguments))
}

// Line returns a name and a text of a model as one line.
func Line(name, what string) string {
	const most = 120
	return term.Cut(unseen.Fold(unseen.Spell(strings.TrimSpace(name+" "+brief.Prefix(strings.ToValidUTF8(what, "\uFFFD"), 16*most)))), most, true)
}

// Hidden returns the invisible characters of a JSON value; "" = none.
func Hidden(raw json.RawMessage) string {
	const most = 8
	hidden := hiddenIn(raw)
	if len(hidden) == 0 {
		return ""
	}
	return fmt.Sprintf("holds %s: %s", wording.Plural(len(hidden), "invisible character"), strings.Join(hidden[:min(len(hidden), most)], " ")+wording.Either(len(hidden) > most, " ...", ""))
}

// hiddenIn returns the invisible characters in the texts of a JSON value.
func hiddenIn(raw json.RawMessage) []string {
	var hidden []string
	dec := json.NewDecoder(bytes.NewReader(raw))
	for {
		t, err := dec.Token()
		if err != nil {
			return hidden
		}
		if s, ok := t.(string); ok {
			hidden = append(hidden, unseen.Hides(s)...)
		}
	}
}

package query

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/record"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/tools/proc"
	"jp/tools/schema"
)

// How stdin is read.
const (
	inputText   = "text"
	inputJSON   = "json"
	inputStream = "stream-json"
)

func inputFormats() []string { return []string{inputText, inputJSON, inputStream} }

// asking reads the request of a run.
type asking struct {
	con   *console.Console
	ws    *workspace.Workspace
	host  *proc.Host // host of commands whose output is attached
	env   *run.Env   // Env of the conversation that the request goes to
	o     *options
	plain int // number of words before --
}

// task reads the words of the command line, stdin and --schema.
func (k *asking) task(ctx context.Context) (run.Task, error) {
	t, err := k.content(ctx)
	if err != nil {
		return t, err
	}
	if err := k.attach(ctx, &t); err != nil {
		return t, err
	}
	if k.o.schema.Set {
		switch {
		case t.Text == "":
			return t, exit.Usagef("--schema: needs a question; a turn that is resumed keeps its own")
		case t.Schema != nil:
			return t, exit.Usagef("--schema: the task on stdin has one too")
		}
		t.Schema, err = k.env.AnswerSchema(ctx, k.o.schema.Value)
		return t, err
	}
	if t.Schema == nil {
		return t, nil
	}
	s, err := schema.ParseAnswer(t.Schema)
	if err != nil {
		return t, exit.Usagef("--schema: %v", err)
	}
	t.Schema = s.JSON()
	return t, nil
}

// content returns the words of the command line with the piped text below them, or the task on
// stdin.
func (k *asking) content(ctx context.Context) (run.Task, error) {
	if k.o.composed.Set {
		return run.Task{Text: k.o.composed.Value}, nil
	}
	asked := k.asked()
	if !utf8.ValidString(asked) {
		return run.Task{}, exit.Usagef("query: not UTF-8 text")
	}
	if k.o.input == inputStream {
		if asked != "" {
			return run.Task{}, errWordsBeside
		}
		text, err := k.oneMessage(ctx)
		return run.Task{Text: text}, err
	}
	piped, err := k.con.Stdin(ctx)
	if err != nil {
		return run.Task{}, err
	}
	if k.o.input == inputJSON {
		if asked != "" {
			return run.Task{}, exit.Usagef("--input-format json: the query is in the task on stdin, not in words")
		}
		in, err := stream.ReadTask([]byte(piped))
		if err != nil {
			return run.Task{}, exit.Usagef("stdin: %v", err)
		}
		t := run.Task{Schema: in.Schema}
		for _, a := range in.Attachments {
			t.Attachments = append(t.Attachments, convstore.Attachment(a))
		}
		if c := in.Context; c != nil {
			t.Fetch = agent.Fetch{Tool: c.Tool, Query: c.Query}
		}
		t.Text, err = run.Clean(in.Query)
		return t, err
	}
	text := asked
	switch {
	case strings.TrimSpace(piped) == "":
	case asked == "":
		text = piped
	default:
		text = asked + "\n\n" + piped
	}
	text, err = run.Clean(text)
	return run.Task{Text: text}, err
}

// asked returns the words of the command line, joined.
func (k *asking) asked() string {
	words := slices.Clone(k.o.words)
	for i := range min(k.plain, len(words)) {
		words[i] = plainWord(words[i])
	}
	if text := strings.Join(words, " "); strings.TrimSpace(text) != "" {
		return text
	}
	return ""
}

// beginTape begins the tape of a run that a person started, if one is wanted.
func (o *options) beginTape(con *console.Console, ws *workspace.Workspace, request string) (*record.Tape, error) {
	var who []string
	for _, d := range o.directives {
		who = append(who, d.Text)
	}
	to, replay, err := record.Files(con, o.tape, request, who...)
	if err != nil {
		return nil, err
	}
	return record.Open(con, ws, to, replay)
}

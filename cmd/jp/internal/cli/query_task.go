package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/record"
	"jp/cmd/jp/internal/stream"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
	"jp/tools/schema"
)

// task is what a run is asked. An empty text asks to resume.
type task struct {
	text        string
	title       string // what a title is made from; "" = text
	attachments []convstore.Attachment
	schema      json.RawMessage // that the answer must match; nil = free text
	fetch       agent.Fetch     // its Tokens are those of the run
}

// How stdin is read.
const (
	inputText   = "text"
	inputJSON   = "json"
	inputStream = "stream-json"
)

func inputFormats() []string { return []string{inputText, inputJSON, inputStream} }

// task reads the words of the command line, stdin and --schema.
func (q *query) task(ctx context.Context) (task, error) {
	t, err := q.content(ctx)
	if err != nil {
		return t, err
	}
	if err := q.attach(ctx, &t); err != nil {
		return t, err
	}
	if q.o.schema.Set {
		switch {
		case t.text == "":
			return t, exit.Usagef("--schema: needs a question; a turn that goes on keeps its own")
		case t.schema != nil:
			return t, exit.Usagef("--schema: the task on stdin has one too")
		}
		if t.schema, err = q.readSchema(ctx, q.o.schema.Value); err != nil {
			return t, err
		}
	}
	if t.schema == nil {
		return t, nil
	}
	s, err := schema.ParseAnswer(t.schema)
	if err != nil {
		return t, exit.Usagef("--schema: %v", err)
	}
	t.schema = s.JSON()
	return t, nil
}

// content is the words of the command line with what is piped in below them, or the task on stdin.
func (q *query) content(ctx context.Context) (task, error) {
	if q.o.composed.Set {
		return task{text: q.o.composed.Value}, nil
	}
	asked := q.app.asked(q.o)
	if q.o.input == inputStream {
		if asked != "" {
			return task{}, errWordsBeside
		}
		text, err := q.app.oneMessage(ctx)
		return task{text: text}, err
	}
	piped, err := q.app.con.Stdin(ctx)
	if err != nil {
		return task{}, err
	}
	if q.o.input == inputJSON {
		if asked != "" {
			return task{}, exit.Usagef("--input-format json: the query is in the task on stdin, not in words")
		}
		in, err := stream.ReadTask([]byte(piped))
		if err != nil {
			return task{}, exit.Usagef("stdin: %v", err)
		}
		t := task{schema: in.Schema}
		if c := in.Context; c != nil {
			t.fetch = agent.Fetch{Tool: c.Tool, Query: c.Query}
		}
		t.text, err = clean(in.Query)
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
	text, err = clean(text)
	return task{text: text}, err
}

// asked is the words of the command line as they are meant, joined.
func (a *app) asked(o queryOptions) string {
	words := slices.Clone(o.words)
	for i := range min(a.plain, len(words)) {
		words[i] = plainWord(words[i])
	}
	return strings.Join(words, " ")
}

func clean(text string) (string, error) {
	if strings.ContainsRune(text, 0) {
		return "", exit.Usagef("query: holds a NUL byte")
	}
	return strings.ToValidUTF8(strings.TrimRight(text, "\n"), "\uFFFD"), nil
}

// readSchema is the value of --schema: JSON, or @ and the path of a file. Of a pipe it is read when somebody writes to it, and given
// up with ctx; the goroutine that waits is left behind then.
func (q *query) readSchema(ctx context.Context, value string) (json.RawMessage, error) {
	path, ok := strings.CutPrefix(value, "@")
	if !ok {
		return json.RawMessage(value), nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(q.app.con.Env.Dir, path)
	}
	type result struct {
		b   []byte
		err error
	}
	read := make(chan result, 1)
	go func() {
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOCTTY, 0)
		if err != nil {
			read <- result{nil, err}
			return
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, 1<<20)) // what is larger is refused as larger than a schema may be
		read <- result{b, err}
	}()
	select {
	case r := <-read:
		if r.err != nil {
			return nil, exit.Usagef("--schema: %v", r.err)
		}
		return r.b, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// contextTokens is what fetched context may take: half of the run's grant, and never more than 4000.
func contextTokens(conv convstore.Conversation) int64 {
	most := int64(4000)
	if g := conv.Grant; g != nil && g.Tokens != nil {
		most = min(most, *g.Tokens/2)
	}
	return most
}

// synthesis is what this run becomes where late results are folded in.
func synthesis(cfg profiles.Config, held tools.Set) (agent.Synthesis, error) {
	role, err := profiles.Role(profiles.RoleSynthesis)
	if err != nil {
		return agent.Synthesis{}, err
	}
	set := held.Narrow(role.Matches)
	return agent.Synthesis{System: system(cfg, set), Tools: set}, nil
}

// schemaFailure is the end of a run whose answer does not match.
func schemaFailure(id convstore.ID, e *agent.SchemaError) error {
	f := &exit.Error{Code: "schema", Status: exit.Failed, Msg: fmt.Sprintf("conversation %s: %v", id, e), Err: e}
	return f.WithHint("the answer stands in the conversation: jp conversation print %s --last", id)
}

// beginTape begins the tape of a run that a person started, if one is wanted.
func (q *query) beginTape(request string) error {
	var who []string
	for _, d := range q.o.directives {
		who = append(who, d.Text)
	}
	to, replay, err := record.Files(q.app.con, q.o.tape, request, who...)
	if err != nil {
		return err
	}
	q.app.env.Tape, err = record.Open(q.app.con, q.app.ws, to, replay)
	return err
}

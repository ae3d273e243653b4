package query

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"jp/cmd/jp/internal/attach"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/turns"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/tools/patience"
	"jp/tools/proc"
)

// attach reads the attachments of a request: first those of --attachment, then those of words
// @FILE. After -- a word @FILE is literal, because a program may pass words of a model there.
func (k *asking) attach(ctx context.Context, t *run.Task) error {
	refs := k.o.attach
	words := k.o.words[:min(k.plain, len(k.o.words))]
	if k.o.input != inputText {
		words = nil
	}
	root, err := k.ws.Root()
	if err != nil {
		return err
	}
	r := &attach.Reader{Dir: k.con.Env.Dir, Workspace: root, Notice: func(s string) { k.con.Warn("%s", s) }}
	if !k.o.composed.Set && len(k.o.words) == 1 && len(words) == 1 && isFileWord(words[0]) {
		a, err := r.File(words[0][1:])
		if err != nil {
			return errAttach(words[0], err)
		}
		if len(a.Data) > 0 {
			return exit.Usagef("%s: is an image, not a request", words[0]).WithHint("--attachment shows it to the model")
		}
		rest := strings.TrimPrefix(t.Text, words[0]) // text from the pipe
		t.Text, err = run.Clean(strings.TrimRight(a.Text, "\n") + rest)
		if err == nil && strings.TrimSpace(t.Text) == "" {
			err = exit.Usagef("%s: the file is empty", words[0])
		}
		if err != nil {
			return err
		}
		words = nil
	}
	if len(refs) > 0 && t.Text == "" {
		return exit.Usagef("--attachment: needs a question").WithHint("give the question as words or on stdin")
	}
	for _, ref := range refs {
		list, err := k.attachments(ctx, r, ref)
		if err != nil {
			return err
		}
		t.Attachments = append(t.Attachments, list...)
	}
	for _, w := range words {
		if isFileWord(w) {
			list, err := r.Path(ctx, w[1:])
			if err != nil {
				return errAttach(w, err)
			}
			t.Attachments = append(t.Attachments, list...)
		}
	}
	return nil
}

// isFileWord reports whether a word names a file: @ and a path without spaces. @@ is a literal @.
func isFileWord(w string) bool {
	return len(w) > 1 && w[0] == '@' && w[1] != '@' && !strings.ContainsAny(w, " \t\r\n")
}

// plainWord returns the meaning of a word of the query: @@ is a literal @.
func plainWord(w string) string {
	if strings.HasPrefix(w, "@@") {
		return w[1:]
	}
	return w
}

// errAttach returns the error about a word @FILE or an --attachment.
func errAttach(word string, err error) error {
	if !strings.HasPrefix(word, "@") {
		f := exit.Usagef("--attachment: %v", err)
		if errors.Is(err, fs.ErrNotExist) {
			return f.WithHint("a file or folder, from the current folder; an address, cmd:LINE and jp:ID are the other forms")
		}
		return f
	}
	return exit.Usagef("@%v", err).WithHint("a word that begins with @ names a file; @@ is a literal @, and words after -- are literal")
}

// attachments reads one --attachment.
func (k *asking) attachments(ctx context.Context, r *attach.Reader, ref string) ([]convstore.Attachment, error) {
	one := func(a convstore.Attachment, err error) ([]convstore.Attachment, error) {
		return []convstore.Attachment{a}, err
	}
	var list []convstore.Attachment
	var err error
	line, isCommand := strings.CutPrefix(ref, "cmd:")
	of, isTurns := strings.CutPrefix(ref, "jp:")
	switch {
	case isCommand:
		list, err = one(k.attachOutput(ctx, r, ref, line))
	case isTurns:
		list, err = one(k.attachTurns(ctx, r, ref, of))
	case attach.IsURL(ref):
		list, err = one(r.URL(ctx, ref))
	default:
		list, err = r.Path(ctx, ref)
	}
	if own := (*exit.Error)(nil); err == nil || errors.As(err, &own) {
		return list, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if fetch := (*attach.FetchError)(nil); errors.As(err, &fetch) {
		return nil, &exit.Error{Code: "attachment", Status: exit.Failed, Msg: "--attachment: " + fetch.Error(), Err: err}
	}
	if e := console.Explain(err); e.Status != exit.Failed {
		return nil, fmt.Errorf("--attachment %s: %w", ref, err) // error of the store
	}
	return nil, errAttach(ref, err)
}

// attachTimeout bounds a command whose output is attached.
const attachTimeout = time.Minute

var errOutputLarge = fmt.Errorf("prints more than %d KiB; narrow it", attach.MaxOne>>10)

// bounded keeps what is printed, up to a limit.
type bounded struct{ b strings.Builder }

func (w *bounded) Write(p []byte) (int, error) {
	if w.b.Len()+len(p) > attach.MaxOne {
		return 0, errOutputLarge
	}
	return w.b.Write(p)
}

// attachOutput runs a command line of the user with sh, in the working directory and with the
// user's rights, but without a terminal or stdin. stdout and stderr are attached in their order;
// a status other than 0 is written below them.
func (k *asking) attachOutput(ctx context.Context, r *attach.Reader, ref, line string) (none convstore.Attachment, err error) {
	if strings.TrimSpace(line) == "" {
		return none, errors.New("cmd: names no command")
	}
	ctx, cancel := patience.With(ctx, attachTimeout, fmt.Errorf("%s: took longer than %v", ref, attachTimeout))
	defer cancel()
	out := &bounded{}
	exit, err := k.host.Run(ctx, proc.Spec{Path: "sh", Args: []string{"sh", "-c", line}, Env: k.con.Env.Environ, Dir: k.con.Env.Dir, Stdout: out, Stderr: out})
	switch {
	case errors.Is(err, errOutputLarge):
		return none, fmt.Errorf("%s: %w", ref, errOutputLarge)
	case err != nil:
		return none, fmt.Errorf("%s: %w", ref, err)
	case exit.Cause != nil:
		return none, exit.Cause
	}
	text := out.b.String()
	if status := exit.Code; status != 0 {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += wording.Either(exit.Signal != 0, fmt.Sprintf("[ended by signal %d]\n", exit.Signal), fmt.Sprintf("[exit status %d]\n", status))
	}
	return r.Text(ref, text)
}

// attachTurns attaches turns of another conversation as `jp conversation print` shows them, barred: ID,
// or ID:TURNS.
func (k *asking) attachTurns(ctx context.Context, r *attach.Reader, ref, rest string) (none convstore.Attachment, err error) {
	word, span, ranged := strings.Cut(rest, ":")
	id, err := k.ws.Target(ctx, word)
	if err != nil {
		return none, err
	}
	var flags turns.Flags
	if ranged {
		flags.Turn = command.Given(span)
	}
	chosen, err := flags.Turns()
	if err != nil {
		return none, fmt.Errorf("--attachment %s: %w", ref, err)
	}
	source := "jp:" + id.String() + wording.Either(ranged, ":"+span, "")
	out := &bounded{}
	switch err := k.printTurns(ctx, out, id, chosen); {
	case errors.Is(err, errOutputLarge):
		return none, fmt.Errorf("%s: %w", source, err)
	case err != nil:
		return none, err
	}
	return r.Text(source, out.b.String())
}

// printTurns writes the chosen turns for a model.
func (k *asking) printTurns(ctx context.Context, out io.Writer, id convstore.ID, chosen convstore.Range) error {
	w := bufio.NewWriter(out)
	p := turns.Printer{W: w, IO: term.New(term.Options{}), Style: turns.Brief, Barred: true, Calls: map[string]convstore.ToolCall{}}
	store, err := k.ws.Store(ctx)
	if err != nil {
		return err
	}
	for e, err := range store.Events(ctx, id, chosen) {
		if err != nil {
			return err
		}
		if err := p.Event(e); err != nil {
			return err
		}
	}
	p.Pending()
	return w.Flush()
}

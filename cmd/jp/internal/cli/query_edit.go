package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/tools/brief"
)

// scissors ends the request in the file that is edited.
const scissors = "# ------------------------ >8 ------------------------"

// maxQuoted bounds what of the last answer stands in the file, in bytes.
const maxQuoted = 64 << 10

// compose has the user write the request in an editor, when that is asked for, and returns its draft; nil when it is not. The
// words and what is piped in stand in the file already. It runs before this jp has processes to look after: an editor may leave
// some behind, and Ctrl-C is its own.
func (a *app) compose(ctx context.Context, o *queryOptions) (*draft, error) {
	id, wanted, err := a.wantsEditor(ctx, o)
	if err != nil || !wanted {
		return nil, err
	}
	line, err := a.editor()
	if err != nil && !o.edit {
		return nil, nil // what is missing is something to ask
	}
	if err != nil {
		return nil, err
	}
	piped, err := a.con.Stdin(ctx)
	if err != nil {
		return nil, err
	}
	root, err := a.ws.Root()
	if err != nil {
		return nil, err
	}
	if !workspace.WithNone(o.directives) {
		if _, err := a.ws.Gate.Pass(ctx); err != nil { // before somebody writes for nothing
			return nil, err
		}
	}
	below, err := a.belowScissors(ctx, id)
	if err != nil {
		return nil, err
	}
	d, err := a.takeDraft(root, !a.con.Globals.NoPersist)
	if err != nil {
		return nil, err
	}
	text, err := a.edit(d, line, joinText(a.asked(*o), strings.TrimSpace(piped)), below)
	if errors.Is(err, errUnsaved) {
		err = (&exit.Error{Code: "cancelled", Status: exit.Failed, Msg: "query: cancelled, " + err.Error()}).
			WithHint("save it to send it as it is; an empty one is dropped")
		if d.left.IsZero() { // the words are in the shell's history
			d.drop()
			return nil, err
		}
	}
	if err != nil {
		return nil, d.end(a, err)
	}
	if text == "" {
		d.drop()
		return nil, &exit.Error{Code: "cancelled", Status: exit.Failed, Msg: "query: cancelled, the request is empty"}
	}
	o.composed = command.Given(text)
	return d, nil
}

// wantsEditor reports whether the request is to be written in an editor, and in which conversation; 0 = a new one. Without --edit
// that is so when somebody is at the terminal and there is nothing to ask and nothing to resume.
func (a *app) wantsEditor(ctx context.Context, o *queryOptions) (id convstore.ID, wanted bool, err error) {
	switch {
	case o.edit && o.noEdit:
		return 0, false, command.ErrMixed("--edit", "--no-edit")
	case o.edit && o.input != inputText:
		return 0, false, exit.Usagef("--edit: not with --input-format %s", o.input)
	case o.edit && !a.con.Interactive():
		return 0, false, exit.Usagef("--edit: nobody can be asked").WithHint("give the question as words or on stdin")
	case o.edit:
	case o.noEdit || o.input != inputText || !a.con.Interactive() || len(o.words) > 0 || !a.con.IO.InTTY || !a.con.IO.ErrTTY || a.con.JSON():
		return 0, false, nil
	}
	if !o.fresh && o.id.Value != "new" {
		q := &query{app: a, o: *o}
		if q.store, err = a.ws.Store(ctx); err != nil {
			return 0, false, err
		}
		if id, err = q.target(ctx); err != nil {
			return 0, false, err
		}
	}
	if o.edit || id == 0 {
		return id, true, nil
	}
	c, err := a.ws.Opened().Get(ctx, id)
	return id, err == nil && !resumable(c.Status), err
}

// resumable reports whether a conversation whose last run ended so can go on without a word.
func resumable(s convstore.Status) bool {
	return s != convstore.StatusNew && s != convstore.Status(convstore.StateOK)
}

// editor is the command line of the user's editor.
func (a *app) editor() (string, error) {
	m, err := a.ws.Machine()
	if err != nil {
		return "", err
	}
	for _, line := range []string{a.con.Getenv("JP_EDITOR"), m.Editor.Cmd, a.con.Getenv("VISUAL"), a.con.Getenv("EDITOR")} {
		if strings.TrimSpace(line) != "" {
			return line, nil
		}
	}
	return "", exit.Usagef("query: no editor is named").
		WithHint("set JP_EDITOR, VISUAL or EDITOR, or editor.cmd in the user's config.toml; or give the question as words")
}

// belowScissors tells whoever writes what the request goes to: the conversation, and its last answer, as comments.
func (a *app) belowScissors(ctx context.Context, id convstore.ID) (string, error) {
	lines := []string{"Write the request above. This line and all below it are not sent; an empty request", "cancels."}
	if id == 0 {
		lines = append(lines, "", "It begins a new conversation.")
		return comment(lines), nil
	}
	store, err := a.ws.Store(ctx)
	if err != nil {
		return "", err
	}
	c, err := store.Get(ctx, id)
	if err != nil {
		return "", err
	}
	lines = append(lines, "", strings.TrimSpace(fmt.Sprintf("It goes on in %s  %s", id, term.Line(c.Title))))
	var events []convstore.Event
	for e, err := range store.Events(ctx, id, convstore.LastTurns(1)) {
		if err != nil {
			return "", err
		}
		events = append(events, e)
	}
	answer := strings.TrimSpace(term.Clean(agent.Answer(events)))
	if answer == "" {
		return comment(lines), nil
	}
	lines = append(lines, "Its last answer was:", "")
	if len(answer) > maxQuoted {
		answer = brief.Prefix(answer, maxQuoted) + "\n[cut here; jp conversation print " + id.String() + " --last shows all]"
	}
	return comment(append(lines, strings.Split(answer, "\n")...)), nil
}

func comment(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.TrimRight("# "+l, " ") + "\n")
	}
	return b.String()
}

func joinText(parts ...string) string {
	var list []string
	for _, p := range parts {
		if p != "" {
			list = append(list, p)
		}
	}
	return strings.Join(list, "\n\n")
}

// edit fills the draft, runs the editor on it and returns what was written.
func (a *app) edit(d *draft, line, text, below string) (string, error) {
	if !d.left.IsZero() {
		before, err := d.text()
		if err != nil {
			return "", err
		}
		if before != "" {
			a.con.Note("the draft of %s, which was not answered, is offered again", d.left.Local().Format("2006-01-02 15:04"))
		}
		text = joinText(before, text)
	}
	if err := d.write(text + "\n\n" + scissors + "\n" + below); err != nil {
		return "", err
	}
	saved, err := d.watch()
	if err != nil {
		return "", err
	}
	if err := a.runEditor(line, d.path); err != nil {
		return "", err
	}
	text, err = d.text()
	if err != nil {
		return "", err
	}
	if text != "" && !saved() {
		return "", errUnsaved
	}
	return clean(text)
}

// errUnsaved is for an editor that was left without saving what it was given.
var errUnsaved = errors.New("nothing was saved in the editor")

// runEditor runs a command line with a file behind it, as other programs do: by sh, in the foreground, with the terminal
// if there is one.
func (a *app) runEditor(line, path string) error {
	cmd := exec.Command("/bin/sh", "-c", line+` "$@"`, line, path)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = a.con.Env.Dir, a.con.Env.Environ, a.con.Env.Stderr, a.con.Env.Stderr
	if tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0); err == nil {
		defer func() { _ = tty.Close() }()
		cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	}
	// Caught and dropped, not ignored: the editor would inherit that.
	dropped := make(chan os.Signal, 1)
	signal.Notify(dropped, syscall.SIGINT, syscall.SIGQUIT)
	defer signal.Stop(dropped)
	err := cmd.Run()
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		f := &exit.Error{Code: "editor", Status: exit.Failed, Msg: fmt.Sprintf("editor: %s: %v", line, ended), Err: err}
		if ended.ExitCode() == 127 {
			return f.WithHint("is it installed? JP_EDITOR names another")
		}
		return f
	}
	if err != nil {
		return fmt.Errorf("editor: %w", err)
	}
	return nil
}

// end gives the draft up when the request was answered, as far as a limit let it, and keeps it otherwise, but not with --no-persist.
func (d *draft) end(a *app, err error) error {
	if err == nil || console.Explain(err).Status == exit.Limit || a.con.Globals.NoPersist {
		d.drop()
		return err
	}
	if info, gone := os.Stat(d.path); gone == nil && info.Size() > 0 {
		_ = os.Chtimes(d.path, time.Time{}, time.Now())
		if d.unfit() != nil {
			a.con.Note("the draft is kept in %s", d.path)
		} else {
			a.con.Note("the draft is kept in %s; the next `jp query --edit` here offers it again", d.path)
		}
	}
	d.release()
	return err
}

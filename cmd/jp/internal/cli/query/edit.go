package query

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/tools/brief"
)

// scissors ends the request in the file that is edited.
const scissors = "# ------------------------ >8 ------------------------"

// plain ends the file. Editors take options from its last lines, which a model may have written:
// vim reads them from the end on, and Emacs what follows the last form feed.
const plain = "\f\n# vim: nomodeline\n"

// maxQuoted bounds the part of the last answer that is quoted in the file, in bytes.
const maxQuoted = 64 << 10

// compose lets the user write the request in an editor and returns the draft; nil if no editor is
// wanted. The file begins with the words and the piped text. compose runs before this jp starts
// other processes, because an editor may leave processes behind, and handles Ctrl-C itself.
func (k *asking) compose(ctx context.Context) (*draft, error) {
	o := k.o
	id, wanted, err := k.wantsEditor(ctx)
	if err != nil || !wanted {
		return nil, err
	}
	line, err := k.editor()
	if err != nil && !o.edit {
		return nil, nil // the caller reports that there is nothing to ask
	}
	if err != nil {
		return nil, err
	}
	piped, err := k.con.Stdin(ctx)
	if err != nil {
		return nil, err
	}
	root, err := k.ws.Root()
	if err != nil {
		return nil, err
	}
	if !workspace.WithNone(o.directives) {
		if _, err := k.ws.Gate.Pass(ctx); err != nil { // before the user writes a text that could not be sent
			return nil, err
		}
	}
	below, err := k.belowScissors(ctx, id)
	if err != nil {
		return nil, err
	}
	d, err := takeDraft(k.con, root, !k.con.Globals.NoPersist)
	if err != nil {
		return nil, err
	}
	text, err := k.edit(d, line, joinText(k.asked(), strings.TrimSpace(piped)), below)
	if errors.Is(err, errUnsaved) {
		err = (&exit.Error{Code: "cancelled", Status: exit.Failed, Msg: "query: cancelled, " + err.Error()}).
			WithHint("save the file to send the request as it is; an empty request cancels")
		if d.left.IsZero() { // a new draft has only words that the shell's history has too
			d.drop()
			return nil, err
		}
	}
	if err != nil {
		return nil, d.end(k.con, err)
	}
	if text == "" {
		d.drop()
		return nil, &exit.Error{Code: "cancelled", Status: exit.Failed, Msg: "query: cancelled, the request is empty"}
	}
	o.composed = command.Given(text)
	return d, nil
}

// wantsEditor reports whether the request is to be written in an editor, and for which
// conversation; 0 = a new one. Without --edit it is true if there is a terminal, nothing to ask and
// nothing to resume.
func (k *asking) wantsEditor(ctx context.Context) (id convstore.ID, wanted bool, err error) {
	o := k.o
	switch {
	case o.edit && !k.con.Interactive():
		return 0, false, exit.Usagef("--edit: nobody can be asked").WithHint("give the question as words or on stdin")
	case o.edit:
	case o.noEdit || o.input != inputText || !k.con.Interactive() || len(o.words) > 0 || !k.con.IO.InTTY || !k.con.IO.ErrTTY || k.con.JSON():
		return 0, false, nil
	}
	if !o.fresh && o.id.Value != "new" {
		if _, err := k.ws.Store(ctx); err != nil {
			return 0, false, err
		}
		if id, err = k.env.Target(ctx, k.o.request(0)); err != nil {
			return 0, false, err
		}
	}
	if o.edit || id == 0 {
		return id, true, nil
	}
	c, err := k.ws.Opened().Get(ctx, id)
	return id, err == nil && !run.Resumable(c), err
}

// editor returns the command line of the user's editor.
func (k *asking) editor() (string, error) {
	m, err := k.ws.Machine()
	if err != nil {
		return "", err
	}
	for _, line := range []string{k.con.Getenv("JP_EDITOR"), m.Editor.Cmd, k.con.Getenv("VISUAL"), k.con.Getenv("EDITOR")} {
		if strings.TrimSpace(line) != "" {
			return line, nil
		}
	}
	return "", exit.Usagef("query: no editor is set").
		WithHint("set JP_EDITOR, VISUAL or EDITOR, or editor.cmd in the user's config.toml; or give the question as words")
}

// belowScissors returns the part below the scissors: the conversation that the request goes to, and
// its last answer.
func (k *asking) belowScissors(ctx context.Context, id convstore.ID) (string, error) {
	lines := []string{"Write the request above. This line and all below it are not sent; an empty request", "cancels."}
	if id == 0 {
		lines = append(lines, "", "It begins a new conversation.")
		return comment(lines), nil
	}
	store, err := k.ws.Store(ctx)
	if err != nil {
		return "", err
	}
	c, err := store.Get(ctx, id)
	if err != nil {
		return "", err
	}
	lines = append(lines, "", strings.TrimSpace(fmt.Sprintf("This request continues %s  %s", id, term.Line(c.Title))))
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
func (k *asking) edit(d *draft, line, text, below string) (string, error) {
	if !d.left.IsZero() {
		before, err := d.text()
		if err != nil {
			return "", err
		}
		if before != "" {
			k.con.Note("the draft of %s, which was not answered, is offered again", d.left.Local().Format("2006-01-02 15:04"))
		}
		text = joinText(before, text)
	}
	// Editors take options from the first lines too: of 5 in vim, where users change nothing, and
	// of 1 in Emacs. Piped text there may be anybody's.
	if regexp.MustCompile(`(?:[vV]im?[<=>]?[0-9]*|ex):|-\*-`).MatchString(text) {
		text = strings.Repeat("\n", 5) + text
	}
	if err := d.write(text + "\n\n" + scissors + "\n" + below + plain); err != nil {
		return "", err
	}
	saved, err := d.watch()
	if err != nil {
		return "", err
	}
	if err := k.runEditor(line, d.path); err != nil {
		return "", err
	}
	text, err = d.text()
	if err != nil {
		return "", err
	}
	if text != "" && !saved() {
		return "", errUnsaved
	}
	return run.Clean(text)
}

// errUnsaved is the error for an editor that ended without saving.
var errUnsaved = errors.New("nothing was saved in the editor")

// runEditor runs a command line with a file as its last argument, as other programs do: by sh, in
// the foreground, with the terminal if there is one.
func (k *asking) runEditor(line, path string) error {
	cmd := exec.Command("/bin/sh", "-c", line+` "$@"`, line, path)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = k.con.Env.Dir, k.con.Env.Environ, k.con.Env.Stderr, k.con.Env.Stderr
	if tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0); err == nil {
		defer func() { _ = tty.Close() }()
		cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	}
	defer k.con.DropKeys()()
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

// end removes the draft if the request was answered, also partially. Otherwise it keeps the draft,
// except with --no-persist.
func (d *draft) end(con *console.Console, err error) error {
	if err == nil || console.Explain(err).Code == "partial" || con.Globals.NoPersist {
		d.drop()
		return err
	}
	if info, gone := os.Stat(d.path); gone == nil && info.Size() > 0 {
		_ = os.Chtimes(d.path, time.Time{}, time.Now())
		if d.unfit() != nil {
			con.Note("the draft is kept in %s", d.path)
		} else {
			con.Note("the draft is kept in %s; the next `jp query --edit` here offers it again", d.path)
		}
	}
	d.release()
	return err
}

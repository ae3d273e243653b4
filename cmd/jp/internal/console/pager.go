package console

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/term"
)

// Paged runs f and sends stdout through a pager, if it is a terminal that somebody reads. The first
// write starts the pager, so an error alone stays on the terminal. Paged returns when the reader
// has left the pager.
func (c *Console) Paged(f func() error) error {
	if !c.IO.OutTTY || c.Globals.noPager || c.JSON() || c.InTool || c.IO.Dumb {
		return f()
	}
	if c.Settings != nil {
		c.Settings()
	}
	p := &pager{con: c}
	c.IO = c.IO.Through(p)
	err := f()
	failed := p.close()
	if p.cmd != nil && errors.Is(err, term.ErrClosed) {
		err = nil // a reader who leaves the pager has seen enough
	}
	if err == nil {
		err = failed
	}
	return err
}

// pagerCommand is the pager as a line for a shell; "" = none. A jp in the background has none: it
// would only be stopped.
func (c *Console) pagerCommand() string {
	for i, command := range []string{c.Getenv("JP_PAGER"), c.PagerDefault, c.Getenv("PAGER"), "less"} {
		words := strings.Fields(command)
		if len(words) == 0 {
			continue
		}
		if words[0] == "cat" {
			return ""
		}
		// The first two are meant for jp: if they name a program that is not there, that is an error.
		if _, err := exec.LookPath(words[0]); i > 1 && err != nil && !strings.ContainsAny(command, `=$"'\;|&(`) {
			continue
		}
		tty, err := term.OpenTTY("")
		if err != nil {
			return ""
		}
		_ = tty.Close()
		return command
	}
	return ""
}

// pager is a process that reads what is written. Not for concurrent use.
type pager struct {
	con *Console

	command string         // set by the first Write; "" = none
	cmd     *exec.Cmd      // its process, if there is a pager
	in      io.WriteCloser // stdin of cmd, else stdout
	leave   func()         // ends the time in which Ctrl-C is for the pager
	err     error          // of the start
}

func (p *pager) Write(text []byte) (int, error) {
	if p.in == nil && p.err == nil {
		p.err = p.start()
	}
	if p.err != nil {
		return 0, p.err
	}
	return p.in.Write(text)
}

func (p *pager) start() error {
	if p.command = p.con.pagerCommand(); p.command == "" {
		p.in = unclosed{p.con.Env.Stdout}
		return nil
	}
	cmd := exec.Command("sh", "-c", p.command)
	cmd.Stdout, cmd.Stderr = p.con.Env.Stdout, p.con.Env.Stderr
	cmd.Env = slices.Clone(p.con.Env.Environ)
	for name, value := range map[string]string{"LESS": "FRX", "LV": "-c"} {
		if !slices.ContainsFunc(cmd.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }) {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	// While there is a pager, Ctrl-C is for it: it knows how to leave the terminal.
	p.leave = p.con.DropKeys()
	p.cmd, p.in = cmd, in
	return nil
}

// unclosed is a stream that stays open.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// close ends the text and waits until it was read. A pager that fails may have shown nothing, so
// that is an error. A pager that Ctrl-C ends is one that was left.
func (p *pager) close() error {
	if p.cmd == nil {
		return nil
	}
	_ = p.in.Close()
	err := p.cmd.Wait()
	p.leave()
	ended := (*exec.ExitError)(nil)
	if !errors.As(err, &ended) {
		return nil
	}
	if s, ok := ended.Sys().(syscall.WaitStatus); ok && (s.ExitStatus() == 128+int(syscall.SIGINT) || s.Signaled() && s.Signal() == syscall.SIGINT) {
		return nil
	}
	f := &exit.Error{Code: "pager", Status: exit.Failed, Msg: fmt.Sprintf("pager: %s: %v", p.command, ended), Err: err}
	return f.WithHint("JP_PAGER or pager.cmd names another; --no-pager uses none")
}

package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"jp/tools/brief"
	"jp/tools/proc"
)

// Runner runs processes; a *proc.Host is one.
type Runner interface {
	Run(ctx context.Context, spec proc.Spec) (proc.Exit, error)
}

// closeGrace is how long a program may take to end by itself once its input has ended.
const closeGrace = 2 * time.Second

// process is a running server program. It ends, with all below it, when life ends.
type process struct {
	in     *io.PipeWriter
	out    *io.PipeReader
	stop   context.CancelFunc
	ended  chan struct{} // closed when the tree has ended; the fields below are set then
	why    string
	failed bool // whether it failed, and was not stopped or ended by itself
	stderr *brief.Tail
}

// start runs the program of s, which is expanded, inside box if that is not nil. emit gets what it
// writes to stderr, line by line. It returns at once: the first message shows whether the program
// could be started.
func start(host Runner, s Server, box *proc.Confine, environ []string, emit func(string)) *process {
	life, stop := context.WithCancel(context.Background())
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &process{in: inW, out: outR, stop: stop, ended: make(chan struct{}), stderr: &brief.Tail{Keep: maxTail}}
	allow := append([]string{}, proc.ToolEnv()...)
	for name, value := range s.Env {
		if box != nil && name == "TMPDIR" {
			continue // box makes its own folder there; only the user may name another
		}
		allow = append(allow, name+"="+value)
	}
	spec := proc.Spec{
		Path: s.Command, Args: append([]string{s.Command}, s.Args...), Env: proc.Environ(environ, append(allow, "JP_CALL_FD=none")...), Dir: s.Dir,
		Stdin: inR, Stdout: outW, Stderr: p.stderr, Kind: proc.Tool, Confine: box,
	}
	last := &lines{emit: emit}
	if emit != nil {
		spec.Stderr = io.MultiWriter(p.stderr, last)
	}
	go func() {
		exit, err := host.Run(life, spec)
		if emit != nil {
			last.end() // nothing writes to it any more
		}
		if box != nil && errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w (it, or what interprets it, may lie outside what access.fs opens)", err)
		}
		p.why, p.failed = ending(exit, err), life.Err() == nil && (err != nil || exit.Signal != 0 || exit.Code != 0)
		close(p.ended)
		_ = outW.Close()
		_ = inR.CloseWithError(io.ErrClosedPipe)
	}()
	return p
}

// transport is the connection that the SDK uses.
func (p *process) transport() sdk.Transport {
	return &sdk.IOTransport{Reader: &frames{ReadCloser: p.out}, Writer: p.in, MaxLineLength: maxMessage}
}

// end stops the program and returns when it has ended. First it ends its input, and gives it time
// to end by itself.
func (p *process) end() {
	_ = p.in.Close()
	select {
	case <-p.ended:
	case <-time.After(closeGrace):
	}
	p.kill()
}

// kill kills the program and returns when it has ended.
func (p *process) kill() {
	p.stop()
	_ = p.out.Close() // nobody reads what it still writes
	<-p.ended
}

// left returns how the program ended and what it wrote last; "" while it runs.
func (p *process) left() string {
	select {
	case <-p.ended:
	default:
		return ""
	}
	return p.why + p.lastWords()
}

// lastWords returns the end of what the program wrote to stderr, to append to a reason; "" for
// nothing.
func (p *process) lastWords() string {
	said, _ := p.stderr.Bytes()
	if text := strings.TrimSpace(cleanText(string(said))); text != "" {
		return "\nstderr, last lines:\n" + text
	}
	return ""
}

func ending(exit proc.Exit, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case exit.Signal != 0:
		return "killed by signal: " + exit.Signal.String()
	}
	return fmt.Sprintf("exit status %d", exit.Code)
}

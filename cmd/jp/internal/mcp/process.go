package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"jp/tools/proc"
)

// Runner runs processes; a *proc.Host is one.
type Runner interface {
	Run(ctx context.Context, spec proc.Spec) (proc.Exit, error)
}

// closeGrace is how long a program may take to end by itself once nobody speaks with it.
const closeGrace = 2 * time.Second

// process is a running server program. It ends, with all below it, when life ends.
type process struct {
	in     *io.PipeWriter
	out    *io.PipeReader
	stop   context.CancelFunc
	ended  chan struct{} // closed when the tree is gone; what follows is set then
	why    string
	failed bool // not that it was told to end, or that it just did
	stderr *tail
}

// start runs the program of s, which is expanded, inside box where that is not nil. tell gets what it says on stderr, line by
// line. It returns at once: whether the program could be started shows when it is spoken with.
func start(host Runner, s Server, box *proc.Confine, environ []string, tell func(string)) *process {
	life, stop := context.WithCancel(context.Background())
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &process{in: inW, out: outR, stop: stop, ended: make(chan struct{}), stderr: &tail{keep: maxTail}}
	allow := append([]string{}, proc.ToolEnv()...)
	for name, value := range s.Env {
		if box != nil && name == "TMPDIR" {
			continue // box has a folder of its own made there: that is for the user to say
		}
		allow = append(allow, name+"="+value)
	}
	spec := proc.Spec{
		Path: s.Command, Args: append([]string{s.Command}, s.Args...), Env: proc.Environ(environ, append(allow, "JP_CALL_FD=none")...), Dir: s.Dir,
		Stdin: inR, Stdout: outW, Stderr: p.stderr, Kind: proc.Tool, Confine: box,
	}
	last := &lines{tell: tell}
	if tell != nil {
		spec.Stderr = io.MultiWriter(p.stderr, last)
	}
	go func() {
		exit, err := host.Run(life, spec)
		if tell != nil {
			last.end() // nobody writes to it any more
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

// transport is what the SDK speaks over.
func (p *process) transport() sdk.Transport {
	return &sdk.IOTransport{Reader: &frames{ReadCloser: p.out}, Writer: p.in, MaxLineLength: maxMessage}
}

// end lets the program go and returns when it has ended: asked first, by the end of its input.
func (p *process) end() {
	_ = p.in.Close()
	select {
	case <-p.ended:
	case <-time.After(closeGrace):
	}
	p.kill()
}

// kill ends the program now and returns when it has ended.
func (p *process) kill() {
	p.stop()
	_ = p.out.Close() // what it still writes is for nobody
	<-p.ended
}

// left says how the program ended and what it said last; "" while it runs.
func (p *process) left() string {
	select {
	case <-p.ended:
	default:
		return ""
	}
	return p.why + p.lastWords()
}

// lastWords is the end of what the program said on stderr, to be appended to a reason; "" when it said nothing.
func (p *process) lastWords() string {
	if text := p.stderr.text(); text != "" {
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

package wire

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/model/script"
)

const usage = `usage: wire [flags] SCRIPT [-- COMMAND [ARG...]]

Serves the answers of SCRIPT over Anthropic's and OpenAI's wire formats. With a COMMAND, runs it
with ANTHROPIC_BASE_URL, OPENAI_BASE_URL and keys set, and exits with its status; without one,
prints its URL and serves until SIGTERM, SIGINT or the end of -for.

`

// Main is the command "wire", for testscript.Main. It exits.
func Main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run serves until ctx ends, and returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("wire", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage); flags.PrintDefaults() }
	addr := flags.String("addr", "", "`address` to listen on (default: a free port of 127.0.0.1)")
	logFile := flags.String("log", "", "append each request to `FILE`, as a line of JSON")
	urlFile := flags.String("url", "", "write the URL to `FILE` once it is served")
	untilEOF := flags.Bool("stdin", false, "end when stdin does")
	limit := flags.Duration("for", 10*time.Minute, "end after this time, so that nothing is left behind")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	fail := func(err error) int {
		fmt.Fprintf(stderr, "wire: %v\n", err)
		return 1
	}
	if flags.NArg() == 0 || flags.NArg() > 1 && (flags.Arg(1) != "--" || flags.NArg() == 2) {
		flags.Usage()
		return 2
	}
	stream, err := load(flags.Arg(0))
	if err != nil {
		return fail(err)
	}

	o := Options{Addr: *addr}
	if *logFile != "" {
		f, err := os.OpenFile(*logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return fail(err)
		}
		defer f.Close()
		o.Log = f
	}
	server, err := Start(stream, o)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = server.Close() }()
	if *urlFile != "" {
		if err := writeWhole(*urlFile, server.URL+"\n"); err != nil {
			return fail(err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	if flags.NArg() > 2 {
		return command(ctx, flags.Args()[2:], server.URL, stdin, stdout, stderr)
	}

	fmt.Fprintln(stdout, server.URL)
	if *untilEOF {
		go func() { // ends with the process at the latest
			_, _ = io.Copy(io.Discard, stdin)
			cancel()
		}()
	}
	<-ctx.Done()
	return 0
}

// load reads a script and returns its model. The model that a request names may choose a
// variant: "any#slow".
func load(path string) (model.Stream, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := script.Parse(path, data)
	if err != nil {
		return nil, err
	}
	return Variants(s), nil
}

// Variants returns the model of a script that takes the variant from the name of the model.
func Variants(s *script.Script) model.Stream {
	return func(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
		_, variant, _ := strings.Cut(r.Model, "#")
		return s.Stream("wire", variant)(ctx, r)
	}
}

// command runs a program against the server. An interrupt goes to it, not past it.
func command(ctx context.Context, argv []string, url string, stdin io.Reader, stdout, stderr io.Writer) int {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.Env = append(os.Environ(),
		"ANTHROPIC_BASE_URL="+url, "ANTHROPIC_API_KEY=wire-anthropic-key",
		"OPENAI_BASE_URL="+url+"/v1", "OPENAI_API_KEY=wire-openai-key",
		"OLLAMA_HOST="+url)
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return exit.ExitCode()
	case errors.As(err, &exit):
		status, _ := exit.Sys().(syscall.WaitStatus)
		return 128 + int(status.Signal())
	}
	fmt.Fprintf(stderr, "wire: %v\n", err)
	return 127
}

// writeWhole writes a file that nobody sees half written.
func writeWhole(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".wire-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already when all went well
	if _, err := f.WriteString(text); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

package tools

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"jp/tools/brief"
	"jp/tools/environ"
	"jp/tools/files"
	"jp/tools/fs"
	"jp/tools/jsondoc"
	"jp/tools/proc"
	"jp/tools/schema"
	"jp/tools/template"
)

// Runner runs processes; a *proc.Host is one.
type Runner interface {
	Run(ctx context.Context, spec proc.Spec) (proc.Exit, error)
}

// CommandEnv is the environment that local tools run in.
type CommandEnv struct {
	Host    Runner
	Dir     string   // workspace, absolute: the working directory
	Environ []string // variables of jp, "NAME=value": a tool gets a few of them
	// Context has the values of context.* in templates: "conversation_id". "workspace" is Dir and
	// "action" is "run" unless Context has them.
	Context map[string]any
	// Secrets names further variables that hold keys. No tool gets them.
	Secrets []string
	// Notice is called with what the user should know, each time; see [Once]. nil drops it.
	Notice func(string)
	// Main is set for the tools of an agent in the role main, which may run them with less
	// confinement than a sub-agent.
	Main bool
	// AllowOff makes sandbox = "off" count for others than Main too, because the user's own config
	// says so.
	AllowOff bool
	fs.Kept
	// Enforceable returns what the system can enforce; nil is proc.Enforceable.
	Enforceable func() proc.Report
	// Program is the file of this jp, absolute. Every tool may execute it wherever it lies; in a
	// tool without access.jp it refuses to do anything. "" is none.
	Program string
	// Found is the path of the tool's program, absolute, if it was looked up already; a shell text
	// needs none.
	Found string
	// JP opens the line on which a call of a tool with access.jp runs jp. nil refuses such tools.
	// The line is closed when the last process of the tool has ended.
	JP func(ctx context.Context, def Definition, call Call) (*Line, error)
}

// Line is how one call of a tool runs jp.
type Line struct {
	Socket *os.File // for the tool; see CallVariable
	Dir    string   // holds a link "jp" to CommandEnv.Program and nothing else; first in the tool's PATH
	Close  func()   // ends what was begun over the line, and waits for that
}

// CallVariable is the variable by which a jp knows that it runs inside a tool. Its value is the
// number of the descriptor that leads to the jp which runs the call, or CallNone where the tool has
// no access.jp.
const (
	CallVariable = "JP_CALL_FD"
	CallNone     = "none"

	callFD = "3" // as package proc hands it over
)

// Once returns a function that passes each different text to f only once. It is safe for concurrent
// use; f may be nil.
func Once(f func(string)) func(string) {
	var (
		mu   sync.Mutex
		seen = map[string]bool{}
	)
	return func(s string) {
		mu.Lock()
		defer mu.Unlock()
		if f != nil && !seen[s] {
			seen[s] = true
			f(s)
		}
	}
}

// Command returns the tool of a local definition. The program is started directly, in env.Dir, with
// an environment of a few variables, confined to what the definition opens. Its stdout is the
// result.
func Command(def Definition, env CommandEnv) (Tool, error) {
	if !def.Local() || def.Command.IsZero() {
		return Tool{}, &DefinitionError{Tool: def.Name, Key: keyCommand, Msg: "only a tool with source = \"local\" and a command can be run"}
	}
	for _, name := range def.Env {
		if slices.Contains(env.Secrets, name) {
			return Tool{}, &DefinitionError{Tool: def.Name, Key: keyEnv, Msg: fmt.Sprintf("%q is the key of a model provider, and no tool gets one", name)}
		}
	}
	s, err := schema.Parse(def.Schema)
	if err != nil {
		return Tool{}, &DefinitionError{Tool: def.Name, Key: keyParameters, Msg: err.Error()}
	}
	c := command{def: def, env: env, schema: s}
	return Tool{Definition: def, Func: c.run, Check: c.check}, nil
}

type command struct {
	def    Definition
	env    CommandEnv
	schema *schema.Schema
}

// Bounds of what is read of the stderr of a tool.
const (
	stderrKept  = 64 << 10
	stderrLines = 20
	stderrBytes = 4 << 10
)

// usualPath is where programs are looked for without a PATH.
const usualPath = "/usr/local/bin:/usr/bin:/bin"

// check is the Check of the tool: it says whether its program may be given these values.
func (c command) check(_ context.Context, call Call) error {
	data, err := c.data(call)
	if err != nil || c.def.Command.shell != nil { // the values of a shell text go into files
		return err
	}
	_, err = c.def.Command.render(data, c.def.dash)
	return err
}

// run is the Func of the tool.
func (c command) run(ctx context.Context, call Call) (Result, error) {
	data, err := c.data(call)
	if err != nil {
		return *refused("%v", err), nil
	}
	spec := proc.Spec{
		Path: cmp.Or(c.env.Found, c.def.Command.Program),
		Env:  proc.Environ(c.env.Environ, append(proc.ToolEnv(), c.def.Env...)...),
		Dir:  c.env.Dir,
		Kind: proc.Tool,
	}
	var files []string // files with the values of a shell text
	if s := c.def.Command.shell; s != nil {
		call, err := s.Call(data, c.def.shellRules(), environ.Value(spec.Env, "TMPDIR"))
		if err != nil {
			return *refused("%v", err), nil
		}
		// What cannot be removed is left to a later call. Only the user can open the folder.
		defer func() { _ = call.Close() }()
		spec.Path, spec.Args, spec.Env = call.Path, call.Args, append(spec.Env, call.Env...)
		files = call.Files
	} else {
		args, err := c.def.Command.render(data, c.def.dash)
		if err != nil {
			return *refused("%v", err), nil
		}
		spec.Args = append([]string{c.def.Command.Program}, args...)
	}
	if len(c.def.Access.JP) > 0 {
		if c.env.JP == nil {
			return *refused("access.jp: there is no conversation that jp could run for"), nil
		}
		line, err := c.env.JP(ctx, c.def, call)
		if err != nil {
			return *refused("access.jp: %v", err), nil
		}
		defer line.Close()
		spec.Socket = line.Socket
		spec.Env = proc.Environ(spec.Env, "*", CallVariable+"="+callFD, "PATH="+line.Dir+":"+orText(environ.Value(spec.Env, "PATH"), usualPath))
	} else {
		spec.Env = proc.Environ(spec.Env, "*", CallVariable+"="+CallNone)
	}
	if refusal := c.confine(&spec, files); refusal != nil {
		return *refusal, nil
	}
	if c.def.Stdin == StdinJSON {
		in, err := jsondoc.Encode(template.WithoutOmitted(data))
		if err != nil {
			return Result{}, err
		}
		spec.Stdin = bytes.NewReader(append(in, '\n'))
	}
	keep := c.def.SizeLimit()
	if c.def.Output == OutputJSON {
		keep = DefaultBatchBytes // an envelope is read whole or not at all
	}
	stdout, stderr := &head{keep: keep}, &brief.Tail{Keep: stderrKept}
	spec.Stdout, spec.Stderr = stdout, stderr
	exit, err := c.env.Host.Run(ctx, spec)
	if err != nil {
		return c.failed(c.startError(err, spec.Confine), stdout, stderr), nil
	}
	switch timeout := (*TimeoutError)(nil); {
	case errors.As(exit.Cause, &timeout):
		return c.failed(timeout.Error(), stdout, stderr), nil
	case exit.Cause != nil:
		return c.failed("interrupted, may have run: "+exit.Cause.Error(), stdout, stderr), nil
	case exit.Signal != 0:
		return c.failed("killed by signal: "+exit.Signal.String(), stdout, stderr), nil
	case exit.Code != 0:
		return c.failed(fmt.Sprintf("exit status %d", exit.Code), stdout, stderr), nil
	case c.def.Output == OutputJSON:
		return c.envelope(stdout), nil
	}
	return Result{Text: c.cutOutput(stdout, c.def.SizeLimit())}, nil
}

// data is the values that the templates of a call can use.
func (c command) data(call Call) (map[string]any, error) {
	args, err := jsondoc.Decode(call.Arguments)
	if err != nil {
		return nil, err
	}
	if err := c.schema.Fill(args, template.Omitted); err != nil {
		return nil, err
	}
	about := map[string]any{"conversation_id": template.Omitted, "workspace": c.env.Dir, "action": "run"}
	maps.Copy(about, c.env.Context)
	options := c.def.Options
	if options == nil {
		options = map[string]any{}
	}
	return map[string]any{
		"tool":    map[string]any{"name": c.def.Name, "arguments": args, "options": options},
		"context": about,
	}, nil
}

// startError says why the program did not run, or what failed around it.
func (c command) startError(err error, box *proc.Confine) string {
	var path *os.PathError
	switch {
	case !errors.As(err, &path), path.Op != "exec": // a folder, or what the sandbox opens
		return err.Error()
	case errors.Is(err, os.ErrNotExist) && path.Path == c.def.Command.Program && !strings.Contains(path.Path, "/"):
		return fmt.Sprintf("program %q: not found in PATH", path.Path)
	case box != nil && errors.Is(err, os.ErrPermission) && c.executable(path.Path):
		var link *files.LinkError
		if _, err := box.Links.Resolve(c.inDir(path.Path)); errors.As(err, &link) {
			return fmt.Sprintf("program %q: %v (it %v: open what it leads to in access.fs)", path.Path, path.Err, link)
		}
		return fmt.Sprintf("program %q: %v (it, or what interprets it, may lie outside what access.fs opens)", path.Path, path.Err)
	}
	return fmt.Sprintf("program %q: %v", path.Path, path.Err)
}

// executable reports whether path is a program that the user may run.
func (c command) executable(path string) bool {
	info, err := os.Stat(c.inDir(path))
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// inDir makes the path of a program absolute.
func (c command) inDir(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.env.Dir, path)
}

// failed is the result of a run that failed.
func (c command) failed(why string, stdout *head, stderr *brief.Tail) Result {
	var b strings.Builder
	b.WriteString(why)
	if text, cut := lastLines(stderr, stderrLines, stderrBytes); text != "" {
		title := "stderr:"
		if cut {
			title = "stderr, last lines:"
		}
		fmt.Fprintf(&b, "\n%s\n%s", title, text)
		if c.deniedAtTop(text) {
			b.WriteString("\nhint: " + noneAtTop)
		}
	}
	if stdout.size > 0 {
		b.WriteString("\nstdout:\n")
		b.WriteString(c.cutOutput(stdout, c.def.SizeLimit()-b.Len()-len(errorMark)))
	}
	return Result{Text: b.String(), IsError: true}
}

// cutOutput is stdout within limit.
func (c command) cutOutput(stdout *head, limit int) string {
	text := brief.UTF8(string(stdout.b))
	total := max(stdout.size, int64(len(text)))
	if total <= int64(limit) {
		return text
	}
	return cut(text, total, limit, fmt.Sprintf("not kept; ask for less, or raise size_threshold of %s", c.def.Name))
}

// envelope reads stdout as the typed envelope.
func (c command) envelope(stdout *head) Result {
	bad := func(format string, args ...any) Result {
		return Result{Text: fmt.Sprintf("the output is not the JSON envelope that output = %q promises: %s", OutputJSON, fmt.Sprintf(format, args...)), IsError: true}
	}
	if stdout.size > int64(stdout.keep) {
		return bad("it is larger than %s", brief.Size(stdout.keep))
	}
	var e struct {
		Type      string          `json:"type"`
		Content   json.RawMessage `json:"content"`
		Message   string          `json:"message"`
		Trace     []string        `json:"trace"`
		Transient bool            `json:"transient"`
	}
	if err := json.Unmarshal(stdout.b, &e); err != nil {
		return bad("%v", jsondoc.Explain(err))
	}
	switch e.Type {
	case "success":
		var text string
		if err := json.Unmarshal(e.Content, &text); err != nil || len(e.Content) == 0 {
			text = string(e.Content) // no text: the JSON itself
		}
		return Result{Text: text}
	case "error":
		text := orText(e.Message, "the tool failed and gave no message")
		if e.Transient {
			text += " (it may work when tried again)"
		}
		if len(e.Trace) > 0 {
			text += "\n" + strings.Join(e.Trace, "\n")
		}
		return Result{Text: text, IsError: true}
	case "needs_input":
		return Result{Text: "the tool asks a question, which " + notYet, IsError: true}
	}
	return bad("type is %s, not success, error or needs_input", brief.Quote(e.Type))
}

// head holds the beginning of what is written to it and counts the rest.
type head struct {
	b    []byte
	keep int
	size int64
}

func (h *head) Write(p []byte) (int, error) {
	h.size += int64(len(p))
	if room := h.keep - len(h.b); room > 0 {
		h.b = append(h.b, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"jp/tools/fs"
	"jp/tools/suggest"
)

//go:generate go test -run TestEmbedded -update .

// Embedded returns the definition of a tool that jp brings along: the built-in ones, which
// [Builtin] runs, and those of the sources delegation and conversation, for which the caller has a
// Func. They are written in the .toml files of this package. What would cost each process to decode
// is in embedded.go as it was decoded.
func Embedded(name string) (Definition, bool) {
	e, ok := embedded(name)
	if !ok {
		return Definition{}, false
	}
	table := map[string]any{keyName: name, keySource: e.source, keyDescription: e.description}
	if !e.parallel {
		table[keyParallel] = false
	}
	def, err := decode(name, table, nil, nil)
	if err != nil {
		return Definition{}, false // the tests read them all
	}
	if e.schema != "" {
		def.Schema, def.dash, def.set[keyParameters] = json.RawMessage(e.schema), map[string]bool{}, true
	}
	return def, true
}

// embeddedTool is what the definition of a tool that jp brings along says.
type embeddedTool struct {
	source, description string
	parallel            bool
	schema              string // "" = no parameters
}

// EmbeddedNames are the names that Embedded knows, sorted.
func EmbeddedNames() []string { return slices.Clone(embeddedNames[:]) }

// checkSource refuses a definition that claims a source of jp's own tools under a name that jp does
// not have there. pos is as for [Decode]. The error is a *DefinitionError.
func checkSource(def Definition, pos func(key string) string) error {
	if _, mcp := def.MCP(); mcp || def.Local() {
		return nil
	}
	own, ok := Embedded(def.Name)
	if ok && own.Declared() == def.Source {
		return nil
	}
	e := newDecoder(def.Name, nil, pos).errorf(keySource, "")
	if ok {
		e.Msg = fmt.Sprintf("is %q for this tool, not %q", own.Declared(), def.Source)
		return e
	}
	e.Msg = fmt.Sprintf("is %q, and jp has no tool of this name", def.Source)
	e.Hint = cmp.Or(suggest.Meant("did you mean %s?", def.Name, EmbeddedNames()), "jp has "+strings.Join(EmbeddedNames(), ", "))
	return e
}

// Builtin returns the built-in tools with these definitions, which are embedded ones as [Overlay]
// may have changed them; none means all, as they are embedded. They run in this process and are
// abandoned when they do not end soon after their context. They reach what access.fs names, through
// os.Root: regular files and folders only, never .jp.
func Builtin(env fs.Env, defs ...Definition) ([]Tool, error) {
	if len(defs) == 0 {
		for _, name := range EmbeddedNames() {
			if def, ok := Embedded(name); ok && def.Source == SourceBuiltin && name != "skill" { // only a conversation has the skill tool
				defs = append(defs, def)
			}
		}
	}
	out := make([]Tool, len(defs))
	for i, def := range defs {
		run, mode := fs.Tool(def.Name)
		if run == nil || def.Source != SourceBuiltin {
			return nil, &DefinitionError{Tool: def.Name, Msg: "is no built-in tool"}
		}
		out[i] = Tool{Definition: def, Check: func(ctx context.Context, call Call) error { return checkAccess(ctx, env, def, mode, call) }, Func: func(ctx context.Context, call Call) (Result, error) {
			f, err := fs.Open(env, def.Reach())
			if err != nil {
				return Result{}, err
			}
			r, err := inTime(ctx, leftAfter, func() (Result, error) {
				text, err := run(ctx, f, def.SizeLimit(), call.Arguments)
				return Result{Text: text}, err
			})
			if _, ok := errors.AsType[*fs.AccessError](err); ok {
				return *refused("%v", err), nil
			}
			return r, err
		}}
	}
	return out, nil
}

// checkAccess refuses a call that may not use its path before anybody is asked about it. What takes
// too long to find out, or has not been found out by the end of ctx, the call does.
func checkAccess(ctx context.Context, env fs.Env, def Definition, mode fs.Mode, call Call) error {
	ctx, cancel := context.WithTimeout(ctx, leftAfter)
	defer cancel()
	_, err := inTime(ctx, 0, func() (Result, error) {
		f, err := fs.Open(env, def.Reach())
		if err != nil {
			return Result{}, err
		}
		return Result{}, f.Check(mode, call.Arguments)
	})
	if _, ok := errors.AsType[*fs.AccessError](err); ok {
		return err
	}
	return nil
}

// leftAfter is how long a built-in tool may take to return after its call has ended.
const leftAfter = 2 * time.Second

// inTime runs f and returns its result. A call may have to wait for what cannot be interrupted,
// such as a file system whose server is gone: when ctx has ended and f has not returned within
// patience, f is abandoned.
func inTime(ctx context.Context, patience time.Duration, f func() (Result, error)) (Result, error) {
	type outcome struct {
		result Result
		err    error
		panic  any
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if p := recover(); p != nil {
				o.panic = fmt.Sprintf("%v\n%s", p, firstFrames(debug.Stack()))
			}
			done <- o
		}()
		o.result, o.err = f()
	}()
	var o outcome
	select {
	case o = <-done:
	case <-ctx.Done():
		select {
		case o = <-done:
		case <-time.After(patience):
			return Result{}, fmt.Errorf("%w (it did not stop and was left behind)", context.Cause(ctx))
		}
	}
	if o.panic != nil {
		panic(o.panic)
	}
	return o.result, o.err
}

package tools

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"jp/tools/brief"
	"jp/tools/environ"
	"jp/tools/fs"
	"jp/tools/schema"
	"jp/tools/suggest"
	"jp/tools/template"
)

// Every key that a definition can have.
const (
	keyName, keySource, keyDescription, keyCommand, keyEnable = "name", "source", "description", "command", "enable"
	keyRun, keyResult, keyDetached, keyTimeout                = "run", "result", "detached", "timeout"
	keySizeThreshold, keyParallel, keyEnv, keyAccess          = "size_threshold", "parallel", "env", "access"
	keyNetwork, keySandbox, keyStdin, keyOutput               = "network", "sandbox", "stdin", "output"
	keyOptions, keyParameters                                 = "options", "parameters"
	keyAccessFS, keyAccessJP                                  = keyAccess + ".fs", keyAccess + ".jp"
)

// layer says which keys a table may have.
type layer struct {
	keys []string
	why  string // reason for a key that exists elsewhere only; "" = a key is simply unknown
}

var (
	defaultsLayer = layer{
		keys: []string{keyRun, keyResult, keyDetached, keyTimeout, keySizeThreshold, keyParallel, keyEnv, keyAccess, keyNetwork, keySandbox},
		why:  "is not for all tools at once",
	}
	overlayLayer = layer{
		keys: append([]string{keyEnable, keySource, keyDescription, keyOptions, keyStdin, keyOutput}, defaultsLayer.keys...),
		why:  "belongs to the tool's own definition",
	}
	wholeLayer = layer{
		keys: append([]string{keyName, keyCommand, keyParameters}, overlayLayer.keys...),
	}
	reachLayer = layer{
		keys: []string{keyAccess, keyNetwork, keySandbox},
		why:  "is for tools only",
	}
)

const notYet = "is not supported yet in this version"

// Decode reads a whole definition from a table that a TOML or JSON decoder has made. pos returns
// the "file:line" of a dotted key in the table, or ""; it may be nil. All errors are
// *DefinitionError.
func Decode(name string, table map[string]any, pos func(key string) string) (Definition, error) {
	return decode(name, table, pos, nil)
}

// decode is Decode for a table that may name files: read returns the bytes of one in its folder.
func decode(name string, table map[string]any, pos func(key string) string, read func(name string) ([]byte, error)) (Definition, error) {
	d := newDecoder(name, table, pos)
	d.read = read
	if !validName(name) {
		return Definition{}, d.errorf("", "not a tool name: 1 to 64 letters, digits, '_' or '-', and not %q", keyParallel)
	}
	def := Definition{
		Name:          name,
		Run:           RunAsk,
		Result:        ResultUnattended,
		Detached:      Detached{DetachedDeny, DetachedDeny, DetachedDeny},
		SizeThreshold: DefaultSizeThreshold,
		Parallel:      true,
		Network:       NetworkNone,
		Sandbox:       SandboxAuto,
		Stdin:         StdinNone,
		Output:        OutputText,
	}
	d.into(&def, wholeLayer)
	d.whole(&def)
	return def, d.err
}

// DecodeReach reads what a program may reach that is no tool: a table of access.fs, network and
// sandbox, which mean what they mean for a tool. The definition has only these, and
// [CommandEnv.Box] makes a confinement of it. All errors are *DefinitionError.
func DecodeReach(name string, table map[string]any) (Definition, error) {
	def := Definition{Name: name, Source: SourceLocal, Network: NetworkNone, Sandbox: SandboxAuto}
	d := newDecoder(name, table, nil)
	d.into(&def, reachLayer)
	if def.set[keyAccessJP] {
		d.fail(keyAccessJP, "%s", reachLayer.why)
	}
	if def.Sandbox == SandboxOff && (def.set[keyAccess] || def.set[keyNetwork]) {
		d.fail(keySandbox, "is off: nothing would hold it to %s and %s", keyAccess, keyNetwork)
	}
	return def, d.err
}

// Overlay returns base with the changes of table, which may change anything but its name, command
// and parameters. Unlike in [Decode], no key is required.
func Overlay(base Definition, table map[string]any, pos func(key string) string) (Definition, error) {
	d := newDecoder(base.Name, table, pos)
	def := base
	if base.Local() {
		def.Source = SourceLocal
	}
	d.into(&def, overlayLayer)
	said := def.Declared()
	if base.Local() {
		said = def.Source
	}
	if d.err == nil && said != base.Declared() {
		d.fail(keySource, "is %q for this tool, not %q", base.Declared(), said)
	}
	d.whole(&def)
	return def, d.err
}

// WithDefaults returns d with the values of the table '*' for keys that neither the definition nor
// an overlay has set.
func (def Definition) WithDefaults(table map[string]any, pos func(key string) string) (Definition, error) {
	d := newDecoder("'*'", table, pos)
	star := Definition{Name: "'*'"}
	d.into(&star, defaultsLayer)
	if star.set[keyAccessJP] {
		d.fail(keyAccessJP, "%s", defaultsLayer.why)
	}
	if d.err != nil {
		return def, d.err
	}
	take := func(key string) bool { return star.set[key] && !def.set[key] }
	if take(keyRun) {
		def.Run = star.Run
	}
	if take(keyResult) {
		def.Result = star.Result
	}
	if take(keyDetached + ".run") {
		def.Detached.Run = star.Detached.Run
	}
	if take(keyDetached + ".deliver") {
		def.Detached.Deliver = star.Detached.Deliver
	}
	if take(keyDetached + ".tool") {
		def.Detached.Tool = star.Detached.Tool
	}
	// The tools that delegate have times of their own.
	if take(keyTimeout) && (def.Local() || def.Source == SourceBuiltin) {
		def.Timeout = star.Timeout
	}
	if take(keySizeThreshold) {
		def.SizeThreshold = star.SizeThreshold
	}
	if take(keyParallel) {
		def.Parallel = star.Parallel
	}
	if take(keyEnv) {
		def.Env = star.Env
	}
	if take(keyAccessFS) {
		def.Access.FS = star.Access.FS
	}
	if take(keyNetwork) {
		def.Network = star.Network
	}
	if take(keySandbox) {
		def.Sandbox = star.Sandbox
	}
	return def, nil
}

// Enabled reports whether a [conversation.tools.<name>] table enables its tool: it does unless it
// says enable = false.
func Enabled(table map[string]any) bool { return table[keyEnable] != false }

// decoder reads one table. It keeps the first error; what is wrong after that is not reported.
type decoder struct {
	tool  string
	table map[string]any
	pos   func(key string) string
	read  func(name string) ([]byte, error) // nil = there are no files
	err   error
}

func newDecoder(tool string, table map[string]any, pos func(string) string) *decoder {
	if pos == nil {
		pos = func(string) string { return "" }
	}
	return &decoder{tool: tool, table: table, pos: pos}
}

// errorf makes an error at the dotted key. Its position is that of the innermost part of the key
// that has one.
func (d *decoder) errorf(key, format string, args ...any) *DefinitionError {
	e := &DefinitionError{Tool: d.tool, Key: key, Msg: fmt.Sprintf(format, args...)}
	for at := key; ; {
		if e.Pos = d.pos(at); e.Pos != "" || at == "" {
			return e
		}
		at = at[:max(strings.LastIndexAny(at, ".["), 0)]
	}
}

func (d *decoder) fail(key, format string, args ...any) {
	if d.err == nil {
		d.err = d.errorf(key, format, args...)
	}
}

func (d *decoder) failHint(key, hint, format string, args ...any) {
	if d.err == nil {
		e := d.errorf(key, format, args...)
		e.Hint = hint
		d.err = e
	}
}

// into reads all keys of the table into def, in a fixed order so that the same table always has the
// same first error.
func (d *decoder) into(def *Definition, l layer) {
	d.checkKeys("", d.table, l)
	for _, key := range slices.Sorted(maps.Keys(d.table)) {
		if d.err != nil {
			return
		}
		v := d.table[key]
		*def = def.withSet(key)
		switch key {
		case keyName:
			if name := d.str(key, v); name != def.Name {
				d.fail(key, "is %q, but this is the definition of %s", name, def.Name)
			}
		case keyEnable:
			d.boolean(key, v)
		case keySource:
			def.Source, def.Remote = d.source(key, v)
		case keyDescription:
			def.Description = strings.TrimSpace(d.str(key, v))
		case keyCommand:
			def.Command = d.command(key, v)
		case keyRun:
			def.Run = choice(d, key, v, RunAsk, RunUnattended, RunDeny)
		case keyResult:
			def.Result = choice(d, key, v, ResultAsk, ResultUnattended)
		case keyDetached:
			d.detached(key, v, def)
		case keyTimeout:
			def.Timeout = d.duration(key, v)
		case keySizeThreshold:
			def.SizeThreshold = d.size(key, v)
		case keyParallel:
			def.Parallel = d.boolean(key, v)
		case keyEnv:
			def.Env = d.env(key, v)
		case keyAccess:
			d.access(key, v, def)
		case keyNetwork:
			def.Network = choice(d, key, v, NetworkNone, NetworkAny)
		case keySandbox:
			def.Sandbox = choice(d, key, v, SandboxAuto, SandboxRequire, SandboxOff)
		case keyStdin:
			def.Stdin = choice(d, key, v, StdinNone, StdinJSON)
		case keyOutput:
			def.Output = choice(d, key, v, OutputText, OutputJSON)
		case keyOptions:
			def.Options = d.options(key, v)
		case keyParameters:
			def.Schema, def.dash = d.parameters(key, v)
		}
	}
}

// checkKeys checks that table has only keys that it may have.
func (d *decoder) checkKeys(prefix string, table map[string]any, l layer) {
	for _, key := range slices.Sorted(maps.Keys(table)) {
		if slices.Contains(l.keys, key) {
			continue
		}
		full := key
		if prefix != "" {
			full = prefix + "." + key
		}
		if l.why != "" && slices.Contains(wholeLayer.keys, key) {
			d.fail(full, "%s", l.why)
			return
		}
		d.failHint(full, suggest.Meant("did you mean %q?", key, l.keys), "unknown key")
		return
	}
}

// whole checks what needs all keys, and fills fields that depend on others.
func (d *decoder) whole(def *Definition) {
	if d.err != nil {
		return
	}
	local := def.Source == SourceLocal
	switch {
	case def.Source == "":
		d.failHint(keySource, cmp.Or(suggest.Meant("did you mean %s?", def.Name, EmbeddedNames()), fmt.Sprintf("source = %q for a command of yours", SourceLocal)), isMissing)
	case local && def.Command.IsZero():
		d.failHint(keyCommand, `command = "program {{tool.arguments.name}}"`, isMissing)
	case !local && !def.Command.IsZero():
		d.fail(keyCommand, "only a tool with source = %q has one", SourceLocal)
	case !local && def.set[keyStdin]:
		d.fail(keyStdin, "only a tool with source = %q has one", SourceLocal)
	case !local && def.set[keyOutput]:
		d.fail(keyOutput, "only a tool with source = %q has one", SourceLocal)
	case !local && len(def.Access.JP) > 0:
		d.fail(keyAccessJP, "only a tool with source = %q has one", SourceLocal)
	case len(def.Access.JP) > 0:
		def.Source = SourceDelegation
	}
	_, isMCP := def.MCP()
	for _, key := range []string{keyParameters, keyAccess, keyEnv, keyNetwork, keySandbox} {
		if isMCP && def.set[key] {
			why := "its server runs by itself"
			if key == keyParameters {
				why = "its server says what it takes"
			}
			d.fail(key, "a tool of an MCP server has none: %s", why)
		}
	}
	if def.Schema == nil && !isMCP {
		def.Schema = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
	}
	if def.Timeout == 0 && (local || isMCP || def.Source == SourceBuiltin) {
		def.Timeout = DefaultTimeout
	}
	if d.err != nil || !local {
		return
	}
	if def.Command.shell != nil {
		d.shellWhole(def)
		return
	}
	if err := def.Command.check(func(p *template.Path) error { return def.checkPath(p) }); err != nil {
		d.fail(keyCommand, "%v", err)
		return
	}
	if err := def.Command.checkInterpreters(def.dash); err != nil {
		d.failHint(keyCommand, "pass the value as an argument that is not code: to a program, or to a script behind its name", "%v", err)
	}
}

// source reads "builtin" and the like, and "mcp.<server>" with the name of the tool at its server,
// where that has another one.
func (d *decoder) source(key string, v any) (source, remote string) {
	s := d.str(key, v)
	sources := []string{SourceBuiltin, SourceLocal, SourceDelegation, SourceConversation, SourceInteractive}
	rest, isMCP := strings.CutPrefix(s, sourceMCP)
	if d.err != nil || slices.Contains(sources, s) {
		return s, ""
	}
	server, remote, named := strings.Cut(rest, ".")
	if !isMCP || server == "" || named && remote == "" {
		d.fail(key, "want %s or mcp.<server>, not %q", strings.Join(sources, ", "), s)
		return s, ""
	}
	if !named {
		remote = d.tool
	}
	return sourceMCP + server, remote
}

func (d *decoder) detached(key string, v any, def *Definition) {
	mode := func(key string, v any) DetachedMode {
		return choice(d, key, v, DetachedDeny, DetachedAuto, DetachedDefaults)
	}
	kinds := []struct {
		name string
		to   *DetachedMode
	}{{"deliver", &def.Detached.Deliver}, {"run", &def.Detached.Run}, {"tool", &def.Detached.Tool}}
	if s, ok := v.(string); ok {
		for _, kind := range kinds {
			*kind.to = mode(key, s)
			*def = def.withSet(key + "." + kind.name)
		}
		return
	}
	t, ok := v.(map[string]any)
	if !ok {
		d.fail(key, "want deny, auto, defaults or a table of run, deliver and tool, not %s", typeName(v))
		return
	}
	d.checkKeys(key, t, layer{keys: []string{"run", "deliver", "tool"}})
	for _, kind := range kinds {
		if e, ok := t[kind.name]; ok && d.err == nil {
			*kind.to = mode(key+"."+kind.name, e)
			*def = def.withSet(key + "." + kind.name)
		}
	}
}

func (d *decoder) env(key string, v any) []string {
	names := d.strs(key, v)
	for i, name := range names {
		if why := environ.Forbidden(name); why != "" {
			d.fail(fmt.Sprintf("%s[%d]", key, i), "%q %s", name, why)
		}
	}
	return names
}

// access reads what the table says; what else def may reach stays.
func (d *decoder) access(key string, v any, def *Definition) {
	t := d.sub(key, v, "fs", "jp")
	if jp, ok := t["jp"]; ok {
		def.Access.JP = nil
		for i, verb := range d.strs(keyAccessJP, jp) {
			def.Access.JP = append(def.Access.JP, choice(d, fmt.Sprintf("%s[%d]", keyAccessJP, i), any(verb), VerbFork, VerbQuery, VerbLs, VerbPrint, VerbGrep))
		}
		slices.Sort(def.Access.JP)
		def.Access.JP = slices.Compact(def.Access.JP)
		*def = def.withSet(keyAccessJP)
	}
	if fs, ok := t["fs"]; ok && d.err == nil {
		def.Access.FS = d.accessFS(keyAccessFS, fs)
		*def = def.withSet(keyAccessFS)
	}
}

func (d *decoder) accessFS(key string, given any) []fs.Rule {
	rules := []fs.Rule{}
	list, ok := listOf(given)
	if !ok {
		d.fail(key, `want a list such as [{ path = ".", mode = "ro" }], not %s`, typeName(given))
	}
	for i, e := range list {
		key := fmt.Sprintf("%s[%d]", key, i)
		t := d.sub(key, e, "path", "mode")
		r := fs.Rule{Mode: fs.ReadOnly}
		if p, ok := t["path"]; ok {
			r.Path = d.str(key+".path", p)
		} else {
			d.fail(key, "path is missing")
		}
		if m, ok := t["mode"]; ok {
			r.Mode = choice(d, key+".mode", m, fs.ReadOnly, fs.ReadWrite)
		}
		switch {
		case d.err != nil:
		case r.Path == "":
			d.fail(key+".path", "is empty")
		case strings.HasPrefix(r.Path, "~"):
			d.fail(key+".path", "%q: write the home folder as an absolute path", r.Path)
		case fs.HasWorkspaceFolder(r.Path):
			d.fail(key+".path", "%q: no tool reaches into %s", r.Path, fs.WorkspaceFolder)
		}
		rules = append(rules, r)
	}
	return rules
}

func (d *decoder) command(key string, v any) CommandLine {
	if s, ok := v.(string); ok {
		c, err := parseCommandText(s)
		if err != nil {
			d.fail(key, "%v", err)
		}
		return c
	}
	if _, ok := v.(map[string]any); !ok {
		d.fail(key, "want a string, { program, args } or { script }, not %s", typeName(v))
		return CommandLine{}
	}
	t := d.sub(key, v, "program", "args", "script", "script_file", "interpreter")
	for _, k := range []string{"script", "script_file", "interpreter"} {
		if _, ok := t[k]; ok && d.err == nil {
			return d.shell(key, t)
		}
	}
	var program string
	if p, ok := t["program"]; ok {
		program = d.str(key+".program", p)
	} else {
		d.fail(key, "program is missing")
	}
	var args []string
	if a, ok := t["args"]; ok {
		args = d.strs(key+".args", a)
	}
	if d.err != nil {
		return CommandLine{}
	}
	c, err := parseCommandTable(program, args)
	if err != nil {
		d.fail(key, "%v", err)
	}
	return c
}

func (d *decoder) options(key string, v any) map[string]any {
	t, ok := v.(map[string]any)
	if !ok {
		d.fail(key, "want a table, not %s", typeName(v))
		return nil
	}
	plain, err := plainValue(t)
	if err != nil {
		d.fail(key, "%v", err)
		return nil
	}
	return plain.(map[string]any)
}

// checkPath checks that a call will have a value for a path of the command.
func (def Definition) checkPath(p *template.Path) error {
	unknown := func(at int, of []string) error {
		return p.At.Errorf("{{%s}}: there is no %s%s", p, &template.Path{Keys: p.Keys[:at+1]}, suggest.Meant("; did you mean %q?", p.Keys[at], of))
	}
	roots := []string{"tool", "context"}
	next := map[string][]string{
		"tool":    {"name", "arguments", "options"},
		"context": {"conversation_id", "workspace", "action"},
	}
	switch {
	case !slices.Contains(roots, p.Keys[0]):
		return unknown(0, roots)
	case len(p.Keys) == 1:
		return p.At.Errorf("{{%s}}: say which of %s", p, brief.Or(next[p.Keys[0]]))
	case !slices.Contains(next[p.Keys[0]], p.Keys[1]):
		return unknown(1, next[p.Keys[0]])
	case p.Keys[0] == "context" || p.Keys[1] == "name":
		if len(p.Keys) > 2 {
			return p.At.Errorf("{{%s}}: %s is a text", p, &template.Path{Keys: p.Keys[:2]})
		}
		return nil
	case p.Keys[1] == "options":
		var v any = def.Options
		for i, k := range p.Keys[2:] {
			m, _ := v.(map[string]any)
			if _, ok := m[k]; !ok {
				return unknown(i+2, slices.Sorted(maps.Keys(m)))
			}
			v = m[k]
		}
		return nil
	}
	s, err := schema.Parse(def.Schema)
	if err != nil {
		return err
	}
	for i, k := range p.Keys[2:] {
		sub, ok := s.Property(k)
		switch {
		case ok:
			s = sub
		case s.Closed() || i == 0:
			return unknown(i+2, s.Properties())
		default:
			return nil // an open object: only a call can say
		}
	}
	return nil
}

package script

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/profiles/tomldoc"
)

// Error says what is wrong with a script.
type Error struct {
	File string
	Line int // 0 = unknown
	Msg  string
}

// Error returns "models/demo.toml:12: unknown key contain".
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Msg
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
}

// The file as TOML has it.
type (
	fileTOML struct {
		Recorded *Recorded      `toml:"recorded"`
		Captures map[string]any `toml:"captures"`
		Defaults struct {
			Delay      duration `toml:"delay"`
			Chunk      int      `toml:"chunk"`
			ChunkDelay duration `toml:"chunk_delay"`
		} `toml:"defaults"`
		Rules []toml.Primitive `toml:"rule"` // one by one, so that an error knows its rule
	}
	ruleTOML struct {
		Name         string         `toml:"name"`
		Run          list[string]   `toml:"run"`
		Profile      list[string]   `toml:"profile"`
		Variant      list[string]   `toml:"variant"`
		Turn         list[int]      `toml:"turn"`
		Round        list[int]      `toml:"round"`
		Attempt      list[int]      `toml:"attempt"`
		Contains     list[string]   `toml:"contains"`
		NotContains  list[string]   `toml:"not_contains"`
		Matches      *string        `toml:"matches"`
		Query        list[string]   `toml:"query"`
		Asked        list[string]   `toml:"asked"`
		System       list[string]   `toml:"system"`
		Tool         list[string]   `toml:"tool"`
		HasTool      list[string]   `toml:"has_tool"`
		MissingTools list[string]   `toml:"missing_tools"`
		Failed       *bool          `toml:"failed"`
		NoCalls      *bool          `toml:"no_calls"`
		Captures     map[string]any `toml:"captures"`
		Reasoning    list[string]   `toml:"reasoning"`
		Text         *string        `toml:"text"`
		ToolCalls    []callTOML     `toml:"tool_calls"`
		Usage        *usageTOML     `toml:"usage"`
		Lost         []usageTOML    `toml:"lost"`
		Stop         string         `toml:"stop"`
		Delay        *duration      `toml:"delay"`
		Chunk        *int           `toml:"chunk"`
		ChunkDelay   *duration      `toml:"chunk_delay"`
		Error        *errorTOML     `toml:"error"`
		Fault        string         `toml:"fault"`
		Hang         bool           `toml:"hang"`
	}
	callTOML struct {
		ID           string         `toml:"id"`
		Name         string         `toml:"name"`
		Run          list[string]   `toml:"run"`
		Arguments    map[string]any `toml:"arguments"`
		RawArguments *string        `toml:"raw_arguments"`
	}
	usageTOML struct {
		Input      int64  `toml:"input"`
		Output     int64  `toml:"output"`
		CacheRead  int64  `toml:"cache_read"`
		CacheWrite int64  `toml:"cache_write"`
		CostNano   *int64 `toml:"cost_nano"`
		Estimated  bool   `toml:"estimated"`
	}
	errorTOML struct {
		Kind       string   `toml:"kind"`
		Status     int      `toml:"status"`
		RetryAfter duration `toml:"retry_after"`
		Message    string   `toml:"message"`
	}
)

// list is a value or an array of values; nil when absent.
type list[T string | int] []T

// UnmarshalTOML implements toml.Unmarshaler.
func (l *list[T]) UnmarshalTOML(v any) error {
	all, ok := v.([]any)
	if !ok {
		all = []any{v}
	}
	*l = list[T]{}
	for _, e := range all {
		var entry any = e
		if n, ok := e.(int64); ok && n == int64(int(n)) {
			entry = int(n)
		}
		t, ok := entry.(T)
		if !ok {
			var want any = *new(T)
			if _, ok := want.(int); ok {
				return errors.New("must be an int or an array of them")
			}
			return errors.New("must be a string or an array of them")
		}
		*l = append(*l, t)
	}
	return nil
}

// duration is written as "1.5s".
type duration time.Duration

// maxDelay bounds every duration: a script that must wait longer can hang.
const maxDelay = time.Hour

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v < 0 || v > maxDelay {
		return fmt.Errorf("%q: must be a duration between 0s and 1h", text)
	}
	*d = duration(v)
	return nil
}

// Parse reads a script. The error is an *Error with the given file name.
func Parse(name string, data []byte) (*Script, error) {
	var f fileTOML
	md, marks, err := tomldoc.Decode(data, &f)
	if bad, ok := errors.AsType[*tomldoc.Error](err); ok {
		return nil, &Error{File: name, Line: bad.Line, Msg: bad.Text()}
	}
	mark := func(i int) *tomldoc.Mark {
		if m := marks.Keys["rule"]; m != nil && i < len(m.Items) {
			return m.Items[i]
		}
		return marks // the decoder takes [[Rule]] too
	}
	rules := make([]ruleTOML, len(f.Rules))
	for i, primitive := range f.Rules {
		if err := md.PrimitiveDecode(primitive, &rules[i]); err != nil {
			// The decoder knows keys by name and would take the last rule that has this one.
			bad := tomldoc.Explain(err)
			key := strings.TrimPrefix(bad.Key, "rule.")
			return nil, &Error{File: name, Line: mark(i).Nearest(strings.Split(key, ".")...), Msg: bad.Text()}
		}
	}
	// The decoder does not count keys in tables of any shape as decoded.
	unknown := slices.DeleteFunc(md.Undecoded(), func(k toml.Key) bool {
		name := k.String() + "."
		return strings.HasPrefix(name, "rule.tool_calls.arguments.") || strings.HasPrefix(name, "rule.captures.") || strings.HasPrefix(name, "captures.")
	})
	if len(unknown) > 0 {
		slices.SortFunc(unknown, func(a, b toml.Key) int { return marks.Nearest(a...) - marks.Nearest(b...) })
		return nil, &Error{File: name, Line: marks.Nearest(unknown[0]...), Msg: fmt.Sprintf("unknown key %s", unknown[0])}
	}

	shared, err := captures(f.Captures)
	if err != nil {
		return nil, &Error{File: name, Line: marks.Nearest("captures"), Msg: err.Error()}
	}
	if f.Defaults.Chunk < 0 {
		return nil, &Error{File: name, Line: marks.Nearest("defaults"), Msg: "chunk is negative"}
	}
	if len(rules) == 0 {
		return nil, &Error{File: name, Msg: "there is no [[rule]]"}
	}
	s := &Script{name: name, recorded: f.Recorded}
	for i, t := range rules {
		r := rule{number: i + 1, line: mark(i).Line, name: t.Name,
			delay: time.Duration(f.Defaults.Delay), chunk: f.Defaults.Chunk, chunkDelay: time.Duration(f.Defaults.ChunkDelay)}
		if err := r.compile(t, shared); err != nil {
			return nil, &Error{File: name, Line: r.line, Msg: fmt.Sprintf("rule %d: %v", i+1, err)}
		}
		s.rules = append(s.rules, r)
	}
	return s, nil
}

// defaultChunk is how many characters come at a time where nothing is said.
const defaultChunk = 64

// compile checks a rule and takes it over.
func (r *rule) compile(t ruleTOML, shared map[string]capture) error {
	r.run, r.profile, r.variant = t.Run, t.Profile, t.Variant
	r.turn, r.round, r.attempt = t.Turn, t.Round, t.Attempt
	r.contains, r.notContains, r.query, r.asked, r.system = t.Contains, t.NotContains, t.Query, t.Asked, t.System
	r.tool, r.hasTool, r.missingTools = t.Tool, t.HasTool, t.MissingTools
	r.failed, r.noCalls = t.Failed, t.NoCalls
	r.reasoning, r.hang = t.Reasoning, t.Hang
	for _, p := range t.Profile {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("profile %q is not a pattern", p)
		}
	}
	if t.Matches != nil {
		re, err := regexp.Compile(*t.Matches)
		if err != nil {
			return fmt.Errorf("matches: %w", err)
		}
		r.matches = re
	}

	own, err := captures(t.Captures)
	if err != nil {
		return err
	}
	r.captures = own
	for name, c := range shared {
		if _, ok := own[name]; !ok {
			r.captures[name] = c
		}
	}

	if t.Delay != nil {
		r.delay = time.Duration(*t.Delay)
	}
	if t.ChunkDelay != nil {
		r.chunkDelay = time.Duration(*t.ChunkDelay)
	}
	if t.Chunk != nil {
		if *t.Chunk <= 0 {
			return errors.New("chunk must be positive")
		}
		r.chunk = *t.Chunk
	}
	if r.chunk == 0 {
		r.chunk = defaultChunk
	}
	if t.Text != nil {
		r.text = *t.Text
	}
	if err := r.compileCalls(t.ToolCalls); err != nil {
		return err
	}
	if err := r.compileEnd(t); err != nil {
		return err
	}
	if t.Text == nil && len(t.Reasoning) == 0 && len(t.ToolCalls) == 0 && t.Error == nil && t.Fault == "" && !t.Hang && t.Stop == "" {
		return errors.New("says nothing: text, tool_calls, error, fault, hang or stop is missing")
	}
	return r.checkPlaceholders()
}

func (r *rule) compileCalls(calls []callTOML) error {
	ids := make(map[string]bool)
	for i, c := range calls {
		switch {
		case c.Name == "":
			return fmt.Errorf("tool_calls %d: name is missing", i+1)
		case c.Arguments != nil && c.RawArguments != nil:
			return fmt.Errorf("tool_calls %d: arguments and raw_arguments exclude each other", i+1)
		case c.RawArguments != nil && *c.RawArguments == "":
			return fmt.Errorf("tool_calls %d: raw_arguments is empty", i+1)
		case c.ID != "" && ids[c.ID]:
			return fmt.Errorf("tool_calls %d: id %q is used twice", i+1, c.ID)
		}
		ids[c.ID] = true
		spec := callSpec{id: c.ID, name: c.Name, arguments: c.Arguments}
		if c.RawArguments != nil {
			spec.raw = *c.RawArguments
		} else if c.Arguments == nil {
			spec.arguments = map[string]any{}
		}
		if !finite(spec.arguments) {
			return fmt.Errorf("tool_calls %d: JSON has no nan and no inf", i+1)
		}
		r.calls = append(r.calls, spec)
	}
	return nil
}

// finite reports whether all numbers in a tree of TOML values have a form in JSON.
func finite(v any) bool {
	switch v := v.(type) {
	case float64:
		return !math.IsNaN(v) && !math.IsInf(v, 0)
	case map[string]any:
		for _, e := range v {
			if !finite(e) {
				return false
			}
		}
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !finite(e) })
	case []map[string]any:
		return !slices.ContainsFunc(v, func(e map[string]any) bool { return !finite(e) })
	}
	return true
}

// compileEnd takes over how the reply ends.
func (r *rule) compileEnd(t ruleTOML) error {
	switch s := model.Stop(t.Stop); s {
	case "", model.StopEnd, model.StopToolUse, model.StopMaxTokens, model.StopRefusal:
		r.stop = s
	default:
		return fmt.Errorf("stop %q: must be end, tool_use, max_tokens or refusal", t.Stop)
	}
	if t.Usage != nil {
		var err error
		if r.usage, err = t.Usage.part(); err != nil {
			return err
		}
	}
	for _, u := range t.Lost {
		p, err := u.part()
		if err != nil {
			return err
		}
		if *p.Usage == (convstore.Usage{}) && p.Cost == nil {
			p.Usage = nil // an attempt that used nothing is charged nothing
		}
		r.lost = append(r.lost, p)
	}
	switch f := Fault(t.Fault); f {
	case "", Hangup, Malformed, HTML, Redirect:
		r.fault = f
	default:
		return fmt.Errorf("fault %q: must be hangup, malformed, html or redirect", t.Fault)
	}
	if e := t.Error; e != nil {
		kind := model.Kind(e.Kind)
		status, ok := statuses(kind)
		if !ok {
			return fmt.Errorf("error: kind %q is not known", e.Kind)
		}
		if e.Status != 0 {
			status = e.Status
		}
		if status != 0 && (status < 400 || status > 599) {
			return fmt.Errorf("error: status %d: must be between 400 and 599", status)
		}
		message := e.Message
		if message == "" {
			message = "as the script says"
		}
		r.failure = &model.Error{Kind: kind, Status: status, RetryAfter: time.Duration(e.RetryAfter), Message: message}
	}
	ends := 0
	for _, set := range []bool{t.Hang, t.Fault != "", t.Error != nil, len(t.ToolCalls) > 0 || t.Stop != ""} {
		if set {
			ends++
		}
	}
	if ends > 1 {
		return errors.New("hang, fault, error, and tool_calls or stop exclude each other")
	}
	return nil
}

// part checks a usage.
func (u usageTOML) part() (model.Part, error) {
	if min(u.Input, u.Output, u.CacheRead, u.CacheWrite) < 0 || u.CostNano != nil && *u.CostNano < 0 {
		return model.Part{}, errors.New("usage is negative")
	}
	used := model.Tokens(convstore.Usage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite})
	return model.Part{Usage: used, Cost: u.CostNano, Estimated: u.Estimated}, nil
}

// statuses returns the HTTP status that goes with a kind of error, 0 for one without.
func statuses(k model.Kind) (int, bool) {
	switch k {
	case model.KindAuth:
		return 401, true
	case model.KindQuota:
		return 402, true
	case model.KindRateLimit:
		return 429, true
	case model.KindOverloaded:
		return 529, true
	case model.KindServer:
		return 500, true
	case model.KindBadRequest, model.KindContext:
		return 400, true
	case model.KindTooLarge:
		return 413, true
	case model.KindUnknownModel:
		return 404, true
	case model.KindNetwork, model.KindStream, model.KindIdle:
		return 0, true
	}
	return 0, false
}

// captures compiles a [captures] table.
func captures(table map[string]any) (map[string]capture, error) {
	out := make(map[string]capture)
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if m := placeholder().FindString("{{" + name + "}}"); m != "{{"+name+"}}" {
			return nil, fmt.Errorf("capture %q: a name has small letters, digits and _", name)
		}
		c := capture{match: 1}
		pattern, ok := table[name].(string)
		if !ok {
			fields, ok := table[name].(map[string]any)
			if !ok {
				return nil, fmt.Errorf("capture %s: must be a pattern or a table with one", name)
			}
			for _, key := range slices.Sorted(maps.Keys(fields)) {
				value := fields[key]
				switch key {
				case "pattern":
					pattern, ok = value.(string)
				case "match":
					var n int64
					n, ok = value.(int64)
					ok = ok && n != 0 && n > -1e6 && n < 1e6
					c.match = int(n)
				case "text":
					c.constant, ok = value.(string)
				case "workspace":
					c.workspace, ok = value.(bool)
				case "default":
					var s string
					s, ok = value.(string)
					c.fallback = &s
				default:
					return nil, fmt.Errorf("capture %s: unknown key %s", name, key)
				}
				if !ok {
					return nil, fmt.Errorf("capture %s: %s has a wrong value", name, key)
				}
			}
		}
		if c.constant != "" || c.workspace {
			if fields, _ := table[name].(map[string]any); len(fields) > 1 {
				return nil, fmt.Errorf("capture %s: text and workspace cannot be combined with other keys", name)
			}
			out[name] = c
			continue
		}
		if pattern == "" {
			return nil, fmt.Errorf("capture %s: pattern is missing", name)
		}
		re, err := regexp.Compile(pattern)
		if err != nil {
			return nil, fmt.Errorf("capture %s: %w", name, err)
		}
		c.pattern = re
		out[name] = c
	}
	return out, nil
}

// checkPlaceholders makes sure that each {{name}} in the rule is a capture.
func (r *rule) checkPlaceholders() error {
	var unknown error
	check := func(s string) string {
		for _, m := range placeholder().FindAllStringSubmatch(s, -1) {
			if _, ok := r.captures[m[1]]; !ok && unknown == nil {
				unknown = fmt.Errorf("{{%s}} is not a capture", m[1])
			}
		}
		return s
	}
	for _, block := range r.reasoning {
		check(block)
	}
	check(r.text)
	if r.failure != nil {
		check(r.failure.Message)
	}
	for _, c := range r.calls {
		check(c.raw)
		fillTree(c.arguments, check)
	}
	return unknown
}

package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/wording"
)

// rule is one [[rule]], checked and compiled.
type rule struct {
	number, line int
	name         string

	run, profile, variant []string // nil = any
	turn, round, attempt  []int
	contains, notContains []string
	matches               *regexp.Regexp
	query, asked, system  []string
	tool                  []string
	hasTool, missingTools []string
	failed, noCalls       *bool
	captures              map[string]capture
	reasoning             []string // blocks
	text                  string
	calls                 []callSpec
	usage                 model.Part   // without Usage: it is estimated
	lost                  []model.Part // without Usage: the attempt used nothing
	stop                  model.Stop
	delay, chunkDelay     time.Duration
	chunk                 int
	failure               *model.Error
	fault                 Fault
	hang                  bool
}

// callSpec is a tool call as the rule writes it.
type callSpec struct {
	id, name  string
	arguments any    // a tree of TOML values
	raw       string // instead, when set
}

// capture is a pattern whose match in the thread a rule may quote.
type capture struct {
	pattern  *regexp.Regexp
	match    int // which one, 1-based; negative from the end
	fallback *string

	// Instead of all these, when set:
	constant  string
	workspace bool // the path of the workspace
}

// request is a model's request with what the id adds to it.
type request struct {
	model.Request
	variant string
	dir     string // of the workspace; "" = not known
	// the number of the rule that answers, or why none does; nil = nobody
	report func(rule int, err error)
}

// latest returns the texts of the messages after the assistant's last one.
func (r request) latest() []string {
	var texts []string
	for _, m := range r.recent() {
		for _, c := range m.Content {
			if !c.Notice { // rules are about what others say
				texts = append(texts, text(c))
			}
		}
	}
	return texts
}

func (r request) recent() []model.Message {
	i := len(r.Messages)
	for i > 0 && r.Messages[i-1].Role != model.Assistant {
		i--
	}
	return r.Messages[i:]
}

// results returns the tool results among the latest messages.
func (r request) results() []model.CallResult {
	var out []model.CallResult
	for _, m := range r.recent() {
		for _, c := range m.Content {
			if c.Result != nil {
				out = append(out, *c.Result)
			}
		}
	}
	return out
}

// question returns what the user said last.
func (r request) question() []string {
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == model.User {
			var texts []string
			for _, c := range m.Content {
				if !c.Notice {
					texts = append(texts, c.Text)
				}
			}
			return texts
		}
	}
	return nil
}

// asks reports whether the last text of the user is this one. Ids of conversations and the path of
// the workspace may differ.
func (r request) asks(want string) bool {
	return WithoutIDs(withoutPath(asked(r.Request), r.dir)) == WithoutIDs(want)
}

// asked returns the last text of the user; "" = none.
func asked(r model.Request) string {
	for _, m := range slices.Backward(r.Messages) {
		if m.Role != model.User {
			continue
		}
		for _, c := range slices.Backward(m.Content) {
			if c.Text != "" && !c.Notice {
				return c.Text
			}
		}
	}
	return ""
}

// conversationID matches the ids of conversations, which are others in each run.
var conversationID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`jp-c[0-9]+`) })

// WithoutIDs returns text with the same id in the place of each: what may differ between a run and
// its replay.
func WithoutIDs(text string) string { return conversationID().ReplaceAllString(text, "jp-c0") }

// withoutPath returns text with {{workspace}} for each path of that, which is dir or begins so.
func withoutPath(text, dir string) string {
	if len(dir) < 2 || !strings.Contains(text, dir) {
		return text // also of the root folder, which every path begins with
	}
	name := func(c byte) bool {
		return c == '_' || c == '-' || c == '.' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	var b strings.Builder
	for from := 0; ; {
		i := strings.Index(text[from:], dir)
		if i < 0 {
			b.WriteString(text[from:])
			return b.String()
		}
		at, end := from+i, from+i+len(dir)
		b.WriteString(text[from:at])
		// of another path
		part := at > 0 && (name(text[at-1]) || text[at-1] == '/') || end < len(text) && name(text[end])
		b.WriteString(wording.Either(part, dir, workspacePath))
		from = end
	}
}

const workspacePath = "{{workspace}}"

func text(c model.Content) string {
	switch {
	case c.Result != nil:
		return c.Result.Text
	case c.Image != nil:
		return fmt.Sprintf("[%s, %d bytes]", c.Image.MediaType, len(c.Image.Data))
	}
	return c.Text
}

// match returns the first rule that answers r, or nil.
func (s *Script) match(r request) *rule {
	for i := range s.rules {
		if s.rules[i].holds(r) {
			return &s.rules[i]
		}
	}
	return nil
}

func (c *rule) holds(r request) bool {
	if !anyOf(c.run, func(run string) bool { return run == r.Run }) {
		return false // of most rules of a large recording
	}
	latest, results := r.latest(), r.results()
	var system []string
	for _, s := range r.System {
		system = append(system, s.Text)
	}
	offered := func(name string) bool {
		return slices.ContainsFunc(r.Tools, func(t model.Tool) bool { return t.Name == name })
	}
	answered := func(name string) bool {
		return slices.ContainsFunc(results, func(x model.CallResult) bool { return x.Name == name })
	}
	failed := slices.ContainsFunc(results, func(x model.CallResult) bool { return x.IsError })

	// patterns were checked
	return anyOf(c.profile, func(p string) bool { ok, _ := path.Match(p, r.Profile); return ok }) &&
		anyOf(c.variant, func(v string) bool { return v == r.variant }) &&
		anyOf(c.turn, func(n int) bool { return n == r.Turn }) &&
		anyOf(c.round, func(n int) bool { return n == r.Round }) &&
		anyOf(c.attempt, func(n int) bool { return n == max(r.Attempt, 1) }) &&
		anyOf(c.contains, in(latest)) &&
		!slices.ContainsFunc(c.notContains, in(latest)) &&
		(c.matches == nil || slices.ContainsFunc(latest, c.matches.MatchString)) &&
		anyOf(c.query, in(r.question())) &&
		anyOf(c.asked, r.asks) &&
		anyOf(c.system, in(system)) &&
		anyOf(c.tool, answered) &&
		anyOf(c.hasTool, offered) &&
		!slices.ContainsFunc(c.missingTools, offered) &&
		(c.failed == nil || *c.failed == failed) &&
		(c.noCalls == nil || *c.noCalls == (r.ToolChoice == "none"))
}

// anyOf holds when one of the entries does, or when there is no condition.
func anyOf[T any](entries []T, holds func(T) bool) bool {
	return entries == nil || slices.ContainsFunc(entries, holds)
}

// in reports whether a string is part of one of the texts.
func in(texts []string) func(string) bool {
	return func(part string) bool {
		return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, part) })
	}
}

// words is what a rule says, captures filled in.
type words struct {
	reasoning     []string
	text, failure string
	calls         []said
}

type said struct {
	id, name  string
	arguments []byte
}

// placeholder is {{name}}.
var placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{\s*([a-z_][a-z0-9_]*)\s*\}\}`) })

// render fills in the captures. Only those that the rule quotes are looked for.
func (c *rule) render(r request) (words, error) {
	var failed error
	found := make(map[string]string)
	fill := func(s string) string {
		return placeholder().ReplaceAllStringFunc(s, func(m string) string {
			name := placeholder().FindStringSubmatch(m)[1]
			value, ok := found[name]
			if !ok {
				var err error
				if value, err = c.captures[name].find(r); err != nil && failed == nil {
					failed = fmt.Errorf("capture %s: %w", name, err)
				}
				found[name] = value
			}
			return value
		})
	}
	out := words{text: fill(c.text)}
	for _, block := range c.reasoning {
		out.reasoning = append(out.reasoning, fill(block))
	}
	if c.failure != nil {
		out.failure = fill(c.failure.Message)
	}
	for _, call := range c.calls {
		arguments := []byte(fill(call.raw))
		if call.raw == "" {
			var err error
			if arguments, err = json.Marshal(fillTree(call.arguments, fill)); err != nil {
				return words{}, fmt.Errorf("arguments of %s: %w", call.name, err)
			}
		}
		out.calls = append(out.calls, said{call.id, call.name, arguments})
	}
	return out, failed
}

// fillTree fills in the strings of a tree of TOML values.
func fillTree(v any, fill func(string) string) any {
	switch v := v.(type) {
	case string:
		return fill(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = fillTree(e, fill)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = fillTree(e, fill)
		}
		return out
	case []map[string]any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = fillTree(e, fill)
		}
		return out
	}
	return v
}

// find looks through the system prompt, the messages and the results, in order.
func (c capture) find(r request) (string, error) {
	switch {
	case c.constant != "":
		return c.constant, nil
	case c.workspace && r.dir == "":
		return "", errors.New("there is no workspace")
	case c.workspace:
		return r.dir, nil
	}
	all := matches(r.Request, c.pattern)
	i := c.match - 1
	if c.match < 0 {
		i = len(all) + c.match
	}
	if i >= 0 && i < len(all) {
		return all[i], nil
	}
	if c.fallback != nil {
		return *c.fallback, nil
	}
	return "", fmt.Errorf("%q has %d matches in the thread, number %d was asked for", c.pattern, len(all), c.match)
}

// matches returns the matches of a pattern in a thread: its first group, or the whole match if it
// has no group.
func matches(r model.Request, pattern *regexp.Regexp) (all []string) {
	look := func(text string) {
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			all = append(all, m[min(1, len(m)-1)])
		}
	}
	for _, s := range r.System {
		look(s.Text)
	}
	for _, m := range r.Messages {
		for _, p := range m.Content {
			if !p.Notice {
				look(text(p))
			}
		}
	}
	return all
}

// finish checks the calls as a provider would and completes them.
func (c *rule) finish(r request, w words) ([]*model.Call, model.Stop, error) {
	if len(w.calls) > 0 && r.ToolChoice == "none" {
		return nil, "", errors.New("calls tools although calls are ruled out (see no_calls)")
	}
	used := make(map[string]bool)
	for _, m := range r.Messages {
		for _, p := range m.Content {
			if p.Call != nil {
				used[p.Call.ID] = true
			}
		}
	}
	calls := model.NewCalls(r.Request)
	for _, call := range w.calls {
		id := call.id
		if id != "" && used[id] {
			return nil, "", fmt.Errorf("tool call id %q is not unique in the thread", id)
		}
		for n := len(used) + 1; id == ""; n++ {
			if next := fmt.Sprintf("call_%d", n); !used[next] {
				id = next
			}
		}
		used[id] = true
		calls.Add(id, call.name, call.arguments)
	}
	stop := c.stop
	if stop == "" {
		stop = model.StopEnd
	}
	done, stop := calls.Finish(stop)
	return done, stop, nil
}

// title names a rule in messages.
func (c *rule) title() string {
	s := fmt.Sprintf("rule %d (line %d)", c.number, c.line)
	if c.name != "" {
		s += fmt.Sprintf(" %q", c.name)
	}
	return s
}

package script

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/wording"
	"jp/profiles/tomldoc"
	"jp/tools/unseen"
)

// Recorded is the [recorded] table of a script that was recorded.
type Recorded struct {
	Version string                   `toml:"jp"`      // of the program
	Stopped string                   `toml:"stopped"` // why the run was stopped before its end; "" = it was not
	Models  map[string]RecordedModel `toml:"models"`  // models that were asked, by full id
}

// RecordedModel is what a recording holds about a model.
type RecordedModel struct {
	Price *recordedPrice `toml:"price"` // nil = unknown
}

// recordedPrice is a model.Price: billionths of a dollar for a token.
type recordedPrice struct {
	Input      int64          `toml:"input"`
	Output     int64          `toml:"output"`
	CacheRead  int64          `toml:"cache_read"`
	CacheWrite int64          `toml:"cache_write"`
	Above      int64          `toml:"above"` // tokens of a prompt from which Long holds
	Long       *recordedPrice `toml:"long"`
}

func (p *recordedPrice) price() *model.Price {
	if p == nil {
		return nil
	}
	out := &model.Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite}
	if l := p.Long; l != nil {
		out.Long = &model.LongPrice{Above: p.Above, Input: l.Input, Output: l.Output, CacheRead: l.CacheRead, CacheWrite: l.CacheWrite}
	}
	return out
}

// writePrice writes a price as recordedPrice reads it.
func writePrice(b *bytes.Buffer, p model.Price) {
	fmt.Fprintf(b, "price = { input = %d, output = %d, cache_read = %d, cache_write = %d", p.Input, p.Output, p.CacheRead, p.CacheWrite)
	if l := p.Long; l != nil {
		fmt.Fprintf(b, ", above = %d, long = { input = %d, output = %d, cache_read = %d, cache_write = %d }",
			l.Above, l.Input, l.Output, l.CacheRead, l.CacheWrite)
	}
	b.WriteString(" }\n")
}

// ErrTooLarge is returned for a recording that is larger than a script may be.
var ErrTooLarge = fmt.Errorf("is larger than the %d MiB that a script may have", maxFile>>20)

// Compile makes a script of the entries of all runs of a tree in the workspace dir: a rule for each
// request, in the order of the tree.
func Compile(entries []Entry, dir string, about Recorded) ([]byte, error) {
	if len(entries) == 0 {
		return nil, errors.New("no model was asked")
	}
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b Entry) int { return compareRuns(a.Run, b.Run) })

	var b bytes.Buffer
	b.WriteString("# What models said in one run of jp and in its sub-agents. `jp query --replay FILE` runs it again without them.\n")
	b.WriteString("[recorded]\n")
	setting(&b, "jp", about.Version)
	if about.Stopped != "" {
		setting(&b, "stopped", about.Stopped)
	}
	prices := map[string]*model.Price{}
	for _, e := range entries {
		if _, ok := prices[e.Model]; !ok { // a caller, whose entries come first, is believed before its sub-agents
			prices[e.Model] = e.Price
		}
	}
	for _, id := range slices.Sorted(maps.Keys(prices)) {
		fmt.Fprintf(&b, "[recorded.models.%s]\n", quote(id))
		if p := prices[id]; p != nil {
			writePrice(&b, *p)
		}
	}
	type request struct {
		run            string
		round, attempt int
	}
	seen := map[request]bool{}
	for i, e := range entries {
		if at := (request{e.Run, e.Round, e.Attempt}); seen[at] {
			return nil, fmt.Errorf("two replies were recorded for %s, round %d", runName(e.Run), e.Round)
		} else {
			seen[at] = true
		}
		if i == 0 || entries[i-1].Run != e.Run {
			fmt.Fprintf(&b, "\n# %s\n", runName(e.Run))
		} else {
			b.WriteByte('\n')
		}
		e.write(&b, dir)
	}
	if b.Len() > maxFile {
		return nil, ErrTooLarge
	}
	return b.Bytes(), nil
}

// runName is how messages call a run.
func runName(run string) string {
	if run == "" {
		return "the main run"
	}
	return "sub-agent " + run
}

// compareRuns sorts a run before the runs that it started, and these by their numbers.
func compareRuns(a, b string) int {
	return slices.CompareFunc(runParts(a), runParts(b), func(a, b string) int {
		if m, err := strconv.Atoi(a); err == nil {
			if n, err := strconv.Atoi(b); err == nil {
				return cmp.Compare(m, n)
			}
		}
		return cmp.Compare(a, b)
	})
}

func runParts(run string) []string {
	return strings.FieldsFunc(run, func(r rune) bool { return strings.ContainsRune("/.#+", r) })
}

// write writes the rule of an entry.
func (e *Entry) write(b *bytes.Buffer, dir string) {
	b.WriteString("[[rule]]\n")
	setting(b, "run", e.Run)
	setting(b, "profile", pathPattern.Replace(e.Profile))
	if e.Run != "" { // the first run may continue any conversation
		fmt.Fprintf(b, "turn = %d\n", e.Turn)
	}
	fmt.Fprintf(b, "round = %d\nattempt = %d\nno_calls = %t\n", e.Round, e.Attempt, e.NoCalls)
	if e.System != "" {
		setting(b, "system", e.System)
	}
	if e.Asked != nil {
		setting(b, "asked", withoutPath(*e.Asked, dir))
	}
	if e.Failed != nil {
		fmt.Fprintf(b, "failed = %t\n", *e.Failed)
	}

	t := newTemplate(e.IDs, dir)
	var said bytes.Buffer
	if len(e.Reasoning) > 0 {
		said.WriteString("reasoning = [")
		for i, block := range e.Reasoning {
			if i > 0 {
				said.WriteString(", ")
			}
			said.WriteString(quote(t.of(block)))
		}
		said.WriteString("]\n")
	}
	if e.Text != "" || len(e.Calls) == 0 && e.Error == nil && !e.Hang {
		setting(&said, "text", t.of(e.Text))
	}
	if len(e.Calls) > 0 {
		said.WriteString("tool_calls = [\n")
		for _, c := range e.Calls {
			fmt.Fprintf(&said, "  { name = %s, raw_arguments = %s },\n", quote(c.Name), quote(t.of(c.Arguments)))
		}
		said.WriteString("]\n")
	}
	if len(e.Lost) > 0 {
		said.WriteString("lost = [")
		for i, s := range e.Lost {
			said.WriteString(wording.Either(i > 0, ", ", "") + s.table())
		}
		said.WriteString("]\n")
	}
	if e.Usage != nil {
		said.WriteString("usage = " + e.table() + "\n")
	}
	switch own := wording.Either(len(e.Calls) > 0, model.StopToolUse, model.StopEnd); {
	case e.Error != nil:
		said.WriteString("error = { kind = " + quote(string(e.Error.Kind)))
		// otherwise it was not an error for the server
		if status := e.Error.Status; status >= 400 && status <= 599 {
			fmt.Fprintf(&said, ", status = %d", status)
		}
		said.WriteString(", message = " + quote(t.of(e.Error.Message)) + " }\n")
	case e.Hang:
		said.WriteString("hang = true\n")
	case e.Stop != own:
		setting(&said, "stop", string(e.Stop))
	}
	t.write(b)
	b.Write(said.Bytes())
}

// table returns s as usageTOML reads it.
func (s Spent) table() string {
	if s.Usage == nil {
		return "{}"
	}
	t := fmt.Sprintf("{ input = %d, output = %d, cache_read = %d, cache_write = %d", s.Usage.Input, s.Usage.Output, s.Usage.CacheRead, s.Usage.CacheWrite)
	if s.Cost != nil {
		t += fmt.Sprintf(", cost_nano = %d", *s.Cost)
	}
	return t + wording.Either(s.Estimated, ", estimated = true }", " }")
}

// pathPattern makes a pattern that matches nothing but a name.
var pathPattern = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// template turns the text of a model into the text of a rule. Ids of conversations and the path of
// the workspace become captures. A text that only looks like a capture is quoted, so that it stays
// as it was.
type template struct {
	ids  map[string]string // the name of the capture of an id
	from map[string]IDMatch
	dir  string // of the workspace
	open bool   // "{{" was said
	path bool   // dir was
}

func newTemplate(ids map[string]IDMatch, dir string) *template {
	t := &template{ids: map[string]string{}, from: ids, dir: dir}
	for i, id := range slices.Sorted(maps.Keys(ids)) {
		t.ids[id] = fmt.Sprintf("id%d", i+1)
	}
	return t
}

func (t *template) of(said string) string {
	said = placeholder().ReplaceAllStringFunc(said, func(m string) string {
		t.open = true
		return "{{open}}" + m[2:]
	})
	placed := withoutPath(said, t.dir)
	t.path = t.path || placed != said
	return conversationID().ReplaceAllStringFunc(placed, func(id string) string {
		if name, ok := t.ids[id]; ok {
			return "{{" + name + "}}"
		}
		return id
	})
}

// write writes the captures that the rule quotes.
func (t *template) write(b *bytes.Buffer) {
	var list []string
	for _, id := range slices.Sorted(maps.Keys(t.ids)) {
		p := t.from[id]
		list = append(list, fmt.Sprintf("%s = { pattern = %s, match = %d }", t.ids[id], quote(p.pattern().String()), p.N))
	}
	if t.open {
		list = append(list, `open = { text = "{{" }`)
	}
	if t.path {
		list = append(list, "workspace = { workspace = true }")
	}
	if len(list) > 0 {
		b.WriteString("captures = { " + strings.Join(list, ", ") + " }\n")
	}
}

func setting(b *bytes.Buffer, key, value string) { b.WriteString(key + " = " + quote(value) + "\n") }

// quote writes a TOML string, in the form that is read best.
func quote(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	plain := true
	for r, seen := range unseen.Each(s) {
		plain = plain && (seen || r == '\n' || r == '\t')
	}
	lines := strings.Contains(s, "\n")
	switch {
	case plain && !lines && !strings.ContainsAny(s, `"\`):
		return `"` + strings.ReplaceAll(s, "\t", `\t`) + `"`
	case plain && !lines && !strings.Contains(s, "'"):
		return "'" + s + "'"
	case plain && !strings.Contains(s, "'''") && !strings.HasSuffix(s, "'"):
		return "'''\n" + s + "'''"
	}
	return tomldoc.String(s)
}

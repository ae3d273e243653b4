// Package foreign reads the agent files of other programs and writes profiles that say the same,
// with notes of what they leave out.
package foreign

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"jp/profiles/fault"
	"jp/profiles/tomldoc"
	"jp/tools/files"
	"jp/tools/later"
)

// Agent is an agent as a file of another program describes it.
type Agent struct {
	Format      string // one of Formats
	Name        string // name in the file or, in opencode, of the file; perhaps not valid as a name of a file
	Description string
	Prompt      string // never empty
	Model       string // as the file has it; "" = none of its own
	Reasoning   string // as the file has it; "" = not set
	Temperature *float64
	MaxTurns    int // 0 = not set

	// Tools are those that the file lists, by the other program's names. Without a list, Listed is
	// false: the agent has every tool in that program.
	Tools  []string
	Listed bool
	Skills []string // skills that it begins with

	denied []string // rules for tools that the file forbids
	ask    []string // tools for whose calls the other program asks

	Left  []string // keys that a profile has no setting for, sorted
	Notes []string // notes about what else is left out
	Odd   string   // how the file had to be read because it is not valid; "" = it is valid
}

const maxBytes = 256 << 10

// Formats are the programs whose agent files can be read.
func Formats() []string { return []string{"claude", "codex", "gemini", "opencode"} }

// FormatOf says by the folder of a file which program it is for, "" when that is unknown.
func FormatOf(path string) string {
	if filepath.Ext(path) == ".toml" {
		return "codex"
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		switch base, up := filepath.Base(dir), filepath.Base(filepath.Dir(dir)); {
		case base == "agents" && (up == ".claude" || up == ".agents"):
			return "claude"
		case base == "agents" && up == ".gemini":
			return "gemini"
		case (base == "agents" || base == "agent") && (up == ".opencode" || up == "opencode"):
			return "opencode"
		}
		if up := filepath.Dir(dir); up == dir {
			return ""
		}
	}
}

// Read reads the agent file at an absolute path. If it is below the folder workspace, no link on
// the way may lead out of that. Errors are *fault.Error, or wrap fs.ErrNotExist.
func Read(format, path, workspace string) (Agent, error) {
	var at files.Place = files.Disk{}
	name := path
	if below, err := filepath.Rel(workspace, path); err == nil && filepath.IsLocal(below) {
		root, err := os.OpenRoot(workspace)
		if err != nil {
			return Agent{}, &fault.Error{File: path, Msg: files.Reason(err).Error(), Err: err}
		}
		defer func() { _ = root.Close() }()
		at, name = root, below
	}
	data, _, err := files.ReadRegular(at, name, maxBytes, 0)
	if err != nil {
		msg := files.Reason(err).Error()
		if files.Outside(err) {
			msg = "leads out of " + workspace
		}
		return Agent{}, &fault.Error{File: path, Msg: msg, Err: err}
	}
	f, err := Parse(format, strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), data)
	if err != nil {
		err.(*fault.Error).File = path
	}
	return f, err
}

// Parse reads the text of an agent file; base is the name of the file without its ending. A byte
// order mark and line ends of any kind are accepted. Errors are *fault.Error without a file.
func Parse(format, base string, data []byte) (Agent, error) {
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(data), "\ufeff"))
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return Agent{}, &fault.Error{Msg: "not UTF-8 text"}
	}
	f := Agent{Format: format, Name: base}
	var keys map[string]any
	var err error
	if format == "codex" {
		keys, _, err = tomldoc.Tree([]byte(text))
	} else {
		keys, err = f.frontmatter(text)
	}
	if err == nil {
		err = f.take(keys)
	}
	if err != nil {
		var e *fault.Error
		if !errors.As(err, &e) {
			e = fault.OfTOML(err)
		}
		return Agent{}, e
	}
	slices.Sort(f.Left)
	switch {
	case strings.TrimSpace(f.Prompt) == "":
		return Agent{}, &fault.Error{Msg: "holds no prompt"}
	case f.Name == "":
		return Agent{}, &fault.Error{Key: "name", Msg: "is missing"}
	}
	return f, nil
}

// frontmatter splits a text into its keys and its prompt.
func (f *Agent) frontmatter(text string) (map[string]any, error) {
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return nil, &fault.Error{Line: 1, Msg: "must begin with a frontmatter between lines of ---"}
	}
	head, body, ok := strings.Cut("\n"+rest, "\n---\n")
	if !ok {
		if head, ok = strings.CutSuffix("\n"+rest, "\n---"); !ok {
			return nil, &fault.Error{Line: 1, Msg: "the frontmatter has no end"}
		}
	}
	f.Prompt = strings.TrimSpace(body)
	later.YAML.Need()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(head), &doc); err != nil {
		// The programs that write these files leave text unquoted that is no YAML, and read it
		// nevertheless.
		text, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "yaml: "), "\n")
		plain, at := plainKeys(f.Format, head)
		switch {
		case at > 0:
			text += fmt.Sprintf("; line %d may forbid tools", at)
		case len(plain) > 0:
			f.Odd = "its frontmatter is not YAML (" + text + "); it was read line by line"
			return plain, nil
		}
		return nil, &fault.Error{Msg: "frontmatter: " + text, Err: err}
	}
	return keysOf(doc)
}

// keysOf returns the keys of a frontmatter, with rules of permission in their order.
func keysOf(doc yaml.Node) (map[string]any, error) {
	if len(doc.Content) == 0 {
		return map[string]any{}, nil
	}
	v, err := yamlValue(doc.Content[0], 0)
	if err != nil {
		return nil, &fault.Error{Msg: "frontmatter: " + err.Error(), Err: err}
	}
	keys, ok := v.(map[string]any)
	if !ok {
		return nil, &fault.Error{Msg: "frontmatter: is not a list of keys"}
	}
	pairs := doc.Content[0].Content
	for i := 0; i+1 < len(pairs); i += 2 {
		if key := pairs[i].Value; (key == "permission" || key == "permissions") && pairs[i+1].Kind == yaml.MappingNode {
			keys[key] = inOrder(pairs[i+1])
		}
	}
	return keys, nil
}

// yamlValue reads a value. Anchors and aliases are refused: they can mean more than there is memory
// for.
func yamlValue(n *yaml.Node, depth int) (any, error) {
	if depth > 16 {
		return nil, errors.New("nested too deep")
	}
	if n.Anchor != "" || n.Kind == yaml.AliasNode {
		return nil, fmt.Errorf("line %d: anchors and aliases are not read here", n.Line)
	}
	switch n.Kind {
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, c := range n.Content {
			var err error
			if list[i], err = yamlValue(c, depth+1); err != nil {
				return nil, err
			}
		}
		return list, nil
	case yaml.MappingNode:
		tree := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if _, ok := tree[k.Value]; ok || k.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("line %d: key %s is there twice or is no text", k.Line, strconv.Quote(k.Value))
			}
			v, err := yamlValue(n.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			tree[k.Value] = v
		}
		return tree, nil
	}
	switch n.Tag {
	case "!!null":
		return nil, nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true") || strings.EqualFold(n.Value, "yes") || strings.EqualFold(n.Value, "on"), nil
	case "!!int", "!!float":
		if x, err := strconv.ParseFloat(n.Value, 64); err == nil && !math.IsInf(x, 0) && !math.IsNaN(x) {
			return x, nil
		}
	}
	return n.Value, nil
}

// knownKeys are the keys that the programs know. In a frontmatter that is not YAML only they begin
// a new value.
func knownKeys() []string {
	return []string{
		"name", "description", "tools", "disallowedTools", "model", "color", "permissionMode", "maxTurns", "skills", "mcpServers", "hooks",
		"memory", "background", "effort", "isolation", "initialPrompt", "category", "temperature", "max_turns", "kind", "mode", "steps",
		"maxSteps", "permission", "permissions", "timeout_mins", "display_name", "version", "author", "license", "metadata", "tags", "allowed-tools",
		"displayName", "field", "expertise", "argument-hint", "top_p", "prompt", "disable", "hidden", "variant", "options",
	}
}

// plainKeys reads a frontmatter that is no YAML, as the programs do that write such text: a line
// that begins with a known key begins its value, and all other lines belong to the value before
// them. A key that is there twice could be part of a text: then there are no keys. A line that has
// the key of what the file forbids in another form could be this key: at is its number.
func plainKeys(format, head string) (keys map[string]any, at int) {
	plainKey := regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_-]*):(?:[ \t]+(.*))?$`)
	forbidding := regexp.MustCompile(`^[ \t]*["']?(` + forbiddingKeys(format) + `)["']?[ \t]*:`)
	values := map[string][]string{}
	last := ""
	for i, line := range strings.Split(head, "\n") {
		line = strings.TrimRight(line, " \t")
		m := plainKey.FindStringSubmatch(line)
		switch {
		case m != nil && slices.Contains(knownKeys(), m[1]):
			last = m[1]
			if _, ok := values[last]; ok {
				return nil, 0
			}
			values[last] = []string{m[2]}
		case forbidding.MatchString(line):
			return nil, i + 1
		case last == "" && (line == "" || strings.HasPrefix(line, "#")):
		case last == "":
			return nil, 0
		default:
			values[last] = append(values[last], line)
		}
	}
	keys = map[string]any{}
	for key, lines := range values {
		var doc yaml.Node
		structured := key == "tools" || key == "disallowedTools" || key == "permission" || key == "permissions"
		if structured && yaml.Unmarshal([]byte(key+": "+strings.Join(lines, "\n")), &doc) == nil {
			if alone, err := keysOf(doc); err == nil {
				keys[key] = alone[key]
				continue
			}
		}
		keys[key] = plainValue(lines)
	}
	return keys, 0
}

// forbiddingKeys are the keys by which a file of a program can forbid tools, as a regular expression.
func forbiddingKeys(format string) string {
	if format == "opencode" {
		return "tools|permissions?"
	}
	return "disallowedTools"
}

// plainValue is the value in lines, the first of which is the text behind the key: a list if all
// others are its items, else text.
func plainValue(lines []string) any {
	first, more := strings.TrimSpace(lines[0]), lines[1:]
	more = slices.DeleteFunc(more, func(l string) bool { return strings.TrimSpace(l) == "" })
	var items []any
	for _, l := range more {
		if item, ok := strings.CutPrefix(strings.TrimSpace(l), "- "); ok && first == "" {
			items = append(items, unquoted(strings.TrimSpace(item)))
		}
	}
	switch {
	case len(more) == 0:
		return unquoted(first)
	case len(items) == len(more):
		return items
	case first != "" && strings.Trim(first, ">|+-0123456789") == "":
		first = ""
	}
	return strings.TrimSpace(strings.Join(append([]string{first}, lines[1:]...), "\n"))
}

// unquoted removes quotes that are around the whole text.
func unquoted(s string) string {
	if n := len(s); n > 1 && s[0] == s[n-1] && (s[0] == '"' || s[0] == '\'') && !strings.ContainsRune(s[1:n-1], rune(s[0])) {
		return s[1 : n-1]
	}
	return s
}

// take reads the keys that a profile has a setting for.
func (f *Agent) take(keys map[string]any) error {
	var off []string
	var permission, permissions []rule
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		v := keys[key]
		var err error
		switch key {
		case "name":
			if f.Format == "opencode" {
				continue // there the name of the file counts
			}
			f.Name, err = textOf(v)
		case "description":
			f.Description, err = textOf(v)
		case "model":
			if f.Model, err = textOf(v); f.Model == "inherit" || f.Model == "default" {
				f.Model = ""
			}
		case "tools":
			f.Tools, off, f.Listed, err = f.tools(v)
		case "skills":
			f.Skills, err = namesOf(v)
		case "disallowedTools":
			if f.denied, err = namesOf(v); err == nil {
				err = checkNames(f.denied)
			}
		case "permission", "permissions":
			if f.Format != "opencode" {
				f.Left = append(f.Left, key)
				continue
			}
			if key == "permission" {
				permission, err = rulesOf(v)
			} else {
				permissions, err = rulesOf(v)
			}
		case "temperature":
			x, ok := numberOf(v)
			if !ok || x < 0 || x > 2 {
				err = errors.New("is no number from 0 to 2")
			}
			f.Temperature = &x
		case "maxTurns", "max_turns", "steps", "maxSteps":
			x, ok := numberOf(v)
			if !ok || x < 1 || x > 1_000_000 || x != math.Trunc(x) {
				err = errors.New("is no whole number from 1")
			}
			f.MaxTurns = int(x)
		case "model_reasoning_effort", "effort":
			f.Reasoning, err = textOf(v)
		case "developer_instructions":
			if f.Format == "codex" {
				f.Prompt, err = textOf(v)
			} else {
				f.Left = append(f.Left, key)
			}
		case "kind":
			if v == "remote" {
				err = errors.New("a remote agent has nothing to import")
			}
		default:
			f.Left = append(f.Left, key)
		}
		if err != nil {
			return &fault.Error{Key: tomldoc.QuotePart(key), Msg: strings.TrimSuffix(err.Error()+"; "+f.Odd, "; ")}
		}
	}
	if len(f.Skills) > 0 && f.Listed && toolNames[f.Format]["Skill"] != "" {
		f.Tools = append(f.Tools, "Skill")
	} else if len(f.Skills) > 0 {
		f.Left = append(f.Left, "skills")
	}
	f.permit(permission) // each key by itself: what one of them denies is denied
	f.permit(permissions)
	f.denied = append(f.denied, off...)
	f.forbid()
	return nil
}

// tools reads a list of tools, or the switches of opencode. If all switches are off, they only
// remove tools. If some are on, these and no others are the tools that the agent needs. off are the
// names of the switches that are off.
func (f *Agent) tools(v any) (names, off []string, listed bool, err error) {
	switches, ok := v.(map[string]any)
	if !ok {
		if v == nil || v == "" {
			return nil, nil, false, nil
		}
		names, err = namesOf(v)
		if slices.ContainsFunc(names, func(n string) bool { return slices.Contains([]string{"*", "all", "all tools"}, strings.ToLower(n)) }) {
			return nil, nil, false, err
		}
		return names, nil, err == nil, err
	}
	all := false
	for _, name := range slices.Sorted(maps.Keys(switches)) {
		on, ok := switches[name].(bool)
		switch {
		case !ok:
			return nil, nil, false, fmt.Errorf("%s: is neither true nor false", tomldoc.QuotePart(name))
		case name == "*":
			all, listed = on, !on
		case on:
			names = append(names, name)
		default:
			off = append(off, name)
		}
	}
	if err := checkNames(off); err != nil {
		return nil, nil, false, err
	}
	if all || !listed && len(names) == 0 {
		return nil, off, false, nil
	}
	if !listed {
		f.Notes = append(f.Notes, "tools that it does not name: elsewhere it has them too")
	}
	return names, off, true, nil
}

// checkNames returns an error if a name that forbids is no name of tools: it would forbid nothing.
func checkNames(forbidden []string) error {
	for _, n := range forbidden {
		if !isName(n) {
			return fmt.Errorf("%s is no name of a tool", strconv.Quote(n))
		}
	}
	return nil
}

// isName reports whether n is the name of a tool, or of several with * and ?, with or without a rule
// in parentheses.
func isName(n string) bool {
	return regexp.MustCompile(`^[\w*?@][\w*?:./@-]*(\(([^()\n]|\([^()\n]*\))*\))?$`).MatchString(n)
}

// namesOf reads a list, or a text with commas between names.
func namesOf(v any) ([]string, error) {
	var parts []string
	switch v := v.(type) {
	case nil:
	case string:
		parts = splitNames(v)
	case []any:
		for _, item := range v {
			s, ok := item.(string)
			if !ok {
				return nil, errors.New("is no list of names")
			}
			parts = append(parts, s)
		}
	default:
		return nil, errors.New("is no list of names")
	}
	names := []string{}
	for _, p := range parts {
		if p = strings.TrimSpace(p); p != "" && !slices.Contains(names, p) {
			names = append(names, p)
		}
	}
	return names, nil
}

// splitNames splits at commas that are not in parentheses: Read, Bash(git add, git diff).
func splitNames(s string) (parts []string) {
	s = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(s), "["), "]")
	depth, from := 0, 0
	for i, r := range s {
		switch r {
		case '(':
			depth++
		case ')':
			depth = max(depth-1, 0)
		case ',':
			if depth == 0 {
				parts, from = append(parts, s[from:i]), i+1
			}
		}
	}
	return append(parts, s[from:])
}

func textOf(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return strings.TrimSpace(v), nil
	}
	return "", errors.New("is no text")
}

func numberOf(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case string:
		x, err := strconv.ParseFloat(v, 64)
		return x, err == nil && !math.IsInf(x, 0) && !math.IsNaN(x)
	}
	return 0, false
}

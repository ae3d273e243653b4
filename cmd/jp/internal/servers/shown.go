package servers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/mcp"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/wording"
	"jp/tools/unseen"
)

// Shown is the published form of a server.
type Shown struct {
	Name       string            `json:"name"`
	Origin     string            `json:"origin"`    // config.toml or .mcp.json
	Transport  string            `json:"transport"` // stdio or http
	Address    string            `json:"address"`   // the command line, or the URL
	Env        map[string]string `json:"env"`       // variables that the entry sets, as written
	Headers    map[string]string `json:"headers"`
	Variables  []string          `json:"variables"`   // variables that it takes from the environment
	Reaches    []string          `json:"reaches"`     // paths that a program reaches: "ro PATH" or "rw PATH"
	Network    string            `json:"network"`     // none or any; "" if the entry is unusable
	Sandbox    string            `json:"sandbox"`     // sandbox of a program: off, auto or require; "" with an address, or if the entry is unusable
	Unenforced []string          `json:"unenforced"`  // parts of its sandbox that this system cannot enforce
	Status     string            `json:"status"`      // approved, changed, unapproved, unusable
	Problem    string            `json:"problem"`     // mistake in an unusable entry
	ApprovedAt *time.Time        `json:"approved_at"` // null = not yet
	Tools      []mcp.Tool        `json:"tools"`       // approved tools
	Left       []string          `json:"left"`        // tools of the server that cannot be used
}

// Show returns the published form of a server with its approved tools. It starts nothing.
func (u *Set) Show(ctx context.Context, name string, s Server) (Shown, error) {
	given := s.Server
	given.Env = u.given(given)
	v := Shown{
		Name: name, Origin: s.Origin, Transport: s.Server.Transport(), Address: s.Server.Address(), Env: map[string]string{}, Headers: map[string]string{},
		Variables: append([]string{}, given.Variables()...), Status: "unapproved", Tools: []mcp.Tool{}, Left: []string{},
		Reaches: []string{}, Unenforced: []string{},
	}
	maps.Copy(v.Env, given.Env)
	maps.Copy(v.Headers, s.Server.Headers)
	if s.Err != nil {
		v.Status, v.Problem = "unusable", s.Err.Error()
		return v, nil
	}
	reach := ReachOfServer(s.Server)
	v.Reaches, v.Network, v.Sandbox, v.Unenforced = reach.Access, reach.Network, reach.Sandbox, reach.Unenforced
	switch r, err := u.Approved(ctx, s); {
	case err != nil:
		return v, err
	case r != nil:
		v.Status, v.ApprovedAt = "approved", &r.Approved
		v.Tools, v.Left = append(v.Tools, r.Tools...), append(v.Left, r.Left...)
		return v, nil
	}
	r, err := u.Record(ctx, name)
	if r != nil {
		v.Status = "changed"
	}
	return v, err
}

// given returns the variables that the entry of a server sets. Inside a sandbox HOME and TMPDIR
// name a folder of its own.
func (u *Set) given(s mcp.Server) map[string]string {
	if s.Reach == nil {
		return s.Env
	}
	given := maps.Clone(s.Env)
	delete(given, "TMPDIR")
	if box, _, err := u.ws.CommandEnv(nil, nil).Box(s.Reach.Definition()); err != nil || !box.KeepHome {
		delete(given, "HOME")
	}
	return given
}

// Text returns the command or address of the server, and its variables.
func (v Shown) Text() string {
	var b strings.Builder
	row := func(name, text string) { fmt.Fprintf(&b, "%-9s  %s\n", name, unseen.Spell(text)) }
	row("server", v.Name+", named in "+v.Origin)
	row("status", v.Status+wording.Either(v.Problem == "", "", ": "+v.Problem))
	row(wording.Either(v.Transport == "http", "url", "runs"), v.Address)
	for _, part := range []struct {
		name string
		list map[string]string
	}{{"env", v.Env}, {"header", v.Headers}} {
		for _, k := range slices.Sorted(maps.Keys(part.list)) {
			row(part.name, k+": "+part.list[k])
		}
	}
	if len(v.Variables) > 0 {
		row("variables", strings.Join(v.Variables, " "))
	}
	if v.Sandbox != "" {
		reach := Reach{Sandbox: v.Sandbox, Unenforced: v.Unenforced}
		for _, rule := range v.Reaches {
			row("access", rule)
		}
		if len(v.Reaches) == 0 {
			row("access", NoFiles)
		}
		row("network", v.Network)
		row("sandbox", reach.SandboxText())
	}
	for _, left := range v.Left {
		row("left out", left)
	}
	return b.String()
}

// ToolsText returns the text about the tools of a server for a person: everything that a model will
// read.
func ToolsText(list []mcp.Tool) string {
	var b strings.Builder
	for _, t := range list {
		fmt.Fprintf(&b, "\n%s\n%s%s", unseen.Spell(t.Name), Marked("  ", t.Description), Marked("  ", string(t.Schema)))
	}
	if len(list) == 0 {
		b.WriteString("it has no tools\n")
	}
	return b.String()
}

// ChangesText returns the text about tools that changed since their approval: the difference of
// each.
func ChangesText(name string, before mcp.Record, now []mcp.Tool, changes []mcp.Change) string {
	var b strings.Builder
	fmt.Fprintf(&b, "MCP server %s: its tools are not as they were approved\n", unseen.Spell(name))
	listed := mcp.Record{Tools: now}
	for _, c := range changes {
		fmt.Fprintf(&b, "\n%s: %s\n", unseen.Spell(c.Tool), c.State)
		was, _ := before.Tool(c.Tool)
		is, _ := listed.Tool(c.Tool)
		for _, text := range [][2]string{{was.Description, is.Description}, {string(was.Schema), string(is.Schema)}} {
			if text[0] != text[1] {
				b.WriteString(Marked("  - ", text[0]) + Marked("  + ", text[1]))
			}
		}
	}
	return b.String()
}

// Marked returns a text with mark before each line. A line with invisible characters is quoted, so
// that two different lines never look the same.
func Marked(mark, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if q := unseen.Quote(line); q != `"`+line+`"` && (unseen.Spell(line) != line || strings.HasPrefix(line, `"`)) || strings.TrimSpace(line) != line {
			line = unseen.Fold(q)
		}
		b.WriteString(mark + line + "\n")
	}
	return b.String()
}

// values returns the entries of a table, as written.
func values(table string, list map[string]string) string {
	text := ""
	for _, k := range slices.Sorted(maps.Keys(list)) {
		text += " " + unseen.Word(k) + "=" + unseen.Quote(list[k])
	}
	return wording.Either(text == "", "", ", "+table+text)
}

// Brought returns lines about what .mcp.json would start or call, and what each program reaches.
// For a file with a mistake it returns the mistake.
func (u *Set) Brought(c *trust.Files) []string {
	list := []string{}
	data := c.Data[trust.MCPFile]
	if data == nil {
		return list
	}
	if _, err := mcp.ParseFile(data, c.Root); err != nil {
		return append(list, trust.MCPFile+": cannot be read")
	}
	for name, s := range u.In(c) {
		if s.Origin != trust.MCPFile {
			continue
		}
		s.Server.Env = u.given(s.Server)
		text := unseen.Word(name) + ": " + s.Server.Address()
		if v := s.Server.Variables(); len(v) > 0 {
			text += " (with " + strings.Join(v, " ") + ")"
		}
		text += values("env", s.Server.Env) + values("headers", s.Server.Headers)
		if s.Server.Command != "" {
			text += ", " + ReachOfServer(s.Server).Text()
		}
		if s.Err != nil {
			text = unseen.Word(name) + ": cannot be used: " + s.Err.Error()
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return list
}

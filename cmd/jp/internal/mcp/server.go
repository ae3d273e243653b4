// Package mcp lets tools of Model Context Protocol servers be called.
//
//	Server   where a server is and how to reach it, as a person wrote it
//	Client   one server in use: started when it is first needed, and once again if it dies
//	Tool     what a server says of one of its tools, bounded and cleaned
//	Record   what a person approved of a server: its entry, and its tools as they were then
//
// A server is not trusted. It gets nothing but the arguments of calls. What it says goes to a model
// and to a terminal, so names, texts and schemas are bounded and have no control characters.
// Pictures and sounds are dropped. Requests of the server (sampling, elicitation, roots) are
// refused. A tool that differs from what was approved is not called.
//
// Servers are started only by what a person approved: see .depguard.json for who may import this
// package.
package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"jp/tools"
	"jp/tools/fs"
	"jp/tools/jsondoc"
	"jp/tools/unseen"
)

// Server is the entry of one MCP server, a program that speaks on stdio or an address. Nothing in
// it is expanded: ${NAME} and ${NAME:-text} in Args, Env, URL and Headers stand for variables of
// the environment.
type Server struct {
	Name    string            `json:"name"`
	Command string            `json:"command,omitempty"` // "" = the server has an address
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	// Dir is the working directory of the program, absolute.
	Dir string `json:"dir,omitempty"`
	// Reach is what the program may reach; nil = it is not confined and can do what the user can.
	Reach *Reach `json:"reach,omitempty"`
}

// Reach is what a confined program may reach, in the words of a tool's definition.
type Reach struct {
	FS      []fs.Rule     `json:"fs"` // rules, those of the default included
	Network tools.Network `json:"network"`
	Sandbox tools.Sandbox `json:"sandbox"` // auto or require
}

// Definition returns r as the definition of a tool with nothing else in it.
func (r Reach) Definition() tools.Definition {
	return tools.Definition{Source: tools.SourceLocal, Access: tools.Access{FS: r.FS}, Network: r.Network, Sandbox: r.Sandbox}
}

// Files returns its rules for people: "ro PATH" or "rw PATH".
func (r Reach) Files() []string {
	list := []string{}
	for _, rule := range r.FS {
		list = append(list, rule.String())
	}
	return list
}

// Check returns why the entry cannot be used, nil if it can.
func (s Server) Check() error {
	if !validName(s.Name) {
		return errors.New("the name of a server has at most 64 letters, digits, _ and, not first, -")
	}
	for _, text := range s.texts() {
		if strings.ContainsRune(text, 0) {
			return errors.New("holds a NUL byte")
		}
		if _, err := expand(text, func(string) (string, bool, error) { return "", true, nil }); err != nil {
			return err
		}
	}
	switch {
	case s.Command == "" && s.URL == "":
		return errors.New("has neither a command nor a url")
	case s.Command != "" && s.URL != "":
		return errors.New("has a command and a url: one of them")
	case s.URL != "" && (len(s.Args) > 0 || len(s.Env) > 0):
		return errors.New("has a url: args and env are for a command")
	case s.URL != "" && s.Reach != nil:
		return errors.New("has a url: access, network and sandbox are for a command")
	case s.Command != "" && len(s.Headers) > 0:
		return errors.New("has a command: headers are for a url")
	}
	for name := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.HasPrefix(name, "JP_") {
			return fmt.Errorf("env: %q is no variable that it may be given", name)
		}
	}
	for name := range s.Headers {
		if !token(name) || slices.Contains([]string{"Host", "Content-Length", "Transfer-Encoding", "Connection"}, http.CanonicalHeaderKey(name)) {
			return fmt.Errorf("headers: %q is no header that can be set", name)
		}
	}
	return nil
}

// token reports whether s can be the name of a header.
func token(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return r > '~' || r <= ' ' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	}) < 0
}

// Address returns how the server is reached, for people: a command line, or a URL.
func (s Server) Address() string {
	if s.URL != "" {
		return unseen.Word(s.URL)
	}
	words := []string{unseen.Word(s.Command)}
	for _, a := range s.Args {
		words = append(words, unseen.Word(a))
	}
	return strings.Join(words, " ")
}

// Transport returns stdio or http.
func (s Server) Transport() string {
	if s.URL != "" {
		return "http"
	}
	return "stdio"
}

// Variables returns the names of the variables that the entry takes from the environment, sorted.
func (s Server) Variables() []string {
	found := map[string]bool{}
	for _, text := range s.texts() {
		_, _ = expand(text, func(name string) (string, bool, error) {
			found[name] = true
			return "", true, nil
		})
	}
	return slices.Sorted(maps.Keys(found))
}

// Digest returns a hash of the whole entry. Two servers with the same hash are reached in the same
// way.
func (s Server) Digest() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings only
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// texts returns all parts of the entry that may name variables.
func (s Server) texts() []string {
	list := append([]string{s.Command, s.URL}, s.Args...)
	for _, m := range []map[string]string{s.Env, s.Headers} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			list = append(list, m[k])
		}
	}
	return list
}

// expanded returns s with the values of variables in place of their names. lookup returns the value
// of one, whether it is set, and why it may not be used.
func (s Server) expanded(lookup func(string) (string, bool, error)) (Server, error) {
	var err error
	get := func(text string) string {
		out, e := expand(text, lookup)
		if err == nil {
			err = e
		}
		return out
	}
	all := func(m map[string]string) map[string]string {
		out := make(map[string]string, len(m))
		for _, k := range slices.Sorted(maps.Keys(m)) {
			out[k] = get(m[k])
		}
		return out
	}
	args := make([]string, len(s.Args))
	for i, a := range s.Args {
		args[i] = get(a)
	}
	s.Command, s.URL, s.Args = get(s.Command), get(s.URL), args
	s.Env, s.Headers = all(s.Env), all(s.Headers)
	if err == nil && s.URL != "" {
		err = checkURL(s.URL)
	}
	for name, v := range s.Headers {
		if err == nil && strings.ContainsAny(v, "\r\n\x00") {
			err = fmt.Errorf("header %s: its value has a line break", name)
		}
	}
	return s, err
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Fragment != "" {
		// it may have a secret in it
		return errors.New("url: must be an http or https address without user, password and fragment")
	}
	return nil
}

// expand replaces ${NAME} and ${NAME:-text}. A $ before anything else stays. A variable that is not
// set and has no text is an error.
func expand(text string, lookup func(string) (string, bool, error)) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		inner, after, closed := strings.Cut(rest, "}")
		name, fallback, hasFallback := strings.Cut(inner, ":-")
		if !closed || !variable(name) {
			return "", fmt.Errorf("%q: want ${NAME} or ${NAME:-text}", "${"+inner)
		}
		value, set, err := lookup(name)
		switch {
		case err != nil:
			return "", err
		case !set && !hasFallback:
			return "", fmt.Errorf("variable %s is not set", name)
		case !set || value == "" && hasFallback:
			value = fallback
		}
		b.WriteString(value)
		text = after
	}
}

func variable(name string) bool {
	return name != "" && (name[0] < '0' || name[0] > '9') && strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_'
	}) < 0
}

// Entry is one entry of a file: a server, or why it cannot be used.
type Entry struct {
	Server Server
	Err    error
}

// ParseFile parses a .mcp.json and returns its servers by name. A malformed file is an error. An
// entry that cannot be used has an error in it. dir is the working directory of its programs.
func ParseFile(data []byte, dir string) (map[string]Entry, error) {
	var doc struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // editors of Windows write it
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("no JSON of the form {\"mcpServers\":{...}}: %w", jsondoc.Explain(err))
	}
	out := make(map[string]Entry, len(doc.Servers))
	for name, raw := range doc.Servers {
		var e struct {
			Type    string            `json:"type"`
			Command string            `json:"command"`
			Args    []string          `json:"args"`
			Env     map[string]string `json:"env"`
			URL     string            `json:"url"`
			Headers map[string]string `json:"headers"`

			Disabled bool   `json:"disabled"`
			CWD      string `json:"cwd"`
		}
		err := json.Unmarshal(raw, &e)
		s := Server{Name: name, Command: e.Command, Args: e.Args, Env: e.Env, URL: e.URL, Headers: e.Headers}
		if s.Command != "" {
			s.Dir = dir
		}
		switch {
		case err != nil:
			err = jsondoc.Explain(err)
		case e.Disabled:
			err = errors.New("disabled = true")
		case e.CWD != "" && filepath.Clean(e.CWD) != "." && filepath.Clean(e.CWD) != dir:
			err = errors.New("cwd is not supported: a server runs in the folder of the workspace")
		case e.Type == "sse":
			err = errors.New("type sse is not supported: it is superseded by http")
		case !slices.Contains([]string{"", "stdio", "http", "streamable-http"}, e.Type):
			err = fmt.Errorf("type %q is not known: stdio or http", e.Type)
		case e.Type == "stdio" && s.URL != "" || strings.HasSuffix(e.Type, "http") && s.Command != "":
			err = fmt.Errorf("type %s does not match the other keys", e.Type)
		default:
			err = s.Check()
		}
		out[name] = Entry{Server: s, Err: err}
	}
	return out, nil
}

// validName reports whether a server may have this name in the definitions of tools.
func validName(s string) bool {
	return s != "" && s[0] != '-' && len(s) <= 64 && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}) < 0
}

package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"jp/tools/unseen"
)

// Bounds of what is accepted from a server.
const (
	maxTools       = 512
	maxPages       = 64
	maxNameBytes   = 128
	maxTextBytes   = 8 << 10  // bytes of a description
	maxSchemaBytes = 64 << 10 // bytes of the schema of one tool
	maxSchemaDepth = 32
	maxListBytes   = 2 << 20 // bytes of all tools together
	maxMessage     = 8 << 20 // bytes of one message on the wire
)

// Tool is what a server says of one of its tools: printable and bounded, with the schema of an
// object. Whether a validator accepts the schema is unknown.
type Tool struct {
	Name        string          `json:"name"` // name that the server uses
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // schema of the arguments, with sorted keys
}

// Digest returns a hash of the tool as it was listed.
func (t Tool) Digest() string {
	sum := sha256.Sum256([]byte(t.Name + "\x00" + t.Description + "\x00" + string(t.Schema)))
	return hex.EncodeToString(sum[:16])
}

// accept turns a tool that a server listed into one that may be shown and offered.
func accept(in *sdk.Tool) (Tool, error) {
	if in == nil || in.Name == "" || len(in.Name) > maxNameBytes || !utf8.ValidString(in.Name) ||
		strings.IndexFunc(in.Name, func(r rune) bool { return r == ' ' || !unseen.Shows(r) }) >= 0 {
		return Tool{}, errors.New("a name that is no name")
	}
	t := Tool{Name: in.Name, Description: strings.TrimSpace(cleanText(in.Description))}
	if len(t.Description) > maxTextBytes {
		return t, fmt.Errorf("a description of %d bytes, more than %d", len(t.Description), maxTextBytes)
	}
	raw, err := json.Marshal(in.InputSchema)
	if err != nil {
		return t, fmt.Errorf("schema: %w", err)
	}
	if len(raw) > maxSchemaBytes {
		return t, fmt.Errorf("a schema of %d bytes, more than %d", len(raw), maxSchemaBytes)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return t, fmt.Errorf("schema: %w", err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return t, errors.New("a schema that is no object")
	}
	if kind, given := m["type"]; given && kind != "object" {
		return t, errors.New("a schema that is not for an object")
	}
	m["type"] = "object"
	if v, err = cleanValue(m, maxSchemaDepth); err != nil {
		return t, err
	}
	if t.Schema, err = json.Marshal(v); err != nil {
		return t, err
	}
	return t, nil
}

// cleanValue cleans all texts of a JSON value, which may be at most depth deep.
func cleanValue(v any, depth int) (any, error) {
	if depth < 0 {
		return nil, fmt.Errorf("a schema more than %d levels deep", maxSchemaDepth)
	}
	var err error
	switch v := v.(type) {
	case string:
		return cleanText(v), nil
	case []any:
		for i := range v {
			if v[i], err = cleanValue(v[i], depth-1); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if cleanText(k) != k {
				return nil, errors.New("a schema with characters in a name that do not show")
			}
			if v[k], err = cleanValue(v[k], depth-1); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// cleanText leaves out characters that a person who approves a text does not see, but a model
// reads.
func cleanText(s string) string { return unseen.Strip(s) }

// Record is what was approved of a server. Only what is in it is offered or called.
type Record struct {
	Version  int       `json:"version"`
	Server   Server    `json:"server"`
	Approved time.Time `json:"approved_at"`
	Tools    []Tool    `json:"tools"` // sorted by name
	Left     []string  `json:"left"`  // other tools that the server listed, and why they cannot be used
}

// RecordVersion is the version of the records that this program writes and reads.
const RecordVersion = 1

// Tool returns the tool of that name.
func (r Record) Tool(name string) (Tool, bool) {
	i, ok := slices.BinarySearchFunc(r.Tools, name, func(t Tool, n string) int { return strings.Compare(t.Name, n) })
	if !ok {
		return Tool{}, false
	}
	return r.Tools[i], true
}

// Change is a tool that is not as it was approved.
type Change struct {
	Tool  string `json:"tool"`
	State string `json:"state"` // new, changed, gone
}

// Changes compares the tools of a record with those that are listed now, by name.
func (r Record) Changes(now []Tool) []Change {
	list := []Change{}
	for _, t := range now {
		if was, ok := r.Tool(t.Name); !ok {
			list = append(list, Change{t.Name, "new"})
		} else if was.Digest() != t.Digest() {
			list = append(list, Change{t.Name, "changed"})
		}
	}
	for _, was := range r.Tools {
		if !slices.ContainsFunc(now, func(t Tool) bool { return t.Name == was.Name }) {
			list = append(list, Change{was.Name, "gone"})
		}
	}
	slices.SortFunc(list, func(a, b Change) int { return strings.Compare(a.Tool, b.Tool) })
	return list
}

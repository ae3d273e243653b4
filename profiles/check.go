package profiles

import (
	"errors"
	"strconv"
	"strings"

	"jp/profiles/fault"
	"jp/profiles/kinds"
	"jp/profiles/tomldoc"
	"jp/tools/suggest"
)

// leaf is one checked value of a document.
type leaf struct {
	parts []string
	value any
	row   *setting
}

// check compares a document with the schema. It returns its leaves in the order of their keys, and
// every mistake in the order of the lines.
func (s *schema) check(d *document) ([]leaf, []*Error) {
	c := checker{schema: s, doc: d}
	c.walk(s, d.tree, nil)
	fault.Sort(c.errs)
	return c.leaves, c.errs
}

type checker struct {
	schema *schema
	doc    *document
	leaves []leaf
	errs   []*Error
}

func (c *checker) fail(parts []string, msg, hint string) {
	c.errs = append(c.errs, c.doc.fail(parts, msg, hint))
}

func (c *checker) walk(s *schema, tree map[string]any, parents []string) {
	for _, k := range sortedKeys(tree) {
		parts := append(parents[:len(parents):len(parents)], k)
		next, v := s.below(k), tree[k]
		switch {
		case next == nil:
			const enough = 100 // a file can have very many unknown keys, and each is compared with every known key
			hint := ""
			if len(c.errs) < enough {
				hint = c.schema.suggestion(parts)
			}
			c.fail(parts, "unknown key", hint)
		case next.row != nil:
			c.leaf(leaf{parts, v, next.row})
		default:
			t, ok := v.(map[string]any)
			if !ok {
				c.fail(parts, "must be a table, not "+kinds.NameOf(v), "")
				continue
			}
			c.walk(next, t, parts)
		}
	}
}

func (c *checker) leaf(l leaf) {
	if msg, hint := c.refusal(l.row); msg != "" {
		c.fail(l.parts, msg, hint)
		return
	}
	if l.row.name != nil {
		for i, part := range strings.Split(l.row.key, ".") {
			if !strings.HasPrefix(part, "<") {
				continue
			}
			if err := l.row.name(l.parts[i]); err != nil {
				c.fail(l.parts, err.Error(), "")
				return
			}
		}
	}
	if err := l.row.kind.Accept(l.value); err != nil {
		hint := ""
		if l.row.kind == kinds.Table {
			hint = "open a table with [" + tomldoc.JoinKey(l.parts) + "]"
		}
		c.fail(l.parts, err.Error(), hint)
		return
	}
	before := len(c.errs)
	switch l.row.kind {
	case kinds.Texts:
		c.texts(l)
	case kinds.Either:
		if list, ok := l.value.([]any); !ok {
			c.apply(l.row, l.parts, -1, l.value)
		} else if len(list) == 0 {
			c.fail(l.parts, "must not be an empty list", "")
		} else {
			c.texts(l)
		}
	case kinds.Sections:
		c.sections(l)
	default:
		c.apply(l.row, l.parts, -1, l.value)
	}
	if len(c.errs) == before {
		c.leaves = append(c.leaves, l)
	}
}

// apply runs the row's check on the value at parts, or on item i of it if that is not -1.
func (c *checker) apply(row *setting, parts []string, i int, v any) {
	if row.check == nil {
		return
	}
	err := row.check(v)
	if err == nil {
		return
	}
	hint := ""
	if h := (*kinds.Hinted)(nil); errors.As(err, &h) {
		hint = h.Hint
	}
	if i < 0 {
		c.fail(parts, err.Error(), hint)
	} else {
		c.errs = append(c.errs, c.doc.failItem(parts, i, err.Error(), hint))
	}
}

func (c *checker) texts(l leaf) {
	seen := map[string]bool{}
	for i, item := range l.value.([]any) {
		s, ok := item.(string)
		msg := ""
		switch {
		case !ok:
			msg = "must be text, not " + kinds.NameOf(item)
		case seen[s] && !l.row.repeats:
			msg = "is there twice"
		}
		if msg != "" {
			c.errs = append(c.errs, c.doc.failItem(l.parts, i, msg, ""))
			continue
		}
		seen[s] = true
		c.apply(l.row, l.parts, i, item)
	}
}

func (c *checker) sections(l leaf) {
	for i, item := range l.value.([]any) {
		at := append(l.parts[:len(l.parts):len(l.parts)], strconv.Itoa(i))
		t, ok := item.(map[string]any)
		if !ok {
			c.fail(at, "must be a table, not "+kinds.NameOf(item), "")
			continue
		}
		for _, k := range sortedKeys(t) {
			parts := append(at[:len(at):len(at)], k)
			if k != "title" && k != "content" {
				c.fail(parts, "unknown key", suggest.Meant("did you mean %s?", k, []string{"content", "title"}))
			} else if err := kinds.Text.Accept(t[k]); err != nil {
				c.fail(parts, err.Error(), "")
			}
		}
		if s, ok := t["content"].(string); t["content"] == nil || ok && s == "" {
			c.fail(at, "content is missing or empty", "")
		}
	}
}

// refusal returns the reason why the layer of the document may not set a row, "" when it may.
func (c *checker) refusal(row *setting) (msg, hint string) {
	kind := c.doc.layer.Kind
	switch {
	case row.class == machine:
		const where = "it belongs in the user's config.toml, the environment or a flag"
		switch kind {
		case WorkspaceLayer:
			return "is a machine setting, which a workspace cannot set", where
		case FileLayer:
			return "is a machine setting, which a profile cannot set", where
		case StoredLayer:
			return "is a machine setting, which a conversation does not store", "drop the stored config with --cfg=NONE or --cfg=WORKSPACE"
		}
	case row.class == loader:
		inFile := kind == UserLayer || kind == WorkspaceLayer || kind == FileLayer
		switch {
		case row.key == "config_load_paths" && kind != StoredLayer:
		case row.key == specializationsKey && (inFile || kind == EnvLayer):
			if kind == FileLayer {
				return "belongs only in the user's and the workspace's config.toml", ""
			}
		case !inFile:
			return "belongs only in config files", ""
		case row.key == "loader.reset" && kind != FileLayer && c.doc.layer.Via == "":
			return "belongs only in files loaded by --cfg", ""
		}
	}
	return "", ""
}

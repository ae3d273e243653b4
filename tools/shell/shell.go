package shell

import (
	"errors"
	"fmt"
	pathpkg "path"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"jp/tools/brief"
	"jp/tools/later"
	"jp/tools/template"
)

// Text is a command of the forms { script } and { script_file }: a text that a shell reads. Values
// never become part of it: each placeholder is rewritten to an expansion of a variable that travels
// in the environment. How it is rewritten depends on where the placeholder is, and a place that is
// not known to be safe is refused. Both are done twice: for each branch of each block when the
// definition is loaded, so that its author sees what is wrong, and again for the text of each call,
// which is the one that counts.
type Text struct {
	File        string // of the file, for messages; "" = inline
	Interpreter string // bash or sh
	Nodes       []template.Node
	mark        string // the beginning of all tokens, found nowhere in the text
}

// Bounds of shell texts.
const (
	maxScript       = 64_000    // bytes, as written
	maxText         = 120_000   // bytes, for one call: it is one argument of the shell
	maxPlaceholders = 2_000     // of one call, loops unrolled
	maxBlocks       = 100       // of one text: each branch is parsed at load
	maxDepth        = 500       // nested nodes of the syntax
	maxInline       = 100_000   // bytes of a value that travels in the environment itself
	maxInlineAll    = 1_000_000 // of all of them
)

// argVariable begins the names of the variables that carry values.
const argVariable = "JP_ARG_"

// Parse parses a shell text. interpreter is bash, sh or "" for the shell in the first line; without
// such a line it is bash.
func Parse(name, text, interpreter string) (*Text, error) {
	s := &Text{File: name, Interpreter: interpreter}
	if len(text) > maxScript {
		return nil, fmt.Errorf("is longer than %s", brief.Size(maxScript))
	}
	at := template.Position{Line: 1, Column: 1}
	for i, c := range text {
		switch {
		case c == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"):
			return nil, at.After(text[:i]).Errorf("is no valid UTF-8")
		case c < ' ' && c != '\n' && c != '\t', c == 0x7F:
			return nil, at.After(text[:i]).Errorf("holds the control character %q", c)
		}
	}
	if i := strings.Index(text, argVariable); i >= 0 {
		return nil, at.After(text[:i]).Errorf("names beginning with %s are for values", argVariable)
	}
	if s.Interpreter == "" {
		sh, err := shebang(text)
		if err != nil {
			return nil, err
		}
		s.Interpreter = sh
	}
	t, err := template.Parse(text)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("is empty")
	}
	s.Nodes = t.Nodes
	for i := 0; ; i++ {
		if s.mark = fmt.Sprintf("Zjp%dq", i); !strings.Contains(text, s.mark) {
			return s, nil
		}
	}
}

// shebang returns the shell that the first line of text asks for.
func shebang(text string) (string, error) {
	line, _, _ := strings.Cut(text, "\n")
	line, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return "bash", nil
	}
	words := strings.Fields(line)
	if len(words) > 1 && pathpkg.Base(words[0]) == "env" {
		words = words[1:]
	}
	switch {
	case len(words) > 1:
		return "", template.Position{Line: 1, Column: 1}.Errorf("#!%s: the options of the shell are not used: write set -e and the like", line)
	case len(words) == 1 && pathpkg.Base(words[0]) == "bash":
		return "bash", nil
	case len(words) == 1 && (pathpkg.Base(words[0]) == "sh" || pathpkg.Base(words[0]) == "dash"):
		return "sh", nil
	}
	return "", template.Position{Line: 1, Column: 1}.Errorf("#!%s: only bash and sh run shell texts", line)
}

// variants are the shells that may read the text: sh is bash on some systems.
func (s *Text) variants() []syntax.LangVariant {
	if s.Interpreter == "sh" {
		return []syntax.LangVariant{syntax.LangPOSIX, syntax.LangBash}
	}
	return []syntax.LangVariant{syntax.LangBash}
}

// Rules is what the definition around a text says about its values.
type Rules struct {
	Dash map[string]bool // parameters whose values may start with '-'
	Env  []string        // variables of the tool's environment
}

// Check checks each branch of each block: that it parses alone where it is, and that all of its
// placeholders are in places that are known to be safe. Errors are *template.Error.
func (s *Text) Check(rules Rules) error {
	blocks := s.blocks(s.Nodes, nil)
	if len(blocks) > maxBlocks {
		return blocks[maxBlocks].at().Errorf("more than %d blocks", maxBlocks)
	}
	picks := []map[*template.Path]int{nil}
	for _, b := range blocks {
		for _, n := range b.picks() {
			picks = append(picks, b.pick(n))
		}
	}
	for _, p := range picks {
		f := flattener{pick: p}
		f.nodes(s.Nodes)
		if _, err := s.read(f.out, rules); err != nil {
			return err
		}
	}
	for _, b := range blocks {
		if err := s.checkBlock(b); err != nil {
			return err
		}
	}
	return nil
}

// read parses a text and finds the uses of its placeholders, for all shells that may read it.
func (s *Text) read(chunks []chunk, rules Rules) (*reading, error) {
	var first *reading
	for _, lang := range s.variants() {
		r, err := s.readAs(lang, chunks, rules)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = r
			continue
		}
		for i, u := range r.uses {
			if u.quote != first.uses[i].quote {
				return nil, r.src.leaves[i].errorf("is where bash, which is sh on some systems, reads something else")
			}
		}
	}
	return first, nil
}

// chunk is a piece of a shell text: literal text or a placeholder.
type chunk struct {
	text string
	at   template.Position
	leaf *leaf
}

// leaf is one placeholder of a text.
type leaf struct {
	path  *template.Path
	from  *template.Path // origin of its value; of a loop variable, the list
	value string
}

func (l leaf) errorf(format string, args ...any) *template.Error {
	return l.path.At.Errorf("{{%s}} %s", l.path, fmt.Sprintf(format, args...))
}

// source is a shell text with a token for each placeholder.
type source struct {
	text   string
	leaves []leaf
	spans  [][2]int // of the tokens of the leaves
	chunks []chunk
	starts []int // of the chunks
}

func (s *Text) source(chunks []chunk) (*source, error) {
	src := &source{chunks: chunks}
	var b strings.Builder
	for _, c := range chunks {
		src.starts = append(src.starts, b.Len())
		if c.leaf == nil {
			b.WriteString(c.text)
			continue
		}
		start := b.Len()
		fmt.Fprintf(&b, "%s%dz", s.mark, len(src.leaves))
		src.spans = append(src.spans, [2]int{start, b.Len()})
		src.leaves = append(src.leaves, *c.leaf)
		if len(src.leaves) > maxPlaceholders {
			return nil, c.at.Errorf("more than %d placeholders in one text", maxPlaceholders)
		}
	}
	if b.Len() > maxText {
		return nil, template.Position{Line: 1, Column: 1}.Errorf("comes to more than %s", brief.Size(maxText))
	}
	src.text = b.String()
	return src, nil
}

// at returns the place in the definition of the byte at offset.
func (src *source) at(offset int) template.Position {
	i, ok := slices.BinarySearch(src.starts, offset)
	if !ok {
		i--
	}
	if i < 0 || i >= len(src.chunks) {
		return template.Position{Line: 1, Column: 1}
	}
	c := src.chunks[i]
	if c.leaf != nil {
		return c.at
	}
	return c.at.After(c.text[:min(offset-src.starts[i], len(c.text))])
}

// inside returns the leaves whose tokens are between two offsets.
func (src *source) inside(start, end int) (first, last int) {
	first, _ = slices.BinarySearchFunc(src.spans, start, func(s [2]int, n int) int { return s[0] - n })
	last = first
	for last < len(src.spans) && src.spans[last][1] <= end {
		last++
	}
	return first, last
}

// parseSyntax parses text as lang.
func parseSyntax(lang syntax.LangVariant, text string) (*syntax.File, error) {
	later.Shell.Need()
	return syntax.NewParser(syntax.Variant(lang), syntax.KeepComments(true)).Parse(strings.NewReader(text), "")
}

// syntaxError is a shell's syntax error, at its place in the definition.
func (src *source) syntaxError(lang syntax.LangVariant, err error) error {
	var (
		bad  syntax.ParseError
		dial syntax.LangError
	)
	shell := "bash"
	if lang == syntax.LangPOSIX {
		shell = "sh"
	}
	switch {
	case errors.As(err, &bad):
		return src.at(int(bad.Pos.Offset())).Errorf("no %s syntax: %s", shell, src.restore(bad.Text))
	case errors.As(err, &dial):
		return src.at(int(dial.Pos.Offset())).Errorf("%s has no %s", shell, src.restore(dial.Feature))
	}
	return template.Position{Line: 1, Column: 1}.Errorf("no %s syntax: %s", shell, src.restore(err.Error()))
}

// restore replaces tokens by placeholders, for messages.
func (src *source) restore(msg string) string {
	for i, s := range src.spans {
		msg = strings.ReplaceAll(msg, src.text[s[0]:s[1]], "{{"+src.leaves[i].path.String()+"}}")
	}
	return msg
}

package template

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// SplitWords splits a command into words as a shell does. A template tag is an ordinary character
// of a word, whatever is in the tag. All else that a shell would do (expansions, globs, operators,
// a second line) is refused, since nothing here would do it. So each accepted command means the
// same to a shell, tags aside.
func SplitWords(src string) ([]Word, error) {
	s := splitter{src: src, at: Position{1, 1}}
	if strings.ContainsRune(src, 0) {
		return nil, s.at.Errorf("holds a NUL byte")
	}
	for s.src != "" {
		if err := s.step(); err != nil {
			return nil, err
		}
	}
	if s.quote != 0 {
		return nil, s.opened.Errorf("the quote %c is never closed", s.quote)
	}
	return s.words, s.end()
}

// Word is a word of a command, not parsed yet.
type Word struct{ tokens []token }

// Parse returns the template that the word is. The error is a *Error.
func (w Word) Parse() (*Template, error) { return parse(w.tokens) }

type splitter struct {
	src   string // text that is not read yet
	at    Position
	words []Word

	in     bool // a word has begun
	start  Position
	plain  bool // the word has no quotes, escapes or tags so far
	word   []token
	quote  byte // ' or " or 0
	opened Position
	line   bool // an unquoted line break came after the first word
}

// reserved are the words that mean more to a shell where a command begins.
var reserved = strings.Fields("if then else elif fi do done case esac while until for in function select time coproc ! { } [[ ]]")

// step reads one character, escape or tag.
func (s *splitter) step() error {
	c := s.src[0]
	if strings.HasPrefix(s.src, "{{") {
		n, ok := tagLen(s.src)
		if !ok {
			return s.at.Errorf("{{ is never closed")
		}
		if err := s.begin(); err != nil {
			return err
		}
		s.plain = false
		s.word = append(s.word, token{text: s.src[2 : n-2], tag: true, at: s.at})
		s.skip(n)
		return nil
	}
	switch s.quote {
	case '\'':
		if c == '\'' {
			s.quote = 0
			s.skip(1)
			return nil
		}
		return s.take()
	case '"':
		switch {
		case c == '"':
			s.quote = 0
			s.skip(1)
			return nil
		case c == '$' || c == '`':
			return s.at.Errorf(`%c is shell syntax, also in double quotes: write \%c or use single quotes`, c, c)
		case c == '\\' && len(s.src) > 1 && s.src[1] == '\n':
			s.skip(2)
			return nil
		case c == '\\' && len(s.src) > 1 && strings.IndexByte("$`\"\\", s.src[1]) >= 0:
			s.skip(1)
		}
		return s.take()
	}
	switch c {
	case ' ', '\t', '\n':
		if err := s.end(); err != nil {
			return err
		}
		s.line = s.line || c == '\n' && len(s.words) > 0
		s.skip(1)
		return nil
	case '\'', '"':
		if err := s.begin(); err != nil {
			return err
		}
		s.quote, s.opened, s.plain = c, s.at, false
		s.skip(1)
		return nil
	case '\\':
		if len(s.src) == 1 {
			return s.at.Errorf(`ends with \`)
		}
		if s.src[1] == '\n' {
			s.skip(2)
			return nil
		}
		if err := s.begin(); err != nil {
			return err
		}
		s.plain = false
		s.skip(1)
		return s.take()
	}
	if err := s.refuse(c); err != nil {
		return err
	}
	return s.take()
}

// refuse says what a shell would do with the unquoted character c here.
func (s *splitter) refuse(c byte) error {
	does := ""
	switch {
	case strings.IndexByte("|&;<>()", c) >= 0:
		does = "is shell syntax"
	case c == '$' || c == '`':
		does = "is expanded by a shell"
	case c == '*' || c == '?' || c == '[':
		does = "is a pattern to a shell"
	case c == '{' && (s.in || !strings.HasPrefix(s.src, "{}") || len(s.src) > 2 && strings.IndexByte(" \t\n", s.src[2]) < 0):
		does = "begins a list to a shell"
	case c == '~' && !s.in:
		does = "is the home folder to a shell"
	case c == '#' && !s.in:
		does = "begins a comment to a shell"
	case c == '=' && len(s.words) == 0 && s.in && s.plain && assignable(s.word):
		does = "makes this an assignment to a shell"
	default:
		return nil
	}
	return s.at.Errorf("%c %s and means nothing here: quote it", c, does)
}

// assignable reports whether NAME=... or NAME+=... is being read.
func assignable(word []token) bool {
	return len(word) == 1 && !strings.Contains(word[0].text, "-") && IsName(strings.TrimSuffix(word[0].text, "+"))
}

// begin begins a word if none has.
func (s *splitter) begin() error {
	if s.in {
		return nil
	}
	if s.line {
		return s.at.Errorf("a second line: a command is one line")
	}
	s.in, s.start, s.plain, s.word = true, s.at, true, nil
	return nil
}

// take adds a character to the word.
func (s *splitter) take() error {
	if s.src[0] == '\r' {
		return s.at.Errorf("a carriage return")
	}
	if err := s.begin(); err != nil {
		return err
	}
	_, n := utf8.DecodeRuneInString(s.src)
	if k := len(s.word) - 1; k >= 0 && !s.word[k].tag {
		s.word[k].text += s.src[:n]
	} else {
		s.word = append(s.word, token{text: s.src[:n], at: s.at})
	}
	s.skip(n)
	return nil
}

func (s *splitter) skip(n int) {
	s.at = s.at.After(s.src[:n])
	s.src = s.src[n:]
}

// end ends the word if one has begun.
func (s *splitter) end() error {
	if !s.in {
		return nil
	}
	if len(s.words) == 0 && s.plain && slices.Contains(reserved, s.word[0].text) {
		return s.start.Errorf("%s is a shell keyword and means nothing here", s.word[0].text)
	}
	s.in = false
	s.words = append(s.words, Word{slices.Clip(s.word)})
	return nil
}

package openai

import "strings"

// The tags that models put around their thinking where a server does not take it apart.
const (
	thinkBegin = "<think>"
	thinkEnd   = "</think>"
)

// mostBlank is the most bytes of space before the first tag. They are held back, and read again with each piece.
const mostBlank = 64

// thinkTags takes thinking out of the text of a reply. It looks for the tags only at the beginning
// of a reply: later they are part of the text.
type thinkTags struct {
	state thinkState
	held  string // text that may be a part of a tag
}

type thinkState int

const (
	thinkMay    thinkState = iota // nothing but space was said
	thinkInside                   // between the tags
	thinkAfter                    // after the tags, before the first word
	thinkNever                    // what comes is said
)

// take returns what a piece adds to the thinking and to the answer.
func (t *thinkTags) take(piece string) (thought, said string) {
	if t.state == thinkNever {
		return "", piece
	}
	text := t.held + piece
	t.held = ""
	if t.state == thinkMay {
		start := strings.TrimLeft(text, " \t\r\n")
		switch few := len(text)-len(start) <= mostBlank; {
		case few && len(start) < len(thinkBegin) && strings.HasPrefix(thinkBegin, start):
			t.held = text
			return "", ""
		case !few || !strings.HasPrefix(start, thinkBegin):
			t.state = thinkNever
			return "", text
		}
		t.state, text = thinkInside, start[len(thinkBegin):]
	}
	if t.state == thinkInside {
		at := strings.Index(text, thinkEnd)
		if at < 0 {
			n := partOf(text, thinkEnd)
			t.held = text[len(text)-n:]
			return text[:len(text)-n], ""
		}
		thought, text = text[:at], text[at+len(thinkEnd):]
		t.state = thinkAfter
	}
	if said = strings.TrimLeft(text, " \t\r\n"); said != "" {
		t.state = thinkNever
	}
	return thought, said
}

// end returns the text that was held back.
func (t *thinkTags) end() (thought, said string) {
	held := t.held
	t.held = ""
	if t.state == thinkInside {
		return held, ""
	}
	return "", held
}

// partOf is how many bytes at the end of text begin tag.
func partOf(text, tag string) int {
	for n := min(len(tag)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, tag[:n]) {
			return n
		}
	}
	return 0
}
